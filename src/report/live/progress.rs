//! `Progress`: where a run stands, gathered from its events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::plan::{ArtifactKey, NodeName};
use crate::run::{Event, Holder};

/// Where a run stands.
#[derive(Default)]
pub(super) struct Progress {
    /// Nodes that must be in the store in the end.
    pub(super) needed: usize,
    pub(super) hits: usize,
    pub(super) ran: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) left: Option<Left>,
    /// What is being computed, in the order of its start.
    pub(super) running: Vec<Running>,
    /// What other processes compute.
    pub(super) waiting: Vec<Waiting>,
    pub(super) stopping: bool,
    /// What failed, and why.
    pub(super) failures: BTreeMap<ArtifactKey, String>,
    /// Changes whenever a table may have changed.
    pub(super) version: usize,
}

/// How long the rest will take, and the share of the work that is done.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) seconds: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) share: f64,
}

/// A node that is being computed.
pub(super) struct Running {
    key: ArtifactKey,
    pub(super) node: NodeName,
    pub(super) since: Instant,
    /// How far it is, in its own words.
    pub(super) said: String,
}

/// A node that another process computes.
pub(super) struct Waiting {
    key: ArtifactKey,
    pub(super) node: NodeName,
    pub(super) holder: Option<Holder>,
}

impl Progress {
    /// Counts the nodes that are done with.
    pub(super) fn ended(&self) -> usize {
        self.hits + self.ran + self.failed + self.skipped
    }

    /// Takes an event.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::RunStarted { misses, hits, expected_seconds, least_seconds, most_seconds, .. } => {
                self.needed = misses + hits;
                let [seconds, least, most] = [*expected_seconds, *least_seconds, *most_seconds];
                self.left = Some(Left { seconds, least, most, share: 0.0 });
            }
            Event::TimeLeft { seconds, least, most, share } => {
                self.left = Some(Left { seconds: *seconds, least: *least, most: *most, share: *share });
            }
            Event::NodeStarted { node, key, .. } => {
                self.forget(key);
                let (node, since) = (node.clone(), Instant::now());
                self.running.push(Running { key: *key, node, since, said: String::new() });
            }
            Event::NodeProgress { key, progress, .. } => {
                if let Some(running) = self.running.iter_mut().find(|running| running.key == *key) {
                    running.said = format!("{}/{} {}", progress.done, progress.total, progress.note);
                }
            }
            Event::NodeWaiting { node, key, holder } => {
                self.forget(key);
                self.waiting.push(Waiting { key: *key, node: node.clone(), holder: holder.clone() });
            }
            Event::NodeReleased { key, .. } => self.forget(key),
            Event::NodeCached { key, .. } => self.end(key, |all| &mut all.hits),
            Event::NodeFinished { key, .. } => self.end(key, |all| &mut all.ran),
            Event::NodeSkipped { key, .. } => self.end(key, |all| &mut all.skipped),
            Event::NodeFailed { node, key, failure, .. } => {
                let error = failure.errors.first().map_or("", |error| error);
                self.failures.insert(*key, format!("{node} failed: {error}"));
                self.end(key, |all| &mut all.failed);
            }
            Event::Interrupted { .. } => self.stopping = true,
            Event::RunAsked { .. }
            | Event::NodeWarned { .. }
            | Event::ArtifactDamaged { .. }
            | Event::RunFinished { .. } => {}
        }
    }

    fn end(&mut self, key: &ArtifactKey, count: fn(&mut Self) -> &mut usize) {
        self.forget(key);
        *count(self) += 1;
        self.version += 1;
    }

    fn forget(&mut self, key: &ArtifactKey) {
        self.running.retain(|running| running.key != *key);
        self.waiting.retain(|waiting| waiting.key != *key);
    }

    /// The program was stopped for a while, in which nothing was computed.
    pub(super) fn was_stopped(&mut self, gap: Duration) {
        let now = Instant::now();
        self.running.iter_mut().for_each(|running| running.since = (running.since + gap).min(now));
    }
}
