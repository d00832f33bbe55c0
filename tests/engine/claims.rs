//! Claims between handles of one process; other processes are in `processes`.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ppgnn::store::{Claim, Store, StoreError, prune};
use serde_json::json;

use crate::toy::{World, wait_until};

#[test]
fn a_claim_is_exclusive_and_given_back() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let key = world.plan.node(a).key;
    let (one, two) = (world.store(), world.store());
    assert!(!two.is_claimed(&key).unwrap());
    let held = one.claim(&key).unwrap();
    assert!(matches!(held, Claim::Held(_)));
    assert!(matches!(two.claim(&key).unwrap(), Claim::Busy));
    assert!(two.is_claimed(&key).unwrap());
    drop(held);
    assert!(world.list("claims").is_empty());
    assert!(matches!(two.claim(&key).unwrap(), Claim::Held(_)));
}

#[test]
fn a_claim_never_has_two_owners() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    let key = world.plan.node(a).key;
    world.store();
    let (owners, successes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(&world.root).unwrap();
                for _ in 0..1500 {
                    if let Claim::Held(claim) = store.claim(&key).unwrap() {
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                        successes.fetch_add(1, Ordering::SeqCst);
                        // Long enough for another to come in on a file that was just removed.
                        std::thread::sleep(Duration::from_micros(20));
                        owners.fetch_sub(1, Ordering::SeqCst);
                        drop(claim);
                    }
                }
            });
        }
    });
    assert!(successes.load(Ordering::SeqCst) > 0);
}

#[test]
fn claiming_deletes_what_a_dead_owner_left() {
    let mut world = World::new();
    let (a, b) = (world.node("add", 1, &[]), world.node("add", 2, &[]));
    let store = world.store();
    let (key, other) = (world.plan.node(a).key, world.plan.node(b).key);
    for name in [format!("{key}.1.0"), format!("{key}.99.7"), format!("{other}.1.0")] {
        fs::create_dir(world.root.join("tmp").join(&name)).unwrap();
        fs::write(world.root.join("tmp").join(name).join("half"), "x").unwrap();
    }
    drop(store.claim(&key).unwrap());
    assert_eq!(world.list("tmp"), [format!("{other}.1.0")]);
}

#[test]
fn two_runs_at_once_compute_every_node_once() {
    let mut world = World::new();
    let a = world.node_with("slow", json!({"add": 1, "sleep": 100}), &[]);
    let b = world.node_with("slow", json!({"add": 2, "sleep": 50}), &[a]);
    let c = world.node_with("slow", json!({"add": 3, "sleep": 50}), &[a]);
    world.store();
    let reports: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| world.run(&[b, c]))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(world.executions(), 3);
    assert_eq!(reports.iter().map(|(report, _)| report.ran).sum::<usize>(), 3);
    assert!(reports.iter().all(|(report, _)| report.failed + report.skipped == 0));
}

#[test]
fn what_another_run_finished_meanwhile_is_not_computed_again() {
    let mut world = World::new();
    let slow = world.node_with("slow", json!({"add": 1, "sleep": 400}), &[]);
    let late = world.node("add", 2, &[]);
    world.store();
    let (report, _) = std::thread::scope(|scope| {
        // With one core, `late` is found missing at first and computed by the other run before its turn comes.
        let first = scope.spawn(|| world.run_with(&[slow, late], |o| o.cores = 1));
        wait_until(|| world.log.join("slow1").exists());
        assert_eq!(world.run(&[late]).0.ran, 1);
        first.join().unwrap()
    });
    assert_eq!((report.ran, report.cached), (1, 1));
    assert_eq!(world.executions(), 2);
}

#[test]
fn nothing_is_deleted_while_a_run_holds_the_store() {
    let mut world = World::new();
    let a = world.node("add", 1, &[]);
    world.run(&[a]);
    let (run, janitor) = (world.store(), world.store());
    let chosen = prune::choose(&janitor, &prune::Limits::default()).unwrap();
    assert_eq!(chosen.len(), 1);
    let in_use = run.hold().unwrap();
    let second = run.hold().unwrap();
    assert!(matches!(prune::delete(&janitor, &chosen, &prune::Limits::default()), Err(StoreError::InUse { .. })));
    assert!(world.artifact(a).exists());
    drop((in_use, second));
    assert_eq!(prune::delete(&janitor, &chosen, &prune::Limits::default()).unwrap().count, 1);
    assert!(!world.artifact(a).exists());
}
