//! What a run computes, what it leaves alone, and what it makes of failures.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ppgnn::run::{Event, FailureKind, NodeState, RunError, RunOptions, demand, execute};
use serde_json::json;

use crate::toy::{Seen, World, wait_until};

#[test]
fn equal_keys_hit() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    let (first, _) = world.run(&[b]);
    assert_eq!((first.ran, first.cached), (2, 0));
    let (second, seen) = world.run(&[b]);
    assert_eq!((second.ran, second.cached, second.absent), (0, 2, 0));
    assert_eq!(world.executions(), 2);
    let cached = seen.pick(|e| if let Event::NodeCached { node, .. } = e { Some(node.to_string()) } else { None });
    assert_eq!(cached, ["add/2"]);
}

#[test]
fn only_what_the_targets_need_is_computed() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    let other = world.node("add", 3, &[]);
    let (report, seen) = world.run(&[b]);
    assert_eq!((report.nodes, report.ran), (2, 2));
    assert_eq!(seen.started(), ["add/1", "add/2"]);
    assert!(!world.artifact(other).exists());
}

#[test]
fn a_dry_run_says_what_a_run_then_does() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    let c = world.node("add", 3, &[b]);
    let d = world.node("add", 4, &[b]);
    world.run(&[c]);
    let states = demand(&world.plan, &world.store(), &[c, d], &[]);
    assert_eq!(states, [NodeState::Hit, NodeState::Hit, NodeState::Hit, NodeState::Miss]);
    let forced = demand(&world.plan, &world.store(), &[d], &[b]);
    assert_eq!(forced, [NodeState::Hit, NodeState::Miss, NodeState::Hit, NodeState::Miss]);
    let (report, seen) = world.run_with(&[d], |o| o.force = vec![b]);
    assert_eq!((report.cached, report.ran), (1, 2));
    assert_eq!(seen.started(), ["add/2", "add/4"]);
    std::fs::remove_dir_all(world.artifact(a)).unwrap();
    let states = demand(&world.plan, &world.store(), &[c, d], &[]);
    assert_eq!(states, [NodeState::Absent, NodeState::Hit, NodeState::Hit, NodeState::Hit]);
    let (report, _) = world.run(&[c, d]);
    assert_eq!((report.cached, report.absent), (3, 1));
}

#[test]
fn forcing_computes_the_forced_node_alone_and_compares_bytes() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[b]);
    let before = fs::read(world.artifact(a).join("manifest.json")).unwrap();
    let (report, seen) = world.run_with(&[b], |o| o.force = vec![a]);
    assert_eq!((report.ran, report.cached), (1, 1));
    assert_eq!(same_bytes(&seen), [Some(true)]);
    assert_eq!(fs::read(world.artifact(a).join("manifest.json")).unwrap(), before, "the old one stays");
    assert!(world.list("quarantine").is_empty());
    assert!(world.list("tmp").is_empty());
}

#[test]
fn forcing_a_node_that_drifts_says_so_and_keeps_both() {
    let mut world = World::new();
    let a = world.node_with("trouble", json!({"add": 1, "mode": "drift"}), &[]);
    let (_, seen) = world.run(&[a]);
    assert_eq!(same_bytes(&seen), [None]);
    let (_, seen) = world.run_with(&[a], |o| o.force = vec![a]);
    assert_eq!(same_bytes(&seen), [Some(false)]);
    assert_eq!(fs::read_to_string(world.artifact(a).join("extra")).unwrap(), "2");
    let aside = world.root.join("quarantine").join(&world.list("quarantine")[0]);
    assert_eq!(fs::read_to_string(aside.join("extra")).unwrap(), "1");
    assert_eq!(world.run(&[a]).0.cached, 1);
}

fn same_bytes(seen: &Seen) -> Vec<Option<bool>> {
    seen.pick(|e| if let Event::NodeFinished { bytes_same, .. } = e { Some(*bytes_same) } else { None })
}

#[test]
fn a_failed_node_stops_only_what_depends_on_it() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let bad = world.node_with("trouble", json!({"add": 2, "mode": "fail"}), &[a]);
    let after = world.node("add", 3, &[bad]);
    let last = world.node("add", 4, &[after, a]);
    let fine = world.node("add", 5, &[a]);
    let (report, seen) = world.run(&[last, fine]);
    assert_eq!((report.ran, report.failed, report.skipped), (2, 1, 2));
    assert_eq!(world.number(fine), 6);
    assert_eq!(report.failures[0].node.to_string(), "trouble/2fail");
    assert_eq!(report.failures[0].failure.kind, FailureKind::Lasting);
    assert_eq!(report.failures[0].failure.errors, ["the numbers are unhappy"]);
    assert_eq!(report.failures[0].failure.hint.as_deref(), Some("cheer them up"));
    let skipped = seen.pick(|e| match e {
        Event::NodeSkipped { node, because, .. } => Some(format!("{node} for {because}")),
        _ => None,
    });
    assert_eq!(skipped, ["add/3 for trouble/2fail", "add/4 for trouble/2fail"]);
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_problem_with_data_is_told_apart() {
    let mut world = World::new();
    let bad = world.node_with("trouble", json!({"add": 2, "mode": "data"}), &[]);
    let (report, _) = world.run(&[bad]);
    assert!(report.failed_by(FailureKind::Data));
    assert_eq!(report.failures[0].failure.errors, ["numbers.csv:3: expected a number"]);
}

#[test]
fn a_panic_is_contained_and_called_a_bug() {
    let mut world = World::new();
    let bad = world.node_with("trouble", json!({"add": 2, "mode": "panic"}), &[]);
    let fine = world.node("add", 5, &[]);
    let (report, _) = world.run(&[bad, fine]);
    assert_eq!((report.ran, report.failed), (1, 1));
    let failure = &report.failures[0].failure;
    assert_eq!(failure.kind, FailureKind::Panic);
    assert_eq!(failure.errors, ["bug in stage `trouble`: it panicked with `index out of luck`"]);
    assert!(world.list("claims").is_empty());
    assert!(world.list("tmp").is_empty());
}

#[test]
fn the_first_failure_ends_a_run_that_fails_fast() {
    let mut world = World::new();
    let bad = world.node_with("trouble", json!({"add": 1, "mode": "fail"}), &[]);
    let slow = world.node_with("slow", json!({"add": 2, "sleep": 20_000}), &[]);
    let later = world.node("add", 3, &[]);
    let begun = Instant::now();
    let (report, seen) = world.run_with(&[bad, slow, later], |o| o.fail_fast = true);
    assert!(begun.elapsed() < Duration::from_secs(10), "the slow node was not cancelled");
    assert_eq!((report.failed, report.skipped, report.interrupted), (1, 2, false));
    let skipped = seen.pick(|e| matches!(e, Event::NodeSkipped { .. }).then_some(()));
    assert_eq!(skipped.len(), 2);
    assert!(!world.artifact(slow).exists());
}

#[test]
fn an_interrupted_run_keeps_what_is_finished() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let slow = world.node_with("slow", json!({"add": 2, "sleep": 20_000}), &[a]);
    let last = world.node("add", 3, &[slow]);
    let cancel = AtomicBool::new(false);
    let seen = Seen::default();
    let options = RunOptions {
        targets: vec![last],
        cores: 2,
        gpus: vec![],
        memory: None,
        fail_fast: false,
        commands: false,
        force: vec![],
        cancel: &cancel,
    };
    let begun = Instant::now();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| world.log.join("slow2").exists());
            cancel.store(true, Ordering::Relaxed);
        });
        execute(&world.plan, &world.store(), &options, &seen).unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(report.interrupted);
    // One of the two had begun.
    assert_eq!((report.ran, report.failed, report.skipped, report.stopped), (1, 0, 2, 1));
    assert_eq!(seen.pick(|e| if let Event::Interrupted { running } = e { Some(*running) } else { None }), [1]);
    assert!(world.artifact(a).exists());
    assert!(!world.artifact(slow).exists());
    assert!(world.list("tmp").is_empty());
    assert!(world.list("claims").is_empty());
}

#[test]
fn a_full_disk_stops_the_run_and_says_what_to_do() {
    let mut world = World::new();
    let bad = world.node_with("trouble", json!({"add": 1, "mode": "full"}), &[]);
    let later = world.node("add", 2, &[]);
    let (report, _) = world.run_with(&[bad, later], |o| o.cores = 1);
    assert_eq!((report.ran, report.failed, report.skipped), (0, 1, 1));
    assert!(report.failed_by(FailureKind::Store));
    let failure = &report.failures[0].failure;
    assert!(failure.hint.as_ref().unwrap().contains("free some space"));
    assert_eq!(failure.errors.len(), 2, "{:?}", failure.errors);
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_run_on_a_read_only_store_uses_it_and_fails_only_where_it_must_write() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let b = world.node("add", 2, &[a]);
    world.run(&[a]);
    let store = ppgnn::store::Store::open_existing_read_only(&world.root).unwrap();
    let never = AtomicBool::new(false);
    let mut options = RunOptions {
        targets: vec![a],
        cores: 1,
        gpus: vec![],
        memory: None,
        fail_fast: false,
        commands: false,
        force: vec![],
        cancel: &never,
    };
    assert_eq!(execute(&world.plan, &store, &options, &Seen::default()).unwrap().cached, 1);
    options.targets = vec![b];
    let report = execute(&world.plan, &store, &options, &Seen::default()).unwrap();
    assert!(report.failed_by(FailureKind::Store));
    assert!(report.failures[0].failure.errors[0].contains("open for reading only"));
}

#[test]
fn an_artifact_with_a_folder_inside_is_refused() {
    let mut world = World::new();
    let bad = world.node_with("trouble", json!({"add": 1, "mode": "folder"}), &[]);
    let (report, _) = world.run(&[bad]);
    assert!(report.failures[0].failure.errors[0].contains("is not something an artifact can hold"));
    assert!(!world.artifact(bad).exists());
}

#[test]
fn a_target_that_is_not_in_the_plan_is_an_error() {
    let world = World::new();
    let never = AtomicBool::new(false);
    let targets = vec![ppgnn::plan::NodeId(0)];
    let options = RunOptions {
        targets,
        cores: 1,
        gpus: vec![],
        memory: None,
        fail_fast: false,
        commands: false,
        force: vec![],
        cancel: &never,
    };
    let error = execute(&world.plan, &world.store(), &options, &Seen::default()).unwrap_err();
    assert!(matches!(error, RunError::NoSuchNode { index: 0 }));
}

#[test]
fn a_run_begins_and_ends_with_its_events() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let (report, seen) = world.run(&[a]);
    let names: Vec<String> =
        seen.events().iter().map(|e| serde_json::to_value(e).unwrap()["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["run-started", "node-started", "node-finished", "run-finished"]);
    let last = serde_json::to_value(seen.events().last().unwrap()).unwrap();
    assert_eq!(last["report"]["ran"], 1);
    assert_eq!(last["report"]["saved-seconds"], 0.0);
    assert!(report.seconds > 0.0);
}
