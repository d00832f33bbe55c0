//! Sweeps: grid, zip, include, exclude, parameters for some points, profiles, `extends`, tables over them.

use crate::support::Project;

const BASE: &str = "
ppgnn: 1
name: s
datasets: {a: {format: csbm, nodes: 40, features: 4}, b: {format: csbm, nodes: 40, features: 4, seed: 9}}
stages:
  load: {params: {dataset: a}}
  featurize: { inputs: { graph: load } }
  normalize: {inputs: {graph: load}}
  split: {inputs: {graph: load}, params: {count: 1}}
  train: {inputs: {operator: normalize, nodes: featurize, splits: split}, params: {model: mlp, epochs: 2, hidden: 4}}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
";

fn trains(sweep: &str) -> Vec<String> {
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    let plan = project.run(&["plan", "s.yaml", "--json"]).exit(0).json();
    let nodes = plan["nodes"].as_array().unwrap();
    nodes.iter().filter(|n| n["stage"] == "train").map(|n| n["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn axes_form_a_grid_with_the_last_one_fastest() {
    let sweep = "sweep: {axes: {load.dataset: [a, b], train.lr: [0.1, 0.2]}}";
    assert_eq!(trains(sweep), ["train/a/lr=0.1", "train/a/lr=0.2", "train/b/lr=0.1", "train/b/lr=0.2"]);
}

#[test]
fn zipped_axes_advance_together() {
    let sweep = "sweep: {axes: {train.lr: [0.1, 0.2], train.hidden: [8, 16]}, zip: [[train.lr, train.hidden]]}";
    assert_eq!(trains(sweep), ["train/lr=0.1/hidden=8", "train/lr=0.2/hidden=16"]);
}

#[test]
fn exclude_drops_and_include_adds_points() {
    let sweep = "
sweep:
  axes: {load.dataset: [a, b], train.lr: [0.1, 0.2]}
  exclude: [{dataset: b, train.lr: 0.2}]
  include: [{train.lr: 0.5, load.dataset: b}]";
    assert_eq!(trains(sweep), ["train/a/lr=0.1", "train/a/lr=0.2", "train/b/lr=0.1", "train/b/lr=0.5"]);
}

#[test]
fn an_included_point_takes_all_values_of_axes_it_leaves_out() {
    let sweep = "sweep: {axes: {load.dataset: [a, b], train.lr: [0.1]}, include: [{lr: 0.5}]}";
    assert_eq!(trains(sweep), ["train/a/lr=0.1", "train/b/lr=0.1", "train/a/lr=0.5", "train/b/lr=0.5"]);
}

#[test]
fn when_sets_parameters_on_some_points_only() {
    let sweep = "
sweep:
  axes: {train.model: [mlp, gpr-gnn]}
  when: [{match: {model: gpr-gnn}, set: {train.order: 3}}]";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["run", "s.yaml", "train"]).exit(0);
    let manifests: String = crate::support::files(&project.path("artifacts/objects/train"))
        .iter()
        .filter(|f| f.ends_with("manifest.json"))
        .map(|f| std::fs::read_to_string(f).unwrap())
        .collect();
    assert_eq!(manifests.matches("\"order\": 3").count(), 1, "{manifests}");
}

#[test]
fn an_option_wins_over_the_sweep_and_reduces_its_axis() {
    let project = Project::new().file("s.yaml", &format!("{BASE}sweep: {{axes: {{train.lr: [0.1, 0.2]}}}}"));
    let plan = project.run(&["plan", "s.yaml", "--json", "--set", "train.lr=0.7"]).exit(0).json();
    let ids: Vec<_> = plan["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"train/lr=0.7"), "{ids:?}");
    assert_eq!(ids.len(), 6, "{ids:?}");
}

/// The keys of the training nodes of a plan, by name.
fn train_keys(project: &Project, args: &[&str]) -> std::collections::BTreeMap<String, String> {
    let plan = project.run(&[&["plan", "s.yaml", "--json"], args].concat()).exit(0).json();
    let nodes = plan["nodes"].as_array().unwrap().iter().filter(|n| n["stage"] == "train");
    let text = |n: &serde_json::Value, field: &str| n[field].as_str().unwrap().to_owned();
    nodes.map(|n| (text(n, "id"), text(n, "key"))).collect()
}

#[test]
fn an_option_that_some_models_lack_says_which_and_how_to_choose() {
    let project =
        Project::new().file("s.yaml", &format!("{BASE}sweep: {{axes: {{train.model: [mlp, gpr-gnn, appnp]}}}}"));
    let plain = train_keys(&project, &[]);
    let refused =
        project.run(&["plan", "s.yaml", "--set", "train.order=4"]).exit(3).says("`mlp` has no parameter `order`");
    refused.says("--set 'train[model=appnp|gpr-gnn].order=4'").says("naming targets");
    // A condition says which are meant: an axis, or a parameter of the stage.
    for (only, changed) in [("model=gpr-gnn", &["gpr-gnn"][..]), ("train.model=gpr-gnn|appnp", &["appnp", "gpr-gnn"])] {
        let set = format!("train[{only}].order=4");
        let keys = train_keys(&project, &["--set", &set]);
        for model in ["mlp", "gpr-gnn", "appnp"] {
            let name = format!("train/{model}");
            assert_eq!(keys[&name] != plain[&name], changed.contains(&model), "{set}: {model}");
        }
    }
    // So does a target. What is planned is the same.
    let by_target = train_keys(&project, &["train/gpr-gnn", "--set", "train.order=4"]);
    assert_eq!(by_target, train_keys(&project, &["train/gpr-gnn", "--set", "train[model=gpr-gnn].order=4"]));
    assert_ne!(by_target["train/gpr-gnn"], plain["train/gpr-gnn"]);
    project.run(&["plan", "s.yaml", "train", "--set", "train.order=4"]).exit(3).says("`mlp` has no parameter `order`");
    project.run(&["plan", "s.yaml", "--set", "train[modl=mlp].lr=1"]).exit(3).says("did you mean `model`?");
    project.run(&["plan", "s.yaml", "--set", "train[model=mlpp].lr=1"]).exit(3).says("has no value `mlpp`");
    project.run(&["plan", "s.yaml", "--set", "train[model=mlp].model=gcn"]).exit(3).says("already varied by axis");
    project
        .run(&["plan", "s.yaml", "--set", "train[model=mlp].order=4"])
        .exit(3)
        .says("`mlp` has no parameter `order`");
    project.run(&["plan", "s.yaml", "--set", "train[model]=4"]).exit(2).says("train[model=gcn].lr=0.05");
}

#[test]
fn an_option_for_some_points_may_look_at_any_axis_or_parameter() {
    let sweep = "sweep: {axes: {load.dataset: [a, b], how: {x: {train.hidden: 4}, y: {train.hidden: 8}}}}";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    let plain = train_keys(&project, &[]);
    let changed = |set: &str| {
        let keys = train_keys(&project, &["--set", set]);
        keys.iter().filter(|(name, key)| plain[*name] != **key).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(changed("train[load.dataset=b].lr=0.5"), ["train/b/x", "train/b/y"]);
    assert_eq!(changed("train[dataset=b,how=y].lr=0.5"), ["train/b/y"]);
    // A parameter counts as it is at the point: set by an axis, by the file, or by default.
    assert_eq!(changed("train[hidden=8].lr=0.5"), ["train/a/y", "train/b/y"]);
    assert_eq!(changed("train[epochs=2].lr=0.5").len(), 4);
    assert_eq!(changed("train[seed=0].lr=0.5").len(), 4);
    assert_eq!(changed("train[seed=1].lr=0.5").len(), 0);
}

#[test]
fn a_file_extends_another_and_null_removes() {
    let project = Project::new()
        .file("base/s.yaml", &format!("{BASE}sweep: {{axes: {{train.lr: [0.1, 0.2], train.hidden: [4, 8]}}}}"))
        .file("mine.yaml", "{ppgnn: 1, extends: base/s.yaml, name: mine, sweep: {axes: {train.hidden: null}}}");
    let plan = project.run(&["plan", "mine.yaml", "--json"]).exit(0).json();
    assert_eq!(plan["pipeline"], "mine");
    assert_eq!(plan["nodes"].as_array().unwrap().iter().filter(|n| n["stage"] == "train").count(), 2);
}

#[test]
fn a_table_picks_by_validation_and_pools_over_seeds() {
    let sweep = "
sweep: {axes: {load.dataset: [a, b], train.lr: [0.001, 0.1], train.seed: [0, 1, 2]}}
tables: {t: {rows: dataset, columns: [], pool: train.seed, pick: val-accuracy}}";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["run", "s.yaml"]).exit(0);
    let table: serde_json::Value =
        serde_json::from_str(&project.run(&["table", "s.yaml", "--format", "json"]).exit(0).stdout).unwrap();
    let text = table.to_string();
    assert!(text.contains("\"n\":3"), "one split times three seeds are pooled: {text}");
}

#[test]
fn a_table_that_would_mix_runs_in_a_cell_is_refused() {
    let sweep = "
sweep: {axes: {load.dataset: [a, b], train.lr: [0.001, 0.1]}}
tables: {t: {rows: dataset, columns: []}}";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["check", "s.yaml"]).exit(3).says("several runs into one cell: `train.lr`").says("pick");
}

#[test]
fn an_axis_may_belong_to_some_points_only() {
    let sweep = "
sweep:
  axes: {load.dataset: [a, b], train.model: [mlp, gpr-gnn]}
  when: [{match: {model: gpr-gnn}, axes: {train.order: [2, 5]}}]
tables: {t: {rows: train.model, columns: dataset, pick: val-accuracy}}";
    assert_eq!(
        trains(sweep),
        [
            "train/a/mlp",
            "train/a/gpr-gnn/order=2",
            "train/a/gpr-gnn/order=5",
            "train/b/mlp",
            "train/b/gpr-gnn/order=2",
            "train/b/gpr-gnn/order=5",
        ]
    );
}

#[test]
fn a_zipped_axis_does_not_have_to_stand_in_the_table() {
    let sweep = "
sweep: {axes: {train.lr: [0.1, 0.2], train.hidden: [4, 8]}, zip: [[train.lr, train.hidden]]}
tables: {t: {rows: train.lr, columns: []}}";
    assert_eq!(trains(sweep).len(), 2);
}

#[test]
fn results_of_an_option_stand_beside_those_of_the_file() {
    let sweep = "
sweep: {axes: {load.dataset: [a, b]}}
tables: {t: {rows: dataset, columns: []}}";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["run", "s.yaml"]).exit(0);
    let before = std::fs::read(project.path("artifacts/results/s/t.md")).unwrap();
    project.run(&["run", "s.yaml", "--set", "train.epochs=9", "--set", "train.lr=0.5"]).exit(0);
    assert_eq!(std::fs::read(project.path("artifacts/results/s/t.md")).unwrap(), before);
    assert!(project.path("artifacts/results/s/train.epochs=9,train.lr=0.5/t.md").is_file());
    project.run(&["cache", "gc", "--delete"]).exit(0);
    project.run(&["table", "s.yaml"]).exit(0);
}

#[test]
fn a_graph_of_many_components_has_eigenpairs_at_both_ends() {
    // Nearly all nodes are isolated, so eigenvalue 1 reaches into the high end.
    let project = Project::new().file(
        "s.yaml",
        "{ppgnn: 1, name: s, stages: {load: {params: {format: csbm, nodes: 60, degree: 0.1, phi: 0}}, \
         normalize: {inputs: {graph: load}}, evd: {inputs: {operator: normalize}, params: {k: 30}}}}",
    );
    project.run(&["run", "s.yaml"]).exit(0);
}

#[test]
fn a_grid_beyond_all_reason_is_refused_even_if_its_axes_set_nothing() {
    let labels: String = (0..1001).map(|i| format!("v{i}: {{}}, ")).collect();
    let sweep = format!("sweep: {{axes: {{a: {{{labels}}}, b: {{{labels}}}}}}}");
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["check", "s.yaml"]).exit(3).says("more than 1000000 points");
}

#[test]
fn notes_end_in_captions_and_in_footnotes_of_the_cells_that_they_are_about() {
    let sweep = "
notes: All rows have <one> configuration
sweep:
  axes: {load.dataset: [a, b], train.lr: [0.1, 0.2]}
  when: [{match: {load.dataset: b, train.lr: 0.1}, note: drawn anew}]
tables:
  accuracy: {rows: train.lr, columns: load.dataset, metric: test-accuracy, notes: [Another one.]}
  without: {rows: train.lr, columns: load.dataset, metric: test-accuracy}
";
    let project = Project::new().file("s.yaml", &format!("{BASE}{sweep}"));
    project.run(&["run", "s.yaml"]).exit(0);
    let text = |name: &str| std::fs::read_to_string(project.path(&format!("artifacts/results/s/{name}.md"))).unwrap();
    let (table, without) = (text("accuracy"), text("without"));
    assert!(table.contains("All rows have &lt;one&gt; configuration. Another one. <sup>"), "{table}");
    assert!(without.contains("All rows have &lt;one&gt; configuration. <sup>"), "{without}");
    let footnote = table.lines().find(|line| line.starts_with("| 0.1 ")).unwrap();
    let [_, _, a, b, ..] = footnote.split('|').collect::<Vec<_>>()[..] else { panic!("{footnote}") };
    let number = table.split("<sup>").find_map(|rest| rest.split_once("</sup> drawn anew")).unwrap().0;
    let has = |cell: &str| cell.contains(&format!("<sup>{number}")) || cell.contains(&format!(",{number}</sup>"));
    assert!(has(b) && !has(a), "{table}");
    for wrong in ["notes: {a: b}", "notes: [[a]]"] {
        let text = format!("{BASE}{sweep}").replace("notes: All rows have <one> configuration", wrong);
        project.write("w.yaml", text);
        project.run(&["check", "w.yaml"]).exit(3).says("expected text");
    }
    project.write("w.yaml", format!("{BASE}{sweep}").replace("notes: [Another one.]", "notes: some"));
    project.run(&["check", "w.yaml"]).exit(3).says("`notes`");
}
