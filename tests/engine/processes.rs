//! Several processes on one store, and what is left when one of them is killed.
//!
//! The test binary starts itself again with one of the ignored tests below as its program.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ppgnn::plan::NodeId;
use ppgnn::run::Event;
use ppgnn::store::Claim;
use ppgnn::store::prune::{self, Leftover, Limits};
use serde_json::json;

use crate::toy::{World, wait_until};

const WORLD: &str = "PPGNN_TEST_WORLD";

/// The plan that parent and child share: a slow node and two that need it.
fn world_at(dir: &Path, sleep: u64) -> (World, [NodeId; 3]) {
    let mut world = World::at(dir);
    let a = world.node_with("slow", json!({"add": 1, "sleep": sleep}), &[]);
    let b = world.node_with("slow", json!({"add": 2, "sleep": 20}), &[a]);
    let c = world.node_with("slow", json!({"add": 3, "sleep": 20}), &[a]);
    (world, [a, b, c])
}

fn start(program: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", program, "--ignored", "--test-threads", "1"])
        .env(WORLD, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn shared_dir() -> Option<std::path::PathBuf> {
    std::env::var_os(WORLD).map(Into::into)
}

#[test]
#[ignore = "a program for other tests: claims a node and never returns"]
fn program_claims() {
    let Some(dir) = shared_dir() else { return };
    let (world, [a, ..]) = world_at(&dir, 0);
    let store = world.store();
    let Claim::Held(claim) = store.claim(&world.plan.node(a).key).unwrap() else { panic!("busy") };
    let pending = store.begin(&claim).unwrap();
    std::fs::write(pending.dir().join("number"), "1").unwrap();
    std::fs::write(dir.join("held"), "").unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
#[ignore = "a program for other tests: runs the plan with a very slow first node"]
fn program_runs_for_ever() {
    let Some(dir) = shared_dir() else { return };
    let (world, [_, b, c]) = world_at(&dir, 600_000);
    world.run(&[b, c]);
}

#[test]
#[ignore = "a program for other tests: runs the plan"]
fn program_runs() {
    let Some(dir) = shared_dir() else { return };
    let (world, [_, b, c]) = world_at(&dir, 200);
    let (report, _) = world.run(&[b, c]);
    assert_eq!((report.failed, report.skipped), (0, 0));
}

/// The same node twice: once it stops half-way and waits, once it does not.
fn steps_at(dir: &Path) -> (World, [NodeId; 2]) {
    let mut world = World::at(dir);
    let waits = world.node_with("steps", json!({"add": 6, "stop": "wait"}), &[]);
    let runs = world.node("steps", 6, &[]);
    (world, [waits, runs])
}

#[test]
#[ignore = "a program for other tests: stops half-way and waits to be killed"]
fn program_stops_half_way() {
    let Some(dir) = shared_dir() else { return };
    let (world, [waits, _]) = steps_at(&dir);
    world.run(&[waits]);
}

#[test]
fn a_claim_vanishes_with_its_killed_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [a, ..]) = world_at(dir.path(), 0);
    let store = world.store();
    let key = world.plan.node(a).key;
    let mut child = start("processes::program_claims", dir.path());
    wait_until(|| dir.path().join("held").exists());
    assert!(matches!(store.claim(&key).unwrap(), Claim::Busy));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(world.list("tmp").len(), 1);
    assert!(store.get(&key, "slow").is_none());
    assert!(matches!(store.claim(&key).unwrap(), Claim::Held(_)));
    assert!(world.list("tmp").is_empty());
    assert!(world.list("claims").is_empty());
}

#[test]
fn a_killed_run_leaves_nothing_that_is_taken_for_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [a, b, c]) = world_at(dir.path(), 20);
    let mut child = start("processes::program_runs_for_ever", dir.path());
    wait_until(|| world.executions() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let (report, _) = world.run(&[b, c]);
    assert_eq!((report.ran, report.damaged), (3, 0));
    assert_eq!((world.number(a), world.number(b), world.number(c)), (1, 3, 4));
    assert!(world.list("tmp").is_empty());
    assert!(world.list("quarantine").is_empty());
}

#[test]
fn a_node_goes_on_where_a_killed_process_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [_, runs]) = steps_at(dir.path());
    let key = world.plan.node(runs).key;
    let store = world.store();
    let mut child = start("processes::program_stops_half_way", dir.path());
    wait_until(|| world.log.join("half").exists());
    let offered = || prune::choose(&store, &Limits::default()).unwrap().into_iter().map(|p| p.what).collect::<Vec<_>>();
    assert_eq!(offered(), [], "a running process has it");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(offered().contains(&Leftover::ResumePoint(key)));
    let (report, _) = world.run(&[runs]);
    assert_eq!(report.ran, 1);
    assert!(world.log.join("found3").exists(), "it started from nothing");
    assert_eq!(world.number(runs), 6);
    assert!(world.list("resume").is_empty());
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_run_takes_over_when_the_process_it_waits_for_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [_, b, c]) = world_at(dir.path(), 20);
    let mut child = start("processes::program_runs_for_ever", dir.path());
    let pid = child.id();
    wait_until(|| world.executions() == 1);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let (report, seen) = world.run(&[b, c]);
    killer.join().unwrap();
    assert_eq!(report.ran, 3);
    let waits = seen.pick(|e| {
        let Event::NodeWaiting { node, holder, .. } = e else { return None };
        Some((node.to_string(), holder.as_ref().map(|holder| holder.pid)))
    });
    assert_eq!(waits, [("slow/1".to_owned(), Some(pid))], "said once, however often it was asked");
}

#[test]
fn time_in_which_a_process_was_stopped_does_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [a, ..]) = world_at(dir.path(), 200);
    let mut child = start("processes::program_runs", dir.path());
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    wait_until(|| world.executions() == 1);
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(4));
    signal("-CONT");
    assert!(child.wait().unwrap().success());
    let seconds = world.store().get(&world.plan.node(a).key, "slow").unwrap().manifest.seconds;
    assert!(seconds < 2.5, "{seconds} s, of which the process was stopped for 4");
}

#[test]
fn three_processes_compute_every_node_once() {
    let dir = tempfile::tempdir().unwrap();
    let (world, [a, b, c]) = world_at(dir.path(), 200);
    let children: Vec<_> = (0..3).map(|_| start("processes::program_runs", dir.path())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(world.executions(), 3);
    assert_eq!((world.number(a), world.number(b), world.number(c)), (1, 3, 4));
    assert!(world.list("claims").is_empty());
}
