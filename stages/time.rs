//! `time`: how long stages take, measured by computing them again.
//!
//! Nothing else runs meanwhile, and nothing of what is computed is kept: the numbers are the result. They are of this machine, which
//! is in the key, so a store that was copied from another one is measured anew. What comes first warms caches up and
//! is not counted, unless it is asked for.
//!
//! Every stage under `stages` from which `of` was made gives `<stage>.count`, how many nodes of it there are, `<stage>.seconds` of all
//! of them together, one value for each repetition, and what it tells
//! of itself, such as `train.split-seconds` with one value for each split and repetition. `total-seconds` is the sum of all stages, and
//! `amortised-seconds` adds to every split of the first of them a share of what is computed once for many runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::again::{How, Timed};
use crate::contract::device::Device;
use crate::contract::params::{self, Problem};
use crate::contract::{Job, Kind, Measures, Progress, Slot, Stage, StageError};
use crate::kinds::Facts;
use crate::math::stats;

/// The measure that a stage of several splits tells of each.
const SPLIT: &str = "split-seconds";

/// Parameters of `time`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The stages that are measured, by what they do: `train`, not the name of a stage of your own.
    #[schemars(length(min = 1))]
    pub stages: Vec<String>,
    /// How many runs share what a stage gives, for `amortised-seconds`.
    pub share: BTreeMap<String, u32>,
    /// How often each is measured.
    #[schemars(range(min = 1, max = 1000))]
    pub repeats: usize,
    /// Threads that it gets; a run with fewer cores refuses to measure.
    #[schemars(range(min = 1))]
    pub threads: usize,
    /// Whether each is computed once before it is measured, so that caches are warm.
    pub warm_up: bool,
    /// Whether all trials of the search behind it are measured, instead of the chosen one.
    pub whole_search: bool,
    /// Whether splits are computed one after the other, as PyTorch programs do, or as in any other run.
    pub one_by_one: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            stages: vec!["train".into()],
            share: BTreeMap::new(),
            repeats: 3,
            threads: 1,
            warm_up: true,
            whole_search: false,
            one_by_one: true,
        }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (stage, runs) in &self.share {
            if !self.stages.contains(stage) {
                let message = format!("`{stage}` is not among the measured stages");
                problems.push(Problem::value("share", message).with_help("add it to `stages`"));
            }
            if *runs == 0 {
                problems.push(Problem::value("share", format!("`{stage}` is shared by 0 runs, expected 1 or more")));
            }
        }
        if self.stages.iter().all(|stage| self.share.contains_key(stage)) {
            problems.push(Problem::value("stages", "every measured stage is shared, expected one that is not"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The stage.
pub struct Time;

impl Stage for Time {
    const NAME: &'static str = "time";
    const ABOUT: &'static str = "Measures how long stages take, alone on the machine";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many("of", Kind::ANY)];
    const MEASURES: Option<Measures> =
        Some(Measures { slot: "of", param: "stages", whole_search: "whole-search", reads: "reads" });
    const ON_DEVICE: bool = true;
    type Params = Params;
    type Output = Facts;

    fn run(params: &Params, job: &Job) -> Result<Facts, StageError> {
        if job.threads < params.threads && job.device == Device::Cpu {
            let what = format!("{} threads are to be measured, and the run has {}", params.threads, job.threads);
            return Err(StageError::unusable(what, "run with more cores, or set `threads` of `time`"));
        }
        let how = How { threads: params.threads, one_by_one: params.one_by_one };
        let mut measured = Vec::new();
        for stage in &params.stages {
            let mut all = Vec::new();
            let not_counted = usize::from(params.warm_up);
            let times = params.repeats + not_counted;
            for done in 0..times {
                let note = format!("{stage}, {} of {} measured", done.saturating_sub(not_counted), params.repeats);
                let steps = (measured.len() * times + done, params.stages.len() * times);
                job.progress(&Progress { done: steps.0 as u64, total: steps.1 as u64, note });
                job.check_cancelled()?;
                let timed = job.again(stage, how)?;
                if done >= not_counted {
                    all.extend(together(timed));
                }
            }
            measured.push((stage.as_str(), all));
        }
        Ok(facts(params, &measured))
    }
}

/// One repetition of a stage: all of its nodes together.
struct Repeat {
    nodes: usize,
    timed: Timed,
}

/// What all nodes of a stage took together, if there are some: splits that several nodes have are added up.
fn together(timed: Vec<Timed>) -> Option<Repeat> {
    let nodes = timed.len();
    let sum = timed.into_iter().reduce(|mut sum, one| {
        sum.seconds += one.seconds;
        for (name, values) in one.measured {
            let there = sum.measured.entry(name).or_default();
            if there.len() == values.len() {
                there.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            } else {
                there.extend(values);
            }
        }
        sum
    });
    sum.map(|timed| Repeat { nodes, timed })
}

/// Puts the repetitions of every stage together.
fn facts(params: &Params, measured: &[(&str, Vec<Repeat>)]) -> Facts {
    let mut facts = Facts::default();
    let mut shares = 0.0;
    let mut total: Vec<f64> = Vec::new();
    let mut own = None;
    for (stage, repeats) in measured {
        let Some(Repeat { nodes, .. }) = repeats.first() else { continue };
        let seconds: Vec<f64> = repeats.iter().map(|repeat| repeat.timed.seconds).collect();
        total.resize(seconds.len(), 0.0);
        total.iter_mut().zip(&seconds).for_each(|(total, seconds)| *total += seconds);
        let mut told: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, values) in repeats.iter().flat_map(|repeat| &repeat.timed.measured) {
            told.entry(name).or_default().extend(values);
        }
        match params.share.get(*stage) {
            Some(runs) => shares += stats::mean(&seconds).unwrap_or(0.0) / f64::from(*runs),
            None if own.is_none() => own = Some(told.get(SPLIT).unwrap_or(&seconds).clone()),
            None => {}
        }
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let count = *nodes as f64;
        facts = facts.with(format!("{stage}.count"), [count]).with(format!("{stage}.seconds"), seconds);
        for (name, values) in told {
            facts = facts.with(format!("{stage}.{name}"), values);
        }
    }
    let facts = facts.with("total-seconds", total);
    facts.with("amortised-seconds", own.into_iter().flatten().map(|seconds| seconds + shares))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::contract::again::Again;

    /// Takes one second more each time; `train` has two splits, `evd` is one computation, nothing else is there.
    struct Steady(Mutex<Vec<(String, How)>>);

    impl Again for Steady {
        fn again(&self, stage: &str, how: How) -> Result<Vec<Timed>, StageError> {
            let mut calls = self.0.lock().unwrap();
            calls.push((stage.to_owned(), how));
            let seconds = calls.len() as f64;
            Ok(match stage {
                "train" => {
                    vec![Timed { seconds, measured: BTreeMap::from([(SPLIT, vec![seconds / 4.0, seconds / 2.0])]) }]
                }
                "evd" => vec![Timed { seconds: 10.0, ..Timed::default() }, Timed { seconds: 2.0, ..Timed::default() }],
                _ => Vec::new(),
            })
        }
    }

    fn time(params: &Params, threads: usize) -> (Result<Facts, StageError>, Vec<(String, How)>) {
        let (steady, cancel) = (Steady(Mutex::default()), AtomicBool::new(false));
        let facts = Time::run(params, &Job { again: Some(&steady), threads, ..Job::alone(&cancel) });
        (facts, steady.0.into_inner().unwrap())
    }

    fn params() -> Params {
        let share = BTreeMap::from([("evd".to_owned(), 100)]);
        Params {
            stages: ["train", "evd", "relate"].map(str::to_owned).to_vec(),
            share,
            repeats: 2,
            ..Params::default()
        }
    }

    #[test]
    fn the_first_time_is_not_counted_and_shares_are_added_to_every_split() {
        let (facts, calls) = time(&params(), 2);
        let facts = facts.unwrap();
        assert_eq!(facts.get("train.seconds"), Some(&[2.0, 3.0][..]));
        assert_eq!(facts.get("train.split-seconds"), Some(&[0.5, 1.0, 0.75, 1.5][..]));
        // Both nodes of the stage.
        assert_eq!(facts.get("evd.seconds"), Some(&[12.0, 12.0][..]));
        assert_eq!([facts.get("train.count"), facts.get("evd.count")], [Some(&[1.0][..]), Some(&[2.0][..])]);
        assert_eq!(facts.get("relate.seconds"), None);
        assert_eq!(facts.get("total-seconds"), Some(&[14.0, 15.0][..]));
        assert_eq!(facts.get("amortised-seconds"), Some(&[0.62, 1.12, 0.87, 1.62][..]));
        assert_eq!(calls.len(), 9);
        assert!(calls.iter().all(|(_, how)| *how == How { threads: 1, one_by_one: true }));
    }

    #[test]
    fn fewer_threads_than_are_to_be_measured_are_refused() {
        let error = time(&Params { threads: 4, ..params() }, 2).0.unwrap_err();
        assert!(error.to_string().contains("4 threads are to be measured, and the run has 2"), "{error}");
    }

    #[test]
    fn shares_are_of_measured_stages_and_something_is_not_shared() {
        use params::Params as _;
        let wrong = |share: &[(&str, u32)], stages: &[&str]| {
            let share = share.iter().map(|(stage, runs)| ((*stage).to_owned(), *runs)).collect();
            let stages = stages.iter().map(|stage| (*stage).to_owned()).collect();
            let problems = Params { share, stages, ..Params::default() }.check().unwrap_err();
            problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
        };
        assert!(wrong(&[("evd", 100)], &["train"]).contains("`evd` is not among the measured stages"));
        assert!(wrong(&[("evd", 0)], &["train", "evd"]).contains("shared by 0 runs"));
        assert!(wrong(&[("evd", 2)], &["evd"]).contains("expected one that is not"));
    }
}
