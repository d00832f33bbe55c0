//! How a run distributes its cores and GPUs. The GPUs are fake: the engine never touches them.

use ppgnn::run::Event;
use ppgnn_stages::contract::device::Device;
use serde_json::json;

use crate::toy::{Seen, World, most_threads};

fn places(seen: &Seen) -> Vec<(usize, Device)> {
    seen.pick(|e| if let Event::NodeStarted { threads, device, .. } = e { Some((*threads, *device)) } else { None })
}

fn threads(seen: &Seen) -> Vec<usize> {
    places(seen).into_iter().map(|(threads, _)| threads).collect()
}

#[test]
fn a_lone_node_gets_all_cores() {
    let mut world = World::new();
    let a = world.node_with("slow", json!({"add": 1, "sleep": 5}), &[]);
    let b = world.node_with("slow", json!({"add": 2, "sleep": 5}), &[a]);
    let (_, seen) = world.run_with(&[b], |o| o.cores = 5);
    assert_eq!(threads(&seen), [5, 5]);
}

#[test]
fn many_ready_nodes_get_one_core_each() {
    let mut world = World::new();
    let nodes: Vec<_> = (0..6).map(|i| world.node_with("slow", json!({"add": i, "sleep": 30}), &[])).collect();
    let (_, seen) = world.run_with(&nodes, |o| o.cores = 3);
    // The last ones may find cores free: they are alone then.
    assert_eq!(threads(&seen)[..3], [1, 1, 1]);
    assert_eq!(most_threads(&world.log), 3);
}

#[test]
fn cores_that_do_not_divide_evenly_are_all_used() {
    let mut world = World::new();
    let nodes: Vec<_> = (0..3).map(|i| world.node_with("slow", json!({"add": i, "sleep": 100}), &[])).collect();
    let (_, seen) = world.run_with(&nodes, |o| o.cores = 8);
    let mut shares = threads(&seen);
    shares.sort_unstable();
    assert_eq!(shares, [2, 3, 3]);
}

#[test]
fn the_core_budget_is_never_exceeded() {
    for cores in [1, 2, 3] {
        let mut world = World::new();
        let first: Vec<_> = (0..4).map(|i| world.node_with("slow", json!({"add": i, "sleep": 5 * i}), &[])).collect();
        let second: Vec<_> = (0..6usize)
            .map(|i| world.node_with("slow", json!({"add": 10 + i, "sleep": 5 + 3 * i}), &first[i % 3..=i % 3 + 1]))
            .collect();
        let last = world.node_with("slow", json!({"add": 99, "sleep": 5}), &second);
        let (report, _) = world.run_with(&[last], |o| o.cores = cores);
        assert_eq!(report.ran, 11);
        assert_eq!(most_threads(&world.log), cores, "the lone last node uses the whole budget, nothing more");
    }
}

#[test]
fn ready_nodes_start_in_plan_order() {
    let mut world = World::new();
    let nodes: Vec<_> = [5, 3, 9, 1].map(|i| world.node("add", i, &[])).into();
    let backwards: Vec<_> = nodes.iter().rev().copied().collect();
    let (_, seen) = world.run_with(&backwards, |o| o.cores = 1);
    assert_eq!(seen.started(), ["add/5", "add/3", "add/9", "add/1"]);
}

#[test]
fn the_number_of_cores_changes_no_byte() {
    let runs = [1, 4].map(|cores| {
        let mut world = World::new();
        let a = world.node("add", 1, &[]);
        let b = world.node("add", 2, &[a]);
        world.run_with(&[b], |o| o.cores = cores);
        world.store().manifest(&world.plan.node(b).key, "add").unwrap().files
    });
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn a_node_on_a_device_has_a_card_for_itself_and_one_core() {
    let mut world = World::new();
    let on_cards: Vec<_> = (0..6).map(|i| world.node_with("gpu", json!({"add": i, "sleep": 40}), &[])).collect();
    let other = world.node_with("slow", json!({"add": 9, "sleep": 40}), &[]);
    let targets = [&on_cards[..], &[other]].concat();
    let (report, seen) = world.run_with(&targets, |o| (o.cores, o.gpus) = (5, vec![0, 3]));
    assert_eq!(report.ran, 7);
    let started = places(&seen);
    // GPUs go to the first ones, which start in parallel; the rest of the budget is for the CPU.
    let mut first = started[..3].to_vec();
    first.sort_by_key(|(_, device)| format!("{device:?}"));
    assert_eq!(first, [(3, Device::Cpu), (1, Device::Cuda(0)), (1, Device::Cuda(3))]);
    assert!(started[3..].iter().all(|(threads, device)| *threads == 1 && *device != Device::Cpu), "{started:?}");
    for gpu in ["cuda:0", "cuda:3"] {
        assert_eq!(most_threads(&world.log.join(gpu)), 1, "{gpu} has one node at a time");
    }
    assert_eq!(most_threads(&world.log), 5);
}

#[test]
fn cards_wait_for_cores() {
    let mut world = World::new();
    let nodes: Vec<_> = (0..4).map(|i| world.node_with("gpu", json!({"add": i, "sleep": 20}), &[])).collect();
    let (report, _) = world.run_with(&nodes, |o| (o.cores, o.gpus) = (1, vec![0, 1]));
    assert_eq!((report.ran, most_threads(&world.log)), (4, 1));
}

#[test]
fn a_card_is_free_again_after_a_failure() {
    let mut world = World::new();
    let fails = world.node_with("gpu", json!({"add": 1, "mode": "fail"}), &[]);
    let other = world.node_with("gpu", json!({"add": 2, "sleep": 5}), &[]);
    let (report, seen) = world.run_with(&[fails, other], |o| o.gpus = vec![7]);
    assert_eq!((report.failed, report.ran), (1, 1));
    assert_eq!(places(&seen), [(1, Device::Cuda(7)); 2]);
}

#[test]
fn a_node_whose_card_is_lost_goes_to_another() {
    let mut world = World::new();
    let nodes: Vec<_> =
        (0..3).map(|i| world.node_with("gpu", json!({"add": i, "mode": "lose-first", "sleep": 5}), &[])).collect();
    let (report, seen) = world.run_with(&nodes, |o| (o.cores, o.gpus) = (2, vec![0, 4]));
    assert_eq!((report.failed, report.ran), (0, 3));
    let on_first = places(&seen).iter().filter(|(_, device)| *device == Device::Cuda(0)).count();
    assert_eq!((on_first, places(&seen).len()), (1, 4), "the first card is tried once");
}

#[test]
fn without_a_card_that_is_left_nodes_for_one_fail_with_the_reason_and_others_run() {
    let mut world = World::new();
    let lost: Vec<_> = (0..3).map(|i| world.node_with("gpu", json!({"add": i, "mode": "lose"}), &[])).collect();
    let other = world.node_with("slow", json!({"add": 9, "sleep": 5}), &[]);
    let (report, _) = world.run_with(&[&lost[..], &[other]].concat(), |o| (o.cores, o.gpus) = (2, vec![6]));
    assert_eq!((report.failed, report.ran), (3, 1));
    let said: Vec<String> = report.failures.iter().map(|failed| failed.failure.errors.join(": ")).collect();
    assert_eq!(said[0], "card 6 fell off the bus");
    assert_eq!(said[1..], ["no GPU of this run is left: card 6 fell off the bus"; 2]);
}

#[test]
fn without_cards_a_device_is_the_processor() {
    let mut world = World::new();
    let node = world.node_with("gpu", json!({"add": 1, "sleep": 5}), &[]);
    let (_, seen) = world.run_with(&[node], |o| o.cores = 3);
    assert_eq!(places(&seen), [(3, Device::Cpu)]);
}
