//! How long a run will take: the schedule that the run will follow, with a clock that only counts.

use std::collections::BTreeMap;

use super::demand::NodeState;
use super::schedule::{Place, Schedule, Start, State};
use crate::forecast::fit::joint_spread;
use crate::forecast::{BASE, Expected, Forecast, Range};
use crate::plan::{NodeId, Plan};

/// Seconds between the end of a stage and the moment when its result is in the store: digests, and the disk.
const COMMIT: f64 = 0.012;

/// What a run has.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Cores.
    pub cores: usize,
    /// GPUs.
    pub gpus: Vec<usize>,
    /// Bytes of memory that nodes may take together; any number if it is not known.
    pub memory: Option<u64>,
}

/// What a run will take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Price {
    /// From its beginning to its end.
    pub wall: Range,
    /// All nodes together.
    pub work: Range,
    /// Whether most of it is a guess.
    pub guess: bool,
    /// Threads that each node has.
    pub threads: BTreeMap<NodeId, usize>,
}

/// Simulates a run from its beginning. `states` says what is in the store.
pub fn simulate(
    plan: &Plan,
    targets: &[NodeId],
    force: &[NodeId],
    states: &[NodeState],
    forecast: &Forecast,
    resources: &Resources,
) -> Price {
    let mut schedule =
        Schedule::new(plan, targets, force, resources.cores, &resources.gpus).with_memory(room(resources.memory));
    for (id, expected) in forecast.iter() {
        schedule.needs(id, &expected.need);
    }
    forecast.faults().into_iter().for_each(|(id, _)| schedule.doom(id));
    let found = |id: NodeId| states.get(id.0) == Some(&NodeState::Hit);
    play(schedule, Vec::new(), found, |id| forecast.expected(id))
}

/// Simulates the rest of a run: what is running, and for how many seconds already.
pub(super) fn rest(schedule: Schedule, running: Vec<(Start, f64)>, forecast: &Forecast) -> Price {
    play(schedule, running, |_| false, |id| forecast.expected(id))
}

/// What is left for nodes when the program has its share.
pub(super) fn room(memory: Option<u64>) -> u64 {
    memory.map_or(u64::MAX, |bytes| bytes.saturating_sub(BASE))
}

fn play<'f>(
    mut schedule: Schedule,
    running: Vec<(Start, f64)>,
    found: impl Fn(NodeId) -> bool,
    expected: impl Fn(NodeId) -> Option<&'f Expected>,
) -> Price {
    let seconds = |id: NodeId, place: Place| expected(id).map_or(0.0, |e| e.seconds(place.threads)) + COMMIT;
    let mut price = Price::default();
    let mut parts: Vec<(f64, f64)> = Vec::new();
    let (mut now, mut guessed) = (0.0f64, 0.0f64);
    // By the time at which they end, in nanoseconds: a float is no key.
    let mut ends: BTreeMap<(u128, NodeId), Start> = BTreeMap::new();
    let mut begin = |start: Start, id: NodeId, place: Place, already: f64, now: f64, ends: &mut BTreeMap<_, _>| {
        // One that takes longer than expected is not done yet.
        let left = (seconds(id, place) - already).max(already / 10.0);
        let spread = expected(id).map_or(0.0, |e| e.spread);
        parts.push((left, spread));
        guessed += if expected(id).is_none_or(|e| e.guess) { left } else { 0.0 };
        price.threads.insert(id, place.threads);
        ends.insert((nanoseconds(now + left), id), start);
    };
    for (start, already) in running {
        if let Start::Compute { id, place, .. } = start {
            begin(start, id, place, already, now, &mut ends);
        }
    }
    loop {
        while let Some(start) = schedule.next_start() {
            match start {
                Start::Check(id) => {
                    schedule.ended(start);
                    if found(id) { schedule.present(id, State::Cached) } else { schedule.missing(id) }
                }
                Start::Compute { id, place, .. } => begin(start, id, place, 0.0, now, &mut ends),
            }
            schedule.take_doomed().into_iter().for_each(|id| schedule.failed(id));
        }
        let Some(((end, id), start)) = ends.pop_first() else { break };
        now = std::time::Duration::from_nanos(u64::try_from(end).unwrap_or(u64::MAX)).as_secs_f64();
        schedule.ended(start);
        schedule.present(id, State::Done);
    }
    let work: f64 = parts.iter().map(|(seconds, _)| seconds).sum();
    let spread = joint_spread(parts.into_iter());
    Price { wall: Range::around(now, spread), work: Range::around(work, spread), guess: guessed > work / 2.0, ..price }
}

fn nanoseconds(seconds: f64) -> u128 {
    std::time::Duration::try_from_secs_f64(seconds).map_or(u128::MAX, |duration| duration.as_nanos())
}
