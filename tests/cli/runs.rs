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
    assert_eq!(report["ran"], 14, "{}", run.stderr);
    assert_eq!(report["skipped"], 3);
    assert_eq!(report["failures"][0]["node"], "train/one/PP-GNN");
}
