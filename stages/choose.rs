//! `choose`: the scores of every split from one of several runs.
//!
//! A search with `choose: per-split` makes it: `take` has, for every split, the position of the run whose settings were chosen for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{
    Artifact, Estimate, Job, Known, Memory, Size, Sizes, Slot, Stage, StageError, Term, Work, params,
};
use crate::kinds::{Metrics, size};

/// Parameters of `choose`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// For every split the position of a run among the inputs, from 0.
    pub take: Vec<usize>,
}

impl params::Params for Params {}

/// The stage.
pub struct Choose;

impl Stage for Choose {
    const NAME: &'static str = "choose";
    const ABOUT: &'static str = "Takes the scores of every split from one of several runs";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many("runs", Metrics::KIND)];
    const TERMS: &'static [Term] = &[Term::alone("runs", 1e-4)];
    type Params = Params;
    type Output = Metrics;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let runs = Size::exact(known.count("runs"));
        Estimate {
            sizes: Sizes::default().with(size::SPLITS, Size::exact(params.take.len())),
            work: Work::default().and("runs", runs).shared_by(1),
            memory: Memory::default().and(runs * 20_000),
            notes: Vec::new(),
        }
    }

    fn run(params: &Params, job: &Job) -> Result<Metrics, StageError> {
        let runs = job.all("runs").map(|input| Metrics::load(&input.dir)).collect::<Result<Vec<_>, _>>()?;
        choose(&params.take, &runs)
    }
}

fn choose(take: &[usize], runs: &[Metrics]) -> Result<Metrics, StageError> {
    let of_split = |(split, run): (usize, &usize)| {
        let taken = runs.get(*run).and_then(|run| run.splits.get(split)).cloned();
        taken.ok_or_else(|| {
            StageError::unusable(
                format!("`take` names run {run} for split {split}, which is not there"),
                "positions count from 0, and every run needs all splits",
            )
        })
    };
    Ok(Metrics { splits: take.iter().enumerate().map(of_split).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{PartScore, SplitScores};

    fn run(epochs: &[usize]) -> Metrics {
        let part = PartScore::default;
        let split = |epoch: &usize| SplitScores {
            best_epoch: Some(*epoch),
            train: part(),
            val: part(),
            test: part(),
            confusion: Vec::new(),
        };
        Metrics { splits: epochs.iter().map(split).collect() }
    }

    #[test]
    fn every_split_comes_from_its_run() {
        let runs = [run(&[10, 11, 12]), run(&[20, 21, 22])];
        let chosen = choose(&[1, 0, 1], &runs).unwrap();
        assert_eq!(chosen, run(&[20, 11, 22]));
    }

    #[test]
    fn a_run_or_a_split_that_is_not_there_is_refused() {
        for (take, what) in [(&[0, 2][..], "names run 2 for split 1"), (&[0, 0, 0, 0], "names run 0 for split 3")] {
            let error = choose(take, &[run(&[1, 2, 3]), run(&[4, 5, 6])]).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
