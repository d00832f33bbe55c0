//! `ppgnn search`: what searches tried, and what they chose.

use std::collections::BTreeSet;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Value, json};

use super::failure::Failure;
use super::project::PipelineArgs;
use super::tried::{self, score_text, scored, splits_of};
use super::{exit, print, print_json, trials};
use crate::plan::{SearchState, TrialState};
use crate::search::importance;
use crate::study::spread;

/// Show what searches tried, or the settings that they chose
///
/// Nothing is computed: trials are read from the store. `ppgnn run` goes on with a search that has not ended.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON object
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the trials of every search, the best so far, and which parameters matter
    ///
    /// A parameter matters as far as the mean scores of its values differ: the share of the variance of all scores that lies
    /// between them. Numbers of a range are compared in four groups of equal size. It says nothing of how parameters act together.
    Show {
        #[command(flatten)]
        of: SearchArgs,
        /// Print the trials as CSV
        #[arg(long)]
        csv: bool,
    },
    /// Print the settings that were chosen, as YAML to paste under `set`
    Best {
        #[command(flatten)]
        of: SearchArgs,
    },
}

/// A pipeline and some of its searches.
#[derive(clap::Args)]
struct SearchArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Searches, by the point that they are for, such as `texas/GCN`, or by a part of it (default: all)
    #[arg(value_name = "POINT")]
    points: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    match &args.command {
        Command::Show { of, csv } => {
            let searches = of.searches(registry)?;
            if args.json {
                print_json(&json!({"version": 1, "searches": searches.iter().map(as_json).collect::<Vec<_>>()}))?;
            } else if *csv {
                print(&trials::csv(&searches)?)?;
            } else {
                print(&searches.iter().map(tried::as_text).collect::<Vec<_>>().join("\n"))?;
            }
        }
        Command::Best { of } => {
            let searches = of.searches(registry)?;
            if args.json {
                let best = |search: &SearchState| {
                    let chosen = search.chosen.map(|at| &search.trials[at]);
                    json!({
                        "point": search.label, "trial": search.chosen, "settings": chosen.map(|trial| &trial.settings),
                        "of-splits": search.of_splits,
                    })
                };
                print_json(&json!({"version": 1, "searches": searches.iter().map(best).collect::<Vec<_>>()}))?;
            } else {
                print(&searches.iter().map(chosen_text).collect::<Vec<_>>().join("\n"))?;
            }
        }
    }
    Ok(exit::DONE)
}

impl SearchArgs {
    fn searches(&self, registry: &Registry) -> Result<Vec<SearchState>, Failure> {
        let all = self.pipeline.plan(registry)?.searches;
        if all.is_empty() {
            let hint = "`search:` beside `sweep:` declares one; see docs/search.md";
            return Err(Failure::usage("the pipeline has no search", Some(hint)));
        }
        let means = |point: &str, label: &str| label == point || label.split('/').any(|part| part == point);
        if let Some(point) = self.points.iter().find(|point| !all.iter().any(|search| means(point, &search.label))) {
            let hint = nearest_help(point, all.iter().map(|search| search.label.as_str()));
            return Err(Failure::usage(format!("there is no search `{point}`"), Some(&hint)));
        }
        let wanted = |search: &SearchState| {
            self.points.is_empty() || self.points.iter().any(|point| means(point, &search.label))
        };
        Ok(all.into_iter().filter(wanted).collect())
    }
}

fn chosen_text(search: &SearchState) -> String {
    let Some(at) = search.chosen else {
        return format!(
            "# {}: nothing is chosen yet, {} of {} trials\n",
            search.label,
            scored(search).len(),
            search.of
        );
    };
    let of = search.trials.len();
    let mut out = String::new();
    let several: BTreeSet<usize> = search.of_splits.iter().copied().collect();
    let chosen = if several.is_empty() { BTreeSet::from([at]) } else { several };
    for at in chosen {
        let (trial, splits) = (&search.trials[at], splits_of(search, at));
        let splits = if splits.is_empty() { splits } else { format!(" for splits {splits}") };
        let (objective, score) = (&search.objective, score_text(trial));
        out.push_str(&format!("# {}: trial {at} of {of}{splits}, {objective} {score}\n", search.label));
        for (path, value) in &trial.settings {
            out.push_str(&format!("{path}: {value}\n"));
        }
    }
    out
}

fn as_json(search: &SearchState) -> Value {
    let trial = |(at, trial): (usize, &TrialState)| {
        json!({
            "trial": at, "score": trial.score, "standard-error": trial.score.map(|_| trial.error),
            "scores": trial.scores, "failed": trial.failed, "stopped-with": trial.stopped, "test": trial.test, "reused": trial.reused,
            "settings": trial.settings,
        })
    };
    json!({
        "point": search.label, "objective": search.objective, "sampler": search.sampler, "of": search.of,
        "ended": search.ended, "chosen": search.chosen, "best": search.best().map(|(at, _)| at),
        "of-splits": search.of_splits, "out-of-time": search.out_of_time.is_some(),
        "within-one-standard-error": search.near_best().len().saturating_sub(1),
        "test-spread": spread(search).map(|spread| json!({
            "trials": spread.count, "least": spread.least, "most": spread.most, "mean": spread.mean,
            "standard-deviation": spread.deviation,
        })),
        "importance": importance(&scored(search)).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "trials": search.trials.iter().enumerate().map(trial).collect::<Vec<_>>(),
    })
}
