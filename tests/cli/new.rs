//! `new model`: the crate that it writes, and what it refuses. That such a crate runs is a test of `examples/own-model/`, whose files
//! it has.

use crate::support::Project;

#[test]
fn a_crate_with_the_name_of_the_model_is_written() {
    let project = Project::new();
    project.run(&["new", "model", "two-words"]).exit(0).prints("cargo run --release -- run compare.yaml");
    let read = |name: &str| std::fs::read_to_string(project.path("two-words").join(name)).unwrap();
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("name = \"two-words\"") && manifest.contains("[workspace]"), "{manifest}");
    let path = format!("ppgnn = {{ path = \"{}\" }}", env!("CARGO_MANIFEST_DIR"));
    assert!(manifest.contains(&path), "{manifest}");
    assert!(read("src/model.rs").contains("const NAME: &'static str = \"two-words\";"));
    assert!(read("src/main.rs").contains("plain_model::<model::TwoWords>()"));
    assert!(read("compare.yaml").contains("train.model: [mlp, gcn, gpr-gnn, two-words]"));
    assert!(read("Cargo.lock").contains("name = \"candle-core\""));
    // The pipeline is right but for the model, which this program does not know.
    let checked = project.run(&["check", "two-words/compare.yaml"]).exit(3);
    assert!(checked.stderr.contains("two-words") && checked.stderr.contains("error: 1 problem"), "{}", checked.stderr);
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_there() {
    let project = Project::new();
    project.write("taken/file", "");
    for (args, said) in [
        (&["gcn"][..], "there is a model `gcn` already"),
        (&["serde"], "a crate `serde` could not stand beside"),
        (&["My_Model"], "`My_Model` cannot be the name of a model: expected words of lower-case letters"),
        (&["a--b"], "`a--b` cannot be the name of a model"),
        (&["../up"], "`../up` cannot be the name of a model"),
        (&["taken"], "`taken` is there already"),
        (&["mine", "--path", "taken"], "there is no source of ppgnn in `taken`"),
    ] {
        project.run(&[&["new", "model"], args].concat()).exit(2).says(said);
    }
    let names: Vec<_> = std::fs::read_dir(project.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["taken"]);
}
