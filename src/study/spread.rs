//! How far test scores lie apart among trials that validation nodes cannot tell from the best.

use ppgnn_stages::math::stats::{self, Divisor};

use crate::plan::SearchState;

/// Test scores of several trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many trials.
    pub count: usize,
    /// The least of their scores.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of a sample.
    pub deviation: f64,
}

/// Returns the spread among the trials within one standard error of the best: two at least, all of them scored on test nodes.
pub fn spread(search: &SearchState) -> Option<Spread> {
    let near = search.near_best();
    let tests = near.iter().map(|at| search.trials[*at].test).collect::<Option<Vec<f64>>>()?;
    let least = tests.iter().copied().fold(f64::INFINITY, f64::min);
    let most = tests.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mean, deviation) = (stats::mean(&tests)?, stats::std(&tests, Divisor::Sample)?);
    Some(Spread { count: tests.len(), least, most, mean, deviation })
}
