//! Ranks of several configurations over several data sets (Demšar, "Statistical comparisons of classifiers over multiple data
//! sets", JMLR 7, 2006).
//!
//! With N data sets, k configurations and average ranks R̄, the test of Friedman is χ² = 12N/(k(k+1)) Σ(R̄ − (k+1)/2)² / c with
//! k − 1 degrees of freedom, where c = 1 − Σ(t³ − t)/(N(k³ − k)) over all groups of t equal values. It is too careful; Iman and
//! Davenport correct it: F = (N−1)χ²/(N(k−1) − χ²) with k − 1 and (k−1)(N−1) degrees of freedom. Where all data sets agree on
//! every rank, F is infinite, and p is the exact chance of that, (k!)¹⁻ᴺ.
//!
//! Two average ranks differ by more than chance if they are further apart than the critical difference of Nemenyi,
//! q/√2 · √(k(k+1)/(6N)), with q the quantile of the studentized range of k groups and infinite degrees of freedom.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "counts are far below 2^31")]

use super::tails::{chi_square_upper, f_upper, studentized_range_quantile};

/// What the tests of Friedman and of Iman and Davenport say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Friedman {
    /// Friedman's statistic.
    pub chi_square: f64,
    /// Its p value.
    pub p: f64,
    /// The statistic of Iman and Davenport; none where all data sets agree.
    pub f: Option<f64>,
    /// Their p value.
    pub f_p: f64,
}

/// Returns ranks from 1, the largest value first; equal values share the mean of their ranks.
pub fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let count = |holds: &dyn Fn(f64) -> bool| values.iter().filter(|x| holds(**x)).count() as f64;
    values.iter().map(|own| count(&|x| x > *own) + (count(&|x| x == *own) + 1.0) / 2.0).collect()
}

/// Tests whether configurations differ. `ranks` has a list per data set, one rank per configuration. Nothing for fewer than two
/// of either.
pub fn friedman(ranks: &[Vec<f64>]) -> Option<Friedman> {
    let (sets, of) = (ranks.len(), ranks.first()?.len());
    if sets < 2 || of < 2 || ranks.iter().any(|one| one.len() != of) {
        return None;
    }
    let (n, k) = (sets as f64, of as f64);
    let average = |at: usize| ranks.iter().map(|one| one[at]).sum::<f64>() / n;
    let apart: f64 = (0..of).map(|at| (average(at) - (k + 1.0) / 2.0).powi(2)).sum();
    // A group of t equal ranks: t − 1/t of it for each of its members is t² − 1.
    let ties: f64 = ranks
        .iter()
        .flatten()
        .zip(ranks.iter().flat_map(|one| std::iter::repeat_n(one, of)))
        .map(|(rank, all)| (all.iter().filter(|other| *other == rank).count() as f64).powi(2) - 1.0)
        .sum();
    let c = 1.0 - ties / (n * (k.powi(3) - k));
    if c <= 0.0 {
        // Everything is equal everywhere.
        return Some(Friedman { chi_square: 0.0, p: 1.0, f: Some(0.0), f_p: 1.0 });
    }
    let chi_square = 12.0 * n / (k * (k + 1.0)) * apart / c;
    let p = chi_square_upper(chi_square, of - 1)?;
    let left = n * (k - 1.0) - chi_square;
    if left <= 1e-9 * n * k {
        let orders: f64 = (1..=of).map(|i| i as f64).product();
        return Some(Friedman { chi_square, p, f: None, f_p: orders.powi(1 - sets as i32) });
    }
    let f = (n - 1.0) * chi_square / left;
    Some(Friedman { chi_square, p, f: Some(f), f_p: f_upper(f, of - 1, (of - 1) * (sets - 1))? })
}

/// Returns the critical difference of average ranks at a level; nothing for fewer than two configurations or no data set.
pub fn critical_difference(alpha: f64, configurations: usize, sets: usize) -> Option<f64> {
    if configurations < 2 || sets == 0 {
        return None;
    }
    let (k, n) = (configurations as f64, sets as f64);
    let q = studentized_range_quantile(alpha, configurations) / std::f64::consts::SQRT_2;
    Some(q * (k * (k + 1.0) / (6.0 * n)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(mean_ranks(&[0.5, 0.9, 0.5, 0.1]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(mean_ranks(&[1.0; 3]), [2.0; 3]);
    }

    #[test]
    fn data_sets_that_agree_on_all_have_the_chance_of_that() {
        let test = friedman(&vec![vec![1.0, 2.0, 3.0]; 4]).unwrap();
        // χ² = N(k − 1); of six orders each, three data sets repeat the first one's by chance with 6⁻³.
        assert!((test.chi_square - 8.0).abs() < 1e-12 && test.f.is_none());
        assert!((test.f_p - 1.0 / 216.0).abs() < 1e-15);
    }

    #[test]
    fn where_all_are_equal_nothing_is_found() {
        let test = friedman(&vec![vec![2.0; 3]; 4]).unwrap();
        assert_eq!((test.p, test.f_p), (1.0, 1.0));
        assert_eq!(friedman(&[vec![1.0, 2.0]]), None);
        assert_eq!(friedman(&[]), None);
    }
}
