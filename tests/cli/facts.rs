//! Tables of facts: sizes of graphs, and seconds that stages take.

use serde_json::Value;

use crate::support::Project;

pub(crate) const TIMED: &str = "
ppgnn: 1
name: timed
extends: standard
datasets: { mine: { format: csbm, nodes: 120, features: 8, degree: 6, phi: 0.5, epsilon: 1.0, seed: 3 } }
stages:
  load: { params: { dataset: mine } }
  evd: { params: { k: 8 } }
  split: { params: { count: 3 } }
  train: { params: { epochs: 12, window: 0, hidden: 8 } }
  describe: { inputs: { graph: load, splits: split } }
  time: { inputs: { of: evaluate }, params: { stages: [train, evd], share: { evd: 10 }, repeats: 2 } }
sweep: { axes: { train.model: [mlp, pp-gnn] } }
tables:
  sizes: { from: describe, rows: [], columns: [], facts: [nodes, { parts: train }, homophily] }
  parts:
    from: time
    rows: train.model
    columns: []
    facts: [{ training: train.split-seconds }, { eigenpairs: evd.seconds }, { epochs: train.epochs }, { pairs: evd.pairs }, { both: amortised-seconds }]
  relative: { from: time, rows: train.model, columns: [], facts: [amortised-seconds], relative-to: mlp }
";

fn table(project: &Project, name: &str) -> Value {
    let path = project.path(&format!("artifacts/results/timed/{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The cell of a row and a column.
fn cell(table: &Value, row: usize, column: usize) -> Value {
    let is_it = |cell: &&Value| cell["row"] == row && cell["column"] == column;
    table["cells"].as_array().unwrap().iter().find(is_it).cloned().unwrap_or(Value::Null)
}

#[test]
fn seconds_are_measured_once_and_shown_beside_sizes() {
    let project = Project::new().file("timed.yaml", TIMED);
    let run = project.run(&["run", "timed.yaml"]).exit(0);
    run.prints("Training is `train.split-seconds`").prints("in seconds");
    let (sizes, parts, relative) = (table(&project, "sizes"), table(&project, "parts"), table(&project, "relative"));
    assert_eq!(sizes["columns"], serde_json::json!(["nodes", "parts", "homophily"]));
    assert_eq!((&cell(&sizes, 0, 0)["mean"], &cell(&sizes, 0, 1)["n"]), (&Value::from(120.0), &Value::from(3)));
    let mean = |row, column| cell(&parts, row, column)["mean"].as_f64().unwrap();
    // Two repetitions of three splits; every split has all of its epochs.
    assert_eq!(cell(&parts, 0, 0)["n"], 6);
    assert_eq!((mean(0, 2), mean(1, 2), mean(1, 3)), (12.0, 12.0, 16.0));
    assert!(mean(0, 0) > 0.0 && mean(1, 1) > 0.0);
    let (own, share, both) = (mean(1, 0), mean(1, 1) / 10.0, mean(1, 4));
    assert!((own + share - both).abs() < 1e-9, "{own} and a share of {share} are not {both}");
    // A perceptron has no eigenpairs, and says what it has.
    assert_eq!(cell(&parts, 0, 1), Value::Null);
    assert!(parts["absent"][0]["why"].as_str().unwrap().contains("no fact evd.seconds"), "{parts}");
    let ratio = cell(&relative, 1, 0)["mean"].as_f64().unwrap();
    assert!((ratio - both / mean(0, 4)).abs() < 1e-9 && cell(&relative, 0, 0)["mean"] == 1.0);
    let before: Vec<f64> = (0..5).map(|column| mean(1, column)).collect();
    project.run(&["run", "timed.yaml"]).exit(0).says("15 cached, 0 ran");
    let again = table(&project, "parts");
    assert_eq!(before, (0..5).map(|column| cell(&again, 1, column)["mean"].as_f64().unwrap()).collect::<Vec<_>>());
    let traced = project.run(&["trace", "timed.yaml", "pp-gnn", "training", "--table", "parts"]).exit(0);
    traced.prints("train.split-seconds: ").prints("evd.k: 8");
}

#[test]
fn what_is_measured_is_computed_again_and_alone() {
    let project = Project::new().file("timed.yaml", TIMED);
    project.run(&["run", "timed.yaml"]).exit(0);
    let events = project.events("artifacts");
    let mut running: Vec<String> = Vec::new();
    for event in &events {
        let node = event["node"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap() {
            "node-started" => {
                assert!(!running.iter().any(|other| other.starts_with("time")), "{node} started beside {running:?}");
                assert!(running.is_empty() || !node.starts_with("time"), "{node} measures beside {running:?}");
                running.push(node);
            }
            "node-finished" => running.retain(|other| *other != node),
            _ => {}
        }
    }
    // Nothing of what was computed again is left.
    assert!(!project.path("artifacts/tmp").read_dir().is_ok_and(|mut left| left.next().is_some()));
}

#[test]
fn facts_and_metrics_do_not_mix() {
    for (from, to, said) in [
        ("facts: [nodes,", "ranks: true, facts: [nodes,", "is for metrics, and the table shows facts"),
        ("relative-to: mlp", "relative-to: mpl", "the table has no row `mpl`"),
        ("from: describe,", "from: evaluate,", "no stage `evaluate` that produces `facts`"),
        ("share: { evd: 10 }", "share: { load: 10 }", "`load` is not among the measured stages"),
        ("stages: [train, evd]", "stages: [trian, evd]", "cannot measure `trian`"),
    ] {
        let wrong = TIMED.replace(from, to);
        assert_ne!(wrong, TIMED);
        Project::new().file("timed.yaml", &wrong).run(&["check", "timed.yaml"]).exit(3).says(said);
    }
    let threads = TIMED.replace("repeats: 2", "repeats: 2, threads: 64");
    let run = Project::new().file("timed.yaml", &threads).run(&["run", "timed.yaml", "-j", "1"]);
    run.exit(5).says("64 threads are to be measured, and the run has 1");
}

#[test]
fn a_whole_search_is_measured_with_all_of_its_trials() {
    let searched = TIMED
        .replace("repeats: 2", "repeats: 1, warm-up: false, whole-search: true")
        .replace(
            "sweep:",
            "search:\n  params: { train.lr: [0.01, 0.05, 0.1], evd.k: [4, 8] }\n  trials: 4\n  round: 2\nsweep:",
        )
        .replace("{ epochs: train.epochs }", "{ trials: train.count }")
        .replace("{ pairs: evd.pairs }", "{ both: total-seconds }")
        .replace(", { both: amortised-seconds }", "");
    let project = Project::new().file("timed.yaml", &searched);
    project.run(&["run", "timed.yaml"]).exit(0);
    let parts = table(&project, "parts");
    let mean = |row, column| cell(&parts, row, column)["mean"].as_f64().unwrap();
    // A perceptron has no eigenpairs, so trials that differ in their number alone are one.
    assert!(mean(0, 2) <= 4.0 && mean(1, 2) == 4.0, "{parts}");
    assert!(mean(1, 3) > mean(1, 1) && mean(1, 1) > 0.0, "{parts}");
    project.run(&["run", "timed.yaml"]).exit(0).says("0 ran");
}

#[test]
fn what_is_measured_again_changes_its_tables() {
    let project = Project::new().file("timed.yaml", TIMED);
    project.run(&["run", "timed.yaml"]).exit(0);
    let before = cell(&table(&project, "parts"), 0, 0)["mean"].as_f64().unwrap();
    project.run(&["run", "timed.yaml", "--force", "time"]).exit(0);
    let after = cell(&table(&project, "parts"), 0, 0)["mean"].as_f64().unwrap();
    // Two measurements that agree to the last digit would be a coincidence.
    assert_ne!(before, after);
}
