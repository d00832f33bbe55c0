//! What results over splits say: which differences are more than chance, and how far a mean can be trusted.
//!
//! | file | what it has |
//! | --- | --- |
//! | `paired` | the paired t-test over splits that overlap (Nadeau and Bengio) |
//! | `holm` | Holm's correction for several comparisons |
//! | `ranks` | average ranks, the test of Friedman, the critical difference of Nemenyi |
//! | `bootstrap` | the percentile interval of a mean |
//! | `tails` | the distributions behind them |
//!
//! All of it agrees with SciPy to 1e-9: `tests/science/statistics.py` computes the values that the tests compare with.

mod bootstrap;
mod holm;
mod paired;
mod ranks;
mod tails;
#[cfg(test)]
mod tests;

pub use bootstrap::{CONFIDENCE, RESAMPLES, mean_interval};
pub use holm::holm;
pub use paired::{PairedTest, paired_test};
pub use ranks::{Friedman, critical_difference, friedman, mean_ranks};
