//! `RunReport`: hits, misses, failures, time spent and time saved.

use serde::Serialize;

use crate::plan::{ArtifactKey, NodeName};

use super::event::{FailureKind, NodeFailure};

/// What happened in a run. `nodes` is the sum of `cached`, `ran`, `failed`, `skipped` and `absent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunReport {
    /// Requested nodes, with everything upstream.
    pub nodes: usize,
    /// Nodes that were in the store, or that another process computed meanwhile.
    pub cached: usize,
    /// Nodes computed.
    pub ran: usize,
    /// Nodes that failed.
    pub failed: usize,
    /// Needed nodes that were not started or not finished.
    pub skipped: usize,
    /// Those of them that were being computed when the run was stopped.
    pub stopped: usize,
    /// Nodes that are not in the store and that nothing needed.
    pub absent: usize,
    /// Artifacts that were found damaged.
    pub damaged: usize,
    /// Whether the run was asked to stop before its end.
    pub interrupted: bool,
    /// How long the run took.
    pub seconds: f64,
    /// How long the cached nodes took when they were computed.
    pub saved_seconds: f64,
    /// The failed nodes in plan order.
    pub failures: Vec<FailedNode>,
}

/// A node that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailedNode {
    /// Its name.
    pub node: NodeName,
    /// Its key.
    pub key: ArtifactKey,
    /// Why.
    pub failure: NodeFailure,
}

impl RunReport {
    /// Returns whether a node failed in a given way.
    pub fn failed_by(&self, kind: FailureKind) -> bool {
        self.failures.iter().any(|f| f.failure.kind == kind)
    }
}
