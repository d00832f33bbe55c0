//! The boundary regulariser of PP-GNN: neighbouring bins should agree where they meet.
//!
//! With a_i and b_{i+1} the facing ends of neighbouring bins i and i+1, and h_i their polynomials alone (no mixing
//! weight, no global term):
//!
//! ```text
//! R = Σ_i exp( −(a_i − b_{i+1})² ) · ( h_i(a_i) − h_{i+1}(b_{i+1}) )²
//! ```
//!
//! The paper names the ends by ascending eigenvalue. The facing ends are the last of one bin and the first of the next in
//! either order, so nothing here depends on the direction. No published code has the regulariser.

use candle_core::{Result, Tensor};

use super::Partition;
use crate::math::dense::powers;
use crate::models::Weights;

/// The places where bins meet, ready for any coefficients.
pub struct Boundary {
    /// Powers of the eigenvalue on either side of a meeting place: meetings × (order + 1).
    ends: [Tensor; 2],
    /// The bin on either side.
    bins: [Tensor; 2],
    /// exp(−gap²) of every meeting place.
    weights: Tensor,
}

impl Boundary {
    /// Finds the meeting places, or `None` if there are none. `values` are sorted, in either direction; a pair of bins
    /// from different sides counts only if `across_gap`. Tensors are like `weights`.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(
        values: &[f64],
        bins: &Partition,
        order: usize,
        across_gap: bool,
        weights: &Weights,
    ) -> Result<Option<Self>> {
        let counts = |next: &u32| across_gap || !bins.gaps.contains(&(*next as usize));
        let meetings: Vec<(u32, f64, f64)> = (1u32..)
            .zip(bins.ranges.windows(2))
            .filter(|(next, _)| counts(next))
            .map(|(next, pair)| (next, values[pair[0].end - 1], values[pair[1].start]))
            .collect();
        if meetings.is_empty() {
            return Ok(None);
        }
        let at = |end: fn(&(u32, f64, f64)) -> f64| {
            let ends: Vec<f64> = meetings.iter().map(end).collect();
            weights.constant(&powers(&ends, order), &[ends.len(), order + 1])
        };
        let bin = |back: u32| Tensor::new(meetings.iter().map(|m| m.0 - back).collect::<Vec<_>>(), weights.device());
        let closeness: Vec<f64> = meetings.iter().map(|(_, a, b)| (-(a - b) * (a - b)).exp()).collect();
        Ok(Some(Self {
            ends: [at(|m| m.1)?, at(|m| m.2)?],
            bins: [bin(1)?, bin(0)?],
            weights: weights.constant(&closeness, &[closeness.len()])?,
        }))
    }

    /// Returns R of every lane for coefficients `gamma`, lanes × bins × (order + 1).
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn penalty(&self, gamma: &Tensor) -> Result<Tensor> {
        let at = |side: usize| gamma.index_select(&self.bins[side], 1)?.broadcast_mul(&self.ends[side])?.sum(2);
        (at(0)? - at(1)?)?.sqr()?.broadcast_mul(&self.weights)?.sum(1)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    fn penalty(values: &[f64], sides: &[(usize, usize)], gamma: &[[f64; 3]], across_gap: bool) -> f64 {
        let cut = |cut: Partition, (pairs, count): &(usize, usize)| cut.with_side(*pairs, *count);
        let bins = sides.iter().try_fold(Partition::default(), cut).unwrap();
        let weights = Weights::new(&mut [], DType::F64, Device::Cpu);
        let gamma = Tensor::from_vec(gamma.concat(), (1, gamma.len(), 3), &Device::Cpu).unwrap();
        // A second lane of other coefficients: each has a penalty of its own.
        let gamma = Tensor::cat(&[&gamma, &(&gamma * 3.0).unwrap()], 0).unwrap();
        let boundary = Boundary::new(values, &bins, 2, across_gap, &weights).unwrap();
        let penalties: Vec<f64> = boundary.map_or(vec![0.0; 2], |b| b.penalty(&gamma).unwrap().to_vec1().unwrap());
        assert!((penalties[1] - 9.0 * penalties[0]).abs() < 1e-12 * penalties[1].max(1.0));
        penalties[0]
    }

    #[test]
    fn equal_polynomials_that_touch_cost_nothing() {
        let values = [0.9, 0.5, 0.5, 0.1, 0.1, -0.4];
        let same = [[0.3, -1.0, 2.0]; 3];
        assert!(penalty(&values, &[(6, 3)], &same, true).abs() < 1e-15);
        let apart = [0.9, 0.5, 0.4, 0.1, 0.1, -0.4];
        assert!(penalty(&apart, &[(6, 3)], &same, true) > 1e-3);
    }

    #[test]
    fn the_direction_of_the_eigenvalues_does_not_matter() {
        let (mut values, mut gamma) =
            ([0.9, 0.5, 0.4, 0.1, -0.2, -0.4], [[0.3, 1.0, 2.0], [1.0, 0.0, -1.0], [0.5, 0.5, 0.5]]);
        let sides = [(4, 2), (2, 1)];
        let descending = penalty(&values, &sides, &gamma, true);
        values.reverse();
        gamma.reverse();
        let sides = [(2, 1), (4, 2)];
        let ascending = penalty(&values, &sides, &gamma, true);
        assert!((descending - ascending).abs() < 1e-14);
        assert!(descending > 0.1);
    }

    #[test]
    fn the_formula_by_hand() {
        // Two bins [1, 0.5] and [0.25]; polynomials 1 + λ and 2λ². They face each other at 0.5 and 0.25:
        // exp(−0.25²) · (1.5 − 0.125)².
        let value = penalty(&[1.0, 0.5, 0.25], &[(2, 1), (1, 1)], &[[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], true);
        assert!((value - (-0.0625f64).exp() * 1.375 * 1.375).abs() < 1e-14);
    }

    #[test]
    fn the_gap_between_the_sides_can_be_left_out() {
        let sides = [(2, 1), (1, 1)];
        assert_eq!(penalty(&[1.0, 0.5, -0.9], &sides, &[[1.0; 3], [0.0; 3]], false), 0.0);
    }
}
