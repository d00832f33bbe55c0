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

use candle_core::{DType, Device, Result, Tensor};

use super::Partition;
use crate::math::dense::powers;

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
    /// from different sides counts only if `across_gap`. `like`: type and place of the tensors.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(
        values: &[f64],
        bins: &Partition,
        order: usize,
        across_gap: bool,
        like: (DType, &Device),
    ) -> Result<Option<Self>> {
        let (dtype, device) = like;
        let (mut ends, mut rows, mut weights) = ([vec![], vec![]], [vec![], vec![]], vec![]);
        for (next, pair) in (1u32..).zip(bins.ranges.windows(2)) {
            if !across_gap && bins.gaps.contains(&(next as usize)) {
                continue;
            }
            let facing = (pair[0].end.checked_sub(1).and_then(|i| values.get(i)), values.get(pair[1].start));
            let (Some(&a), Some(&b)) = facing else { continue };
            ends[0].push(a);
            ends[1].push(b);
            rows[0].push(next - 1);
            rows[1].push(next);
            weights.push((-(a - b) * (a - b)).exp());
        }
        if weights.is_empty() {
            return Ok(None);
        }
        let [left, right] = ends;
        let [bin_left, bin_right] = rows;
        let meetings = weights.len();
        let at = |ends: &[f64]| -> Result<Tensor> {
            Tensor::from_vec(powers(ends, order), (meetings, order + 1), &Device::Cpu)?
                .to_dtype(dtype)?
                .to_device(device)
        };
        Ok(Some(Self {
            ends: [at(&left)?, at(&right)?],
            bins: [Tensor::new(bin_left, device)?, Tensor::new(bin_right, device)?],
            weights: Tensor::from_vec(weights, meetings, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?,
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
    use super::*;
    use crate::models::blocks::Bins;

    fn penalty(values: &[f64], sides: &[Bins], gamma: &[[f64; 3]], across_gap: bool) -> f64 {
        let bins = Partition::join(sides);
        let gamma = Tensor::from_vec(gamma.concat(), (1, gamma.len(), 3), &Device::Cpu).unwrap();
        // A second lane of other coefficients: each has a penalty of its own.
        let gamma = Tensor::cat(&[&gamma, &(&gamma * 3.0).unwrap()], 0).unwrap();
        let boundary = Boundary::new(values, &bins, 2, across_gap, (DType::F64, &Device::Cpu)).unwrap();
        let penalties: Vec<f64> = boundary.map_or(vec![0.0; 2], |b| b.penalty(&gamma).unwrap().to_vec1().unwrap());
        assert!((penalties[1] - 9.0 * penalties[0]).abs() < 1e-12 * penalties[1].max(1.0));
        penalties[0]
    }

    #[test]
    fn equal_polynomials_that_touch_cost_nothing() {
        let values = [0.9, 0.5, 0.5, 0.1, 0.1, -0.4];
        let same = [[0.3, -1.0, 2.0]; 3];
        assert!(penalty(&values, &[Bins::equal(6, 3).unwrap()], &same, true).abs() < 1e-15);
        let apart = [0.9, 0.5, 0.4, 0.1, 0.1, -0.4];
        assert!(penalty(&apart, &[Bins::equal(6, 3).unwrap()], &same, true) > 1e-3);
    }

    #[test]
    fn the_direction_of_the_eigenvalues_does_not_matter() {
        let (mut values, mut gamma) =
            ([0.9, 0.5, 0.4, 0.1, -0.2, -0.4], [[0.3, 1.0, 2.0], [1.0, 0.0, -1.0], [0.5, 0.5, 0.5]]);
        let sides = [Bins::equal(4, 2).unwrap(), Bins::equal(2, 1).unwrap()];
        let descending = penalty(&values, &sides, &gamma, true);
        values.reverse();
        gamma.reverse();
        let sides = [Bins::equal(2, 1).unwrap(), Bins::equal(4, 2).unwrap()];
        let ascending = penalty(&values, &sides, &gamma, true);
        assert!((descending - ascending).abs() < 1e-14);
        assert!(descending > 0.1);
    }

    #[test]
    fn the_formula_by_hand() {
        // Two bins [1, 0.5] and [0.25]; polynomials 1 + λ and 2λ². They face each other at 0.5 and 0.25:
        // exp(−0.25²) · (1.5 − 0.125)².
        let value = penalty(
            &[1.0, 0.5, 0.25],
            &[Bins::equal(2, 1).unwrap(), Bins::equal(1, 1).unwrap()],
            &[[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]],
            true,
        );
        assert!((value - (-0.0625f64).exp() * 1.375 * 1.375).abs() < 1e-14);
    }

    #[test]
    fn the_gap_between_the_sides_can_be_left_out() {
        let sides = [Bins::equal(2, 1).unwrap(), Bins::equal(1, 1).unwrap()];
        assert_eq!(penalty(&[1.0, 0.5, -0.9], &sides, &[[1.0; 3], [0.0; 3]], false), 0.0);
    }
}
