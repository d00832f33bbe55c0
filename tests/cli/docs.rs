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

/// The modules of `src/` that each module may import.
const LAYERS: [(&str, &[&str]); 8] = [
    ("pipeline", &[]),
    ("catalogue", &["pipeline"]),
    ("plan", &["pipeline"]),
    ("store", &["plan"]),
    ("run", &["plan", "store"]),
    ("history", &["plan", "store"]),
    ("report", &["plan", "run"]),
    ("cli", &["catalogue", "pipeline", "plan", "store", "run", "history", "report"]),
];

/// The modules of `stages/` that each folder may import.
const STAGE_LAYERS: [(&str, &[&str]); 8] = [
    ("contract", &[]),
    ("math", &[]),
    ("tensor", &["math"]),
    ("kinds", &["contract", "math"]),
    ("reading", &["contract", "kinds", "math"]),
    ("formats", &["contract", "kinds", "math", "reading"]),
    ("optim", &["contract", "tensor", "math"]),
    ("models", &["contract", "tensor", "kinds", "math", "optim"]),
];

/// Modules that a source file imports from its own crate, tests aside.
fn imports(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
    lines
        .flat_map(|l| l.split("crate::").skip(1).map(str::to_owned).collect::<Vec<_>>())
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

#[test]
fn imports_follow_the_arrows() {
    for (base, layers) in [("src", &LAYERS[..]), ("stages", &STAGE_LAYERS[..])] {
        for (module, allowed) in layers {
            let sources = files(&root().join(base).join(module));
            assert!(!sources.is_empty(), "{base}/{module}");
            for path in sources.iter().filter(|p| !p.ends_with("tests.rs") && !p.ends_with("testing.rs")) {
                for import in imports(path) {
                    let fine = import == *module || allowed.contains(&import.as_str());
                    assert!(fine, "{} imports `{import}`, which `{module}` may not", path.display());
                }
            }
        }
    }
}

#[test]
fn a_stage_file_imports_no_other_stage_file() {
    let stages: Vec<&str> = ppgnn_stages::STAGES.iter().map(|s| s.name).collect();
    for stage in &stages {
        for import in imports(&root().join(format!("stages/{stage}.rs"))) {
            assert!(!stages.contains(&import.as_str()) || import == *stage, "stages/{stage}.rs imports `{import}`");
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
            let code = text.split("#[cfg(test)]").next().unwrap();
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
