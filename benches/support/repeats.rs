//! What repeated timings are worth: the best of them, and how far the best two are apart.
//!
//! Other work on a machine only ever adds time, so the best repeat is nearest to the truth, and a second one close to it
//! says that it was no accident. `tests/cli/benches.rs` tests this file.

/// A result whose best repeats differ by more than this share of it is not trusted.
pub const TRUSTED: f64 = 0.15;

/// A time, or a ratio of times, with what it may be wrong by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The time or ratio.
    pub value: f64,
    /// How far repeats are apart, as a share of the value; infinite if there was one repeat.
    pub spread: f64,
}

impl Estimate {
    /// The best of several times; `None` if no time is positive.
    pub fn best(times: &[f64]) -> Option<Self> {
        let (best, gap) = best_and_gap(times)?;
        Some(Self { value: best, spread: gap / best })
    }

    /// What the long runs took more than the short ones; `None` if that is nothing, which is noise and no time.
    pub fn difference(long: &[f64], short: &[f64]) -> Option<Self> {
        let ((long, long_gap), (short, short_gap)) = (best_and_gap(long)?, best_and_gap(short)?);
        let value = long - short;
        (value > 0.0).then(|| Self { value, spread: (long_gap + short_gap) / value })
    }

    /// This many times the estimate.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, ..self }
    }

    /// The ratio of two estimates. The spreads add up.
    pub fn over(self, other: Self) -> Self {
        Self { value: self.value / other.value, spread: self.spread + other.spread }
    }

    /// Whether the repeats agree well enough.
    pub fn is_trusted(self) -> bool {
        self.spread <= TRUSTED
    }

    /// The value with its spread, or a question mark where it is not trusted.
    pub fn shown(self, digits: usize) -> String {
        if !self.is_trusted() {
            return "?".into();
        }
        format!("{:.digits$} ±{:.0}%", self.value, 100.0 * self.spread)
    }
}

/// The best time, and how much longer the second best is.
fn best_and_gap(times: &[f64]) -> Option<(f64, f64)> {
    let mut times: Vec<f64> = times.iter().copied().filter(|t| t.is_finite() && *t > 0.0).collect();
    times.sort_by(f64::total_cmp);
    let best = *times.first()?;
    Some((best, times.get(1).map_or(f64::INFINITY, |second| second - best)))
}
