//! `ppgnn show`, and the documentation of every file of the store.

use std::path::Path;

use ppgnn::stages::export::held;
use ppgnn::stages::kinds::{contents_markdown, files_of};

use crate::support::{Project, files};

/// The comment in `artifacts/README.md` that the table of files follows.
const MARK: &str = "UPDATE_GOLDEN=1 cargo test --test cli show -->\n";

#[test]
fn the_description_of_files_is_the_one_in_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts/README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, written) = text.split_once(MARK).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, format!("{head}{MARK}{}", contents_markdown())).unwrap();
    }
    assert_eq!(written, contents_markdown(), "UPDATE_GOLDEN=1 writes artifacts/README.md anew");
}

/// Pipelines that together write every file and every tensor that stages know of.
fn everything() -> Project {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "--set", "train.select=val-macro-f1"]).exit(0);
    let hidden = crate::support::TINY.replace("train.bins: 2", "train.bins: 2, train.keep-hidden: true");
    let further = "  project: { inputs: { spectrum: evd, nodes: featurize } }
  separate: { inputs: { operator: normalize }, params: { hops: [1, 2] } }
sweep:";
    project.write("hidden.yaml", hidden.replace("sweep:", further));
    project.run(&["run", "hidden.yaml", "train/one/PP-GNN", "project/one", "separate/one"]).exit(0);
    project.write("mine.yaml", crate::export::MINE);
    crate::export::write_people(&project);
    project.run(&["run", "mine.yaml"]).exit(0);
    let project = crate::relations::on_ring(project, "embedding: poincare", "mlp", "mine", "");
    project.run(&["run", "r.yaml", "relate/mine"]).exit(0);
    project.write("timed.yaml", crate::facts::TIMED);
    project.run(&["run", "timed.yaml"]).exit(0);
    project.write("drawn.yaml", crate::figures::DRAWN);
    project.run(&["run", "drawn.yaml", "waveform"]).exit(0);
    project
}

#[test]
fn every_file_and_every_tensor_that_stages_write_is_documented() {
    let project = everything();
    let registry = ppgnn::stages::built_in();
    let mut seen = std::collections::BTreeSet::new();
    for path in files(&project.path("artifacts/objects")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "manifest.json" {
            continue;
        }
        let stage = path.ancestors().nth(2).unwrap().file_name().unwrap().to_str().unwrap();
        let kind = registry.stage(stage).unwrap().output;
        let file = files_of(kind).find(|file| file.name == name);
        let file = file.unwrap_or_else(|| panic!("`{name}` of `{kind}` is not in stages/kinds/contents.rs"));
        seen.insert((kind.0, name.to_owned()));
        for entry in held(&path).unwrap() {
            let known = file.entries.iter().any(|doc| doc.is_about(&entry.name));
            assert!(known, "`{}` in `{name}` of `{kind}` is not in stages/kinds/contents.rs", entry.name);
        }
    }
    for file in ppgnn::stages::kinds::CONTENTS {
        let written = seen.contains(&(file.kind, file.name.to_owned()));
        assert!(written, "`{}` of `{}` is documented, but nothing writes it", file.name, file.kind);
    }
}

#[test]
fn an_artifact_says_what_it_holds_how_it_was_made_and_what_depends_on_it() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let shown = project.run(&["show", "tiny.yaml", "evd/one"]).exit(0);
    let shown = shown
        .prints("evd/one, spectrum, ")
        .prints("low.vectors   f32, 8 × 60")
        .prints("their eigenvectors, one per row");
    let shown =
        shown.prints("made by evd version").prints("  k: 8\n").prints("normalize/one\n").prints("train/one/PP-GNN\n");
    let key = shown.stdout.split("key     ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(project.run(&["show", &key[..8]]).exit(0).stdout, shown.stdout);
    let json = project.run(&["show", &key, "--json"]).exit(0).json();
    assert_eq!(json["kind"], "spectrum");
    assert_eq!(json["inputs"][0]["id"], "normalize/one");
    assert_eq!(json["used-by"][0]["stage"], "train");
    assert!(json["files"].as_array().unwrap().iter().any(|file| file["name"] == "facts.json"), "{json}");
}

#[test]
fn what_is_not_there_or_not_clear_is_an_error() {
    let project = Project::tiny();
    project
        .run(&["show", "tiny.yaml", "evd/one"])
        .exit(4)
        .says("has not been computed")
        .says("ppgnn run tiny.yaml evd/one");
    project.run(&["show", "abcdef01"]).exit(4).says("no artifact whose key starts with `abcdef01`");
    project.run(&["show", "tiny.yaml"]).exit(2).says("is not a key").says("ppgnn show FILE NODE");
    project.run(&["show", "tiny.yaml", "evd"]).exit(2).says("`evd` means 2 nodes").says("evd/one");
}
