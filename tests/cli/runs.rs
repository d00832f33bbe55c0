//! `run`: what it prints, where it publishes, how it ends.

use crate::support::Project;

#[test]
fn a_run_prints_the_table_and_publishes_it() {
    let project = Project::tiny();
    let run = project.run(&["run", "tiny.yaml"]).exit(0);
    assert!(run.stdout.contains("| MLP"), "{}", run.stdout);
    assert!(run.stderr.contains("Published"), "{}", run.stderr);
    for ending in ["md", "tex", "csv", "json"] {
        assert!(project.path(&format!("artifacts/results/tiny/accuracy.{ending}")).is_file(), "{ending}");
    }
    assert_eq!(std::fs::read_to_string(project.path("artifacts/results/tiny/accuracy.md")).unwrap(), run.stdout);
}

#[test]
fn json_ends_with_one_object_that_adds_up() {
    let project = Project::tiny();
    let report = project.run(&["run", "tiny.yaml", "--json"]).exit(0).json();
    let count = |field: &str| report[field].as_u64().unwrap();
    // Two graphs × (load, normalize, split, evd, 2 × train, 2 × evaluate), and the table.
    assert_eq!((count("nodes"), count("ran"), count("cached"), count("failed")), (19, 19, 0, 0));
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(report["version"], 1);
    // As Markdown, LaTeX, CSV and JSON, and the runs behind it as CSV and Parquet.
    assert_eq!(report["tables"].as_array().unwrap().len(), 6);
    let again = project.run(&["run", "tiny.yaml", "--json"]).exit(0).json();
    assert_eq!(
        (again["nodes"].as_u64(), again["cached"].as_u64(), again["ran"].as_u64()),
        (Some(19), Some(19), Some(0))
    );
}

#[test]
fn a_dry_run_computes_and_writes_nothing() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "-n"]).exit(0).prints("19 nodes: 0 hit, 19 miss");
    assert!(!project.path("artifacts").exists());
}

#[test]
fn a_target_limits_the_run() {
    let project = Project::tiny();
    let report = project.run(&["run", "tiny.yaml", "evd/one", "--json"]).exit(0).json();
    assert_eq!(report["ran"], 3);
    assert!(!project.path("artifacts/results").join("tiny").exists());
    let report = project.run(&["run", "tiny.yaml", "train/*/MLP", "--json"]).exit(0).json();
    assert_eq!((report["ran"].as_u64(), report["failed"].as_u64()), (Some(8), Some(0)));
    project.run(&["run", "tiny.yaml", "trian"]).exit(2).says("did you mean `train`?");
}

#[test]
fn forcing_computes_again_and_says_that_the_bytes_are_the_same() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml"]).exit(0);
    let report = project.run(&["run", "tiny.yaml", "--force", "train/one/MLP", "--json"]).exit(0).json();
    assert_eq!(report["ran"], 1);
    let finished = project.events("artifacts").into_iter().rfind(|e| e["event"] == "node-finished").unwrap();
    assert_eq!(finished["bytes-same"], true);
}

#[test]
fn an_environment_variable_or_an_option_moves_the_store() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "load", "--artifacts", "elsewhere"]).exit(0);
    assert!(project.path("elsewhere/objects/load").is_dir());
    let mut command = project.command(&["run", "tiny.yaml", "load", "--json"]);
    let report = crate::support::finish(command.env("PPGNN_ARTIFACTS", "elsewhere")).json();
    assert_eq!((report["cached"].as_u64(), report["ran"].as_u64()), (Some(2), Some(0)));
}

#[test]
fn a_profile_publishes_beside_the_default() {
    let project = Project::tiny();
    project.run(&["run", "tiny.yaml", "--profile", "longer"]).exit(0);
    assert!(project.path("artifacts/results/tiny/longer/accuracy.md").is_file());
    project.run(&["run", "tiny.yaml", "--profile", "longr"]).exit(3).says("did you mean `longer`?");
}

#[test]
fn ctrl_c_ends_cleanly_and_keeps_what_had_finished() {
    let project = Project::tiny();
    let mut command =
        project.command(&["run", "tiny.yaml", "--set", "train.epochs=1000000", "--set", "train.window=0"]);
    let child = command.spawn().unwrap();
    // Wait until training has begun, so that something has finished and something is running.
    let began = std::time::Instant::now();
    while !project
        .events("artifacts")
        .iter()
        .any(|e| e["event"] == "node-started" && e["node"].as_str().is_some_and(|n| n.starts_with("train/")))
    {
        assert!(began.elapsed().as_secs() < 60, "training did not begin");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let signalled = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let finished = project.events("artifacts").iter().filter(|e| e["event"] == "node-finished").count();
    assert!(finished > 0);
    let plan = project.run(&["plan", "tiny.yaml", "--json"]).exit(0).json();
    let upstream = plan["nodes"].as_array().unwrap().iter().filter(|n| n["state"] == "hit").count();
    assert_eq!(upstream, finished, "finished nodes are kept");
    assert_eq!(crate::support::files(&project.path("artifacts/tmp")).len(), 0, "nothing half-written is left");
}

#[test]
fn a_failing_node_stops_only_what_depends_on_it() {
    // More bins than eigenpairs on a side: only PP-GNN fails.
    let project = Project::tiny();
    let run = project.run(&["run", "tiny.yaml", "--set", "train.bins=50", "--json"]);
    assert_eq!(run.code, 3, "MLP has no bins: {}", run.stderr);
    let text = crate::support::TINY.replace("train.bins: 2", "train.bins: 50");
    let project = Project::new().file("tiny.yaml", &text);
    let run = project.run(&["run", "tiny.yaml", "--json"]).exit(5);
    let report = run.json();
    assert_eq!(report["failed"], 2, "{}", run.stderr);
    // The eigenpairs that only PP-GNN would have read are not computed.
    assert_eq!(report["ran"], 12, "{}", run.stderr);
    assert_eq!(report["skipped"], 3);
    assert_eq!(report["failures"][0]["node"], "train/one/PP-GNN");
    assert_eq!(report["partial-tables"], serde_json::json!(["accuracy"]));
}

const ONE_FAILS: &str = "
ppgnn: 1
name: f
datasets: {a: {format: csbm, nodes: 40, features: 4}, b: {format: csbm, nodes: 40, features: 4, seed: 9}}
stages:
  load: {params: {dataset: a}}
  featurize: { inputs: { graph: load } }
  normalize: {inputs: {graph: load}}
  split: {inputs: {graph: load}, params: {count: 2}}
  train: {inputs: {operator: normalize, nodes: featurize, splits: split}, params: {model: mlp, epochs: 4, hidden: 4}}
  evaluate: {inputs: {trained: train, nodes: featurize, splits: split}}
sweep: {axes: {load.dataset: [a, b], how: {fine: {train.lr: 0.01}, other: {OTHER}}}}
tables:
  all: {rows: load.dataset, columns: how}
  pooled: {rows: load.dataset, columns: [], pool: how}
  best: {rows: load.dataset, columns: [], pick: val-accuracy}
";

#[test]
fn a_failed_run_costs_its_cell_and_the_next_run_tries_only_that() {
    // BernNet needs an operator without self-loops.
    let project = Project::new().file("f.yaml", &ONE_FAILS.replace("OTHER", "train.model: bernnet"));
    let run = project.run(&["run", "f.yaml"]).exit(5).says("Made without what failed: all, pooled, best");
    let run = run.prints("| absent<sup>").prints("</sup> train/a/other failed: ");
    let run = run.prints("</sup> 1 of 2 runs missing: train/a/other failed: ");
    run.prints("</sup> 1 of 2 configurations left out: train/a/other failed: ");
    let published = std::fs::read_to_string(project.path("artifacts/results/f/all.md")).unwrap();
    assert!(published.contains("| absent<sup>"), "{published}");
    // A result in part is not taken for the whole one.
    let again = project.run(&["run", "f.yaml", "--json"]).exit(5).json();
    assert_eq!((again["failed"].as_u64(), again["ran"].as_u64()), (Some(2), Some(0)), "{again}");
    project.run(&["run", "f.yaml", "--fail-fast", "--json"]).exit(5);
    // What failed is mended: the tables are whole, and nothing else is computed.
    project.write("f.yaml", ONE_FAILS.replace("OTHER", "train.lr: 0.1"));
    let whole = project.run(&["run", "f.yaml", "--json"]).exit(0).json();
    assert_eq!((whole["ran"].as_u64(), &whole["partial-tables"]), (Some(2 * 2 + 3), &serde_json::json!([])), "{whole}");
    let published = std::fs::read_to_string(project.path("artifacts/results/f/all.md")).unwrap();
    assert!(!published.contains("absent"), "{published}");
}

#[test]
fn a_table_is_shown_with_what_is_there() {
    let project = Project::new().file("f.yaml", &ONE_FAILS.replace("OTHER", "train.lr: 0.1"));
    project.run(&["table", "f.yaml", "all"]).exit(4).says("has not been computed");
    project.run(&["run", "f.yaml", "evaluate/a/fine", "-q"]).exit(0);
    let shown = project.run(&["table", "f.yaml", "all"]).exit(0).says("table `all` lacks 3 of 4 runs");
    shown.prints("</sup> not computed yet.").prints("| b | absent");
    assert!(!project.path("artifacts/objects/tabulate").exists(), "nothing is stored by looking");
}
