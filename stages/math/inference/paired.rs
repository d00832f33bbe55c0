//! The paired t-test of two configurations over the same splits, corrected for splits that overlap.
//!
//! Splits of one graph share nodes, so their results depend on each other and the plain paired test finds differences that are
//! not there. Nadeau and Bengio ("Inference for the generalization error", Machine Learning 52, 2003) widen the variance by the
//! ratio of test to training nodes: with differences d₁ … dₙ, their mean d̄ and sample variance s²,
//!
//! t = d̄ / √((1/n + n_test/n_train) s²), with n − 1 degrees of freedom.
//!
//! With a ratio of 0 it is the plain paired test.
//!
//! Differences that are all alike (up to rounding) have no variance, and t says nothing: if they are 0, p is 1; otherwise p is
//! that of the exact sign test, 2¹⁻ⁿ. A p of 0, the limit of t, would claim from two equal differences what no two splits can show.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "counts are far below 2^31")]

use super::tails::student_two_sided;
use crate::math::stats::{self, Divisor};

/// What a paired test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedTest {
    /// Mean of the first minus the second.
    pub difference: f64,
    /// The statistic; none where all differences are alike.
    pub t: Option<f64>,
    /// The two-sided p value.
    pub p: f64,
}

/// Compares two lists of values over the same splits. `ratio` is that of test to training nodes. Nothing for lists of different
/// lengths, with fewer than two values, or with values that are not finite.
pub fn paired_test(first: &[f64], second: &[f64], ratio: f64) -> Option<PairedTest> {
    if first.len() != second.len() || first.len() < 2 || !(ratio.is_finite() && ratio >= 0.0) {
        return None;
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let n = differences.len() as f64;
    let difference = stats::mean(&differences).filter(|mean| mean.is_finite())?;
    let deviation = stats::std(&differences, Divisor::Sample)?;
    // Differences of rounded numbers scatter by their last bits.
    let largest = first.iter().chain(second).fold(0.0f64, |most, x| most.max(x.abs()));
    if deviation <= 8.0 * f64::EPSILON * largest {
        let p = if difference.abs() <= 8.0 * f64::EPSILON * largest { 1.0 } else { 0.5f64.powi(n as i32 - 1) };
        return Some(PairedTest { difference, t: None, p });
    }
    let t = difference / ((1.0 / n + ratio).sqrt() * deviation);
    Some(PairedTest { difference, t: Some(t), p: student_two_sided(t, differences.len() - 1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_that_are_all_alike_are_left_to_their_signs() {
        let values = [0.5, 0.6, 0.7];
        let same = paired_test(&values, &values, 0.4).unwrap();
        assert_eq!((same.t, same.p), (None, 1.0));
        // 0.6 - 0.5 and 0.7 - 0.6 differ in the last bit.
        let better = paired_test(&[0.6, 0.7, 0.8], &values, 0.4).unwrap();
        assert_eq!((better.t, better.p), (None, 0.25));
        assert!((better.difference - 0.1).abs() < 1e-15);
    }

    #[test]
    fn the_correction_makes_a_difference_less_sure_and_no_other() {
        let (a, b) = ([0.61, 0.66, 0.70, 0.74], [0.60, 0.63, 0.69, 0.70]);
        let [plain, corrected] = [0.0, 0.5].map(|ratio| paired_test(&a, &b, ratio).unwrap());
        assert_eq!(plain.difference, corrected.difference);
        assert!(plain.p < corrected.p, "{plain:?} {corrected:?}");
        let back = paired_test(&b, &a, 0.5).unwrap();
        assert_eq!((back.t, back.p), (corrected.t.map(|t| -t), corrected.p));
    }

    #[test]
    fn what_is_not_paired_has_no_test() {
        assert_eq!(paired_test(&[1.0, 2.0], &[1.0], 0.0), None);
        assert_eq!(paired_test(&[1.0], &[2.0], 0.0), None);
        assert_eq!(paired_test(&[1.0, f64::NAN], &[2.0, 3.0], 0.0), None);
        assert_eq!(paired_test(&[1.0, 2.0], &[2.0, 4.0], f64::NAN), None);
    }
}
