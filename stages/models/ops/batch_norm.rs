//! Batch normalisation over all nodes: γ ⊙ (X − μ) / √(σ² + ε) + β, for every column of every lane.
//!
//! In training μ and σ² are mean and biased variance of the column over all nodes; in evaluation they are running ones, which the
//! model keeps as a state. So this is a step where training and evaluation part. With G the gradient of the result,
//! X̂ = (X − μ)/√(σ² + ε) and Ĝ = G ⊙ γ: ∂X = (Ĝ − mean(Ĝ) − X̂ ⊙ mean(Ĝ ⊙ X̂)) / √(σ² + ε), ∂γ = Σ G ⊙ X̂, ∂β = Σ G.
//!
//! Sums over nodes are in double precision, of ranges that depend on their number alone, added in order.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use super::sizes::Sizes;
use crate::tensor::slices::{self, Element, by_float};

/// Added to variances, as PyTorch does by default.
pub(super) const EPSILON: f64 = 1e-5;
/// Rows whose sums one task makes.
const RANGE: usize = 1024;

/// Mean and biased variance of every column, lanes × columns each.
pub struct Moments {
    /// μ.
    pub mean: Tensor,
    /// σ².
    pub variance: Tensor,
}

impl Sided {
    /// Normalises every column; `scale` is γ and `shift` β, lanes × columns. `running`: the moments that evaluation uses. Returns
    /// the moments of the training side too, of a pass that trains.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn batch_norm(
        &self,
        scale: &impl AsTensor,
        shift: &impl AsTensor,
        running: &Moments,
    ) -> Result<(Self, Option<Moments>)> {
        let weights = [scale.tensor(), shift.tensor(), running.mean.clone(), running.variance.clone()];
        let (lanes, _, columns) = self.main().dims3()?;
        if let Some(odd) = weights.iter().find(|weight| weight.dims() != [lanes, columns]) {
            bail!("batch normalisation of {:?} with {:?}", self.dims(), odd.dims());
        }
        on_gpu!(self.main() => super::cuda::batch_norm(self, &weights));
        let (x, trains, sizes) = (self.parted(), self.sides().train(), Sizes::of(self));
        by_float!(self.dtype(), "batch normalisation", T => {
            let mut seen = None;
            let output = operation::<T, Affine, 1, 4>(
                [&x],
                weights.each_ref(),
                self.dims(),
                |sides, [scale, shift, mean, variance]| {
                    let running = [mean, variance].map(|values| values.iter().map(|v| v.widen()).collect::<Vec<f64>>());
                    let own = trains.then(|| moments(sides[0][0], sizes));
                    seen.clone_from(&own);
                    let of_side = |i: usize| own.as_ref().filter(|_| i == 0).unwrap_or(&running);
                    let outputs = sides.iter().enumerate().map(|(i, [x])| {
                        let [mean, variance] = of_side(i);
                        Affine::new(mean, variance).apply(x, scale, shift, sizes)
                    });
                    let outputs = outputs.collect();
                    let [mean, variance] = of_side(0);
                    Ok((outputs, Affine::new(mean, variance)))
                },
                move |Back { kept, gradient, inputs: [x], weights: [scale, ..] }| {
                    Ok(kept.back(x, gradient, scale, sizes))
                },
            )?;
            let moment = |values: &[f64]| {
                slices::tensor(values.iter().map(|v| T::narrow(*v)).collect::<Vec<T>>(), &[lanes, columns])
            };
            let seen = seen.map(|[mean, variance]| {
                Ok::<_, candle_core::Error>(Moments { mean: moment(&mean)?, variance: moment(&variance)? })
            });
            Ok((output, seen.transpose()?))
        })
    }
}

/// Mean and biased variance of the columns of every lane.
fn moments<T: Element>(x: &[T], sizes: Sizes) -> [Vec<f64>; 2] {
    let rows = sizes.rows.max(1) as f64;
    let mean: Vec<f64> = column_sums(sizes, |at, _| x[at].widen()).into_iter().map(|sum| sum / rows).collect();
    // The differences first: squares of large means would swallow the variance.
    let square = |at: usize, column: usize| (x[at].widen() - mean[column]).powi(2);
    let variance = column_sums(sizes, square).into_iter().map(|sum| sum / rows).collect();
    [mean, variance]
}

/// Sums over the nodes, for every lane and column. `value` gets the place of an entry, and that of its column among all lanes'.
fn column_sums(sizes: Sizes, value: impl Fn(usize, usize) -> f64 + Sync) -> Vec<f64> {
    let Sizes { lanes, rows, columns } = sizes;
    let of_range = |(lane, first): (usize, usize)| {
        let mut sums = vec![0.0; columns];
        for row in first..(first + RANGE).min(rows) {
            let at = (lane * rows + row) * columns;
            sums.iter_mut().enumerate().for_each(|(c, sum)| *sum += value(at + c, lane * columns + c));
        }
        sums
    };
    let of_lane = |lane: usize| {
        let ranges: Vec<Vec<f64>> =
            (0..rows).into_par_iter().step_by(RANGE).map(|first| of_range((lane, first))).collect();
        let mut total = vec![0.0; columns];
        ranges.iter().for_each(|range| total.iter_mut().zip(range).for_each(|(total, sum)| *total += sum));
        total
    };
    (0..lanes).into_par_iter().flat_map_iter(of_lane).collect()
}

/// x̂ = (x − mean) · rate, for every column of every lane.
struct Affine {
    mean: Vec<f64>,
    rate: Vec<f64>,
}

impl Affine {
    fn new(mean: &[f64], variance: &[f64]) -> Self {
        Self { mean: mean.to_vec(), rate: variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect() }
    }

    /// Returns γ ⊙ x̂ + β.
    fn apply<T: Element>(&self, x: &[T], scale: &[T], shift: &[T], sizes: Sizes) -> Vec<T> {
        let mean: Vec<T> = self.mean.iter().map(|mean| T::narrow(*mean)).collect();
        let rate: Vec<T> = scale.iter().zip(&self.rate).map(|(s, r)| T::narrow(s.widen() * r)).collect();
        sizes.rows(|at, lane, out| {
            let of = lane * sizes.columns;
            let (x, mean, rate, shift) = (&x[at..], &mean[of..], &rate[of..], &shift[of..]);
            out.iter_mut().enumerate().for_each(|(c, out)| *out = (x[c] - mean[c]) * rate[c] + shift[c]);
        })
    }

    /// The gradients of X, γ, β, and of the running moments, which have none.
    fn back<T: Element>(&self, x: &[T], gradient: &[T], scale: &[T], sizes: Sizes) -> Vec<Gradient<T>> {
        let hat = |at: usize, column: usize| (x[at].widen() - self.mean[column]) * self.rate[column];
        let of_shift = column_sums(sizes, |at, _| gradient[at].widen());
        let of_scale = column_sums(sizes, |at, column| gradient[at].widen() * hat(at, column));
        let count = sizes.rows.max(1) as f64;
        let of_columns = |value: &dyn Fn(usize) -> f64| (0..scale.len()).map(|c| T::narrow(value(c))).collect();
        let mean: Vec<T> = of_columns(&|c| self.mean[c]);
        let rate: Vec<T> = of_columns(&|c| scale[c].widen() * self.rate[c]);
        let level: Vec<T> = of_columns(&|c| of_shift[c] / count);
        let slope: Vec<T> = of_columns(&|c| of_scale[c] * self.rate[c] / count);
        let of_x = sizes.rows(|at, lane, out| {
            let of = lane * sizes.columns;
            let (x, gradient) = (&x[at..], &gradient[at..]);
            let (mean, rate, level, slope) = (&mean[of..], &rate[of..], &level[of..], &slope[of..]);
            for (c, out) in out.iter_mut().enumerate() {
                *out = rate[c] * (gradient[c] - level[c] - (x[c] - mean[c]) * slope[c]);
            }
        });
        let narrow = |values: Vec<f64>| Gradient::Of(values.into_iter().map(T::narrow).collect());
        let nothing = || Gradient::Of(vec![T::default(); scale.len()]);
        vec![Gradient::Of(of_x), narrow(of_scale), narrow(of_shift), nothing(), nothing()]
    }
}
