//! Searches, round by round: which trials there are, as far as the store knows their results.
//!
//! A pipeline starts without trials. The sampler names those of the first round, the plan gives them keys, the store has their results
//! or not; where it has all of a round, the sampler names the next one. So a plan has every trial whose settings are known, and those
//! depend on the space, the seed, the size of rounds and results alone: neither on time nor on the number of workers. Nothing is
//! computed here.

use std::str::FromStr;

use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::kinds::{Metrics, ScoreDef, ValMetric};
use ppgnn_stages::math::stats::{self, Divisor};

use crate::pipeline::{Pipeline, PipelineError, Problems};
use crate::plan::{NodeId, Plan, SearchState, TrialState};
use crate::search::{Ask, Tried, suggest};
use crate::store::{Opened, Store};

/// How a trial ended.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    /// With this mean of the objective over splits, and its standard error.
    Scored(f64, f64),
    /// It failed, and always will.
    Failed(String),
    /// It has not ended.
    Open,
    /// Its data is missing.
    NoData,
}

/// Plans a pipeline with every trial whose settings are known. `plan` plans it with those that it has.
///
/// # Errors
/// Every problem with the pipeline, and with the objective.
pub fn unroll(
    pipeline: &mut Pipeline,
    registry: &Registry,
    store: &Store,
    plan: &dyn Fn(&Pipeline) -> Result<Plan, PipelineError>,
) -> Result<Plan, PipelineError> {
    if pipeline.search.is_none() {
        return plan(pipeline);
    }
    let objective = begin(pipeline, registry)?;
    let scores: Vec<&'static ScoreDef> = registry.rows().collect();
    let worth = |mean: f64| objective.metric().scale(&scores).worth(mean);
    loop {
        let planned = plan(pipeline)?;
        let outcomes = outcomes(&planned, pipeline, &objective, store);
        if !next_round(pipeline, &outcomes, &worth) {
            let larger_is_better = objective.metric().scale(&scores).larger_is_better;
            return Ok(with_states(planned, pipeline, outcomes, larger_is_better));
        }
    }
}

/// Gives the searches of a pipeline their first round, and returns the metric that decides.
///
/// # Errors
/// When it is none of validation nodes.
pub fn begin(pipeline: &mut Pipeline, registry: &Registry) -> Result<ValMetric, PipelineError> {
    let objective = objective(pipeline, registry)?;
    first_round(pipeline);
    Ok(objective)
}

/// The metric that decides: one of validation nodes that the program has.
fn objective(pipeline: &Pipeline, registry: &Registry) -> Result<ValMetric, PipelineError> {
    let Some(search) = &pipeline.search else { return Ok(ValMetric::of("accuracy")) };
    let Ok(parsed) = ValMetric::from_str(&search.objective.name).map_err(|why| why.to_string()) else {
        let mut problems = Problems::default();
        let message =
            format!("`{}` cannot decide on settings: it is no metric of validation nodes", search.objective.name);
        let help = "name one such as `val-accuracy`; choosing on test nodes would report a biased number";
        problems.add(&search.objective.span, message, Some(help.into()));
        return Err(problems.into_error(&pipeline.sources));
    };
    let known: Vec<&str> = registry.rows::<ScoreDef>().map(|row| row.variant.name).collect();
    if !known.contains(&parsed.metric().score.as_str()) {
        let mut problems = Problems::default();
        let names: Vec<String> = known.iter().map(|name| format!("val-{name}")).collect();
        let help = nearest_help(&search.objective.name, names.iter().map(String::as_str));
        problems.add(&search.objective.span, format!("there is no metric `{}`", search.objective.name), Some(help));
        return Err(problems.into_error(&pipeline.sources));
    }
    Ok(parsed)
}

fn first_round(pipeline: &mut Pipeline) {
    let Some(search) = &mut pipeline.search else { return };
    for at in 0..search.groups.len() {
        let (sampler, seed, count) = (search.sampler, search.seed, search.round.min(search.trials));
        let first = suggest(&Ask { space: &search.groups[at].space, sampler, seed, first: 0, count }, &[]);
        search.add(at, first);
    }
    search.unroll(&mut pipeline.sweep);
}

/// Adds the next round where all results of the last one are there, or chooses. Returns whether anything was added or chosen.
fn next_round(pipeline: &mut Pipeline, outcomes: &[Vec<Outcome>], worth: &dyn Fn(f64) -> f64) -> bool {
    let Some(search) = &mut pipeline.search else { return false };
    let mut changed = false;
    for (at, outcomes) in outcomes.iter().enumerate() {
        let group = &search.groups[at];
        let is_open = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Open | Outcome::NoData));
        if is_open || group.chosen.is_some() || group.failed {
            continue;
        }
        let scores =
            outcomes.iter().map(|outcome| if let Outcome::Scored(mean, _) = outcome { Some(*mean) } else { None });
        let scores: Vec<Option<f64>> = scores.collect();
        let tried = group.trials.iter().zip(&scores);
        let tried: Vec<Tried> =
            tried.map(|(settings, score)| Tried { settings: settings.clone(), score: score.map(worth) }).collect();
        let (first, sampler, seed) = (tried.len(), search.sampler, search.seed);
        let count = search.round.min(search.trials.saturating_sub(first));
        let next = suggest(&Ask { space: &group.space, sampler, seed, first, count }, &tried);
        let group = &mut search.groups[at];
        group.scores = scores;
        if next.is_empty() {
            group.chosen = best(&tried);
            group.failed = group.chosen.is_none();
        } else {
            search.add(at, next);
        }
        changed = true;
    }
    search.unroll(&mut pipeline.sweep);
    changed
}

/// The trial with the best score; the first of equal ones.
fn best(tried: &[Tried]) -> Option<usize> {
    let scored = tried.iter().enumerate().filter_map(|(at, trial)| Some((at, trial.score?)));
    scored.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// How every trial of every search ended.
fn outcomes(plan: &Plan, pipeline: &Pipeline, objective: &ValMetric, store: &Store) -> Vec<Vec<Outcome>> {
    let groups = pipeline.search.iter().flat_map(|search| &search.groups);
    let mut all: Vec<Vec<Outcome>> = groups.map(|group| vec![Outcome::NoData; group.trials.len()]).collect();
    for trial in &plan.trials {
        let nodes: Option<Vec<NodeId>> = trial.nodes.iter().copied().collect();
        if let Some(place) = all.get_mut(trial.search).and_then(|of| of.get_mut(trial.trial)) {
            *place = nodes.map_or(Outcome::NoData, |nodes| outcome(plan, &nodes, objective, store));
        }
    }
    all
}

fn outcome(plan: &Plan, nodes: &[NodeId], objective: &ValMetric, store: &Store) -> Outcome {
    let mut values = Vec::new();
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
        values.extend(metrics.splits.iter().filter_map(|split| objective.metric().of(split)?.as_ref().ok().copied()));
    }
    let Some(mean) = stats::mean(&values) else { return Outcome::Failed(format!("{objective} is undefined")) };
    let spread = stats::std(&values, Divisor::Sample).unwrap_or(0.0);
    Outcome::Scored(mean, spread / (values.len() as f64).sqrt())
}

/// Tells the plan how far the searches are.
fn with_states(mut plan: Plan, pipeline: &Pipeline, outcomes: Vec<Vec<Outcome>>, larger_is_better: bool) -> Plan {
    let Some(search) = &pipeline.search else { return plan };
    for (group, outcomes) in search.groups.iter().zip(outcomes) {
        let trials = group.trials.iter().zip(outcomes).map(|(settings, outcome)| {
            let (score, error, failed) = match outcome {
                Outcome::Scored(mean, error) => (Some(mean), error, None),
                Outcome::Failed(why) => (None, 0.0, Some(why)),
                Outcome::Open | Outcome::NoData => (None, 0.0, None),
            };
            TrialState { settings: settings.clone(), score, error, failed }
        });
        plan.searches.push(SearchState {
            label: group.label.clone(),
            objective: search.objective.name.clone(),
            sampler: search.sampler.name(),
            larger_is_better,
            of: search.trials,
            trials: trials.collect(),
            chosen: group.chosen,
            ended: group.chosen.is_some() || group.failed,
        });
    }
    plan
}
