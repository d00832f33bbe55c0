//! The laws of the cache: equal meaning hits, each ingredient changed alone misses what is below it and nothing else.

use crate::support::{Project, TINY};

fn ran(project: &Project, args: &[&str]) -> Vec<String> {
    let mut all = vec!["run", "tiny.yaml", "--json"];
    all.extend(args);
    let before = project.events("artifacts").len();
    project.run(&all).exit(0);
    let events = project.events("artifacts").split_off(before);
    let names = events.iter().filter(|e| e["event"] == "node-finished").map(|e| e["node"].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn order_spelling_comments_and_defaults_do_not_count() {
    let project = Project::tiny();
    assert_eq!(ran(&project, &[]).len(), 19);
    let respelled = r#"
# The same pipeline, written differently.
name: "tiny"
ppgnn: 1
tables: {accuracy: {columns: dataset, rows: [method]}}
sweep:
  axes:
    load.dataset: ["one", two]
    method: {MLP: {train.model: mlp}, PP-GNN: {train.bins: 2.0, train.model: pp-gnn}}
stages:
  evaluate: {inputs: {splits: split, nodes: featurize, trained: train}}
  train:
    params: {epochs: 5e0, hidden: 0x8, model: mlp, lr: 1.0e-2, seed: 0}
    inputs: {spectrum: evd, splits: split, operator: normalize, nodes: featurize}
  split: {inputs: {graph: load}, params: {train: 0.48, count: 2}}
  evd: {inputs: {operator: normalize}, params: {k: 8}}
  featurize: { inputs: { graph: load } }
  normalize: {inputs: {graph: load}, params: {self-loops: true}}
  load: {}
datasets:
  two: {seed: 2, phi: -0.50, features: 8, degree: 6.0, nodes: 60, format: csbm}
  one: {seed: 1, phi: 5e-1, features: 8, degree: 6, nodes: 60, format: csbm, epsilon: 3.25}
"#;
    project.write("tiny.yaml", respelled);
    assert_eq!(ran(&project, &[]), Vec::<String>::new());
}

#[test]
fn a_training_parameter_recomputes_training_and_below_and_no_eigenpairs() {
    let project = Project::tiny();
    ran(&project, &[]);
    let plan = project.run(&["plan", "tiny.yaml", "--set", "train.lr=0.02", "--json"]).exit(0).json();
    let misses: Vec<&str> = plan["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|n| n["state"] == "miss")
        .map(|n| n["stage"].as_str().unwrap())
        .collect();
    assert_eq!(misses.len(), 9, "{misses:?}");
    assert!(misses.iter().all(|s| ["train", "evaluate", "tabulate"].contains(s)), "{misses:?}");
    project
        .run(&["plan", "tiny.yaml", "--set", "train.lr=0.02"])
        .exit(0)
        .prints("params.lr 0.01 → 0.02")
        .prints("of its inputs must be computed");
    assert_eq!(ran(&project, &["--set", "train.lr=0.02"]).len(), 9);
    // And after the run, `why` names the same ingredient.
    project
        .run(&["why", "tiny.yaml", "train/one/MLP", "--set", "train.lr=0.02"])
        .exit(0)
        .prints("hit: computed")
        .prints("params.lr: 0.01 → 0.02");
}

#[test]
fn why_follows_a_change_upstream() {
    let project = Project::tiny();
    ran(&project, &[]);
    project
        .run(&["why", "tiny.yaml", "train/one/PP-GNN", "--set", "evd.k=6"])
        .exit(0)
        .prints("miss: not in the store")
        .prints("input spectrum:")
        .prints("params.k: 8 → 6");
}

#[test]
fn a_model_that_needs_no_eigenpairs_does_not_depend_on_them() {
    let project = Project::tiny();
    ran(&project, &[]);
    let names = ran(&project, &["--set", "evd.k=6"]);
    assert!(names.contains(&"train/one/PP-GNN".to_owned()), "{names:?}");
    assert!(!names.iter().any(|n| n.ends_with("/MLP")), "{names:?}");
}

#[test]
fn points_that_differ_only_downstream_share_their_eigenpairs() {
    let text = TINY.replace("load.dataset: [one, two]", "load.dataset: [one]\n    train.lr: [0.01, 0.02, 0.03]");
    let text = text.replace("columns: load.dataset", "columns: [load.dataset, train.lr]");
    let project = Project::new().file("tiny.yaml", &text);
    let names = ran(&project, &[]);
    let of = |stage: &str| names.iter().filter(|n| n.starts_with(&format!("{stage}/"))).count();
    assert_eq!((of("load"), of("evd"), of("train"), of("evaluate")), (1, 1, 6, 6));
}

#[test]
fn renaming_a_data_set_or_a_label_computes_only_the_table_anew() {
    let project = Project::tiny();
    ran(&project, &[]);
    let text = TINY.replace("one", "first").replace("MLP:", "Perceptron:");
    project.write("tiny.yaml", text);
    assert_eq!(ran(&project, &[]), ["tabulate/accuracy"]);
}

#[test]
fn a_result_that_is_there_does_not_need_what_it_was_made_from() {
    let project = Project::tiny();
    ran(&project, &[]);
    std::fs::remove_dir_all(project.path("artifacts/objects/evd")).unwrap();
    assert_eq!(ran(&project, &[]), Vec::<String>::new());
    project.run(&["plan", "tiny.yaml"]).exit(0).prints("absent");
}

#[test]
fn keys_of_a_plan_are_pinned_across_the_pipeline() {
    // Every key of the tiny pipeline for a fixed numeric profile. A difference means that artifacts of users are not
    // found again: raise the version of what changed, say so in the changelog, and write the golden file anew.
    use ppgnn::pipeline::{Overrides, Pipeline};
    let project = Project::tiny();
    let registry = ppgnn_stages::built_in();
    let pipeline =
        Pipeline::load(&project.path("tiny.yaml"), &Overrides::default(), &registry, &ppgnn::pipeline::Nothing)
            .unwrap();
    let around = ppgnn::plan::PlanContext {
        registry: &registry,
        profile: "fixed".into(),
        device_profile: "fixed".into(),
        machine: String::new(),
        digest: &|_, _| Ok(String::new()),
    };
    let plan = ppgnn::plan::build(&pipeline, &around).unwrap();
    let text: String = plan.nodes.iter().map(|n| format!("{} {}\n", n.key, n.name)).collect();
    crate::support::golden("keys.txt", &text);
}
