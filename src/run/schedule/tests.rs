//! The laws of the schedule, on plans of a few nodes: no thread, no file, no clock.

use super::*;
use crate::run::testing::{plan, plan_of};

/// 0 → 1 → {2, 3} → 4, and 5 alone.
const DIAMOND: [&[usize]; 6] = [&[], &[0], &[1], &[1], &[2, 3], &[]];

fn ids(of: &[usize]) -> Vec<NodeId> {
    of.iter().map(|i| NodeId(*i)).collect()
}

/// Starts all that can be started. Lookups end at once and find the `stored` nodes. Returns them and what is computed.
fn advance(schedule: &mut Schedule, stored: &[usize]) -> (Vec<usize>, Vec<Start>) {
    let (mut looked_up, mut computed) = (Vec::new(), Vec::new());
    while let Some(start) = schedule.next_start() {
        let Start::Check(id) = start else {
            computed.push(start);
            continue;
        };
        schedule.ended(start);
        looked_up.push(id.0);
        if stored.contains(&id.0) { schedule.present(id, State::Cached) } else { schedule.missing(id) }
    }
    (looked_up, computed)
}

/// Node and threads of what is computed.
fn shares(starts: &[Start]) -> Vec<(usize, usize)> {
    let share = |start: &Start| match start {
        Start::Compute { id, place, .. } => (id.0, place.threads),
        Start::Check(id) => panic!("{id:?} is looked up"),
    };
    starts.iter().map(share).collect()
}

fn finish(schedule: &mut Schedule, start: Start) {
    let Start::Compute { id, .. } = start else { panic!("a lookup") };
    schedule.ended(start);
    schedule.present(id, State::Done);
}

/// Computes everything, one node after the other; returns the order.
fn run(schedule: &mut Schedule, stored: &[usize]) -> Vec<usize> {
    let mut order = Vec::new();
    loop {
        let (_, computed) = advance(schedule, stored);
        if computed.is_empty() {
            assert!(schedule.is_over());
            return order;
        }
        for start in computed {
            order.push(shares(&[start])[0].0);
            finish(schedule, start);
        }
    }
}

#[test]
fn inputs_are_looked_up_only_for_what_is_missing() {
    let plan = plan(&DIAMOND);
    let mut schedule = Schedule::new(&plan, &ids(&[4]), &[], 1, &[]);
    let (looked_up, computed) = advance(&mut schedule, &[2]);
    // 4 is missing, 2 is there and asks for nothing, 3 asks for 1 and that for 0.
    assert_eq!(looked_up, [4, 2, 3, 1, 0]);
    assert_eq!(shares(&computed), [(0, 1)]);
    assert_eq!(schedule.states[2], State::Cached);
    assert_eq!(schedule.states[5], State::Idle);
}

#[test]
fn a_target_in_the_store_ends_the_run() {
    let plan = plan(&DIAMOND);
    let mut schedule = Schedule::new(&plan, &ids(&[4]), &[], 1, &[]);
    assert_eq!(advance(&mut schedule, &[4]), (vec![4], Vec::new()));
    assert!(schedule.is_over());
}

#[test]
fn a_node_is_computed_when_all_its_inputs_are_there_and_once() {
    let plan = plan(&DIAMOND);
    assert_eq!(run(&mut Schedule::new(&plan, &ids(&[4, 5, 4]), &[], 1, &[]), &[]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(run(&mut Schedule::new(&plan, &ids(&[3]), &[], 8, &[]), &[0]), [1, 3]);
}

#[test]
fn nothing_is_computed_while_a_lookup_is_open() {
    let plan = plan(&[&[], &[]]);
    let mut schedule = Schedule::new(&plan, &ids(&[0, 1]), &[], 4, &[]);
    let (first, second) = (schedule.next_start().unwrap(), schedule.next_start().unwrap());
    assert_eq!((first, second), (Start::Check(NodeId(0)), Start::Check(NodeId(1))));
    schedule.ended(first);
    schedule.missing(NodeId(0));
    assert_eq!(schedule.next_start(), None);
    schedule.ended(second);
    schedule.present(NodeId(1), State::Cached);
    assert_eq!(shares(&[schedule.next_start().unwrap()]), [(0, 4)], "a lone node gets all cores");
}

#[test]
fn ready_nodes_share_the_cores_and_never_have_more() {
    let plan = plan(&[&[], &[], &[]]);
    for (cores, expected) in [(1, vec![(0, 1)]), (2, vec![(0, 1), (1, 1)]), (8, vec![(0, 2), (1, 3), (2, 3)])] {
        let mut schedule = Schedule::new(&plan, &ids(&[0, 1, 2]), &[], cores, &[]);
        let (_, computed) = advance(&mut schedule, &[]);
        assert_eq!(shares(&computed), expected);
        assert_eq!(schedule.computing, expected.len());
        computed.into_iter().for_each(|start| finish(&mut schedule, start));
        run(&mut schedule, &[]);
        assert_eq!((schedule.free, schedule.computing), (cores, 0), "all cores are given back");
    }
}

#[test]
fn a_node_on_a_device_has_a_gpu_and_one_core_and_waits_for_both() {
    // Two nodes on a device (`train`), one that is not.
    let plan = plan_of(&[&[], &[], &[]], |at| if at < 2 { "train" } else { "normalize" });
    let mut schedule = Schedule::new(&plan, &ids(&[0, 1, 2]), &[], 4, &[3]);
    let (_, computed) = advance(&mut schedule, &[]);
    let places: Vec<_> = computed
        .iter()
        .map(|s| match s {
            Start::Compute { id, place, .. } => (id.0, place.threads, place.device),
            Start::Check(_) => panic!("a lookup"),
        })
        .collect();
    assert_eq!(places, [(0, 1, Device::Cuda(3)), (2, 3, Device::Cpu)]);
    finish(&mut schedule, computed[0]);
    assert_eq!(shares(&advance(&mut schedule, &[]).1), [(1, 1)], "the GPU is free again");
}

#[test]
fn a_core_is_kept_for_a_card_that_will_have_work() {
    // 0 is long and alone, 1 reads it and trains; 2 trains on its own.
    let stages = ["normalize", "train", "train"];
    for (cores, expected) in [(1, 1), (2, 1), (4, 3)] {
        let plan = plan_of(&[&[], &[0]], |at| stages[at]);
        let mut schedule = Schedule::new(&plan, &ids(&[1]), &[], cores, &[0]);
        let (_, computed) = advance(&mut schedule, &[]);
        assert_eq!(shares(&computed), [(0, expected)], "{cores} cores");
        finish(&mut schedule, computed[0]);
        assert_eq!(run(&mut schedule, &[]), [1]);
    }
    // Nothing is for the card any more.
    let plan = plan_of(&[&[], &[0]], |_| "normalize");
    let mut schedule = Schedule::new(&plan, &ids(&[1]), &[], 4, &[0]);
    assert_eq!(shares(&advance(&mut schedule, &[]).1), [(0, 4)]);
}

#[test]
fn a_card_that_has_failed_is_retired_and_its_node_goes_elsewhere_or_is_doomed() {
    let plan = plan_of(&[&[], &[]], |_| "train");
    let mut schedule = Schedule::new(&plan, &ids(&[0, 1]), &[], 4, &[0, 1]);
    let (_, computed) = advance(&mut schedule, &[]);
    let device = |start: &Start| if let Start::Compute { place, .. } = start { place.device } else { Device::Cpu };
    assert_eq!(computed.iter().map(device).collect::<Vec<_>>(), [Device::Cuda(0), Device::Cuda(1)]);
    schedule.ended(computed[0]);
    assert!(schedule.retire(0));
    schedule.again(NodeId(0));
    assert_eq!(advance(&mut schedule, &[]).1, [], "the other card is busy");
    finish(&mut schedule, computed[1]);
    let (_, again) = advance(&mut schedule, &[]);
    assert_eq!(again.iter().map(device).collect::<Vec<_>>(), [Device::Cuda(1)]);
    schedule.ended(again[0]);
    assert!(!schedule.retire(1));
    schedule.again(NodeId(0));
    assert_eq!(advance(&mut schedule, &[]).1, []);
    assert_eq!(schedule.take_doomed(), [NodeId(0)]);
    schedule.failed(NodeId(0));
    assert!(schedule.is_over());
}

#[test]
fn a_node_that_measures_waits_for_all_others_and_nothing_starts_beside_it() {
    // 0 and 1 can be computed; 2 measures 0; 3 reads 2; 4 measures as well.
    let stages = ["normalize", "normalize", "time", "normalize", "time"];
    let plan = plan_of(&[&[], &[], &[0], &[2], &[0]], |at| stages[at]);
    let mut schedule = Schedule::new(&plan, &ids(&[1, 3, 4]), &[], 4, &[]);
    let (_, first) = advance(&mut schedule, &[]);
    assert_eq!(shares(&first), [(0, 2), (1, 2)]);
    finish(&mut schedule, first[0]);
    // The other one still runs.
    assert_eq!(advance(&mut schedule, &[]).1, []);
    finish(&mut schedule, first[1]);
    let (_, alone) = advance(&mut schedule, &[]);
    assert_eq!(shares(&alone), [(2, 4)]);
    finish(&mut schedule, alone[0]);
    // What follows from a measurement comes before the next one.
    let (_, then) = advance(&mut schedule, &[]);
    assert_eq!(shares(&then), [(3, 4)]);
    finish(&mut schedule, then[0]);
    assert_eq!(shares(&advance(&mut schedule, &[]).1), [(4, 4)]);
}

#[test]
fn a_failure_skips_what_needs_it_and_nothing_else() {
    let plan = plan(&DIAMOND);
    let mut schedule = Schedule::new(&plan, &ids(&[4, 5]), &[], 1, &[]);
    let (_, computed) = advance(&mut schedule, &[0, 1, 3]);
    assert_eq!(shares(&computed), [(2, 1)]);
    schedule.ended(computed[0]);
    schedule.failed(NodeId(2));
    assert_eq!(schedule.take_skipped(), [(NodeId(4), NodeId(2))]);
    assert_eq!(schedule.take_skipped(), [], "each is told once");
    assert_eq!(run(&mut schedule, &[]), [5]);
}

#[test]
fn a_skipped_node_names_the_one_that_failed_however_far_away() {
    let plan = plan(&[&[], &[0], &[1], &[2]]);
    let mut schedule = Schedule::new(&plan, &ids(&[3]), &[], 1, &[]);
    let (_, computed) = advance(&mut schedule, &[]);
    schedule.ended(computed[0]);
    schedule.failed(NodeId(0));
    let culprit = NodeId(0);
    assert_eq!(schedule.take_skipped(), [1, 2, 3].map(|i| (NodeId(i), culprit)));
}

#[test]
fn a_forced_node_is_not_looked_up_and_what_reads_it_is() {
    let plan = plan(&DIAMOND);
    let mut schedule = Schedule::new(&plan, &ids(&[2]), &ids(&[1]), 1, &[]);
    let (looked_up, computed) = advance(&mut schedule, &[0, 2]);
    assert_eq!(looked_up, [0, 2]);
    assert!(matches!(computed[..], [Start::Compute { id: NodeId(1), forced: true, .. }]));
}

#[test]
fn a_node_in_other_hands_is_asked_about_less_and_less_often() {
    let plan = plan(&[&[], &[0]]);
    let mut schedule = Schedule::new(&plan, &ids(&[1]), &[], 1, &[]);
    let start = advance(&mut schedule, &[]).1[0];
    let began = Instant::now();
    schedule.ended(start);
    schedule.busy(NodeId(0), began);
    assert!(!schedule.is_over());
    assert_eq!(schedule.due(began), []);
    let (mut now, mut pauses) = (began, Vec::new());
    for _ in 0..8 {
        let until = schedule.waiting[&NodeId(0)].next;
        pauses.push(until - now);
        now = until;
        assert_eq!(schedule.due(now), [NodeId(0)]);
        schedule.still_busy(NodeId(0), now);
    }
    assert!(pauses.is_sorted() && pauses[0] == FIRST_PAUSE && pauses[7] == LONGEST_PAUSE, "{pauses:?}");
    // When it is free it is looked up again: the other process may have made it.
    schedule.released(NodeId(0));
    assert_eq!(advance(&mut schedule, &[0]).0, [0]);
    assert_eq!(schedule.states[1], State::Running);
}

#[test]
fn a_lost_input_is_made_again_but_not_for_ever() {
    let plan = plan(&[&[], &[0]]);
    let mut schedule = Schedule::new(&plan, &ids(&[1]), &[], 1, &[]);
    let mut start = advance(&mut schedule, &[0]).1[0];
    for _ in 0..PATIENCE {
        schedule.ended(start);
        assert!(schedule.inputs_lost(NodeId(1), &ids(&[0])));
        let (looked_up, computed) = advance(&mut schedule, &[]);
        assert_eq!((looked_up, shares(&computed)), (vec![0], vec![(0, 1)]));
        finish(&mut schedule, computed[0]);
        start = advance(&mut schedule, &[]).1[0];
        assert_eq!(shares(&[start]), [(1, 1)]);
    }
    schedule.ended(start);
    assert!(!schedule.inputs_lost(NodeId(1), &ids(&[0])));
}

#[test]
fn after_a_stop_nothing_starts_and_the_run_is_over_when_the_rest_has_ended() {
    let plan = plan(&DIAMOND);
    let mut schedule = Schedule::new(&plan, &ids(&[4, 5]), &[], 1, &[]);
    let start = advance(&mut schedule, &[]).1[0];
    schedule.stop();
    assert!(!schedule.is_over());
    schedule.ended(start);
    schedule.cancelled(NodeId(0));
    assert_eq!(schedule.next_start(), None);
    assert!(schedule.is_over());
    schedule.skip_rest(NodeId(0));
    assert_eq!(schedule.take_skipped().len(), 6, "every node that was asked for and did not end");
}
