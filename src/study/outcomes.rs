//! How trials ended, as the store knows it.

use std::time::Duration;

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::{Metric, Metrics, Part, ValMetric};
use ppgnn_stages::math::stats::{self, Divisor};

use crate::pipeline::{Pipeline, Standing, TRIAL_AXIS};
use crate::plan::{NodeId, Plan};
use crate::store::{Opened, Store};

/// How a trial ended, on the first splits of a race and on all.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    pub(super) first: Outcome,
    pub(super) whole: Outcome,
    /// How long its nodes took, as far as they are there.
    seconds: f64,
    /// The keys of the nodes that say how good it is.
    keys: Vec<String>,
    /// What the node with its scores was called where it was computed, if that was elsewhere.
    pub(super) reused: Option<String>,
}

/// How a trial ended.
#[derive(Clone, Debug, Default)]
pub(super) enum Outcome {
    /// With these scores, by node and split; and on test nodes, where those were scored.
    Scored { scores: Vec<Vec<Option<f64>>>, test: Vec<f64> },
    /// It failed, and always will.
    Failed(String),
    /// It has not ended.
    Open,
    /// It is not planned, or its data is missing.
    #[default]
    NoData,
}

impl Outcomes {
    /// Returns what counts of a trial.
    pub(super) fn at(&self, standing: Standing) -> &Outcome {
        if standing == Standing::Whole { &self.whole } else { &self.first }
    }
}

impl Outcome {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open | Self::NoData)
    }

    /// Returns the mean over splits.
    pub(super) fn mean(&self) -> Option<f64> {
        stats::mean(&self.defined())
    }

    /// Returns the standard error of the mean.
    pub(super) fn error(&self) -> f64 {
        let values = self.defined();
        stats::std(&values, Divisor::Sample).unwrap_or(0.0) / (values.len().max(1) as f64).sqrt()
    }

    /// Returns the mean on test nodes.
    pub(super) fn test(&self) -> Option<f64> {
        if let Self::Scored { test, .. } = self { stats::mean(test) } else { None }
    }

    /// Returns what every split is worth, larger is better.
    pub(super) fn worths(&self, worth: &dyn Fn(f64) -> f64) -> Vec<Option<f64>> {
        self.worths_of_first(usize::MAX, worth)
    }

    /// Returns what the first splits of every node are worth.
    pub(super) fn worths_of_first(&self, splits: usize, worth: &dyn Fn(f64) -> f64) -> Vec<Option<f64>> {
        let Self::Scored { scores, .. } = self else { return Vec::new() };
        scores.iter().flat_map(|of_node| of_node.iter().take(splits)).map(|score| score.map(worth)).collect()
    }

    fn defined(&self) -> Vec<f64> {
        self.worths(&|score| score).into_iter().flatten().collect()
    }
}

/// Returns how every trial of every search ended.
pub(super) fn all(plan: &Plan, pipeline: &Pipeline, objective: &ValMetric, store: &Store) -> Vec<Vec<Outcomes>> {
    let groups = pipeline.search.iter().flat_map(|search| &search.groups);
    let mut all: Vec<Vec<Outcomes>> = groups.map(|group| vec![Outcomes::default(); group.trials.len()]).collect();
    let is_timed = pipeline.search.as_ref().is_some_and(|search| search.time.is_some());
    for trial in &plan.trials {
        let Some(place) = all.get_mut(trial.search).and_then(|of| of.get_mut(trial.trial)) else { continue };
        let nodes: Option<Vec<NodeId>> = trial.nodes.iter().copied().collect();
        let ended = nodes.as_ref().map_or(Outcome::NoData, |nodes| outcome(plan, nodes, objective, store));
        if is_timed {
            let nodes = nodes.unwrap_or_default();
            place.seconds += taken(plan, &nodes, store);
            place.keys.extend(nodes.iter().map(|id| plan.node(*id).key.to_string()));
        }
        place.reused =
            place.reused.take().or_else(|| trial.nodes.iter().flatten().find_map(|id| elsewhere(plan, *id, store)));
        *(if trial.first { &mut place.first } else { &mut place.whole }) = ended;
    }
    all
}

fn outcome(plan: &Plan, nodes: &[NodeId], objective: &ValMetric, store: &Store) -> Outcome {
    let of_test = Metric { part: Part::Test, score: objective.metric().score.clone() };
    let (mut scores, mut test) = (Vec::new(), Vec::new());
    for id in nodes {
        let node = plan.node(*id);
        let metrics = match store.open_artifact(&node.key, node.stage.name) {
            Ok(Opened::Hit(entry)) => Metrics::load(&entry.dir).ok(),
            _ => None,
        };
        let Some(metrics) = metrics else {
            let needed = plan.ancestors(&[*id]);
            let failed = plan.iter().filter(|(at, _)| needed[at.0]).find_map(|(_, node)| store.failure(&node.key));
            return failed.map_or(Outcome::Open, Outcome::Failed);
        };
        let of = |metric: &Metric| -> Vec<Option<f64>> {
            metrics.splits.iter().map(|split| metric.of(split)?.as_ref().ok().copied()).collect()
        };
        scores.push(of(objective.metric()));
        test.extend(of(&of_test).into_iter().flatten());
    }
    match scores.iter().flatten().any(Option::is_some) {
        true => Outcome::Scored { scores, test },
        false => Outcome::Failed(format!("{objective} is undefined")),
    }
}

/// What a node was called where it was computed, if it has no such name here.
fn elsewhere(plan: &Plan, id: NodeId, store: &Store) -> Option<String> {
    let node = plan.node(id);
    let origin = store.get(&node.key, node.stage.name)?.manifest.node;
    let is_here = std::iter::once(&node.name).chain(&node.aliases).any(|name| name.to_string() == origin);
    (!is_here).then_some(origin)
}

/// How long the nodes that only a trial needs took.
fn taken(plan: &Plan, nodes: &[NodeId], store: &Store) -> f64 {
    let needed = plan.ancestors(nodes);
    let own = plan.iter().filter(|(id, node)| needed[id.0] && node.axes.iter().any(|(axis, _)| axis == TRIAL_AXIS));
    own.filter_map(|(_, node)| store.get(&node.key, node.stage.name)).map(|entry| entry.manifest.seconds).sum()
}

/// Returns how long all trials took.
pub(super) fn seconds(outcomes: &[Outcomes]) -> f64 {
    outcomes.iter().map(|trial| trial.seconds).sum()
}

/// Returns what identifies the end of a search after some trials.
pub(super) fn digest(outcomes: &[Outcomes], time: Duration) -> String {
    let mut hasher = blake3::Hasher::new();
    for key in outcomes.iter().flat_map(|trial| &trial.keys) {
        hasher.update(key.as_bytes()).update(b" ");
    }
    hasher.update(&time.as_millis().to_le_bytes());
    hasher.finalize().to_hex().to_string()
}
