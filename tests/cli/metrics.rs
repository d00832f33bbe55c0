//! Metrics where classes are unbalanced: what decides, what is refused, what is flagged.

use crate::support::Project;

const PIPELINE: &str = "
ppgnn: 1
name: p
datasets: { mine: { format: csbm, nodes: 500, features: 16, degree: 6, share: 0.85, phi: 0.5, epsilon: 1.0, seed: 3 } }
stages:
  load: { params: { dataset: mine } }
  featurize: { inputs: { graph: load } }
  normalize: { inputs: { graph: load } }
  split: { inputs: { graph: load }, params: { count: 4 } }
  train: { inputs: { operator: normalize, nodes: featurize, splits: split }, params: { model: gpr-gnn, epochs: 60, hidden: 8 } }
  evaluate: { inputs: { trained: train, nodes: featurize, splits: split } }
sweep: { axes: { train.select: [val-accuracy, val-roc-auc] } }
tables:
  auc: { rows: train.select, columns: [], metric: test-roc-auc }
  accuracy: { rows: train.select, columns: [], metric: test-accuracy }
";

#[test]
fn roc_auc_keeps_a_better_epoch_than_accuracy_and_who_learned_nothing_is_flagged() {
    let project = Project::new().file("p.yaml", PIPELINE);
    let run = project.run(&["run", "p.yaml"]).exit(0).says("Warning").says("predicts one class only in all 4 splits");
    let run = run.says("keeps the first epoch in ").prints("</sup> predicts one class only in all 4 splits.");
    run.prints("not above 85.00, the share of the largest class among the test nodes.");
    let table = |name: &str| -> serde_json::Value {
        let path = project.path(&format!("artifacts/results/p/{name}.json"));
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let means = |name: &str| [0, 1].map(|cell| table(name)["cells"][cell]["mean"].as_f64().unwrap());
    assert_eq!(means("accuracy"), [0.85, 0.85], "accuracy tells nothing apart");
    let [by_accuracy, by_auc] = means("auc");
    assert!(by_auc > by_accuracy + 0.01, "{by_auc} {by_accuracy}");
    // What is in the log is for programs.
    let warned = project.events("artifacts").into_iter().filter(|e| e["event"] == "node-warned").count();
    assert!(warned >= 3, "{warned}");
}

#[test]
fn a_metric_of_test_nodes_decides_nothing() {
    let schema: serde_json::Value = Project::new().run(&["schema"]).exit(0).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let read = |text: &str| serde_yaml::from_str::<serde_json::Value>(text).unwrap();
    let plain = PIPELINE.replace("sweep: { axes: { train.select: [val-accuracy, val-roc-auc] } }\n", "");
    let plain = plain.replace("rows: train.select", "rows: []");
    assert!(validator.is_valid(&read(PIPELINE)) && validator.is_valid(&read(&plain)));
    for (from, to) in [
        ("epochs: 60", "epochs: 60, select: test-accuracy"),
        ("epochs: 60", "epochs: 60, stop-on: test-roc-auc"),
        ("metric: test-roc-auc", "metric: test-roc-auc, pick: test-accuracy"),
        ("metric: test-roc-auc", "metric: test-roc-auc, pick: train-loss"),
    ] {
        let wrong = plain.replace(from, to);
        assert!(!validator.is_valid(&read(&wrong)), "{to}");
        Project::new().file("p.yaml", &wrong).run(&["plan", "p.yaml"]).exit(3).says("expected one of `val-accuracy`");
    }
    let swept = PIPELINE.replace("[val-accuracy, val-roc-auc]", "[val-accuracy, test-accuracy]");
    Project::new().file("p.yaml", &swept).run(&["plan", "p.yaml"]).exit(3).says("did you mean `val-accuracy`?");
}

#[test]
fn a_part_without_a_class_has_no_roc_auc_and_the_table_says_why() {
    // Every test node is of one class.
    let mut nodes = String::from("id,label,x,part\n");
    for i in 0..40 {
        let (label, part) = if i < 20 { (i % 2, if i < 10 { "train" } else { "val" }) } else { (1, "test") };
        nodes += &format!("{i},{label},{},{part}\n", f64::from(i * 7 % 11) / 10.0);
    }
    let pipeline = PIPELINE
        .replace(
            "{ format: csbm, nodes: 500, features: 16, degree: 6, share: 0.85, phi: 0.5, epsilon: 1.0, seed: 3 }",
            "{ format: tables, nodes: nodes.csv, edges: edges.csv, splits: [part] }",
        )
        .replace("count: 4", "method: file");
    let edges: String = (0..40).map(|i| format!("{i},{}\n", (i + 1) % 40)).collect();
    let project = Project::new().file("p.yaml", &pipeline).file("nodes.csv", &nodes);
    project.write("edges.csv", format!("source,target\n{edges}"));
    let run = project.run(&["run", "p.yaml"]).exit(0).prints("| val-roc-auc | absent<sup>1</sup> |");
    run.prints("<sup>1</sup> test-roc-auc is undefined: no node is of class 0.");
}

#[test]
fn check_warns_where_accuracy_decides_and_a_constant_answer_has_it() {
    let mut nodes = String::from("id,label,x\n");
    (0..50).for_each(|i| nodes += &format!("n{i},{},{i}\n", if i % 5 == 0 { "fraud" } else { "fine" }));
    let pipeline = PIPELINE.replace(
        "{ format: csbm, nodes: 500, features: 16, degree: 6, share: 0.85, phi: 0.5, epsilon: 1.0, seed: 3 }",
        "{ format: tables, nodes: nodes.csv, edges: edges.csv }",
    );
    let project = Project::new().file("p.yaml", &pipeline).file("nodes.csv", &nodes);
    project.write("edges.csv", "source,target\nn1,n2\nn2,n1\n");
    let check = project.run(&["check", "p.yaml"]).exit(0).says("[constant-answer]");
    check.says("80.0 % of the nodes with a label are of class `fine`").says("`metric` of tabulate/accuracy");
    // A generated graph is looked at as well, and every metric of a sweep counts.
    let only_select = PIPELINE.lines().filter(|l| !l.starts_with("  accuracy:")).collect::<Vec<_>>().join("\n");
    let generated = Project::new().file("p.yaml", &only_select).run(&["check", "p.yaml"]).exit(0);
    generated.says("85.0 % of the nodes").says("`select` of train go by accuracy");
    let by_auc = pipeline.replace("[val-accuracy, val-roc-auc]", "[val-roc-auc]");
    let by_auc = by_auc.lines().filter(|l| !l.starts_with("  accuracy:")).collect::<Vec<_>>().join("\n");
    project.write("p.yaml", by_auc);
    let check = project.run(&["check", "p.yaml"]).exit(0);
    assert!(!check.stderr.contains("constant-answer"), "{}", check.stderr);
}
