//! The README and the pages of `docs/` show real commands, files and output: what they show is tried here.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use crate::support::{Project, files, real_data};

/// A page, by its path in the repository.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and every page of the guide.
pub fn pages() -> Vec<Page> {
    let mut paths = files(&root().join("docs"));
    paths.push(root().join("README.md"));
    paths.retain(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("SUMMARY.md"));
    paths.sort();
    assert!(paths.len() > 5, "{paths:?}");
    let read = |path: PathBuf| Page { text: std::fs::read_to_string(&path).unwrap(), path };
    paths.into_iter().map(read).collect()
}

pub fn page(name: &str) -> Page {
    pages().into_iter().find(|page| page.path.ends_with(name)).unwrap()
}

impl Page {
    /// Fenced blocks of a language.
    pub fn blocks(&self, language: &str) -> Vec<String> {
        let fence = format!("```{language}\n");
        self.text.split(&fence).skip(1).map(|b| b.split("```").next().unwrap().to_owned()).collect()
    }

    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }
}

/// A project with the pipelines of the repository, in which the quick profile of the quick start has run.
pub fn project() -> Project {
    let project = Project::new();
    for path in files(&root().join("pipelines")) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        project.write(name, std::fs::read(&path).unwrap());
    }
    project.run(&["run", "pipelines/quickstart.yaml", "--profile", "quick"]).exit(0);
    project
}

/// A line without what differs between machines and profiles: numbers, keys, marks of the best, and spaces.
fn comparable(line: &str) -> String {
    let word = |word: &str| {
        let word = word.trim_end_matches(',');
        if word.len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit()) {
            return "KEY".to_owned();
        }
        let word = word.replace("**", "").replace("<ins>", "").replace("</ins>", "");
        let mut shown = String::new();
        for c in word.replace("kB", "B").replace("MB", "B").chars() {
            let number = c.is_ascii_digit() || (c == '.' && shown.ends_with('#'));
            if !number || !shown.ends_with('#') {
                shown.push(if number { '#' } else { c });
            }
        }
        shown
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Compares output with what a page shows of it at a place. A line `…` stands for any lines.
#[track_caller]
pub fn assert_shown(place: &str, shown: &str, actual: &str) {
    let mut rest = actual.lines().filter(|l| !l.trim().is_empty());
    let mut skipping = false;
    // Pages break long warnings; the program does so on a terminal only.
    let whole: Vec<String> =
        shown.split("\n\n").map(|p| if p.starts_with("warning:") { p.replace('\n', " ") } else { p.into() }).collect();
    for line in whole.iter().flat_map(|p| p.lines()).filter(|l| !l.trim().is_empty()) {
        if line.trim() == "…" {
            skipping = true;
            continue;
        }
        let next = if skipping { rest.find(|l| comparable(l) == comparable(line)) } else { rest.next() };
        let next = next.map(comparable);
        assert_eq!(next, Some(comparable(line)), "{place}: `{line}` is shown, the output is:\n{actual}");
        skipping = false;
    }
    let left: Vec<&str> = rest.collect();
    assert!(skipping || left.is_empty(), "{place}: not shown, though it is printed:\n{}", left.join("\n"));
}

/// The words of a command line, without comment and redirection.
fn words(line: &str) -> Vec<&str> {
    line.split(" #").next().unwrap().split(" >").next().unwrap().split_whitespace().collect()
}

#[track_caller]
fn assert_parsed(arguments: &[&str]) {
    let parsed = ppgnn::cli::Cli::try_parse_from([&["ppgnn"], arguments].concat());
    assert!(parsed.is_ok(), "`ppgnn {}`: {}", arguments.join(" "), parsed.err().unwrap());
}

#[test]
fn every_yaml_block_is_a_pipeline_that_can_be_planned() {
    let project = project();
    project.write("people.csv", "id,label,age\nann,blue,31\nbob,red,27\n");
    project.write("gcn.py", include_str!("../../examples/command/gcn.py"));
    project.write("links.csv", "source,target\nann,bob\n");
    let mut count = 0;
    for page in pages() {
        for block in page.blocks("yaml") {
            project.write("block.yaml", &block);
            let run = project.run(&["plan", "block.yaml"]);
            assert_eq!(run.code, 0, "{}:\n{block}\n{}", page.name(), run.stderr);
            count += 1;
        }
    }
    assert!(count >= 7, "{count}");
}

#[test]
fn every_transcript_is_what_the_program_prints() {
    // Against the quick profile of the quick start: numbers differ, words do not.
    let project = project();
    let mut compared = 0;
    for page in pages() {
        for block in page.blocks("console") {
            for part in block.split("$ ").skip(1) {
                let (line, shown) = part.split_once('\n').unwrap();
                let mut words = words(line);
                assert_eq!(words.remove(0), "ppgnn", "{}: `{line}`", page.name());
                if line.contains("quickstart.yaml") {
                    words.extend(["--profile", "quick"]);
                }
                let run = project.run(&words);
                assert_eq!(run.code, 0, "{}: `{line}` fails:\n{}", page.name(), run.stderr);
                if !shown.trim().is_empty() {
                    assert_shown(&format!("{}: `{line}`", page.name()), shown, &run.stdout);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn every_row_and_command_is_in_the_table_of_its_page() {
    let registry = ppgnn::stages::built_in();
    let rows = |stage: &str| registry.stage(stage).unwrap().variants(&registry).iter().map(|v| v.name).collect();
    let help = ppgnn::cli::Cli::command();
    let tables: [(&str, Vec<&str>); 4] = [
        ("docs/pipelines.md", registry.stages().map(|stage| stage.name).collect()),
        ("docs/training.md", rows("train")),
        ("docs/data.md", rows("load")),
        ("docs/commands.md", help.get_subcommands().map(clap::Command::get_name).collect()),
    ];
    for (name, rows) in tables {
        let text = page(name).text;
        let missing: Vec<_> = rows.iter().filter(|row| !text.contains(&format!("\n| `{row}` |"))).collect();
        assert!(missing.is_empty(), "{name} has no row for {missing:?}");
    }
}

#[test]
fn every_text_block_is_output() {
    let golden: Vec<String> =
        files(&root().join("tests/golden/invalid")).iter().map(|p| std::fs::read_to_string(p).unwrap()).collect();
    for page in pages() {
        for block in page.blocks("text") {
            let Some(rest) = block.strip_prefix("$ ppgnn ") else {
                let found = golden.iter().any(|text| text.contains(block.trim_end()));
                assert!(found, "{}: no golden message is\n{block}", page.name());
                continue;
            };
            let Some(data) = real_data() else { continue };
            let (line, shown) = rest.split_once('\n').unwrap();
            let project = project();
            let data = ["--data-dir", data.to_str().unwrap()];
            let evd = ["run", "pipelines/heterophily.yaml", "evd/chameleon/LR"];
            project.run(&[&evd[..], &data].concat()).exit(0);
            let run = project.run(&[&words(line)[..], &data].concat()).exit(0);
            assert_shown(&page.name(), shown, &run.stdout);
        }
    }
}

#[test]
fn every_shell_command_is_understood() {
    let (cargo, make) = (root().join("Cargo.toml"), root().join("Makefile"));
    let (cargo, make) = (std::fs::read_to_string(cargo).unwrap(), std::fs::read_to_string(make).unwrap());
    let mut count = 0;
    for page in pages() {
        for block in page.blocks("sh") {
            for line in block.lines() {
                let words = words(line);
                let start = words.iter().position(|w| !w.contains('=')).unwrap();
                let (name, words) = (format!("{}: `{line}`", page.name()), &words[start..]);
                let after = |option: &str| words.iter().skip_while(|w| **w != option).nth(1);
                match words[0] {
                    "ppgnn" => assert_parsed(&words[1..]),
                    "make" => {
                        let targets = words[1..].iter().filter(|word| !word.contains('='));
                        targets.for_each(|t| assert!(make.contains(&format!("\n{t}: ")), "{name}"));
                    }
                    "cargo" => {
                        let known = after("--profile").is_none_or(|p| cargo.contains(&format!("[profile.{p}]")));
                        let known = known && after("--features").is_none_or(|f| cargo.contains(&format!("\n{f} = [")));
                        assert!(known, "{name}");
                        if words[1] == "run" {
                            assert_parsed(words.split(|w| *w == "--").nth(1).unwrap());
                        }
                    }
                    "cd" => {}
                    _ => panic!("{name}: unknown program"),
                }
                count += 1;
            }
        }
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn every_exit_code_is_documented() {
    use ppgnn::cli::exit;
    let page = page("docs/commands.md");
    for code in [
        exit::DONE,
        exit::UNEXPECTED,
        exit::USAGE,
        exit::INVALID,
        exit::DATA,
        exit::FAILED,
        exit::OUTSIDE,
        exit::STORE,
        exit::INTERRUPTED,
    ] {
        assert!(page.text.contains(&format!("| {code} |")), "exit code {code} is not in {}", page.name());
    }
}

#[test]
fn the_fields_of_json_are_documented() {
    let (page, project) = (page("docs/commands.md"), project());
    let quick = ["pipelines/quickstart.yaml", "--profile", "quick", "--json"];
    for command in ["run", "plan"] {
        let text = page.text.split(&format!("- `{command} --json` ")).nth(1).unwrap();
        let names: Vec<&str> = text.split("\n- ").next().unwrap().split("\n\n").next().unwrap().split('`').collect();
        let printed = project.run(&[&[command], &quick[..]].concat()).exit(0);
        for name in names.into_iter().skip(1).step_by(2) {
            let is_there = printed.stdout.contains(&format!("\"{name}\""));
            assert!(is_there || ["miss", "absent"].contains(&name), "`{command} --json` has no {name}");
        }
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let readme = page("README.md");
    for page in pages().iter().filter(|page| page.path != readme.path) {
        let name = page.path.file_name().unwrap().to_str().unwrap();
        assert!(summary.contains(&format!("]({name})")), "docs/SUMMARY.md has no link to {name}");
        assert!(readme.text.contains(&format!("](docs/{name})")), "README.md has no link to {name}");
    }
    let summary = Page { path: root().join("docs/SUMMARY.md"), text: summary };
    let evidence = root().join("artifacts/README.md");
    let evidence = Page { text: std::fs::read_to_string(&evidence).unwrap(), path: evidence };
    for page in pages().iter().chain([&summary, &evidence]) {
        let links = page.text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.starts_with("http")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = page.path.parent().unwrap().join(path);
            assert!(target.is_file(), "{}: {link} leads nowhere", page.name());
            let text = std::fs::read_to_string(target).unwrap();
            let slug = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            let found = text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == heading);
            assert!(heading.is_empty() || found, "{}: {link} has no such heading", page.name());
        }
    }
    assert!(std::fs::read_to_string(root().join("book.toml")).unwrap().contains("src = \"docs\""));
}

#[test]
fn every_path_that_a_page_names_exists() {
    for page in pages() {
        for word in page.text.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "stages/", "tests/", "pipelines/", "benches/"].iter().any(|p| word.starts_with(p));
            if is_path && !word.contains(['<', '*', ' ', '{']) {
                assert!(root().join(word).exists(), "{} names `{word}`, which does not exist", page.name());
            }
        }
    }
}
