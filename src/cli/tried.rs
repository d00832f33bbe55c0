//! What a search tried, in words: `search show` prints it, and a report has it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::pipeline::{plural, text_of};
use crate::plan::{SearchState, TrialState};
use crate::report::{Grid, Section};
use crate::search::importance;
use crate::study::{Spread, spread};

/// A score and its standard error over splits.
pub fn score_text(trial: &TrialState) -> String {
    match (trial.score, trial.stopped) {
        (Some(score), _) => format!("{score:.4} ± {:.4}", trial.error),
        (None, _) if trial.failed.is_some() => "failed".into(),
        (None, Some(mean)) => format!("stopped {mean:.4}"),
        (None, None) => "open".into(),
    }
}

/// How the search stands, in a line.
fn headline(search: &SearchState) -> String {
    let ended = search.trials.iter().filter(|trial| trial.has_ended()).count();
    let best = search.best().map(|(at, trial)| {
        let others = plural(search.near_best().len() - 1, "trial", "trials");
        format!("; best: trial {at} with {}, {others} within one standard error of it", score_text(trial))
    });
    let state = match (search.ended, &search.out_of_time) {
        (_, Some(_)) => "out of time",
        (true, None) => "ended",
        (false, None) => "open",
    };
    let of = if search.ended { search.trials.len() } else { search.of };
    format!(
        "{}: {ended} of {}, {state} ({}, mean of {} over splits ± standard error){}",
        search.label,
        plural(of, "trial", "trials"),
        search.sampler,
        search.objective,
        best.unwrap_or_default()
    )
}

/// A trial in words: its number, score, mark, and everything else.
fn trials(search: &SearchState) -> Vec<[String; 4]> {
    let mut so_far = None;
    let mut told = |(at, trial): (usize, &TrialState)| {
        let is_better = trial.score.is_some_and(|_| so_far.is_none_or(|best| search.is_better(at, best)));
        if is_better {
            so_far = Some(at);
        }
        let splits = splits_of(search, at);
        let mark = match (search.is_chosen(at), is_better) {
            (true, _) if splits.is_empty() => "chosen".to_owned(),
            (true, _) => format!("chosen for {splits}"),
            (false, true) => "best so far".into(),
            (false, false) => String::new(),
        };
        let settings = trial.settings.iter().map(|(path, value)| format!("{path}={}", text_of(value)));
        let settings = settings.collect::<Vec<_>>().join(" ");
        let test = trial.test.map(|test| format!("  (test {test:.4})")).unwrap_or_default();
        let why = trial.failed.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
        let from = trial.reused.as_ref().map(|name| format!("  (reused: {name})")).unwrap_or_default();
        [at.to_string(), score_text(trial), mark, format!("{settings}{test}{why}{from}")]
    };
    search.trials.iter().enumerate().map(&mut told).collect()
}

/// What is said of all trials together.
fn remarks(search: &SearchState) -> Vec<String> {
    let mut said: Vec<String> = spread_text(search).into_iter().collect();
    let shares = importance(&scored(search));
    if !shares.is_empty() {
        let shares = shares.iter().map(|(path, share)| format!("{path} {:.0} %", 100.0 * share));
        said.push(format!("share of the variance of scores: {}", shares.collect::<Vec<_>>().join(", ")));
    }
    said
}

/// Returns all of it as text.
pub fn as_text(search: &SearchState) -> String {
    let mut out = headline(search) + "\n";
    for [at, score, mark, told] in trials(search) {
        out.push_str(format!("{at:>5}  {score:<17}  {mark:<11}  {told}").trim_end());
        out.push('\n');
    }
    out.extend(remarks(search).into_iter().map(|line| line + "\n"));
    out
}

/// Returns it as a section: of all trials, or of those alone that were chosen or the best so far.
pub fn section(search: &SearchState, all: bool) -> Section {
    let rows = trials(search).into_iter().filter(|[.., mark, _]| all || !mark.is_empty()).map(Vec::from).collect();
    let columns = ["trial", "score", "", "settings"].map(str::to_owned).to_vec();
    let mut lines = remarks(search);
    if !all {
        lines.push("chosen trials and the best so far; `ppgnn search show` lists all".to_owned());
    }
    Section { heading: headline(search), lines, grid: Some(Grid { columns, rows }) }
}

/// The splits that a trial was chosen for, where every split has its own.
pub fn splits_of(search: &SearchState, trial: usize) -> String {
    let splits = search.of_splits.iter().enumerate().filter(|(_, chosen)| **chosen == trial);
    splits.map(|(split, _)| split.to_string()).collect::<Vec<_>>().join(",")
}

fn spread_text(search: &SearchState) -> Option<String> {
    let score = search.objective.strip_prefix("val-").unwrap_or(&search.objective);
    match spread(search) {
        Some(Spread { count, least, most, mean, deviation }) => Some(format!(
            "test-{score} of the {count} trials within one standard error of the best: {least:.4} to {most:.4}, mean {mean:.4}, \
             standard deviation {deviation:.4}"
        )),
        None if search.ended && search.near_best().len() > 1 => Some(format!(
            "test-{score} of the trials within one standard error of the best is not known; `test: all` of the search computes it"
        )),
        None => None,
    }
}

/// The settings and scores of the trials that have one.
pub fn scored(search: &SearchState) -> Vec<(&BTreeMap<String, Value>, f64)> {
    search.trials.iter().filter_map(|trial| Some((&trial.settings, trial.score?))).collect()
}
