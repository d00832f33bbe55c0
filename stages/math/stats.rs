//! Summaries of numbers and of predictions, all in f64 and in a fixed order.
//!
//! Cross-entropy of a row of logits z with class c: log Σⱼ exp(zⱼ − m) + m − z_c, with m = max z, so that no exponential
//! overflows. F1 of class c from a confusion matrix (true × predicted): 2·tp / (2·tp + fp + fn).

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use super::real::Real;

/// Which divisor a standard deviation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// n: the spread of exactly these values.
    Population,
    /// n − 1: an estimate for the values they were drawn from.
    Sample,
}

/// Returns the mean, or `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the standard deviation (two passes), or `None` for fewer than two values.
pub fn std(values: &[f64], divisor: Divisor) -> Option<f64> {
    let centre = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    let n = match divisor {
        Divisor::Population => values.len(),
        Divisor::Sample => values.len() - 1,
    };
    Some((squares / n as f64).sqrt())
}

/// Returns the place of the largest value; ties go to the first. 0 of nothing.
pub fn argmax<T: PartialOrd>(values: &[T]) -> usize {
    let mut top = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[top] {
            top = i;
        }
    }
    top
}

/// Returns the cross-entropy of softmax(`logits`) against a class, or `None` if there is no such class.
pub fn cross_entropy<T: Real>(logits: &[T], class: usize) -> Option<f64> {
    let own = logits.get(class)?.widen();
    let largest = logits[argmax(logits)].widen();
    let sum: f64 = logits.iter().map(|z| (z.widen() - largest).exp()).sum();
    Some(sum.ln() + largest - own)
}

/// Returns the same, and writes softmax(`logits`) to `shares`.
pub fn cross_entropy_and_shares<T: Real>(logits: &[T], class: usize, shares: &mut [f64]) -> Option<f64> {
    let own = logits.get(class)?.widen();
    Some(softmax(logits, shares) - own)
}

/// Writes softmax(`logits`) to `shares`, and returns log Σ exp.
pub fn softmax<T: Real>(logits: &[T], shares: &mut [f64]) -> f64 {
    let largest = logits.get(argmax(logits)).map_or(0.0, |z| z.widen());
    shares.iter_mut().zip(logits).for_each(|(share, z)| *share = (z.widen() - largest).exp());
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    sum.ln() + largest
}

/// Returns the mean F1 of the classes that occur as truth (row) or prediction (column); 0 if none does.
pub fn macro_f1(confusion: &[Vec<u32>]) -> f64 {
    let scores: Vec<f64> = (0..confusion.len())
        .filter_map(|c| {
            let hits = f64::from(confusion[c][c]);
            let truly: f64 = confusion[c].iter().map(|n| f64::from(*n)).sum();
            let predicted: f64 = confusion.iter().map(|row| f64::from(row[c])).sum();
            (truly + predicted > 0.0).then(|| 2.0 * hits / (truly + predicted))
        })
        .collect();
    mean(&scores).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_known_values_is_known() {
        // Mean 5, squares 9+1+1+1+0+0+4+16 = 32: population 2, sample √(32/7).
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert_eq!(std(&values, Divisor::Population), Some(2.0));
        assert!((std(&values, Divisor::Sample).unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn one_value_has_a_mean_but_no_spread() {
        assert_eq!(mean(&[3.0]), Some(3.0));
        assert_eq!(std(&[3.0], Divisor::Population), None);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn ties_go_to_the_lowest_class() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(argmax(&[-1.0f32, f32::NAN, -0.5]), 2);
        assert_eq!(argmax(&[0.0, 0.0]), 0);
    }

    #[test]
    fn cross_entropy_of_huge_logits_is_finite() {
        // ln(1 + e⁻¹) from the definition; a naive softmax overflows at exp(1000).
        let expected = (-1f64).exp().ln_1p();
        assert!((cross_entropy(&[1000.0f32, 999.0], 0).unwrap() - expected).abs() < 1e-12);
        assert!((cross_entropy(&[0.0f32, 0.0, 0.0, 0.0], 2).unwrap() - 4f64.ln()).abs() < 1e-15);
        assert_eq!(cross_entropy(&[0.0f32], 1), None);
    }

    #[test]
    fn shares_are_the_softmax_and_cost_no_bit_of_the_loss() {
        let (logits, mut shares) = ([0.25f32, -3.0, 1.5], [0.0; 3]);
        let loss = cross_entropy_and_shares(&logits, 2, &mut shares).unwrap();
        assert_eq!(Some(loss), cross_entropy(&logits, 2));
        assert!((shares[2] - (-loss).exp()).abs() < 1e-15);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn macro_f1_leaves_out_classes_that_never_occur() {
        // Class 0: tp 2, truly 3, predicted 2 → 4/5; class 1: tp 1, truly 1, predicted 2 → 2/3; class 2 absent.
        let confusion = vec![vec![2, 1, 0], vec![0, 1, 0], vec![0, 0, 0]];
        assert!((macro_f1(&confusion) - (0.8 + 2.0 / 3.0) / 2.0).abs() < 1e-15);
        assert_eq!(macro_f1(&[vec![0]]), 0.0);
    }
}
