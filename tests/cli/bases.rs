//! Built-in bases: what they wire, that it costs nothing, and that it changes no key.

use std::collections::BTreeMap;

use crate::support::Project;

/// Models that together need every stage of the base, on a graph that has all that they need.
const MODELS: &str = "
datasets: {g: {format: csbm, nodes: 60, degree: 6, features: 8, seed: 1}}
sweep:
  axes:
    load.dataset: [g]
    method:
      MLP: {train.model: mlp}
      PP-GNN: {train.model: pp-gnn, train.bins: 2}
      PP-GNN (features): {train.model: pp-gnn, train.bins: 2, train.filters: features}
      TDGNN: {train.model: tdgnn, train.hops: [1, 2]}
      H2GCN: {train.model: h2gcn, normalize.self-loops: false}
      AdaGNN: {train.model: adagnn, train.hidden: 8, train.pretrained: true}
tables: {t: {rows: method, columns: load.dataset}}
";

/// The wiring as one would write it out.
const WRITTEN: &str = "
stages:
  load: {}
  featurize: {inputs: {graph: load}}
  normalize: {inputs: {graph: load}}
  evd: {inputs: {operator: normalize}, params: {k: 8}}
  project: {inputs: {spectrum: evd, nodes: featurize}}
  separate: {inputs: {operator: normalize}}
  two-hops: {uses: normalize, inputs: {graph: load}, params: {self-loops: false, hops: 2}}
  split: {inputs: {graph: load}, params: {count: 2}}
  pretrain:
    uses: train
    inputs: {operator: normalize, nodes: featurize, splits: split}
    params: {model: adagnn, layers: 2, hidden: 8, epochs: 3, window: 0, select: val-loss, lr: 0.01, lr-decay: 0.9, weight-decay: 0.0009, dropout: 0.5}
  train:
    inputs: {operator: normalize, nodes: featurize, splits: split, spectrum: evd, projection: project, hops: separate, second-operator: two-hops, pretrained: pretrain}
    params: {epochs: 3}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
";

/// What the base leaves to the pipeline.
const CHANGED: &str = "
extends: standard
stages:
  evd: {params: {k: 8}}
  split: {params: {count: 2}}
  pretrain: {params: {hidden: 8, epochs: 3}}
  train: {params: {epochs: 3}}
";

/// A pipeline of one model on the base.
fn one(model: &str) -> String {
    format!(
        "ppgnn: 1\nname: p\nextends: standard\ndatasets: {{g: {{format: csbm, nodes: 60, features: 8}}}}\nstages:\n  \
         load: {{params: {{dataset: g}}}}\n  split: {{params: {{count: 2}}}}\n  train: {{params: {{{model}}}}}\n"
    )
}

/// The nodes of a plan with their keys.
fn keys(project: &Project, file: &str) -> BTreeMap<String, String> {
    let plan = project.run(&["plan", file, "--json"]).exit(0).json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    plan["nodes"].as_array().unwrap().iter().map(|node| (text(&node["id"]), text(&node["key"]))).collect()
}

#[test]
fn keys_are_those_of_the_wiring_written_out() {
    let project = Project::new();
    project.write("written.yaml", format!("ppgnn: 1\nname: p\n{WRITTEN}{MODELS}"));
    project.write("base.yaml", format!("ppgnn: 1\nname: p\n{CHANGED}{MODELS}"));
    let written = keys(&project, "written.yaml");
    assert_eq!(keys(&project, "base.yaml"), written);
    for stage in ["evd", "project", "separate", "two-hops", "pretrain", "train", "evaluate"] {
        assert!(written.keys().any(|name| name.split('/').next() == Some(stage)), "{stage} in {written:?}");
    }
    project.run(&["run", "base.yaml", "-q"]).exit(0);
    let again = project.run(&["plan", "written.yaml", "--json"]).exit(0).json();
    assert_eq!(again["misses"], 0);
}

#[test]
fn an_open_search_does_not_wait_for_data_that_its_models_do_not_need() {
    let project = Project::new();
    let search = "search: {space: reduced, trials: 2, round: 2}\n";
    // The base has `relate`, for which the graph has no file; the wiring written out does without.
    project.write("written.yaml", format!("ppgnn: 1\nname: p\n{WRITTEN}{MODELS}{search}"));
    project.write("base.yaml", format!("ppgnn: 1\nname: p\n{CHANGED}{MODELS}{search}"));
    assert_eq!(keys(&project, "base.yaml"), keys(&project, "written.yaml"));
}

#[test]
fn what_no_model_needs_is_not_computed_unless_it_is_asked_for() {
    let project = Project::new().file("p.yaml", &one("model: mlp, epochs: 2"));
    let needed = ["evaluate", "featurize", "load", "normalize", "split", "train"];
    assert_eq!(keys(&project, "p.yaml").into_keys().collect::<Vec<_>>(), needed);
    let check = project.run(&["check", "p.yaml"]).exit(0);
    assert_eq!((check.stdout.as_str(), check.stderr.as_str()), ("p.yaml: valid; points: 1, nodes: 6, tables: 0\n", ""));
    let drawn = project.run(&["dag", "p.yaml", "--stages"]).exit(0).stdout;
    assert!(
        drawn.contains("evaluate (0 of 1 cached)") && !drawn.contains("evd") && !drawn.contains("pretrain"),
        "{drawn}"
    );
    project.run(&["run", "p.yaml", "-q"]).exit(0);
    assert!(project.path("artifacts/objects/train").exists() && !project.path("artifacts/objects/evd").exists());
    project.run(&["run", "p.yaml", "evd"]).exit(0);
    assert!(project.path("artifacts/objects/evd").exists());
}

#[test]
fn a_mistake_names_a_place_in_the_file_or_in_the_base() {
    let project = Project::new();
    let refused = |text: &str, message: &str, place: &str| {
        project.write("p.yaml", text);
        let run = project.run(&["check", "p.yaml"]);
        assert!(run.code != 0 && run.stderr.contains(message) && run.stderr.contains(place), "{}", run.stderr);
    };
    let base = "<built-in>/bases/standard.yaml:";
    refused(&one("epochs: 2"), "missing parameter `model`", "p.yaml:8:3");
    refused(&one("model: mlp").replace("name: p\n", ""), "missing `name`", "p.yaml:1:1");
    refused(&one("model: geom-gcn"), "no `neighbourhoods` of `g` are known", base);
    refused(
        &one("model: mlp").replace("stages:\n", "stages:\n  relate: null\n"),
        "the pipeline has no stage `relate`",
        base,
    );
    refused(&one("model: mlp").replace("standard", "standrad"), "did you mean `standard`?", "p.yaml:3:10");
}

#[test]
fn bases_are_listed_and_printed() {
    let project = Project::new();
    project.run(&["list", "bases"]).exit(0).prints("paper  ").prints("standard  ").says("`extends: NAME`");
    let text = include_str!("../../pipelines/bases/standard.yaml");
    assert_eq!(project.run(&["list", "bases", "standard"]).exit(0).stdout, text);
    let json = project.run(&["list", "bases", "paper", "--json"]).exit(0).json();
    assert!(json["items"][0]["text"].as_str().unwrap().contains("extends: standard"));
    project.run(&["list", "bases", "standrad"]).exit(2).says("did you mean `standard`?");
}

#[test]
fn the_data_sets_of_a_pipeline_on_a_base_are_listed() {
    let project = Project::new().file("p.yaml", &one("model: mlp"));
    project.run(&["list", "datasets", "p.yaml"]).exit(0).prints("g  ");
    let text = "ppgnn: 1\nname: p\nextends: paper\nsettings: published\nsweep: {axes: {load.dataset: [texas], train.model: [gpr-gnn]}}\n";
    project.write("q.yaml", text);
    project.run(&["list", "datasets", "q.yaml"]).exit(0).prints("texas  ");
}
