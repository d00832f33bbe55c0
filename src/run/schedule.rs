//! The state of every node during a run, and which one to start next. Pure bookkeeping: no threads, no files.
//!
//! ```text
//! Idle ─► Checking ─► Cached                       found in the store, every byte checked
//!             │
//!             └─► Blocked ─► Ready ─► Running ─► Done | Failed
//!                    ▲                   ├─► Waiting ─► Checking      computed by another process
//!                    └───────────────────┘                            an input was lost
//! ```
//!
//! Cores come out of one budget. With GPUs, a node that computes on a device gets one GPU for itself and one core to feed
//! it, which other nodes leave for it as long as such nodes are to come. A GPU that has failed is retired; without any, what is for
//! one is doomed. Memory comes out of another: what does not fit beside what is running waits, or starts with fewer threads if that helps. A
//! node alone always starts: what cannot fit at all is doomed, and fails without being started.
//!
//! A node that measures waits until nothing else can run, has everything, and nothing starts beside it.
//!
//! A forced node skips `Checking`. A node that needs a failed one is `Skipped`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ppgnn_stages::contract::device::Device;

use crate::forecast::Need;
use crate::plan::{NodeId, Plan};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How many ready nodes are asked whether there is room for them.
const FARTHEST: usize = 256;
/// How often a node may find an input damaged before it fails.
const PATIENCE: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing needs it, as far as is known.
    Idle,
    /// To be looked up in the store.
    Checking,
    /// To be computed when its inputs are there.
    Blocked,
    /// To be computed now.
    Ready,
    /// Being computed.
    Running,
    /// Being computed by another process.
    Waiting,
    /// Found in the store.
    Cached,
    /// Computed.
    Done,
    /// Could not be computed.
    Failed,
    /// Will not be computed because that node failed.
    Skipped(NodeId),
}

/// What to start next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Look a node up.
    Check(NodeId),
    /// Compute a node.
    Compute { id: NodeId, place: Place, forced: bool },
}

/// Resources of one computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) threads: usize,
    pub(super) device: Device,
    /// Bytes of memory that it is expected to take.
    pub(super) memory: u64,
}

#[derive(Clone)]
struct Wait {
    next: Instant,
    pause: Duration,
}

#[derive(Clone)]
pub(super) struct Schedule<'p> {
    plan: &'p Plan,
    dependants: Vec<Vec<NodeId>>,
    pub(super) states: Vec<State>,
    forced: Vec<bool>,
    losses: Vec<u8>,
    /// Nodes to be looked up when the schedule begins.
    requested: Vec<NodeId>,
    to_check: BTreeSet<NodeId>,
    ready: BTreeSet<NodeId>,
    ready_for_card: BTreeSet<NodeId>,
    ready_to_measure: BTreeSet<NodeId>,
    /// Whether a node runs that measures.
    measuring: bool,
    waiting: BTreeMap<NodeId, Wait>,
    newly_skipped: Vec<(NodeId, NodeId)>,
    checks_running: usize,
    /// How many nodes are being computed.
    pub(super) computing: usize,
    free: usize,
    with_gpus: bool,
    free_gpus: BTreeSet<usize>,
    /// GPUs that have not been retired.
    gpus: usize,
    /// Nodes to be computed on a GPU.
    for_card: BTreeSet<NodeId>,
    cores: usize,
    /// What every node needs; nothing of a node that is not here.
    needs: Vec<Need>,
    /// Bytes that running nodes may take together.
    memory: u64,
    in_use: u64,
    /// Nodes that must fail.
    doomed: BTreeSet<NodeId>,
    newly_doomed: Vec<NodeId>,
    stopped: bool,
}

impl<'p> Schedule<'p> {
    pub(super) fn new(plan: &'p Plan, targets: &[NodeId], force: &[NodeId], cores: usize, gpus: &[usize]) -> Self {
        let mut dependants = vec![Vec::new(); plan.nodes.len()];
        for (id, node) in plan.iter() {
            node.inputs.iter().for_each(|edge| dependants[edge.node.0].push(id));
        }
        let mut schedule = Self {
            plan,
            dependants,
            states: vec![State::Idle; plan.nodes.len()],
            forced: vec![false; plan.nodes.len()],
            losses: vec![0; plan.nodes.len()],
            requested: Vec::new(),
            to_check: BTreeSet::new(),
            ready: BTreeSet::new(),
            ready_for_card: BTreeSet::new(),
            ready_to_measure: BTreeSet::new(),
            measuring: false,
            waiting: BTreeMap::new(),
            newly_skipped: Vec::new(),
            checks_running: 0,
            computing: 0,
            free: cores.max(1),
            with_gpus: !gpus.is_empty(),
            free_gpus: gpus.iter().copied().collect(),
            gpus: gpus.len(),
            for_card: BTreeSet::new(),
            cores: cores.max(1),
            needs: vec![Need::default(); plan.nodes.len()],
            memory: u64::MAX,
            in_use: 0,
            doomed: BTreeSet::new(),
            newly_doomed: Vec::new(),
            stopped: false,
        };
        for id in force {
            schedule.forced[id.0] = true;
        }
        schedule.requested = targets.iter().chain(force).copied().collect();
        schedule
    }

    /// Sets the bytes that running nodes may take together.
    pub(super) fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Says what a node needs.
    pub(super) fn needs(&mut self, id: NodeId, need: &Need) {
        self.needs[id.0] = need.clone();
    }

    /// Says that a node must fail if it has to be computed.
    pub(super) fn doom(&mut self, id: NodeId) {
        self.doomed.insert(id);
        if matches!(self.states[id.0], State::Blocked | State::Ready) {
            self.ready.remove(&id);
            self.ready_for_card.remove(&id);
            self.ready_to_measure.remove(&id);
            self.newly_doomed.push(id);
        }
    }

    /// Takes the doomed nodes that have to be computed, since the last call. Each is to be reported as failed.
    pub(super) fn take_doomed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.newly_doomed)
    }

    /// Returns the nodes that read a node.
    pub(super) fn dependants(&self, id: NodeId) -> &[NodeId] {
        &self.dependants[id.0]
    }

    /// Returns what to start now, if anything, and counts its cores as busy.
    ///
    /// Nothing is computed while lookups are open: they are short, and what they find decides how the cores are
    /// shared out.
    pub(super) fn next_start(&mut self) -> Option<Start> {
        for id in std::mem::take(&mut self.requested) {
            self.request(id);
        }
        if self.stopped || self.free == 0 {
            return None;
        }
        if let Some(id) = self.to_check.pop_first() {
            self.free -= 1;
            self.checks_running += 1;
            return Some(Start::Check(id));
        }
        if self.checks_running > 0 || self.measuring {
            return None;
        }
        let nothing_else = self.ready.is_empty() && self.ready_for_card.is_empty() && self.computing == 0;
        if nothing_else && let Some(id) = self.ready_to_measure.pop_first() {
            return Some(self.measure(id));
        }
        if let Some(gpu) = self.free_gpus.first().copied()
            && let Some((id, place)) = self.fitting(&self.ready_for_card, 1, Device::Cuda(gpu))
        {
            self.free_gpus.remove(&gpu);
            self.ready_for_card.remove(&id);
            return Some(self.compute(id, place));
        }
        let free = self.free.saturating_sub(self.reserved());
        if free == 0 {
            return None;
        }
        let threads = (free / self.ready.len().max(1)).max(1);
        let (id, place) = self.fitting(&self.ready, threads, Device::Cpu)?;
        self.ready.remove(&id);
        Some(self.compute(id, place))
    }

    /// Cores that idle GPUs will want: one each, but not the last that there is.
    fn reserved(&self) -> usize {
        if self.for_card.is_empty() { 0 } else { self.free_gpus.len().min(self.cores - 1) }
    }

    /// Finds the first ready node that has room beside what is running, with as many of the threads as there is room for.
    fn fitting(&self, ready: &BTreeSet<NodeId>, threads: usize, device: Device) -> Option<(NodeId, Place)> {
        let free = self.memory.saturating_sub(self.in_use);
        for id in ready.iter().take(FARTHEST) {
            let need = &self.needs[id.0];
            let fits = (1..=threads).rev().find(|threads| need.bytes(*threads) <= free);
            // Alone, it may try: what is known not to fit at all has failed before.
            let threads = fits.or((self.computing == 0).then_some(1));
            if let Some(threads) = threads {
                return Some((*id, Place { threads, device, memory: need.bytes(threads) }));
            }
        }
        None
    }

    /// Starts a node that measures: it gets all cores, and a GPU if it wants one.
    fn measure(&mut self, id: NodeId) -> Start {
        let on_device = self.plan.node(id).stage.on_device;
        let gpu = self.free_gpus.first().copied().filter(|_| on_device);
        self.free_gpus = &self.free_gpus - &gpu.into_iter().collect();
        let (threads, memory) = (self.free, self.needs[id.0].bytes(self.free));
        self.measuring = true;
        self.compute(id, Place { threads, device: gpu.map_or(Device::Cpu, Device::Cuda), memory })
    }

    fn compute(&mut self, id: NodeId, place: Place) -> Start {
        self.states[id.0] = State::Running;
        self.free -= place.threads;
        self.in_use = self.in_use.saturating_add(place.memory);
        self.computing += 1;
        Start::Compute { id, place, forced: self.forced[id.0] }
    }

    /// Releases the cores and the GPU of something that was started.
    pub(super) fn ended(&mut self, start: Start) {
        match start {
            Start::Check(_) => {
                self.checks_running -= 1;
                self.free += 1;
            }
            Start::Compute { id, place, .. } => {
                self.measuring &= self.plan.node(id).stage.measures.is_none();
                self.computing -= 1;
                self.free += place.threads;
                self.in_use = self.in_use.saturating_sub(place.memory);
                if let Device::Cuda(gpu) = place.device {
                    self.free_gpus.insert(gpu);
                }
            }
        }
    }

    /// Uses a GPU no more; a node that runs on it has ended. Returns whether another is left.
    pub(super) fn retire(&mut self, gpu: usize) -> bool {
        if self.free_gpus.remove(&gpu) {
            self.gpus -= 1;
        }
        if self.gpus == 0 {
            let waiting = std::mem::take(&mut self.ready_for_card);
            self.newly_doomed.extend(waiting);
        }
        self.gpus > 0
    }

    /// The node is to be computed once more, since its GPU has failed.
    pub(super) fn again(&mut self, id: NodeId) {
        self.states[id.0] = State::Blocked;
        self.settle(id);
    }

    /// The node is in the store: cached or done.
    pub(super) fn present(&mut self, id: NodeId, state: State) {
        self.for_card.remove(&id);
        // Forcing is done once, even if the artifact is lost later in the run.
        self.forced[id.0] = false;
        self.states[id.0] = state;
        self.settle_dependants(id);
    }

    /// The node must be computed. One that must fail asks for nothing.
    pub(super) fn missing(&mut self, id: NodeId) {
        self.states[id.0] = State::Blocked;
        if self.with_gpus && self.plan.node(id).stage.on_device {
            self.for_card.insert(id);
        }
        if self.doomed.contains(&id) {
            self.newly_doomed.push(id);
            return;
        }
        for edge in &self.plan.node(id).inputs {
            self.request(edge.node);
        }
        self.settle(id);
    }

    /// Another process is computing the node.
    pub(super) fn busy(&mut self, id: NodeId, now: Instant) {
        self.states[id.0] = State::Waiting;
        if !self.stopped {
            self.waiting.insert(id, Wait { next: now + FIRST_PAUSE, pause: FIRST_PAUSE });
        }
    }

    /// Returns the nodes of other processes that should be checked now.
    pub(super) fn due(&self, now: Instant) -> Vec<NodeId> {
        self.waiting.iter().filter(|(_, wait)| wait.next <= now).map(|(id, _)| *id).collect()
    }

    /// The other process is still computing it: check again a little later.
    pub(super) fn still_busy(&mut self, id: NodeId, now: Instant) {
        if let Some(wait) = self.waiting.get_mut(&id) {
            wait.pause = (wait.pause * 3 / 2).min(LONGEST_PAUSE);
            wait.next = now + wait.pause;
        }
    }

    /// The other process has finished it, or has ended.
    pub(super) fn released(&mut self, id: NodeId) {
        self.waiting.remove(&id);
        self.states[id.0] = State::Idle;
        self.request(id);
    }

    /// Inputs were lost. Returns whether to try again.
    pub(super) fn inputs_lost(&mut self, id: NodeId, lost: &[NodeId]) -> bool {
        self.losses[id.0] += 1;
        if self.losses[id.0] > PATIENCE {
            return false;
        }
        for input in lost {
            if self.is_present(*input) {
                self.states[input.0] = State::Idle;
            }
        }
        self.missing(id);
        true
    }

    /// The node failed; what needs it is skipped.
    pub(super) fn failed(&mut self, id: NodeId) {
        self.for_card.remove(&id);
        self.states[id.0] = State::Failed;
        self.settle_dependants(id);
    }

    /// The node was cancelled because the run is stopping.
    pub(super) fn cancelled(&mut self, id: NodeId) {
        self.states[id.0] = State::Blocked;
    }

    /// Starts nothing more; running nodes may finish.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.waiting.clear();
    }

    /// Returns whether nothing runs and nothing is waited for. To be asked after [`Schedule::next_start`] gave `None`.
    pub(super) fn is_over(&self) -> bool {
        self.checks_running == 0 && self.computing == 0 && self.waiting.is_empty()
    }

    /// Returns whether no lookup is open, so that what is to be computed is known.
    pub(super) fn is_settled(&self) -> bool {
        self.checks_running == 0 && self.to_check.is_empty() && !self.stopped
    }

    /// Takes the nodes skipped since the last call, each with the node that failed.
    pub(super) fn take_skipped(&mut self) -> Vec<(NodeId, NodeId)> {
        std::mem::take(&mut self.newly_skipped)
    }

    /// Skips every needed node that has not ended, because of one that failed.
    pub(super) fn skip_rest(&mut self, culprit: NodeId) {
        use State::{Blocked, Checking, Ready, Running, Waiting};
        for (index, state) in self.states.iter_mut().enumerate() {
            if matches!(state, Checking | Blocked | Ready | Running | Waiting) {
                *state = State::Skipped(culprit);
                self.newly_skipped.push((NodeId(index), culprit));
            }
        }
    }

    fn is_present(&self, id: NodeId) -> bool {
        matches!(self.states[id.0], State::Cached | State::Done)
    }

    fn request(&mut self, id: NodeId) {
        if self.states[id.0] != State::Idle {
            return;
        }
        if self.forced[id.0] {
            self.missing(id);
        } else {
            self.states[id.0] = State::Checking;
            self.to_check.insert(id);
        }
    }

    fn settle_dependants(&mut self, id: NodeId) {
        for index in 0..self.dependants[id.0].len() {
            self.settle(self.dependants[id.0][index]);
        }
    }

    /// Moves a blocked node on if its inputs allow it, or skips it if one of them failed.
    fn settle(&mut self, id: NodeId) {
        if self.states[id.0] != State::Blocked {
            return;
        }
        let inputs = || self.plan.node(id).inputs.iter().map(|edge| edge.node);
        let culprit = inputs().find_map(|input| match self.states[input.0] {
            State::Failed => Some(input),
            State::Skipped(culprit) => Some(culprit),
            _ => None,
        });
        if let Some(culprit) = culprit {
            self.states[id.0] = State::Skipped(culprit);
            self.for_card.remove(&id);
            self.newly_skipped.push((id, culprit));
            self.settle_dependants(id);
        } else if inputs().all(|input| self.is_present(input)) {
            self.states[id.0] = State::Ready;
            let stage = self.plan.node(id).stage;
            if self.with_gpus && self.gpus == 0 && stage.on_device {
                self.newly_doomed.push(id);
                return;
            }
            let ready = if stage.measures.is_some() {
                &mut self.ready_to_measure
            } else if self.with_gpus && stage.on_device {
                &mut self.ready_for_card
            } else {
                &mut self.ready
            };
            ready.insert(id);
        }
    }
}

#[cfg(test)]
mod tests;
