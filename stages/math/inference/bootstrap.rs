//! The percentile interval of a mean: values are drawn again from themselves, with replacement, and the interval holds the
//! middle share of the means of these samples. Quantiles between two means are interpolated, as NumPy does by default.
//!
//! It says how the mean of these splits scatters, as if they were independent; that splits of one graph overlap it does not know.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list, rounded down")]

use crate::math::random::Stream;
use crate::math::stats;

/// The share of means that the interval holds.
pub const CONFIDENCE: f64 = 0.95;
/// How many samples are drawn.
pub const RESAMPLES: usize = 10_000;

/// Returns the interval of the mean of some values, or nothing for fewer than two. The numbers come from a stream of their own,
/// the same for every list: lists of the same length get the same places.
pub fn mean_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut stream = Stream::new(0, &["bootstrap"]);
    let of = values.len() as u64;
    interval(values, RESAMPLES, || stream.below(of) as usize)
}

/// The same, of samples whose places are drawn one by one.
pub(super) fn interval(values: &[f64], samples: usize, mut draw: impl FnMut() -> usize) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let mut sample = vec![0.0; values.len()];
    let mut means = Vec::with_capacity(samples);
    for _ in 0..samples {
        sample.iter_mut().for_each(|value| *value = values[draw()]);
        means.extend(stats::mean(&sample));
    }
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some([quantile(&means, tail)?, quantile(&means, 1.0 - tail)?])
}

/// The quantile of sorted values, interpolated between the two around it.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let below = *sorted.get(place.floor() as usize)?;
    let above = *sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_values_have_the_same_interval_around_their_mean() {
        let values = [0.61, 0.66, 0.70, 0.74, 0.52];
        let [low, high] = mean_interval(&values).unwrap();
        assert_eq!(mean_interval(&values), Some([low, high]));
        assert!(0.52 < low && low < 0.646 && 0.646 < high && high < 0.74, "{low} {high}");
        assert_eq!(mean_interval(&[0.5; 4]), Some([0.5, 0.5]));
        assert_eq!(mean_interval(&[0.5]), None);
    }
}
