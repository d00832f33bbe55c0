//! What the documents say is there, and who imports whom.

use std::path::{Path, PathBuf};

use crate::support::files;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_path_in_the_documents_exists() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        let words = text.split('`').skip(1).step_by(2);
        let paths =
            words.filter(|w| ["src/", "stages/", "tests/", "pipelines/", "benches/"].iter().any(|p| w.starts_with(p)));
        let mut checked = 0;
        for path in paths.filter(|p| !p.contains(['<', '*', ' ', '{'])) {
            assert!(root().join(path).exists(), "{document} names `{path}`, which does not exist");
            checked += 1;
        }
        assert!(checked > 0 || document == "README.md", "{document} names no path");
    }
}

/// A row of the table in ARCHITECTURE.md: what the files below a path may import.
struct Layer {
    path: String,
    /// Modules of its own crate.
    own: Vec<String>,
    /// Modules of `ppgnn_stages`.
    science: Vec<String>,
}

/// The row for the stages, each of which is a file with, perhaps, a folder.
const STAGE_FILES: &str = "stages/<stage>.rs";

fn layers() -> Vec<Layer> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter(|l| l.starts_with("| `src/") || l.starts_with("| `stages/"));
    let words = |cell: &str| cell.split(", ").filter(|w| *w != "–").map(str::to_owned).collect();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        Layer { path: cells[0].trim_matches('`').to_owned(), own: words(cells[1]), science: words(cells[2]) }
    })
    .collect()
}

/// A path in a source file, by the names below the root of its crate.
#[derive(Debug, PartialEq)]
enum Import {
    Own(Vec<String>),
    Science(Vec<String>),
}

/// Every path in a source file that starts with `crate`, `super` or `ppgnn_stages`, tests aside.
fn imports(crate_dir: &Path, file: &Path) -> Vec<Import> {
    let text = std::fs::read_to_string(file).unwrap();
    let module = module_of(file.strip_prefix(crate_dir).unwrap());
    imports_of(&text, &module)
}

fn imports_of(text: &str, module: &[String]) -> Vec<Import> {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    let is_tests = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].contains("mod tests {");
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let code = lines[..end].join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::", "ppgnn_stages::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c)) {
                continue;
            }
            for path in leaves(&mut &code[at..]) {
                let supers = path.iter().take_while(|name| *name == "super").count();
                found.push(match start {
                    "ppgnn_stages::" => Import::Science(path[1..].to_vec()),
                    "crate::" => Import::Own(path[1..].to_vec()),
                    _ => Import::Own([&module[..module.len().saturating_sub(supers)], &path[supers..]].concat()),
                });
            }
        }
    }
    found
}

/// The paths that a `use` tree stands for: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(text: &mut &str) -> Vec<Vec<String>> {
    *text = text.trim_start();
    if let Some(inside) = text.strip_prefix('{') {
        *text = inside;
        let mut all = Vec::new();
        while !text.trim_start().starts_with('}') && !text.is_empty() {
            all.extend(leaves(text));
            // Over `as name`, to the next one.
            let next = text.find([',', '}']).unwrap_or(text.len());
            *text = text[next..].strip_prefix(',').unwrap_or(&text[next..]);
        }
        *text = text.trim_start().strip_prefix('}').unwrap_or(text);
        return all;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    *text = rest;
    let below = match rest.strip_prefix("::") {
        Some(rest) => {
            *text = rest;
            leaves(text)
        }
        None => vec![Vec::new()],
    };
    below.into_iter().map(|path| [vec![name.to_owned()], path].concat()).collect()
}

/// `cli/data/mod.rs` is the module `cli::data`.
fn module_of(file: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        file.with_extension("").components().map(|c| c.as_os_str().to_str().unwrap().to_owned()).collect();
    names.pop_if(|last| last == "mod" || last == "lib");
    names
}

/// The sources of a crate but for its root and its tests.
fn sources(crate_dir: &str) -> Vec<PathBuf> {
    let left_out = ["lib.rs", "main.rs", "build.rs", "benches", "tests", "tests.rs", "testing.rs"];
    let mut all = files(&root().join(crate_dir));
    all.retain(|path| {
        let inside = path.strip_prefix(root()).unwrap();
        path.extension().is_some_and(|e| e == "rs")
            && !inside.components().any(|c| left_out.iter().any(|name| c.as_os_str() == *name))
    });
    assert!(all.len() > 20, "{crate_dir}");
    all
}

#[test]
fn paths_are_resolved_however_they_are_written() {
    let module = ["models", "ops", "affine"].map(str::to_owned);
    let own = |path: &[&str]| Import::Own(path.iter().map(|p| (*p).to_owned()).collect());
    let text = "use super::super::{self, csr::Csr};\nuse crate::{a, b::{c, d as e}};\nlet x = super::tape::Tape::<u8>::new();\n\
                // crate::not\nuse ppgnn_stages::kinds::Graph;\n#[cfg(test)]\nmod tests {\n use crate::z;\n}\n";
    let found = imports_of(text, &module);
    for path in [&["models", "csr", "Csr"][..], &["a"], &["b", "c"], &["b", "d"]] {
        assert!(found.contains(&own(path)), "{path:?} in {found:?}");
    }
    assert!(
        found
            .iter()
            .any(|i| matches!(i, Import::Own(p) if p.starts_with(&["models", "ops", "tape"].map(str::to_owned))))
    );
    assert!(found.contains(&Import::Science(vec!["kinds".into(), "Graph".into()])));
    let tops = |name: &str| found.iter().filter(|i| matches!(i, Import::Own(p) if p[0] == name)).count();
    assert_eq!((tops("not"), tops("z")), (0, 0));
}

#[test]
fn imports_follow_the_table_in_the_architecture() {
    let layers = layers();
    for base in ["src", "stages"] {
        for file in sources(base) {
            let inside = file.strip_prefix(root()).unwrap().to_str().unwrap();
            let mut rules: Vec<&Layer> = layers.iter().filter(|l| inside.starts_with(&l.path)).collect();
            if rules.is_empty() && base == "stages" {
                rules.extend(layers.iter().filter(|l| l.path == STAGE_FILES));
            }
            assert!(!rules.is_empty(), "ARCHITECTURE.md has no row for {inside}");
            let module = module_of(Path::new(inside).strip_prefix(base).unwrap());
            for import in imports(&root().join(base), &file) {
                let (names, of_science) = match &import {
                    Import::Own(path) => (path, false),
                    Import::Science(path) => (path, true),
                };
                let Some(top) = names.first() else { continue };
                let allowed = |l: &&Layer| if of_science { &l.science } else { &l.own }.contains(top);
                let itself = !of_science && *top == module[0];
                assert!(
                    itself || rules.iter().any(allowed),
                    "{inside} imports {import:?}: not in ARCHITECTURE.md's table"
                );
            }
        }
    }
}

#[test]
fn a_row_of_the_table_in_the_architecture_is_used() {
    for layer in layers().iter().filter(|l| l.path != STAGE_FILES) {
        assert!(
            root().join(&layer.path).exists(),
            "ARCHITECTURE.md has a row for `{}`, which does not exist",
            layer.path
        );
        let base = layer.path.split('/').next().unwrap();
        let below = sources(base).into_iter().filter(|f| f.strip_prefix(root()).unwrap().starts_with(&layer.path));
        let imports: Vec<Import> = below.flat_map(|file| imports(&root().join(base), &file)).collect();
        for (names, science) in [(&layer.own, false), (&layer.science, true)] {
            for name in names {
                let uses = |i: &Import| match i {
                    Import::Own(path) => !science && path.first() == Some(name),
                    Import::Science(path) => science && path.first() == Some(name),
                };
                assert!(imports.iter().any(uses), "`{}` does not import `{name}` any more: say so", layer.path);
            }
        }
    }
}

#[test]
fn a_command_imports_no_other_command() {
    let main = std::fs::read_to_string(root().join("src/cli/mod.rs")).unwrap();
    let name = |before: &str| before.rsplit('(').next().map(str::to_owned);
    let commands: Vec<String> =
        main.split("::Args)").filter_map(name).filter(|n| !n.contains(char::is_whitespace)).collect();
    assert!(commands.len() > 8 && commands.contains(&"run".to_owned()), "{commands:?}");
    let main = root().join("src/cli/mod.rs");
    for file in sources("src").iter().filter(|f| f.starts_with(root().join("src/cli")) && **f != main) {
        let own = module_of(file.strip_prefix(root().join("src")).unwrap())[1].clone();
        for import in imports(&root().join("src"), file) {
            let Import::Own(path) = &import else { continue };
            let [cli, module, ..] = &path[..] else { continue };
            let other = cli == "cli" && *module != own && commands.contains(module);
            assert!(!other, "{} imports {path:?}: move what is shared into a module of its own", file.display());
        }
    }
}

#[test]
fn only_the_command_line_and_reports_print() {
    for base in ["src", "stages"] {
        for path in files(&root().join(base)).iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
            // Benchmarks print what they measure, tests that they are skipped; a build script talks to cargo.
            if path
                .components()
                .any(|c| ["benches", "build.rs", "testing.rs", "tests.rs", "tests"].iter().any(|n| c.as_os_str() == *n))
            {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let prints = ["println!", "eprintln!", "print!(", "dbg!("].iter().any(|m| code.contains(m));
            assert!(!prints, "{} prints", path.display());
        }
    }
}

#[test]
fn files_stay_small() {
    for base in ["src", "stages", "tests"] {
        for path in files(&root().join(base)).iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
            let lines = std::fs::read_to_string(path).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines: split it", path.display());
        }
    }
}
