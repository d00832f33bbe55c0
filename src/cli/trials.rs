//! Trials of searches as a tidy table, which `search show` prints and `run` publishes beside every table.

use std::collections::BTreeSet;

use super::failure::Failure;
use crate::pipeline::text_of;
use crate::plan::SearchState;

/// One line per trial, one column per parameter.
pub fn csv(searches: &[SearchState]) -> Result<String, Failure> {
    let paths: BTreeSet<&String> =
        searches.iter().flat_map(|search| &search.trials).flat_map(|trial| trial.settings.keys()).collect();
    let mut out = csv::Writer::from_writer(Vec::new());
    let unexpected = |e: csv::Error| Failure::unexpected(e.to_string());
    let head = ["point", "trial", "chosen", "score", "standard-error", "failed"].into_iter().map(str::to_owned);
    out.write_record(head.chain(paths.iter().map(|path| (*path).clone()))).map_err(unexpected)?;
    for search in searches {
        for (at, trial) in search.trials.iter().enumerate() {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let own = [
                search.label.clone(),
                at.to_string(),
                (search.chosen == Some(at)).to_string(),
                number(trial.score),
                number(trial.score.map(|_| trial.error)),
                trial.failed.clone().unwrap_or_default(),
            ];
            let settings = paths.iter().map(|path| trial.settings.get(*path).map(text_of).unwrap_or_default());
            out.write_record(own.into_iter().chain(settings)).map_err(unexpected)?;
        }
    }
    let bytes = out.into_inner().map_err(|e| Failure::unexpected(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Failure::unexpected(e.to_string()))
}
