//! Searches, round by round: which trials there are, as far as the store knows their results.
//!
//! A pipeline starts without trials. The sampler names those of the first round, the plan gives them keys, the store has their results
//! or not; where it has all of a round, the sampler names the next one. So a plan has every trial whose settings are known, and those
//! depend on the space, the seed, the size of rounds and results alone: neither on time nor on the number of workers. Nothing is
//! computed here.

mod outcomes;
mod spread;

use std::str::FromStr;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::kinds::{ScoreDef, ValMetric};
use ppgnn_stages::math::stats;

use crate::pipeline::{Choose, Group, Pipeline, PipelineError, Problems, Search, Standing};
use crate::plan::{Plan, SearchState, TrialState, searched};
use crate::search::{Ask, Race, Settings, Tried, expected, stopped, suggest};
use crate::store::Store;
use outcomes::{Outcome, Outcomes};
pub use spread::{Spread, spread};

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
        let outcomes = outcomes::all(&planned, pipeline, &objective, store);
        if !next_round(pipeline, &outcomes, &worth, store) {
            let larger_is_better = objective.metric().scale(&scores).larger_is_better;
            return Ok(with_states(planned, pipeline, &outcomes, larger_is_better));
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

/// Goes on with every search whose trials so far have ended: with all splits of those that are not too far behind in a race, else with
/// the next round, else with the choice. Returns whether anything changed.
fn next_round(pipeline: &mut Pipeline, outcomes: &[Vec<Outcomes>], worth: &dyn Fn(f64) -> f64, store: &Store) -> bool {
    let Some(search) = &mut pipeline.search else { return false };
    let mut changed = false;
    for (at, outcomes) in outcomes.iter().enumerate() {
        let group = &search.groups[at];
        let current = |trial: usize| outcomes[trial].at(group.standing[trial]);
        let is_open = (0..outcomes.len()).any(|trial| current(trial).is_open());
        if is_open || group.chosen.is_some() || group.failed {
            continue;
        }
        changed = true;
        if let Some(race) = search.race.filter(|_| goes_on(group, outcomes)) {
            let standing = raced(&race, group, outcomes, worth);
            search.groups[at].standing = standing;
            continue;
        }
        let scores = scores(group, outcomes, worth);
        let out_of_time = search.time.is_some_and(|time| {
            store.has_ended(&outcomes::digest(outcomes, time)) || outcomes::seconds(outcomes) >= time.as_secs_f64()
        });
        let next = if out_of_time { Vec::new() } else { sampled(search, group, &scores) };
        let best = best_whole(group, outcomes, worth);
        let of_splits = match (search.choose, best) {
            (Choose::PerSplit, Some(best)) if next.is_empty() => best_of_splits(best, outcomes, worth),
            _ => Vec::new(),
        };
        let most = search.trials;
        let group = &mut search.groups[at];
        group.scores = scores;
        if next.is_empty() {
            (group.chosen, group.of_splits, group.failed) = (best, of_splits, best.is_none());
            group.out_of_time = out_of_time && group.trials.len() < most;
        } else {
            search.add(at, next);
        }
    }
    search.unroll(&mut pipeline.sweep);
    changed
}

/// What every trial counts for the sampler, larger is better; none if it failed. One that stopped in a race is as far behind the best as
/// on the splits that it has.
fn scores(group: &Group, outcomes: &[Outcomes], worth: &dyn Fn(f64) -> f64) -> Vec<Option<f64>> {
    let best = best_whole(group, outcomes, worth).map(|best| outcomes[best].whole.worths(worth));
    let of_trial = |(trial, standing): (&Outcomes, &Standing)| match standing {
        Standing::Stopped => {
            let own = trial.first.worths(worth);
            Some(best.as_ref().and_then(|best| expected(best, &own)).unwrap_or_else(|| mean_of(&own)))
        }
        _ => trial.at(*standing).mean().map(worth),
    };
    outcomes.iter().zip(&group.standing).map(of_trial).collect()
}

/// The trials of the next round, by what those so far score; none when there are enough.
fn sampled(search: &Search, group: &Group, scores: &[Option<f64>]) -> Vec<Settings> {
    let tried = group.trials.iter().zip(scores);
    let tried: Vec<Tried> =
        tried.map(|(settings, score)| Tried { settings: settings.clone(), score: *score }).collect();
    let (first, sampler, seed) = (tried.len(), search.sampler, search.seed);
    match search.round.min(search.trials.saturating_sub(first)) {
        0 => Vec::new(),
        count => suggest(&Ask { space: &group.space, sampler, seed, first, count }, &tried),
    }
}

/// Whether trials have raced the first splits, and it has to be said which go on.
fn goes_on(group: &Group, outcomes: &[Outcomes]) -> bool {
    (0..outcomes.len()).any(|trial| group.standing[trial] == Standing::First && outcomes[trial].first.mean().is_some())
}

/// Which trials go on to all splits. The best so far is one that has them; in the first round, the best on the first splits.
fn raced(race: &Race, group: &Group, outcomes: &[Outcomes], worth: &dyn Fn(f64) -> f64) -> Vec<Standing> {
    let is_racing =
        |trial: &usize| group.standing[*trial] == Standing::First && outcomes[*trial].first.mean().is_some();
    let racing: Vec<usize> = (0..outcomes.len()).filter(is_racing).collect();
    let scores: Vec<Vec<Option<f64>>> = racing.iter().map(|trial| outcomes[*trial].first.worths(worth)).collect();
    let best = match best_whole(group, outcomes, worth) {
        Some(best) => outcomes[best].whole.worths_of_first(race.after, worth),
        None => {
            let best = scores.iter().reduce(|best, next| if mean_of(next) > mean_of(best) { next } else { best });
            best.cloned().unwrap_or_default()
        }
    };
    let mut standing = group.standing.clone();
    for (trial, stops) in racing.iter().zip(stopped(race, &best, &scores)) {
        standing[*trial] = if stops { Standing::Stopped } else { Standing::Whole };
    }
    standing
}

/// The trial with the best mean over all splits; the first of equal ones.
fn best_whole(group: &Group, outcomes: &[Outcomes], worth: &dyn Fn(f64) -> f64) -> Option<usize> {
    let whole = (0..outcomes.len()).filter(|trial| group.standing[*trial] == Standing::Whole);
    let scored = whole.filter_map(|trial| Some((trial, worth(outcomes[trial].whole.mean()?))));
    scored.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

/// For every split the trial that is best there. Few nodes make many equal scores: the best mean over splits decides, then the first.
fn best_of_splits(best: usize, outcomes: &[Outcomes], worth: &dyn Fn(f64) -> f64) -> Vec<usize> {
    let worths: Vec<Vec<Option<f64>>> = outcomes.iter().map(|trial| trial.whole.worths(worth)).collect();
    let rank = |trial: usize, split: usize| Some((worths[trial].get(split).copied()??, mean_of(&worths[trial])));
    let of_split = |split: usize| {
        let ranked = (0..worths.len()).filter_map(|trial| Some((trial, rank(trial, split)?)));
        ranked.reduce(|best, next| if next.1 > best.1 { next } else { best }).map_or(best, |(at, _)| at)
    };
    (0..worths[best].len()).map(of_split).collect()
}

/// The mean of the scores that are defined.
fn mean_of(scores: &[Option<f64>]) -> f64 {
    stats::mean(&scores.iter().flatten().copied().collect::<Vec<_>>()).unwrap_or(f64::NEG_INFINITY)
}

/// Tells the plan how far the searches are.
fn with_states(mut plan: Plan, pipeline: &Pipeline, outcomes: &[Vec<Outcomes>], larger_is_better: bool) -> Plan {
    let Some(search) = &pipeline.search else { return plan };
    let stages = searched(pipeline);
    for (group, outcomes) in search.groups.iter().zip(outcomes) {
        let trials = group.trials.iter().zip(outcomes).zip(&group.standing).map(|((settings, outcomes), standing)| {
            let outcome = outcomes.at(*standing);
            let whole = (*standing == Standing::Whole).then_some(outcome);
            TrialState {
                settings: settings.clone(),
                score: whole.and_then(Outcome::mean),
                error: whole.map_or(0.0, Outcome::error),
                scores: outcome.worths(&|score| score),
                test: whole.and_then(Outcome::test),
                failed: if let Outcome::Failed(why) = outcome { Some(why.clone()) } else { None },
                stopped: if *standing == Standing::Stopped { outcome.mean() } else { None },
                reused: outcomes.reused.clone(),
            }
        });
        let ended_at = search.time.filter(|_| group.out_of_time);
        plan.searches.push(SearchState {
            label: group.label.clone(),
            objective: search.objective.name.clone(),
            sampler: search.sampler.name(),
            larger_is_better,
            of: search.trials,
            trials: trials.collect(),
            chosen: group.chosen,
            of_splits: group.of_splits.clone(),
            out_of_time: ended_at.map(|time| outcomes::digest(outcomes, time)),
            stages: stages.clone(),
            ended: group.chosen.is_some() || group.failed,
        });
    }
    plan
}
