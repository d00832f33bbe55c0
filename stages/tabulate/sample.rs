//! The values of a cell that are compared with those of another: one per split.
//!
//! Runs that share their splits (seeds) count once per split, with their mean: training again on the same split is no further
//! evidence of what another split would say. Runs on different splits stand one after the other.
//!
//! Metrics do not say which nodes a split has, so splits count as the same if they have as many training nodes, as many nodes of
//! the scored part, and test nodes of the same classes. Where that takes different draws for one, pairs are made at random: the
//! test is still right, and only less sharp than it could be.

use crate::kinds::{Metric, SplitScores};
use crate::math::inference::{PairedTest, paired_test};
use crate::math::stats;

/// How a split is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Print {
    train: usize,
    scored: usize,
    /// Test nodes of every class.
    classes: Vec<u32>,
}

/// The values of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    values: Vec<f64>,
    splits: Vec<Print>,
    /// Whether the metric is undefined in a split, which then has no value to pair.
    lacks: bool,
}

impl Sample {
    /// Takes the values of some runs.
    pub fn new(metric: &Metric, runs: &[&[SplitScores]]) -> Self {
        let print = |split: &SplitScores| Print {
            train: split.train.nodes,
            scored: split.part(metric.part).map_or(0, |part| part.nodes),
            classes: split.confusion.iter().map(|row| row.iter().sum()).collect(),
        };
        let prints = |run: &[SplitScores]| run.iter().map(print).collect::<Vec<_>>();
        let values: Option<Vec<Vec<f64>>> =
            runs.iter().map(|run| run.iter().map(|split| metric.of(split)?.as_ref().ok().copied()).collect()).collect();
        let Some(values) = values else { return Self { lacks: true, ..Self::default() } };
        let first = runs.first().map_or(Vec::new(), |run| prints(run));
        if runs.iter().all(|run| prints(run) == first) {
            let of_split = |at: usize| stats::mean(&values.iter().map(|run| run[at]).collect::<Vec<_>>());
            return Self { values: (0..first.len()).filter_map(of_split).collect(), splits: first, lacks: false };
        }
        Self { values: values.concat(), splits: runs.iter().flat_map(|run| prints(run)).collect(), lacks: false }
    }

    /// The value of every split.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Nodes of the scored part for each training node: the mean over splits.
    pub fn ratio(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "counts of nodes")]
        let of_split = |split: &Print| (split.train > 0).then(|| split.scored as f64 / split.train as f64);
        stats::mean(&self.splits.iter().map(of_split).collect::<Option<Vec<f64>>>()?)
    }

    /// Tests it against another one over the same splits, or says why that cannot be.
    pub fn test(&self, other: &Self) -> Result<PairedTest, &'static str> {
        if self.lacks || other.lacks {
            return Err("undefined in some splits");
        }
        if self.values.len() != other.values.len() {
            return Err("another number of splits");
        }
        if self.splits != other.splits {
            return Err("other splits");
        }
        if self.values.len() < 2 {
            return Err("a single split");
        }
        let ratio = self.ratio().ok_or("splits without training nodes")?;
        paired_test(&self.values, &other.values, ratio).ok_or("values that are not finite")
    }
}
