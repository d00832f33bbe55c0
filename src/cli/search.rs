//! `ppgnn search`: what searches tried, and what they chose.

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;
use serde_json::{Value, json};

use super::failure::Failure;
use super::project::PipelineArgs;
use super::{exit, print, print_json, trials};
use crate::pipeline::text_of;
use crate::plan::{SearchState, TrialState};
use crate::search::importance;

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
                print(&searches.iter().map(as_text).collect::<Vec<_>>().join("\n"))?;
            }
        }
        Command::Best { of } => {
            let searches = of.searches(registry)?;
            if args.json {
                let best = |search: &SearchState| {
                    let chosen = search.chosen.map(|at| &search.trials[at]);
                    json!({"point": search.label, "trial": search.chosen, "settings": chosen.map(|trial| &trial.settings)})
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

/// A score and its standard error over splits.
fn score_text(trial: &TrialState) -> String {
    match (trial.score, &trial.failed) {
        (Some(score), _) => format!("{score:.4} ± {:.4}", trial.error),
        (None, Some(_)) => "failed".into(),
        (None, None) => "open".into(),
    }
}

/// How the search stands, in a line.
fn headline(search: &SearchState) -> String {
    let ended = search.trials.iter().filter(|trial| trial.score.is_some() || trial.failed.is_some()).count();
    let best = search.best().map(|(at, trial)| {
        format!(
            "; best: trial {at} with {}, {} trials within one standard error of it",
            score_text(trial),
            search.near_best()
        )
    });
    let state = if search.ended { "ended" } else { "open" };
    let of = if search.ended { search.trials.len() } else { search.of };
    format!(
        "{}: {ended} of {of} trials, {state} ({}, mean of {} over splits ± standard error){}",
        search.label,
        search.sampler,
        search.objective,
        best.unwrap_or_default()
    )
}

fn as_text(search: &SearchState) -> String {
    let mut out = headline(search) + "\n";
    let mut so_far = None;
    for (at, trial) in search.trials.iter().enumerate() {
        let is_better = trial.score.is_some_and(|_| so_far.is_none_or(|best| search.is_better(at, best)));
        if is_better {
            so_far = Some(at);
        }
        let mark = if search.chosen == Some(at) {
            "chosen"
        } else if is_better {
            "best so far"
        } else {
            ""
        };
        let settings = trial.settings.iter().map(|(path, value)| format!("{path}={}", text_of(value)));
        let settings = settings.collect::<Vec<_>>().join(" ");
        let why = trial.failed.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
        out.push_str(format!("{at:>5}  {:<17}  {mark:<11}  {settings}{why}", score_text(trial)).trim_end());
        out.push('\n');
    }
    let shares = importance(&scored(search));
    if !shares.is_empty() {
        let shares = shares.iter().map(|(path, share)| format!("{path} {:.0} %", 100.0 * share));
        out.push_str(&format!("share of the variance of scores: {}\n", shares.collect::<Vec<_>>().join(", ")));
    }
    out
}

fn scored(search: &SearchState) -> Vec<(&std::collections::BTreeMap<String, Value>, f64)> {
    search.trials.iter().filter_map(|trial| Some((&trial.settings, trial.score?))).collect()
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
    let trial = &search.trials[at];
    let of = search.trials.len();
    let mut out = format!("# {}: trial {at} of {of}, {} {}\n", search.label, search.objective, score_text(trial));
    for (path, value) in &trial.settings {
        out.push_str(&format!("{path}: {value}\n"));
    }
    out
}

fn as_json(search: &SearchState) -> Value {
    let trial = |(at, trial): (usize, &TrialState)| {
        json!({
            "trial": at, "score": trial.score, "standard-error": trial.score.map(|_| trial.error),
            "failed": trial.failed, "settings": trial.settings,
        })
    };
    json!({
        "point": search.label, "objective": search.objective, "sampler": search.sampler, "of": search.of,
        "ended": search.ended, "chosen": search.chosen, "best": search.best().map(|(at, _)| at),
        "within-one-standard-error": search.near_best(),
        "importance": importance(&scored(search)).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "trials": search.trials.iter().enumerate().map(trial).collect::<Vec<_>>(),
    })
}
