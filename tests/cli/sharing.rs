//! Eigenpairs of one graph for several `k`: the most are computed, and fewer are slices of them.

use std::path::PathBuf;

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Spectrum;
use serde_json::Value;

use crate::support::{Finished, Project};

const SWEEP: &str = "
ppgnn: 1
name: s
datasets: {a: {format: csbm, nodes: 40, features: 4}, b: {format: csbm, nodes: 40, features: 4, seed: 9}}
stages:
  load: {params: {dataset: a}}
  featurize: {inputs: {graph: load}}
  normalize: {inputs: {graph: load}}
  evd: {inputs: {operator: normalize}, params: {k: 2}}
  split: {inputs: {graph: load}, params: {count: 1}}
  train:
    inputs: {operator: normalize, nodes: featurize, splits: split, spectrum: evd}
    params: {model: pp-gnn, bins: 2, epochs: 2, hidden: 4}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
sweep: {axes: {evd.k: [2, 8, 4]}}
";

fn project() -> Project {
    Project::new().file("s.yaml", SWEEP)
}

fn nodes(project: &Project, args: &[&str]) -> Vec<Value> {
    let args = [&["plan", "s.yaml", "--json"], args].concat();
    project.run(&args).exit(0).json()["nodes"].as_array().unwrap().clone()
}

fn find<'n>(nodes: &'n [Value], id: &str) -> &'n Value {
    nodes.iter().find(|n| n["id"] == id).unwrap_or_else(|| panic!("no `{id}` in {nodes:?}"))
}

fn folder(project: &Project, node: &Value) -> PathBuf {
    project.path("artifacts/objects").join(node["stage"].as_str().unwrap()).join(node["key"].as_str().unwrap())
}

fn spectrum(project: &Project, node: &Value) -> Spectrum {
    Spectrum::load(&folder(project, node)).unwrap()
}

#[test]
fn a_sweep_over_k_decomposes_once_and_trains_on_slices() {
    let project = project();
    project.run(&["run", "s.yaml"]).exit(0);
    let nodes = nodes(&project, &[]);
    assert!(nodes.iter().all(|n| n["state"] == "hit"), "{nodes:?}");
    assert_eq!(nodes.iter().filter(|n| n["stage"] == "evaluate").count(), 3);
    let reads = |id: &str| -> Vec<(String, String)> {
        let word = |v: &Value| v.as_str().unwrap().to_owned();
        find(&nodes, id)["inputs"].as_array().unwrap().iter().map(|i| (word(&i["slot"]), word(&i["id"]))).collect()
    };
    assert_eq!(reads("evd/k=8"), [("operator".to_owned(), "normalize".to_owned())]);
    let all = spectrum(&project, find(&nodes, "evd/k=8"));
    assert_eq!(all.low.values.len(), 8);
    let bits = |vectors: &[f32]| vectors.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for k in [2, 4] {
        assert_eq!(reads(&format!("evd/k={k}")), [("larger".to_owned(), "evd/k=8".to_owned())]);
        let slice = spectrum(&project, find(&nodes, &format!("evd/k={k}")));
        assert_eq!(slice.low.values, all.low.values[..k]);
        assert_eq!(slice.high.values, all.high.values[8 - k..]);
        assert_eq!(bits(&slice.low.vectors), bits(&all.low.vectors[..k * 40]));
        assert_eq!(bits(&slice.high.vectors), bits(&all.high.vectors[(8 - k) * 40..]));
        assert_eq!(slice.worst_residual.to_bits(), all.worst_residual.to_bits());
    }
}

#[test]
fn a_slice_of_clipped_pairs_is_clipped_alike() {
    let text = SWEEP.replace("[2, 8, 4]", "[15, 30, 1000]");
    let project = Project::new().file("s.yaml", &text);
    project.run(&["run", "s.yaml", "evd"]).exit(0);
    let nodes = nodes(&project, &["evd"]);
    let pairs = |k: usize| {
        let spectrum = spectrum(&project, find(&nodes, &format!("evd/k={k}")));
        (spectrum.low.values.len(), spectrum.high.values.len())
    };
    assert_eq!((pairs(15), pairs(30), pairs(1000)), ((15, 15), (20, 20), (20, 20)));
}

#[test]
fn results_do_not_depend_on_what_was_there_before() {
    let (empty, used) = (project(), project());
    // Plain pairs for a smaller `k`, and a part of the sweep, are there already.
    used.run(&["run", "s.yaml", "evd", "--set", "evd.k=2"]).exit(0);
    used.run(&["run", "s.yaml", "train/k=4"]).exit(0);
    for project in [&empty, &used] {
        project.run(&["run", "s.yaml"]).exit(0);
    }
    let (first, second) = (nodes(&empty, &[]), nodes(&used, &[]));
    assert_eq!(first, second);
    let plain = &nodes(&used, &["evd", "--set", "evd.k=2"]);
    assert_ne!(find(plain, "evd/k=2")["key"], find(&first, "evd/k=2")["key"]);
    let bytes = used.artifact_bytes("artifacts");
    assert!(empty.artifact_bytes("artifacts").iter().all(|(path, digest)| bytes.get(path) == Some(digest)));
}

#[test]
fn one_k_alone_has_the_key_of_a_pipeline_without_a_sweep() {
    let swept = project();
    let alone = Project::new().file("s.yaml", SWEEP.split("sweep:").next().unwrap());
    let plain = nodes(&alone, &["--set", "evd.k=8"]);
    let chosen = nodes(&swept, &["--set", "evd.k=8"]);
    let all = nodes(&swept, &[]);
    for stage in ["evd", "train", "evaluate"] {
        let name = format!("{stage}/k=8");
        assert_eq!(find(&plain, stage)["key"], find(&chosen, &name)["key"]);
        assert_eq!(find(&plain, stage)["key"], find(&all, &name)["key"]);
    }
}

#[test]
fn every_graph_and_every_operator_has_a_largest_of_its_own() {
    let grid = "axes: {load.dataset: [a, b], normalize.self-loops: [true, false], evd.k: [2, 4]}";
    let project = Project::new().file("s.yaml", &SWEEP.replace("axes: {evd.k: [2, 8, 4]}", grid));
    let nodes = nodes(&project, &["evd"]);
    let slices: Vec<_> = nodes.iter().filter(|n| n["inputs"][0]["slot"] == "larger").collect();
    assert_eq!(slices.len(), 4);
    for slice in slices {
        assert_eq!(slice["inputs"][0]["id"], slice["id"].as_str().unwrap().replace("k=2", "k=4"));
    }
    let apart = "axes: {both: {x: {load.dataset: a, evd.k: 2}, y: {load.dataset: b, evd.k: 4}}}";
    project.write("s.yaml", SWEEP.replace("axes: {evd.k: [2, 8, 4]}", apart));
    let text = project.run(&["plan", "s.yaml", "evd", "--json"]).exit(0).stdout;
    assert!(!text.contains("larger"), "{text}");
}

#[test]
fn the_largest_is_found_wherever_it_is_set() {
    let text =
        SWEEP.replace("evd.k: [2, 8, 4]}}", "method: {x: {}, y: {}}}, when: [{match: {method: y}, set: {evd.k: 6}}]}");
    let project = Project::new()
        .file("s.yaml", &format!("{text}profiles: {{more: {{stages: {{evd: {{params: {{k: 9}}}}}}}}}}\n"));
    let larger = |args: &[&str]| -> Vec<(Value, Value)> {
        let nodes = nodes(&project, args);
        let slices = nodes.iter().filter(|n| n["inputs"][0]["slot"] == "larger");
        slices.map(|n| (n["id"].clone(), n["inputs"][0]["id"].clone())).collect()
    };
    assert_eq!(larger(&[]), [("evd/x".into(), "evd/y".into())]);
    assert_eq!(larger(&["--profile", "more"]), [("evd/y".into(), "evd/x".into())]);
    assert!(larger(&["--set", "evd.k=3"]).is_empty());
}

#[test]
fn what_is_sliced_is_not_decomposed_again_for_one_more_slice() {
    let project = project();
    project.run(&["run", "s.yaml", "evd/k=8"]).exit(0);
    // A slice needs the pairs alone, not what they were computed from.
    for stage in ["load", "normalize"] {
        std::fs::remove_dir_all(project.path("artifacts/objects").join(stage)).unwrap();
    }
    let ran = project.run(&["run", "s.yaml", "evd/k=2", "evd/k=4", "--json"]).exit(0).json();
    assert_eq!((ran["ran"].as_u64(), ran["cached"].as_u64()), (Some(2), Some(1)), "{ran}");
}

#[test]
fn plan_says_what_a_slice_is_taken_from() {
    let project = project();
    let line = |done: &Finished, name: &str| done.stdout.lines().find(|l| l.contains(name)).unwrap().to_owned();
    let before = project.run(&["plan", "s.yaml"]).exit(0);
    assert!(line(&before, " evd/k=2 ").contains("from evd/k=8; no `evd` artifact"), "{}", before.stdout);
    assert!(!line(&before, " evd/k=8 ").contains("from"), "{}", before.stdout);
    project.run(&["run", "s.yaml", "evd"]).exit(0);
    let after = project.run(&["plan", "s.yaml"]).exit(0);
    assert!(line(&after, " evd/k=2 ").ends_with("from evd/k=8"), "{}", after.stdout);
    project.run(&["list", "stages", "evd"]).exit(0).prints("takes operator: operator;").prints("slices");
}

#[test]
fn slices_do_not_spoil_the_time_that_a_decomposition_is_expected_to_take() {
    let project = project();
    project.run(&["run", "s.yaml", "evd"]).exit(0);
    let manifest = folder(&project, find(&nodes(&project, &[]), "evd/k=8")).join("manifest.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    // Another graph, so nothing in the store has the same inputs: two slices and one decomposition are left to judge by.
    let nodes = nodes(&project, &["evd", "--set", "load.dataset=b", "--set", "evd.k=5"]);
    let (expected, taken) = (&find(&nodes, "evd/k=5")["expected-seconds"], &manifest["seconds"]);
    let ratio = expected.as_f64().unwrap() / taken.as_f64().unwrap();
    // A busy machine may have taken some times longer; a slice takes some fifty times less, and there are two of them.
    assert!((1.0 / 8.0..8.0).contains(&ratio), "{expected} are expected, the decomposition took {taken}");
}

#[test]
fn a_mistake_in_the_sweep_is_told_once() {
    let project = Project::new().file("s.yaml", &SWEEP.replace("[2, 8, 4]", "[2, 8, 0]"));
    let problems = project.run(&["plan", "s.yaml", "--json"]).exit(3).json()["problems"].clone();
    assert_eq!(problems.as_array().unwrap().len(), 1, "{problems}");
}

#[test]
fn eigenpairs_that_no_model_needs_are_not_computed() {
    // Only the perceptron is trained on the second operator.
    let sweep = SWEEP.replace(
        "sweep: {axes: {evd.k: [2, 8, 4]}}",
        "sweep: {axes: {m: {pp: {train.model: pp-gnn, train.bins: 2}, mlp: {train.model: mlp, normalize.self-loops: false}}}}",
    );
    let project = Project::new().file("s.yaml", &sweep.replace("model: pp-gnn, bins: 2, ", "model: mlp, "));
    project.run(&["run", "s.yaml"]).exit(0);
    let nodes = nodes(&project, &[]);
    let there: Vec<_> = nodes.iter().filter(|n| n["stage"] == "evd" && folder(&project, n).exists()).collect();
    assert_eq!(there.len(), 1, "{there:?}");
    // They can still be requested by name.
    project.run(&["run", "s.yaml", "evd"]).exit(0);
    assert!(nodes.iter().filter(|n| n["stage"] == "evd").all(|n| folder(&project, n).exists()));
}
