//! How far predictions are from what happened. `tests/cli/benches.rs` tests this file.

use std::collections::BTreeMap;

/// Seconds that were predicted for something, and that it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Predicted.
    pub said: f64,
    /// Measured.
    pub took: f64,
}

impl Pair {
    /// The difference as a share of what it took.
    pub fn error(self) -> f64 {
        (self.said - self.took).abs() / self.took
    }

    /// How many times too long or too short the prediction is.
    pub fn factor(self) -> f64 {
        (self.said / self.took).max(self.took / self.said)
    }
}

/// How good some predictions are together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// How many there are.
    pub count: usize,
    /// The median of [`Pair::error`].
    pub median_error: f64,
    /// The share of predictions that are wrong by a factor of 2 at most.
    pub within_two: f64,
    /// The factor that nine of ten predictions are within.
    pub nine_tenths: f64,
    /// Sums of both.
    pub total: Pair,
}

impl Accuracy {
    /// Compares pairs; `None` without any. What took no time at all cannot be compared.
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes is small")]
    pub fn of(pairs: &[Pair]) -> Option<Self> {
        let pairs: Vec<Pair> = pairs.iter().copied().filter(|pair| pair.took > 0.0 && pair.said > 0.0).collect();
        let sorted = |of: fn(Pair) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(|pair| of(*pair)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (errors, factors) = (sorted(Pair::error), sorted(Pair::factor));
        let (low, high) = (errors.get(errors.len().checked_sub(1)? / 2)?, errors.get(errors.len() / 2)?);
        Some(Self {
            count: pairs.len(),
            median_error: (low + high) / 2.0,
            within_two: factors.iter().filter(|factor| **factor <= 2.0).count() as f64 / pairs.len() as f64,
            nine_tenths: *factors.get((factors.len() * 9).div_ceil(10) - 1)?,
            total: Pair { said: pairs.iter().map(|p| p.said).sum(), took: pairs.iter().map(|p| p.took).sum() },
        })
    }
}

/// Puts pairs with the same name together.
pub fn by_name(pairs: &[(String, Pair)]) -> BTreeMap<&str, Vec<Pair>> {
    let mut named: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
    pairs.iter().for_each(|(name, pair)| named.entry(name).or_default().push(*pair));
    named
}
