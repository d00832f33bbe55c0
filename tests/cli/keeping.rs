//! What is kept: for runs that have not finished, for two files of one name, and for every change of the command line.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Project, TINY, files};

/// Starts a run that trains for ever, and interrupts it once it trains.
fn interrupt_in_training(project: &Project, file: &str) {
    let args = ["run", file, "--set", "train.epochs=1000000", "--set", "train.window=0"];
    let child = project.command(&args).spawn().unwrap();
    let began = Instant::now();
    let trains = |event: &serde_json::Value| {
        event["event"] == "node-started" && event["node"].as_str().is_some_and(|node| node.starts_with("train/"))
    };
    while !project.events("artifacts").iter().any(trains) {
        assert!(began.elapsed() < Duration::from_secs(60), "training did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn gc_keeps_what_an_unfinished_run_needs() {
    let project = Project::tiny();
    interrupt_in_training(&project, "tiny.yaml");
    let there = project.artifact_bytes("artifacts");
    assert!(!there.is_empty());
    let shown = project.run(&["cache", "gc"]).exit(0).prints("nothing to delete");
    shown.says("kept what `ppgnn run tiny.yaml --set train.epochs=1000000 --set train.window=0`").says("--unfinished");
    project.run(&["cache", "gc", "--delete"]).exit(0);
    assert_eq!(project.artifact_bytes("artifacts"), there);
    let json = project.run(&["cache", "gc", "--unfinished", "--json"]).exit(0).json();
    assert!(!json["chosen"].as_array().unwrap().is_empty(), "{json}");
    // Whose pipeline is gone, nobody goes on with.
    std::fs::rename(project.path("tiny.yaml"), project.path("other.yaml")).unwrap();
    project.run(&["cache", "gc", "--delete"]).exit(0).prints("deleted ");
    assert!(project.artifact_bytes("artifacts").is_empty());
    assert!(files(&project.path("artifacts/unfinished")).is_empty());
}

#[test]
fn a_run_that_finishes_keeps_nothing_beyond_its_results() {
    let project = Project::tiny();
    interrupt_in_training(&project, "tiny.yaml");
    project.run(&["cache", "gc", "--unfinished", "--delete"]).exit(0);
    assert!(project.artifact_bytes("artifacts").is_empty());
    // A part of a run that has not finished does not end its protection; all of it does.
    let failing = TINY.replace("train.bins: 2", "train.bins: 50");
    project.write("tiny.yaml", &failing);
    project.run(&["run", "tiny.yaml", "-q"]).exit(5);
    let failed = project.artifact_bytes("artifacts").len();
    project.run(&["run", "tiny.yaml", "load", "-q"]).exit(0);
    project.run(&["cache", "gc"]).exit(0).prints("nothing to delete").says("has not finished");
    assert_eq!(project.artifact_bytes("artifacts").len(), failed);
    project.write("tiny.yaml", TINY);
    let run = project.run(&["run", "tiny.yaml", "--json"]).exit(0).json();
    assert_eq!(run["cached"].as_u64().unwrap() + run["ran"].as_u64().unwrap(), 19, "{run}");
    let after = project.run(&["cache", "gc"]).exit(0);
    assert!(!after.stderr.contains("has not finished"), "{}", after.stderr);
}

#[test]
fn two_files_of_one_name_do_not_overwrite_each_other() {
    let project =
        Project::tiny().file("copy/tiny.yaml", TINY).file("other.yaml", &TINY.replace("epochs: 5", "epochs: 6"));
    project.run(&["run", "tiny.yaml", "-q"]).exit(0);
    let before = std::fs::read(project.path("artifacts/results/tiny/accuracy.json")).unwrap();
    let refused =
        project.run(&["run", "other.yaml"]).exit(2).says("tiny.yaml` has published results under the same name");
    refused.says("--replace");
    assert_eq!(std::fs::read(project.path("artifacts/results/tiny/accuracy.json")).unwrap(), before);
    // Nothing is published without a table; a copy of the file is the same file.
    project.run(&["run", "other.yaml", "load", "-q"]).exit(0);
    project.run(&["run", "copy/tiny.yaml", "-q"]).exit(0);
    project.run(&["run", "other.yaml", "--replace", "-q"]).exit(0);
    assert_ne!(std::fs::read(project.path("artifacts/results/tiny/accuracy.json")).unwrap(), before);
    // A file that is gone has no claim to the name.
    std::fs::remove_file(project.path("other.yaml")).unwrap();
    project.run(&["run", "tiny.yaml", "-q"]).exit(0);
}

#[test]
fn settings_have_one_folder_in_any_order_and_spelling() {
    let project = Project::tiny();
    let folders = || {
        let root = project.path("artifacts/results/tiny");
        let all = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = all.filter(|path| path.is_dir()).collect();
        all.sort();
        all
    };
    for set in [["train.lr=5e-2", "train.epochs=2"], ["train.epochs=2", "train.lr=0.05"]] {
        project.run(&["run", "tiny.yaml", "-q", "--set", set[0], "--set", set[1]]).exit(0);
    }
    assert_eq!(folders().len(), 1, "{:?}", folders());
    // Characters that no file name has do not make two settings one.
    for dataset in ["one", "two"] {
        let set = format!("train[load.dataset={dataset}].lr=0.5");
        project.run(&["run", "tiny.yaml", "-q", "--set", &set]).exit(0);
    }
    assert_eq!(folders().len(), 3, "{:?}", folders());
}
