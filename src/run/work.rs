//! What a worker does with one node: look it up, or claim it, run its stage and commit the result.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ppgnn_stages::contract::again::Again;
use ppgnn_stages::contract::{
    ArtifactError, EARLIER_SECONDS, InputDir, Job, Progress, ProgressSink, StageError, checkpoint,
};
use serde_json::Value;

use crate::forecast::cost;
use crate::plan::{Contents, FileDigests, Node, NodeId, Plan};
use crate::store::{ArtifactRef, Claim, Opened, Pending, Provenance, Store, StoreError, hint_for, stops_everything};

use super::again::Repeats;
use super::clock::Clock;
use super::event::{Event, EventSink, FailureKind, NodeFailure, label};
use super::schedule::Place;

/// What a worker needs to know of the run.
pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) sink: &'a dyn EventSink,
    pub(super) clock: &'a Clock,
    /// Whether programs of the user's may be started.
    pub(super) commands: bool,
    /// Set when running stages should give up.
    pub(super) stop: AtomicBool,
    /// Damaged artifacts found so far.
    pub(super) damaged: AtomicUsize,
    /// On what nodes of this run were computed, by stage and name.
    pub(super) noted: Mutex<BTreeMap<(&'static str, String), String>>,
}

/// Its outcome.
pub(super) enum Outcome {
    Cached {
        saved_seconds: f64,
    },
    Missing,
    Busy,
    InputsLost(Vec<NodeId>),
    Finished {
        seconds: f64,
        bytes: u64,
        bytes_same: Option<bool>,
    },
    Cancelled,
    Failed(NodeFailure),
    /// The GPU that it ran on cannot be used any more.
    CardLost(NodeFailure),
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        Self::Failed(NodeFailure::new(FailureKind::Store, &error, error.hint()))
    }
}

impl Work<'_> {
    /// Looks a node up in the store.
    pub(super) fn check(&self, id: NodeId) -> Outcome {
        let node = self.plan.node(id);
        let opened = self.store.open_artifact(&node.key, node.stage.name);
        opened.map_or_else(Outcome::from, |opened| self.take_note(node, opened))
    }

    /// Computes a node, unless another process is computing it or has done so.
    pub(super) fn compute(&self, id: NodeId, place: Place, forced: bool) -> Outcome {
        self.try_compute(id, place, forced).unwrap_or_else(|otherwise| otherwise)
    }

    /// Returns how it finished, or why it did not.
    fn try_compute(&self, id: NodeId, place: Place, forced: bool) -> Result<Outcome, Outcome> {
        let node = self.plan.node(id);
        let Claim::Held(claim) = self.store.claim(&node.key)? else { return Err(Outcome::Busy) };
        if !forced {
            // Another process may have finished it between our lookup and our claim.
            let found = self.take_note(node, self.store.open_claimed(&claim, node.stage.name)?);
            if !matches!(found, Outcome::Missing) {
                return Err(found);
            }
        }
        let inputs = self.open_inputs(node)?;
        if forced {
            // A forced node starts from scratch.
            self.store.forget_resume_point(&claim)?;
        }
        let pending = self.store.begin(&claim)?;
        let (name, key) = label(node);
        let Place { threads, device, .. } = place;
        self.sink.event(&Event::NodeStarted { node: name, key, threads, device });
        let begun = self.clock.now();
        let Said { measured, noted, remarks, lines } = self.run_stage(node, &inputs, place, &pending)?;
        // What earlier attempts have left did not have to be computed again, but it was computed.
        let earlier = measured.get(EARLIER_SECONDS).copied().unwrap_or(0.0);
        let seconds = (self.clock.now() - begun).as_secs_f64() + earlier;
        if let Some(failure) = changed_file(node) {
            return Err(Outcome::Failed(failure));
        }
        let made = Provenance {
            node: node.name.to_string(),
            ingredients: node.ingredients.clone(),
            seconds,
            threads,
            cost: Some(cost(self.plan, node, &inputs, pending.dir(), &measured)),
            measured,
            noted,
            remarks: remarked(node, remarks, &inputs),
            said: lines,
        };
        let committed = pending.commit(made)?;
        self.compare(node, &committed.entry.manifest.noted);
        let bytes = committed.entry.manifest.bytes();
        Ok(Outcome::Finished { seconds, bytes, bytes_same: committed.bytes_same })
    }

    /// Turns what the store says into an outcome, and tells about damage.
    fn take_note(&self, node: &Node, opened: Opened) -> Outcome {
        match opened {
            Opened::Hit(entry) => {
                self.compare(node, &entry.manifest.noted);
                Outcome::Cached { saved_seconds: entry.manifest.seconds }
            }
            Opened::Miss => Outcome::Missing,
            Opened::Damaged { what, moved_to } => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                let (node, key) = label(node);
                self.sink.event(&Event::ArtifactDamaged { node, key, what, moved_to });
                Outcome::Missing
            }
        }
    }

    /// Warns where nodes of a stage were computed on different things: equal keys do not promise equal bytes then.
    fn compare(&self, node: &Node, noted: &BTreeMap<String, String>) {
        for (name, here) in noted {
            let mut all = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            let place = all.entry((node.stage.name, name.clone()));
            let before = place.or_insert_with(|| here.clone()).clone();
            drop(all);
            if before != *here {
                let message = format!(
                    "results of this run come from different GPUs or drivers: {name} is `{here}` here and `{before}` in others; \
                     numbers of the same key may differ in their last digits"
                );
                let (node, key) = label(node);
                self.sink.event(&Event::NodeWarned { node, key, message });
            }
        }
    }

    /// Opens the inputs of a node, or says which ones were lost.
    fn open_inputs(&self, node: &Node) -> Result<Vec<InputDir>, Outcome> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        let mut lost = Vec::new();
        for edge in &node.inputs {
            let input = self.plan.node(edge.node);
            match self.store.open_artifact(&input.key, input.stage.name)? {
                Opened::Hit(entry) => {
                    let (slot, key, remarks) = (edge.slot, input.key.to_string(), entry.manifest.remarks);
                    inputs.push(InputDir { slot, key, dir: entry.dir, remarks });
                }
                other => {
                    self.take_note(input, other);
                    lost.push(edge.node);
                }
            }
        }
        if lost.is_empty() { Ok(inputs) } else { Err(Outcome::InputsLost(lost)) }
    }

    /// Runs the stage in a thread pool of its own size, which nested parallel loops then use as well. Returns what it
    /// measured.
    fn run_stage(
        &self,
        node: &Node,
        inputs: &[InputDir],
        Place { threads, device, .. }: Place,
        pending: &Pending,
    ) -> Result<Said, Outcome> {
        let _span =
            tracing::info_span!("stage", node = %node.name, key = %node.key.short(), threads, %device).entered();
        // As much stack as a main thread has: numerical code may recurse.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(8 << 20).build();
        let pool = pool.map_err(|e| Outcome::Failed(no_threads(&e)))?;
        let progress = Forward { node, sink: self.sink, said: Mutex::default() };
        let dir = pending.dir().join("again");
        let repeats = node.stage.measures.map(|_| Repeats { work: self, node, inputs, device, dir });
        let job = Job {
            inputs,
            threads,
            device,
            progress: &progress,
            again: repeats.as_ref().map(|repeats| repeats as &dyn Again),
            scratch: Some(pending.scratch()),
            checkpoint_every: checkpoint_every(),
            commands: self.commands,
            ..Job::alone(&self.stop)
        };
        let run = || pool.install(|| node.stage.run(&node.params, &job, pending.dir()));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => Ok(progress.said.into_inner().unwrap_or_else(PoisonError::into_inner)),
            Ok(Err(error)) => Err(self.judge(node, inputs, &error, pending)?),
            Err(payload) => Err(Outcome::Failed(panic_failure(node.stage.name, payload.as_ref()))),
        }
    }

    /// Says what a failed stage means for the run.
    fn judge(
        &self,
        node: &Node,
        inputs: &[InputDir],
        error: &StageError,
        pending: &Pending,
    ) -> Result<Outcome, StoreError> {
        let ours = |path: &Path| path.starts_with(pending.dir()) || path.starts_with(pending.scratch());
        let (kind, hint) = match error {
            StageError::Cancelled if self.stop.load(Ordering::Relaxed) => return Ok(Outcome::Cancelled),
            StageError::Card { lost: true, .. } => {
                return Ok(Outcome::CardLost(NodeFailure::new(FailureKind::Stage, error, error.hint())));
            }
            StageError::Data { .. } => (FailureKind::Data, error.hint()),
            StageError::Numeric { .. } | StageError::Unusable { .. } => (FailureKind::Lasting, error.hint()),
            StageError::Artifact(ArtifactError::Io { path, source }) if ours(path) && stops_everything(source) => {
                (FailureKind::Store, hint_for(source))
            }
            StageError::Artifact(ArtifactError::Io { path, .. } | ArtifactError::Malformed { path, .. }) => {
                if let Some(lost) = self.damaged_input(node, inputs, path)? {
                    return Ok(Outcome::InputsLost(vec![lost]));
                }
                (FailureKind::Stage, error.hint())
            }
            _ => (FailureKind::Stage, error.hint()),
        };
        Ok(Outcome::Failed(NodeFailure::new(kind, error, hint)))
    }

    /// Verifies the input that a stage could not read: it may have been damaged since it was checked.
    fn damaged_input(&self, node: &Node, inputs: &[InputDir], path: &Path) -> Result<Option<NodeId>, StoreError> {
        let Some(position) = inputs.iter().position(|input| path.starts_with(&input.dir)) else { return Ok(None) };
        let Some(edge) = node.inputs.get(position) else { return Ok(None) };
        let input = self.plan.node(edge.node);
        if let Opened::Hit(_) = self.store.verify(&ArtifactRef::new(input.stage.name, input.key))? {
            return Ok(None);
        }
        self.take_note(input, self.store.open_artifact(&input.key, input.stage.name)?);
        Ok(Some(edge.node))
    }
}

/// How often a stage leaves a checkpoint. Tests cannot wait for a minute: `PPGNN_CHECKPOINT_SECONDS` shortens it, and changes no byte
/// of any result.
fn checkpoint_every() -> Duration {
    let seconds = std::env::var("PPGNN_CHECKPOINT_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(checkpoint::EVERY)
}

/// What a stage said while it computed, beside its result.
#[derive(Default)]
struct Said {
    /// Facts about the computation, by name.
    measured: BTreeMap<String, f64>,
    /// On what it was computed, by name.
    noted: BTreeMap<String, String>,
    /// What every result that stands on this one must say as well.
    remarks: Vec<String>,
    /// What programs that it started wrote to stderr last.
    lines: Vec<String>,
}

/// Joins what a stage remarked with what was remarked on its inputs. A slice is made of part of its input only, so remarks on
/// that are not about it.
fn remarked(node: &Node, own: Vec<String>, inputs: &[InputDir]) -> Vec<String> {
    let whole = node.stage.shared.map(|shared| shared.slot);
    let inherited = inputs.iter().filter(|input| Some(input.slot) != whole).flat_map(|input| input.remarks.clone());
    let own = own.into_iter().map(|remark| format!("{}: {remark}", node.stage.name));
    let mut all: Vec<String> = Vec::new();
    for remark in inherited.chain(own) {
        if !all.contains(&remark) {
            all.push(remark);
        }
    }
    all
}

/// Passes progress on as events, and collects what is said besides.
struct Forward<'a> {
    node: &'a Node,
    sink: &'a dyn EventSink,
    said: Mutex<Said>,
}

impl Forward<'_> {
    fn so_far(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressSink for Forward<'_> {
    fn progress(&self, progress: &Progress) {
        let (node, key) = label(self.node);
        self.sink.event(&Event::NodeProgress { node, key, progress: progress.clone() });
    }

    fn warning(&self, message: &str) {
        let (node, key) = label(self.node);
        self.sink.event(&Event::NodeWarned { node, key, message: message.to_owned() });
    }

    fn said(&self, lines: &[String]) {
        self.so_far().lines.extend_from_slice(lines);
    }

    fn measured(&self, name: &'static str, value: f64) {
        self.so_far().measured.insert(name.to_owned(), value);
    }

    fn noted(&self, name: &'static str, text: &str) {
        self.so_far().noted.insert(name.to_owned(), text.to_owned());
    }

    fn remark(&self, message: &str) {
        self.warning(message);
        self.so_far().remarks.push(message.to_owned());
    }
}

/// Digests the external files that a stage has read once more: the key was made from their content at planning.
fn changed_file(node: &Node) -> Option<NodeFailure> {
    let digests = FileDigests::default();
    let planned = |param: &str| match node.ingredients.params.get(param) {
        Some(Value::Array(several)) => several.clone(),
        one => one.cloned().into_iter().collect(),
    };
    let changed = node.params.files().find(|(param, path)| match digests.digest(path, Contents::Data) {
        Ok(digest) => !planned(param).iter().any(|d| d.get("blake3").and_then(Value::as_str) == Some(&digest)),
        Err(_) => true,
    });
    changed.map(|(_, path)| {
        let error = format!("`{}` changed since the run was planned", path.display());
        NodeFailure::of(FailureKind::Data, vec![error], "run again when no other program is writing to it")
    })
}

/// Says that the operating system gives no more threads.
pub(super) fn no_threads(error: &dyn std::error::Error) -> NodeFailure {
    let errors = vec!["cannot start threads".to_owned(), error.to_string()];
    NodeFailure::of(FailureKind::Store, errors, "use fewer cores, or raise the limit on threads")
}

/// Describes a panic of a stage.
pub(super) fn panic_failure(stage: &str, payload: &(dyn Any + Send)) -> NodeFailure {
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let error = format!("bug in stage `{stage}`: it panicked with `{}`", text.unwrap_or("no message"));
    NodeFailure::of(FailureKind::Panic, vec![error], "please report it with the pipeline and the log of the run")
}
