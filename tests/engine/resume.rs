//! Resume points: who finds them, who does not, and when they go. Killed processes are in `processes`.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use ppgnn::plan::NodeId;
use ppgnn::run::{FailureKind, RunOptions, execute};
use ppgnn::store::prune::{Leftover, Limits, Prunable, choose, delete};
use ppgnn::store::{Claim, Store};
use serde_json::json;

use crate::toy::{Seen, World, wait_until};

/// A node that stops half-way to six as told, and the same node when it does not.
fn half_way(world: &mut World, stop: &str) -> [NodeId; 2] {
    [world.node_with("steps", json!({"add": 6, "stop": stop}), &[]), world.node("steps", 6, &[])]
}

/// Runs into a failure half-way, which leaves a resume point.
fn stopped_half_way() -> (World, NodeId) {
    let mut world = World::new();
    let [stops, runs] = half_way(&mut world, "fail");
    assert_eq!(world.run(&[stops]).0.failed, 1);
    assert_eq!(world.list("resume"), [world.plan.node(runs).key.to_string()]);
    (world, runs)
}

fn found(world: &World, steps: usize) -> bool {
    world.log.join(format!("found{steps}")).exists()
}

#[test]
fn the_next_attempt_goes_on_where_a_failed_one_stopped() {
    for stop in ["fail", "panic", "full"] {
        let mut world = World::new();
        let [stops, runs] = half_way(&mut world, stop);
        let (report, _) = world.run(&[stops]);
        assert_eq!(report.failed, 1);
        assert_eq!(report.failed_by(FailureKind::Store), stop == "full", "a full disk affects every node");
        assert!(found(&world, 0) && world.list("tmp").is_empty());
        let (report, _) = world.run(&[runs]);
        assert_eq!(report.ran, 1);
        assert!(found(&world, 3), "{stop}: it started from nothing");
        assert_eq!(world.number(runs), 6);
        assert!(world.list("resume").is_empty(), "{stop}: it is not needed any more");
    }
}

#[test]
fn the_next_attempt_goes_on_where_an_interrupted_one_stopped() {
    let mut world = World::new();
    let [waits, runs] = half_way(&mut world, "wait");
    let cancel = AtomicBool::new(false);
    let options = RunOptions {
        targets: vec![waits],
        cores: 2,
        gpus: vec![],
        memory: None,
        fail_fast: false,
        commands: false,
        force: vec![],
        cancel: &cancel,
    };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| world.log.join("half").exists());
            cancel.store(true, Ordering::Relaxed);
        });
        execute(&world.plan, &world.store(), &options, &Seen::default()).unwrap()
    });
    assert!(report.interrupted);
    world.run(&[runs]);
    assert!(found(&world, 3));
    assert!(world.list("resume").is_empty());
}

#[test]
fn other_keys_do_not_see_it() {
    let (mut world, _) = stopped_half_way();
    fs::remove_file(world.log.join("found0")).unwrap();
    let other = world.node("steps", 5, &[]);
    world.run(&[other]);
    assert!(found(&world, 0));
    assert_eq!(world.list("resume").len(), 1, "and it stays");
}

#[test]
fn a_forced_run_starts_from_nothing() {
    let (world, runs) = stopped_half_way();
    fs::remove_file(world.log.join("found0")).unwrap();
    world.run_with(&[runs], |o| o.force = vec![runs]);
    assert!(found(&world, 0) && !found(&world, 3));
    // Computed once more to the same bytes, the artifact stays, and what was left on the way goes.
    world.run_with(&[runs], |o| o.force = vec![runs]);
    assert!(world.list("resume").is_empty());
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_stage_that_leaves_nothing_leaves_no_folder() {
    let mut world = World::new();
    let fine = world.node("add", 1, &[]);
    let bad = world.node_with("trouble", json!({"add": 2, "mode": "fail"}), &[]);
    let (report, _) = world.run(&[fine, bad]);
    assert_eq!((report.ran, report.failed), (1, 1));
    assert!(world.list("resume").is_empty());
}

#[test]
fn damage_to_it_costs_time_and_nothing_else() {
    let (world, runs) = stopped_half_way();
    let path = world.root.join("resume").join(world.plan.node(runs).key.to_string()).join("steps");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    world.run(&[runs]);
    assert!(found(&world, 2));
    assert_eq!(world.number(runs), 6);
}

#[test]
fn a_link_in_its_place_is_refused_and_not_followed() {
    let mut world = World::new();
    let node = world.node("steps", 6, &[]);
    world.store();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("precious"), "keep").unwrap();
    let link = world.root.join("resume").join(world.plan.node(node).key.to_string());
    std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
    let (report, _) = world.run(&[node]);
    assert!(report.failures[0].failure.errors[0].contains("is not a directory"));
    assert!(world.list("tmp").is_empty());
    // Forced, it is replaced by a folder; what it led to stays.
    assert_eq!(world.run_with(&[node], |o| o.force = vec![node]).0.ran, 1);
    assert!(elsewhere.path().join("precious").exists());
}

fn offered(store: &Store, older_than: Option<Duration>) -> Vec<Prunable> {
    let chosen = choose(store, &Limits { older_than, ..Limits::default() }).unwrap().into_iter();
    chosen.filter(|p| matches!(p.what, Leftover::ResumePoint(_))).collect()
}

#[test]
fn it_is_offered_for_deletion_unless_it_is_in_use() {
    let (world, runs) = stopped_half_way();
    let (store, key) = (world.store(), world.plan.node(runs).key);
    let chosen = offered(&store, None);
    let bytes = fs::metadata(world.root.join("resume").join(key.to_string()).join("steps")).unwrap().len();
    assert_eq!(chosen, [Prunable { what: Leftover::ResumePoint(key), bytes }]);
    let Claim::Held(claim) = store.claim(&key).unwrap() else { panic!("busy") };
    assert_eq!(offered(&store, None), []);
    assert_eq!(delete(&store, &chosen, &Limits::default()).unwrap().count, 0, "claimed since it was chosen");
    drop(claim);
    assert_eq!(delete(&store, &chosen, &Limits::default()).unwrap().bytes, bytes);
    assert!(world.list("resume").is_empty());
    assert!(world.list("tmp").is_empty());
}

#[test]
fn its_age_is_that_of_its_last_change() {
    let (world, runs) = stopped_half_way();
    let store = world.store();
    let dir = world.root.join("resume").join(world.plan.node(runs).key.to_string());
    let hour = Some(Duration::from_secs(3600));
    let age = |path: &std::path::Path, seconds| {
        fs::File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    age(&dir, 7200);
    assert_eq!(offered(&store, hour), [], "a file in it is younger than the folder");
    age(&dir.join("steps"), 7200);
    assert_eq!(offered(&store, hour).len(), 1);
}

#[test]
fn once_the_artifact_is_there_its_age_does_not_matter() {
    let mut world = World::new();
    let node = world.node("steps", 6, &[]);
    world.run(&[node]);
    // What a process leaves that is killed between putting the artifact in place and deleting this.
    let dir = world.root.join("resume").join(world.plan.node(node).key.to_string());
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("steps"), "x").unwrap();
    assert_eq!(offered(&world.store(), Some(Duration::from_secs(3600))).len(), 1);
}
