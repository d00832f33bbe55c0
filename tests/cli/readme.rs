//! The README shows real commands and files: what it shows is run here.

use crate::support::Project;

const README: &str = include_str!("../../README.md");

/// Fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).map(|b| b.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_yaml_block_is_a_valid_pipeline() {
    let blocks = blocks("yaml");
    assert!(!blocks.is_empty());
    for (i, block) in blocks.iter().enumerate() {
        let name = format!("block-{i}.yaml");
        Project::new().file(&name, block).run(&["check", &name, "--no-data"]).exit(0);
    }
}

#[test]
fn a_graph_of_ones_own_goes_from_two_files_to_a_table() {
    let pipeline = blocks("yaml").into_iter().find(|b| b.contains("format: tables")).unwrap();
    assert!(pipeline.lines().count() < 25);
    // Two camps: friends are mostly of one's own colour, and the score leans with it.
    let (mut people, mut links) = (String::from("id,label,age,posts,score\n"), String::from("source,target\n"));
    for i in 0..60 {
        let (colour, lean) = if i % 2 == 0 { ("blue", 1.0) } else { ("red", -1.0) };
        people += &format!(
            "p{i},{colour},{},{},{}\n",
            20 + i * 7 % 40,
            i * 13 % 17,
            lean * 0.3 + f64::from(i * 31 % 11) / 10.0
        );
        links += &format!("p{i},p{}\np{i},p{}\np{i},p{}\n", (i + 2) % 60, (i + 14) % 60, (i * 5 + 3) % 60);
    }
    let project = Project::new().file("mine.yaml", &pipeline).file("people.csv", &people).file("links.csv", &links);
    let run = project.run(&["run", "mine.yaml", "--set", "train.epochs=30"]).exit(0);
    let run = run.prints("| model / dataset | mine |").prints("| mlp | ").prints("| pp-gnn | ");
    assert!(run.stdout.contains("n = 10 a cell"), "{}", run.stdout);
    let described = project.run(&["data", "describe", "mine", "--in", "mine.yaml"]).exit(0);
    described.prints("nodes                  60").prints("worst overlap").prints("; threads ");
    let described = project.run(&["data", "describe", "mine", "--in", "mine.yaml", "--json"]).exit(0).json();
    let spectrum = &described["spectra"][0];
    assert!(spectrum["threads"].is_u64() && spectrum["measured"].is_object(), "{spectrum}");
}

#[test]
fn every_command_is_understood() {
    // `ppgnn …` lines of console blocks, run against the quick profile of the quick start; `cargo` lines are the two
    // commands of the README and are run by people and by CI.
    let project = Project::new();
    let quickstart = include_str!("../../pipelines/quickstart.yaml");
    project.write("pipelines/quickstart.yaml", quickstart);
    project.run(&["run", "pipelines/quickstart.yaml", "--profile", "quick"]).exit(0);
    let mut commands = 0;
    for block in blocks("console") {
        for line in block.lines().filter_map(|l| l.strip_prefix("$ ppgnn ")) {
            let line = line.split(" #").next().unwrap().split(" >").next().unwrap().trim();
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if line.contains("quickstart.yaml") {
                words.extend(["--profile", "quick"]);
            }
            let run = project.run(&words);
            assert_eq!(run.code, 0, "`ppgnn {line}` fails:\n{}", run.stderr);
            commands += 1;
        }
    }
    assert!(commands >= 8, "{commands}");
}

#[test]
fn every_exit_code_is_documented() {
    use ppgnn::cli::exit;
    for code in [
        exit::DONE,
        exit::UNEXPECTED,
        exit::USAGE,
        exit::INVALID,
        exit::DATA,
        exit::FAILED,
        exit::STORE,
        exit::INTERRUPTED,
    ] {
        assert!(README.contains(&format!("| {code} |")), "exit code {code} is not in the README");
    }
}
