//! `Event`: everything that can happen during a run. An [`EventSink`] decides what to do with it.

use std::path::PathBuf;

use ppgnn_stages::contract::Progress;
use ppgnn_stages::contract::device::Device;
use serde::{Serialize, Serializer};

use crate::plan::{ArtifactKey, Node, NodeName};
use crate::store::Holder;

use super::summary::RunReport;

/// Something that happened during a run. The JSON names are stable.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Event {
    /// A run was asked for. Told to its log alone, for those who follow it.
    RunAsked {
        /// The pipeline file; nothing where its path is no text.
        file: Option<String>,
        /// Name of the profile, if one was chosen.
        profile: Option<String>,
        /// What the command line changes.
        set: Vec<String>,
        /// The device that the command line names, if it does.
        device: Option<String>,
        /// The command as a person would type it again.
        words: String,
    },
    /// A run begins.
    RunStarted {
        /// Name of the pipeline.
        pipeline: String,
        /// Name of the profile, if one was chosen.
        profile: Option<String>,
        /// Nodes in the plan.
        nodes: usize,
        /// Requested nodes.
        targets: usize,
        /// Cores that may be busy at a time.
        cores: usize,
        /// Nodes to be computed.
        misses: usize,
        /// Nodes that are needed and in the store.
        hits: usize,
        /// How long the run is expected to take.
        expected_seconds: f64,
        /// The same, if all goes well.
        least_seconds: f64,
        /// The same, if not.
        most_seconds: f64,
        /// Whether nothing like it ran on this machine before.
        guess: bool,
    },
    /// How long the rest of the run is expected to take. Told about once a second.
    TimeLeft {
        /// Seconds.
        seconds: f64,
        /// The same, if all goes well.
        least: f64,
        /// The same, if not.
        most: f64,
        /// Share of the work that is done.
        share: f64,
    },
    /// A needed node is in the store.
    NodeCached {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// How long it took when it was computed.
        saved_seconds: f64,
    },
    /// A node is being computed.
    NodeStarted {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// Threads it may use.
        threads: usize,
        /// What it computes on.
        device: Device,
    },
    /// A node reports how far it has come.
    NodeProgress {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// How far.
        progress: Progress,
    },
    /// A node has something to say about its result.
    NodeWarned {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// What.
        message: String,
    },
    /// Another process is computing a node. Told again if it is yet another one.
    NodeWaiting {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// The process, if it is known.
        holder: Option<Holder>,
    },
    /// The other process has ended its work on a node, well or not.
    NodeReleased {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
    },
    /// A node was computed and is in the store.
    NodeFinished {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// How long the stage took.
        seconds: f64,
        /// Size of the artifact.
        bytes: u64,
        /// Whether the bytes are the same as before; `None` if there was no earlier artifact.
        bytes_same: Option<bool>,
    },
    /// A node could not be computed.
    NodeFailed {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// How long it ran.
        seconds: f64,
        /// Why.
        failure: NodeFailure,
    },
    /// A needed node will not be computed because another one failed.
    NodeSkipped {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// The node that failed.
        because: NodeName,
    },
    /// An artifact in the store was not what was written. It counts as a miss.
    ArtifactDamaged {
        /// The node.
        node: NodeName,
        /// Its key.
        key: ArtifactKey,
        /// What is wrong with it.
        what: String,
        /// Where it is now, if it could be moved.
        #[serde(serialize_with = "shown")]
        moved_to: Option<PathBuf>,
    },
    /// The run was asked to stop.
    Interrupted {
        /// Nodes that were being computed.
        running: usize,
    },
    /// The run is over.
    RunFinished {
        /// What happened.
        report: RunReport,
    },
}

/// Writes a path as people see it: JSON has no words for one that is not UTF-8.
fn shown<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

/// Why a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeFailure {
    /// Its kind.
    pub kind: FailureKind,
    /// The message, then its causes.
    pub errors: Vec<String>,
    /// What a person can do about it, if that is known.
    pub hint: Option<String>,
}

/// The sorts of failure that a caller tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The stage reported an error.
    Stage,
    /// The stage cannot do what its parameters and inputs ask for, today or ever: a loss that is not finite, for example.
    Lasting,
    /// Data outside the store is missing, changed or not what it should be.
    Data,
    /// The stage panicked.
    Panic,
    /// The store could not be read or written; the run stops.
    Store,
}

impl NodeFailure {
    /// Describes an error with its causes.
    pub(super) fn new(kind: FailureKind, error: &dyn std::error::Error, hint: Option<&str>) -> Self {
        Self { kind, errors: causes(error), hint: hint.map(str::to_owned) }
    }

    /// Describes something that is not an error in the sense of Rust.
    pub(super) fn of(kind: FailureKind, errors: Vec<String>, hint: &str) -> Self {
        Self { kind, errors, hint: Some(hint.to_owned()) }
    }
}

/// Returns the message of an error, then those of its causes.
pub fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let chain = std::iter::successors(Some(error), |e| e.source());
    let mut texts: Vec<String> = chain.map(ToString::to_string).collect();
    // A transparent error repeats the text of its cause.
    texts.dedup();
    texts
}

/// Receives the events of a run, from several threads.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use ppgnn::run::{Event, EventSink};
///
/// struct Count(AtomicUsize);
/// impl EventSink for Count {
///     fn event(&self, event: &Event) {
///         if let Event::NodeFinished { .. } = event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait EventSink: Sync {
    /// Takes one event.
    fn event(&self, event: &Event);
}

/// Name and key of a node, as events carry them.
pub(super) fn label(node: &Node) -> (NodeName, ArtifactKey) {
    (node.name.clone(), node.key)
}
