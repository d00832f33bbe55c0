//! Walks a plan with a fixed number of cores: from the targets back to what is in the store, then forward again.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use ppgnn_stages::contract::device::Device;

use crate::forecast::{Allowed, Fault, FaultKind, Forecast, allowed};
use crate::plan::{NodeId, Plan};
use crate::store::{Holder, Store, StoreError};

use super::clock::Clock;
use super::demand::{NodeState, demand, needed_hits};
use super::event::{Event, EventSink, FailureKind, NodeFailure, label};
use super::schedule::{Place, Schedule, Start, State};
use super::simulate::{self, Resources, simulate};
use super::summary::{FailedNode, RunReport};
use super::time_left::TimeLeft;
use super::work::{Outcome, Work, no_threads, panic_failure};

/// How often to check for a stop request and for nodes that other processes are computing.
const TICK: Duration = Duration::from_millis(25);

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// The requested nodes.
    pub targets: Vec<NodeId>,
    /// How many cores may be busy at a time.
    pub cores: usize,
    /// GPUs for nodes that compute on a device, each for one node at a time; none means the CPU.
    pub gpus: Vec<usize>,
    /// Bytes of memory that nodes may take together; what the machine allows if it is not said.
    pub memory: Option<u64>,
    /// Whether the first failure ends the run.
    pub fail_fast: bool,
    /// Whether programs of the user's may be started.
    pub commands: bool,
    /// Nodes to compute even if they are in the store.
    pub force: Vec<NodeId>,
    /// Set from outside when the run should stop.
    pub cancel: &'a AtomicBool,
}

/// Why a run could not begin. Failures of nodes are in the [`RunReport`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store could not be held.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A requested node is not in the plan.
    #[error("the plan has no node {index}")]
    NoSuchNode {
        /// Its position.
        index: usize,
    },
}

/// Computes what the targets need and the store does not have.
///
/// A failed node stops only what depends on it, unless `fail_fast` is set or the store itself failed. Nodes that
/// finished stay in the store whatever happens later.
///
/// # Errors
/// When the run could not begin.
pub fn execute(
    plan: &Plan,
    store: &Store,
    options: &RunOptions<'_>,
    sink: &dyn EventSink,
) -> Result<RunReport, RunError> {
    let begun = Instant::now();
    let unknown = |id: &&NodeId| id.0 >= plan.nodes.len();
    if let Some(id) = options.targets.iter().chain(&options.force).find(unknown) {
        return Err(RunError::NoSuchNode { index: id.0 });
    }
    let _in_use = store.hold()?;
    let states = demand(plan, store, &options.targets, &options.force);
    let misses: Vec<bool> = states.iter().map(|state| *state == NodeState::Miss).collect();
    let allowed = options.memory.map(Allowed::of).or_else(allowed);
    let forecast = Forecast::new(plan, store, &misses, options.cores.max(1), allowed);
    let memory = allowed.map(|allowed| allowed.now);
    let resources = Resources { cores: options.cores.max(1), gpus: options.gpus.clone(), memory };
    let price = simulate(plan, &options.targets, &options.force, &states, &forecast, &resources);
    sink.event(&Event::RunStarted {
        pipeline: plan.pipeline.clone(),
        profile: plan.profile.clone(),
        nodes: plan.nodes.len(),
        targets: options.targets.len(),
        cores: options.cores.max(1),
        misses: misses.iter().filter(|miss| **miss).count(),
        hits: needed_hits(plan, &options.targets, &states),
        expected_seconds: price.wall.expected,
        least_seconds: price.wall.low,
        most_seconds: price.wall.high,
        guess: price.guess,
    });
    let mut schedule = Schedule::new(plan, &options.targets, &options.force, options.cores, &options.gpus)
        .with_memory(simulate::room(memory));
    for (id, expected) in forecast.iter() {
        schedule.needs(id, &expected.need);
    }
    forecast.faults().into_iter().for_each(|(id, _)| schedule.doom(id));
    let clock = Clock::new();
    let (stop, damaged, noted) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::default());
    let work = Work { plan, store, sink, clock: &clock, commands: options.commands, stop, damaged, noted };
    let mut run = Run {
        work: &work,
        options,
        schedule,
        forecast,
        running: BTreeMap::new(),
        left: TimeLeft::new(begun),
        saved: vec![0.0; plan.nodes.len()],
        waited: BTreeMap::new(),
        failures: Vec::new(),
        culprit: None,
        interrupted: false,
        stopped: 0,
        lost: None,
    };
    thread::scope(|scope| {
        let (_running, ended) = channel();
        let clock = &clock;
        // Without a thread to look, the clock counts everything.
        let _ = thread::Builder::new().name("clock".to_owned()).spawn_scoped(scope, move || clock.watch(&ended));
        run.drive(scope);
    });
    let report = run.finish(begun.elapsed().as_secs_f64());
    sink.event(&Event::RunFinished { report: report.clone() });
    Ok(report)
}

/// Something that ended.
struct Ended {
    start: Start,
    seconds: f64,
    outcome: Outcome,
}

struct Run<'r> {
    work: &'r Work<'r>,
    options: &'r RunOptions<'r>,
    schedule: Schedule<'r>,
    forecast: Forecast<'r>,
    /// What is being computed, and since when.
    running: BTreeMap<NodeId, (Start, Duration)>,
    left: TimeLeft,
    saved: Vec<f64>,
    /// Nodes reported as being computed by another process, and which one.
    waited: BTreeMap<NodeId, Option<Holder>>,
    failures: Vec<(NodeId, NodeFailure)>,
    /// The failure that ended the run.
    culprit: Option<NodeId>,
    interrupted: bool,
    /// Nodes that were stopped while they ran.
    stopped: usize,
    /// How the last GPU was lost.
    lost: Option<NodeFailure>,
}

impl<'r> Run<'r> {
    fn drive<'s>(&mut self, scope: &'s Scope<'s, '_>)
    where
        'r: 's,
    {
        let (sender, receiver) = channel();
        loop {
            self.look_at_cancel();
            loop {
                while let Some(start) = self.schedule.next_start() {
                    if let Start::Compute { id, .. } = start {
                        self.running.insert(id, (start, self.work.clock.now()));
                    }
                    self.spawn(scope, start, &sender);
                }
                let doomed = self.schedule.take_doomed();
                if doomed.is_empty() {
                    break;
                }
                doomed.into_iter().for_each(|id| self.fail_unstarted(id));
            }
            self.tell_skipped();
            if self.schedule.is_over() {
                break;
            }
            let first = receiver.recv_timeout(TICK);
            first.into_iter().chain(receiver.try_iter()).for_each(|ended| self.take(ended));
            self.ask_others();
            self.tell_time_left();
        }
    }

    /// Starts a thread for one lookup or one computation.
    fn spawn<'s>(&self, scope: &'s Scope<'s, '_>, start: Start, sender: &Sender<Ended>)
    where
        'r: 's,
    {
        let work = self.work;
        let to_worker = sender.clone();
        let worker = move || {
            let begun = work.clock.now();
            // A panic outside of a stage, such as in an event sink, must not leave the run waiting forever.
            let outcome = catch_unwind(AssertUnwindSafe(|| match start {
                Start::Check(id) => work.check(id),
                Start::Compute { id, place, forced } => work.compute(id, place, forced),
            }));
            let outcome = outcome.unwrap_or_else(|payload| Outcome::Failed(panic_failure("engine", payload.as_ref())));
            let seconds = (work.clock.now() - begun).as_secs_f64();
            // The receiver outlives every worker.
            let _ = to_worker.send(Ended { start, seconds, outcome });
        };
        if let Err(error) = thread::Builder::new().name("node".to_owned()).spawn_scoped(scope, worker) {
            let _ = sender.send(Ended { start, seconds: 0.0, outcome: Outcome::Failed(no_threads(&error)) });
        }
    }

    /// Records the outcome of a worker.
    fn take(&mut self, ended: Ended) {
        self.schedule.ended(ended.start);
        let (Start::Check(id) | Start::Compute { id, .. }) = ended.start;
        self.running.remove(&id);
        let (node, key) = label(self.work.plan.node(id));
        match ended.outcome {
            Outcome::Cached { saved_seconds } => {
                self.saved[id.0] = saved_seconds;
                self.schedule.present(id, State::Cached);
                self.learn_sizes(id);
                self.tell(&Event::NodeCached { node, key, saved_seconds });
            }
            Outcome::Missing => {
                self.forecast.add(id);
                self.expect(id);
                self.schedule.missing(id);
            }
            Outcome::Busy => {
                self.schedule.busy(id, Instant::now());
                let holder = self.work.store.holder(&key);
                let told = self.waited.get(&id);
                if told.is_none() || holder.is_some() && told != Some(&holder) {
                    self.waited.insert(id, holder.clone());
                    self.tell(&Event::NodeWaiting { node, key, holder });
                }
            }
            Outcome::InputsLost(lost) => {
                if !self.schedule.inputs_lost(id, &lost) {
                    self.fail(id, ended.seconds, lost_failure(self.work.plan, &lost));
                }
            }
            Outcome::Finished { seconds, bytes, bytes_same } => {
                self.schedule.present(id, State::Done);
                self.learn_sizes(id);
                let Start::Compute { place, .. } = ended.start else { return };
                let expected = self.forecast.expected(id).map_or(0.0, |e| e.seconds(place.threads));
                self.left.done(expected, seconds);
                self.tell(&Event::NodeFinished { node, key, seconds, bytes, bytes_same });
            }
            Outcome::Cancelled => {
                self.stopped += 1;
                self.schedule.cancelled(id);
            }
            Outcome::Failed(failure) => self.fail(id, ended.seconds, failure),
            Outcome::CardLost(failure) => self.lose_card(id, (ended.start, ended.seconds), failure),
        }
    }

    /// Retires the GPU that a node ran on. The node goes to another, or fails with the reason, as all do that are for a GPU.
    fn lose_card(&mut self, id: NodeId, (start, seconds): (Start, f64), failure: NodeFailure) {
        let Start::Compute { place: Place { device: Device::Cuda(gpu), .. }, .. } = start else {
            return self.fail(id, seconds, failure);
        };
        if self.schedule.retire(gpu) {
            let message = format!("`cuda:{gpu}` is not used any more in this run: {}", failure.errors.join(": "));
            let (node, key) = label(self.work.plan.node(id));
            self.tell(&Event::NodeWarned { node, key, message });
            self.schedule.again(id);
        } else {
            self.lost = Some(failure.clone());
            self.fail(id, seconds, failure);
        }
    }

    fn fail(&mut self, id: NodeId, seconds: f64, failure: NodeFailure) {
        let (node, key) = label(self.work.plan.node(id));
        self.tell(&Event::NodeFailed { node, key, seconds, failure: failure.clone() });
        // A store that fails once will fail for every node.
        if (self.options.fail_fast || failure.kind == FailureKind::Store) && self.culprit.is_none() {
            self.culprit = Some(id);
            self.stop();
        }
        self.failures.push((id, failure));
        self.schedule.failed(id);
    }

    /// A node that must fail fails before anything is computed for it.
    fn fail_unstarted(&mut self, id: NodeId) {
        let fault = self.forecast.expected(id).and_then(|expected| expected.fault.clone());
        if let (None, Some(mut lost)) = (&fault, self.lost.clone()) {
            lost.errors.insert(0, "no GPU of this run is left".to_owned());
            return self.fail(id, 0.0, lost);
        }
        let Fault { what, hint, kind } = fault.unwrap_or_else(|| Fault {
            what: "it cannot be computed".to_owned(),
            hint: None,
            kind: FaultKind::Machine,
        });
        let kind = match kind {
            FaultKind::Data => FailureKind::Data,
            FaultKind::Stage => FailureKind::Lasting,
            FaultKind::Machine => FailureKind::Stage,
        };
        self.fail(id, 0.0, NodeFailure { kind, errors: vec![what], hint });
    }

    /// Tells the schedule what a node needs, and whether it must fail.
    fn expect(&mut self, id: NodeId) {
        if let Some(expected) = self.forecast.expected(id) {
            self.schedule.needs(id, &expected.need);
            if self.forecast.is_cause(id) {
                self.schedule.doom(id);
            }
        }
    }

    /// A result is there: what was expected of the nodes that read it is known now.
    fn learn_sizes(&mut self, id: NodeId) {
        if self.forecast.expected(id).is_some() {
            let dependants = self.schedule.dependants(id).to_vec();
            for reader in self.forecast.made(id, &dependants) {
                self.expect(reader);
            }
        }
    }

    /// Says how long the rest will take, not too often.
    fn tell_time_left(&mut self) {
        let now = Instant::now();
        if !self.left.is_due(now) || !self.schedule.is_settled() {
            return;
        }
        let counted = self.work.clock.now();
        let for_seconds = |since: Duration| counted.saturating_sub(since).as_secs_f64();
        let running = self.running.values().map(|(start, since)| (*start, for_seconds(*since))).collect();
        let price = simulate::rest(self.schedule.clone(), running, &self.forecast);
        let (left, share) = self.left.corrected(&price);
        self.tell(&Event::TimeLeft { seconds: left.expected, least: left.low, most: left.high, share });
        self.left.told(now);
    }

    fn look_at_cancel(&mut self) {
        if !self.interrupted && self.options.cancel.load(Ordering::Relaxed) {
            self.interrupted = true;
            self.stop();
            self.tell(&Event::Interrupted { running: self.schedule.computing });
        }
    }

    fn stop(&mut self) {
        self.work.stop.store(true, Ordering::Relaxed);
        self.schedule.stop();
    }

    /// Checks the nodes that other processes are computing.
    fn ask_others(&mut self) {
        let now = Instant::now();
        for id in self.schedule.due(now) {
            // If this check fails, the claim that follows fails too, and says why.
            match self.work.store.is_claimed(&self.work.plan.node(id).key) {
                Ok(true) => self.schedule.still_busy(id, now),
                Ok(false) | Err(_) => {
                    self.schedule.released(id);
                    self.waited.remove(&id);
                    let (node, key) = label(self.work.plan.node(id));
                    self.tell(&Event::NodeReleased { node, key });
                }
            }
        }
    }

    fn tell(&self, event: &Event) {
        self.work.sink.event(event);
    }

    fn tell_skipped(&mut self) {
        for (id, culprit) in self.schedule.take_skipped() {
            let (node, key) = label(self.work.plan.node(id));
            let because = self.work.plan.node(culprit).name.clone();
            self.tell(&Event::NodeSkipped { node, key, because });
        }
    }

    fn finish(mut self, seconds: f64) -> RunReport {
        if let Some(culprit) = self.culprit {
            self.schedule.skip_rest(culprit);
            self.tell_skipped();
        }
        let part = self.work.plan.ancestors(&[&self.options.targets[..], &self.options.force].concat());
        let states = &self.schedule.states;
        let count = |wanted: State| states.iter().filter(|state| **state == wanted).count();
        let nodes = part.iter().filter(|p| **p).count();
        let idle = count(State::Idle) - (states.len() - nodes);
        let (found, ran, failed) = (count(State::Cached), count(State::Done), count(State::Failed));
        let skipped = nodes - idle - found - ran - failed;
        let saved = self.saved.iter().zip(states).filter(|(_, state)| **state == State::Cached);
        let mut saved_seconds = saved.fold(0.0, |sum, (seconds, _)| sum + seconds);
        // What lies behind a cached node was not looked at yet.
        let mut behind = 0;
        for (id, node) in self.work.plan.iter().filter(|(id, _)| part[id.0] && states[id.0] == State::Idle) {
            if let Some(entry) = self.work.store.get(&node.key, node.stage.name) {
                tracing::trace!(node = %node.name, id = id.0, "cached behind a cached node");
                behind += 1;
                saved_seconds += entry.manifest.seconds;
            }
        }
        self.failures.sort_by_key(|(id, _)| *id);
        let failed_node = |(id, failure)| {
            let (node, key) = label(self.work.plan.node(id));
            FailedNode { node, key, failure }
        };
        RunReport {
            nodes,
            cached: found + behind,
            ran,
            failed,
            skipped,
            stopped: self.stopped,
            absent: idle - behind,
            damaged: self.work.damaged.load(Ordering::Relaxed),
            // A stop request that arrives when everything is done does not count as an interruption.
            interrupted: self.interrupted && skipped > 0,
            seconds,
            saved_seconds,
            failures: self.failures.into_iter().map(failed_node).collect(),
        }
    }
}

fn lost_failure(plan: &Plan, lost: &[NodeId]) -> NodeFailure {
    let names: Vec<_> = lost.iter().map(|id| format!("`{}`", plan.node(*id).name)).collect();
    let error = format!("input {} was damaged repeatedly", names.join(", "));
    NodeFailure::of(FailureKind::Stage, vec![error], "check the disk, and whether something else writes into the store")
}
