//! Trials of searches as a tidy table, which `search show` prints and `run` publishes beside every table.

use std::collections::BTreeSet;

use super::failure::Failure;
use crate::pipeline::text_of;
use crate::plan::SearchState;

/// What every trial has, before its settings.
const HEAD: [&str; 11] = [
    "point",
    "trial",
    "chosen",
    "score",
    "standard-error",
    "failed",
    "stopped-with",
    "best-so-far",
    "test",
    "reused",
    "scores",
];

/// One line per trial, one column per parameter.
pub fn csv(searches: &[SearchState]) -> Result<String, Failure> {
    let paths: BTreeSet<&String> =
        searches.iter().flat_map(|search| &search.trials).flat_map(|trial| trial.settings.keys()).collect();
    let mut out = csv::Writer::from_writer(Vec::new());
    let unexpected = |e: csv::Error| Failure::unexpected(e.to_string());
    out.write_record(HEAD.into_iter().chain(paths.iter().map(|path| path.as_str()))).map_err(unexpected)?;
    for search in searches {
        let mut best = None;
        for (at, trial) in search.trials.iter().enumerate() {
            if trial.score.is_some() && best.is_none_or(|best| search.is_better(at, best)) {
                best = Some(at);
            }
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let own: [String; HEAD.len()] = [
                search.label.clone(),
                at.to_string(),
                search.is_chosen(at).to_string(),
                number(trial.score),
                number(trial.score.map(|_| trial.error)),
                trial.failed.clone().unwrap_or_default(),
                number(trial.stopped),
                number(best.and_then(|best| search.trials[best].score)),
                number(trial.test),
                trial.reused.clone().unwrap_or_default(),
                trial.scores.iter().map(|score| number(*score)).collect::<Vec<_>>().join(" "),
            ];
            let settings = paths.iter().map(|path| trial.settings.get(*path).map(text_of).unwrap_or_default());
            out.write_record(own.into_iter().chain(settings)).map_err(unexpected)?;
        }
    }
    let bytes = out.into_inner().map_err(|e| Failure::unexpected(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Failure::unexpected(e.to_string()))
}
