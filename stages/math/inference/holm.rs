//! Holm's step-down correction: of m comparisons the one with the i-th smallest p, counted from 0, gets (m − i)·p, at least
//! what the one before it got and at most 1. The chance of any false finding among all of them stays below the level, however
//! they depend on each other.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

/// Returns the corrected p values, in the order of the given ones.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![0.0; p.len()];
    let mut least = 0.0f64;
    for (i, at) in order.into_iter().enumerate() {
        least = least.max((p.len() - i) as f64 * p[at]).min(1.0);
        corrected[at] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrected_values_keep_their_order_and_stay_below_one() {
        // Sorted: 0.01·4, 0.02·3, 0.03·2 raised to the one before, 0.9.
        let corrected = holm(&[0.03, 0.01, 0.9, 0.02]);
        for (found, expected) in corrected.iter().zip([0.06, 0.04, 0.9, 0.06]) {
            assert!((found - expected).abs() < 1e-15, "{corrected:?}");
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
