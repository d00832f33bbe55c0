//! Batch normalisation over all nodes: γ ⊙ (X − μ) / √(σ² + ε) + β, for every column of every lane.
//!
//! In training μ and σ² are mean and biased variance of the column over all nodes; in evaluation they are running ones, which the
//! model keeps as a state. So this is a step where training and evaluation part. With G the gradient of the result,
//! X̂ = (X − μ)/√(σ² + ε) and Ĝ = G ⊙ γ: ∂X = (Ĝ − mean(Ĝ) − X̂ ⊙ mean(Ĝ ⊙ X̂)) / √(σ² + ε), ∂γ = Σ G ⊙ X̂, ∂β = Σ G.
//!
//! Sums over nodes are in double precision, of ranges that depend on their number alone, added in order.
//!
//! With ReLU and dropout it is one step, as the other hidden units are (`units.rs`): what is between them is never written.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::Masks;
use super::propagate::Propagator;
use super::sided::{AsTensor, Sided, both_sides};
use super::sizes::Sizes;
use crate::math::kernels::{columns, units};
use crate::models::Dropout;
use crate::tensor::is_gpu;
use crate::tensor::slices::{self, Element, by_float};

/// Added to variances, as PyTorch does by default.
pub(super) const EPSILON: f64 = 1e-5;
/// Rows whose sums one task makes.
const RANGE: usize = 1024;
/// Values that one task passes back.
const PIECE: usize = 1 << 14;

/// Mean and biased variance of every column, lanes × columns each.
pub struct Moments {
    /// μ.
    pub mean: Tensor,
    /// σ².
    pub variance: Tensor,
}

/// What a normalisation goes by, lanes × columns each.
pub struct Norm<'n> {
    /// γ.
    pub scale: Tensor,
    /// β.
    pub shift: Tensor,
    /// The moments that evaluation uses.
    pub running: &'n Moments,
}

/// What follows a normalisation in the same step.
enum Then {
    Nothing,
    /// ReLU, and dropout on the training side.
    Units(Option<Masks>),
}

impl Then {
    fn masks(&self) -> Option<&Masks> {
        match self {
            Self::Units(masks) => masks.as_ref(),
            Self::Nothing => None,
        }
    }

    /// Returns what a positive unit multiplies the gradient by.
    fn factor(&self) -> Option<f64> {
        match self {
            Self::Units(masks) => Some(masks.as_ref().map_or(1.0, |masks| masks.scale())),
            Self::Nothing => None,
        }
    }
}

impl Sided {
    /// Normalises every column. Returns the moments of the training side too, of a pass that trains.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn batch_norm(&self, norm: &Norm) -> Result<(Self, Option<Moments>)> {
        self.normed(norm, Then::Nothing)
    }

    /// Returns ReLU(BN(S·X + b)) of every lane for square S, and drops entries of it on the training side; `bias`: lanes ×
    /// columns, or nothing. Returns the moments of the training side too, of a pass that trains.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn propagate_norm_relu_dropout(
        &self,
        operator: &Arc<Propagator>,
        bias: Option<&dyn AsTensor>,
        norm: &Norm,
        dropout: Dropout,
    ) -> Result<(Self, Option<Moments>)> {
        let x = self.propagate(operator)?;
        let x = bias.map_or(Ok(x.clone()), |bias| x.plus_bias(&bias.tensor()))?;
        x.normed_units(norm, dropout.masks(x.entries())?)
    }

    pub(super) fn normed_units(&self, norm: &Norm, masks: Option<Masks>) -> Result<(Self, Option<Moments>)> {
        if is_gpu(self.main().device()) {
            let (normed, seen) = self.batch_norm(norm)?;
            return Ok((normed.units(None, None, masks)?, seen));
        }
        self.normed(norm, Then::Units(masks))
    }

    fn normed(&self, norm: &Norm, then: Then) -> Result<(Self, Option<Moments>)> {
        let weights =
            [norm.scale.clone(), norm.shift.clone(), norm.running.mean.clone(), norm.running.variance.clone()];
        let (lanes, _, columns) = self.main().dims3()?;
        if let Some(odd) = weights.iter().find(|weight| weight.dims() != [lanes, columns]) {
            bail!("batch normalisation of {:?} with {:?}", self.dims(), odd.dims());
        }
        on_gpu!(self.main() => super::cuda::batch_norm(self, &weights));
        let (x, trains, sizes) = (self.parted(), self.sides().train(), Sizes::of(self));
        by_float!(self.dtype(), "batch normalisation", T => {
            let (mut seen, factor) = (None, then.factor().map(T::narrow));
            let (main, eval, affine) = both_sides::<T, Affine, 1, 4>(
                [&x],
                weights.each_ref(),
                self.dims(),
                |sides, [scale, shift, mean, variance]| {
                    let running = [mean, variance].map(|values| values.iter().map(|v| v.widen()).collect::<Vec<f64>>());
                    let own = trains.then(|| moments(sides[0][0], sizes));
                    seen.clone_from(&own);
                    let of_side = |i: usize| own.as_ref().filter(|_| i == 0).unwrap_or(&running);
                    let output = |(i, [x]): (usize, &[&[T]; 1])| {
                        let masks = then.masks().filter(|_| i == 0).map(|masks| masks.drawn(lanes)).transpose()?;
                        let [mean, variance] = of_side(i);
                        Ok(Affine::new(mean, variance).apply(x, scale, shift, sizes, |first, out| {
                            if factor.is_some() {
                                units::rectify(out);
                            }
                            if let Some(masks) = masks {
                                masks[first / sizes.lane()].apply_from(first % sizes.lane(), out);
                            }
                        }))
                    };
                    let outputs = sides.iter().enumerate().map(output).collect::<Result<_>>()?;
                    let [mean, variance] = of_side(0);
                    Ok((outputs, Affine::new(mean, variance)))
                },
            )?;
            let (input, output, [scale, shift, ..]) = (x.main().clone(), main.clone(), weights);
            let output = x.next(main, eval, move |gradient| {
                let found = slices::lend::<T, _, 4>([&input, &output, gradient, &scale], |[x, units, g, scale]| {
                    let through = factor.map(|factor| through(units, g, factor));
                    Ok(affine.back(x, through.as_deref().unwrap_or(g), scale, sizes))
                })?;
                let of = [input, scale, shift].into_iter().zip(found);
                of.map(|(of, found)| slices::tensor(found, of.dims()).map(|found| (of, found))).collect()
            });
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
    let mean_of = |sums: Vec<f64>| sums.into_iter().map(|sum| sum / rows).collect::<Vec<f64>>();
    let [mean] = column_sums(sizes, |_, range, [sums]| columns::add(&x[range], sums));
    let mean = mean_of(mean);
    // The differences first: squares of large means would swallow the variance.
    let [squares] = column_sums(sizes, |of, range, [sums]| columns::add_squares(&x[range], &mean[of], sums));
    let variance = mean_of(squares);
    [mean, variance]
}

/// `N` sums over the nodes for every lane and column: `add` gets the places of the lane's columns among all lanes', those of a
/// range of rows, and the sums to add to.
fn column_sums<const N: usize>(
    sizes: Sizes,
    add: impl Fn(Range<usize>, Range<usize>, [&mut [f64]; N]) + Sync,
) -> [Vec<f64>; N] {
    let Sizes { lanes, rows, columns } = sizes;
    let none = || std::array::from_fn(|_| vec![0.0; columns]);
    let of_range = |lane: usize, first: usize| {
        let mut sums: [Vec<f64>; N] = none();
        let [from, to] = [first, (first + RANGE).min(rows)].map(|row| (lane * rows + row) * columns);
        add(lane * columns..(lane + 1) * columns, from..to, sums.each_mut().map(Vec::as_mut_slice));
        sums
    };
    let of_lane = |lane: usize| {
        let ranges: Vec<[Vec<f64>; N]> =
            (0..rows).into_par_iter().step_by(RANGE).map(|first| of_range(lane, first)).collect();
        let mut total: [Vec<f64>; N] = none();
        for range in &ranges {
            let columns = total.iter_mut().flatten().zip(range.iter().flatten());
            columns.for_each(|(total, sum)| *total += sum);
        }
        total
    };
    let of_lanes: Vec<[Vec<f64>; N]> = (0..lanes).into_par_iter().map(of_lane).collect();
    std::array::from_fn(|i| of_lanes.iter().flat_map(|sums| sums[i].iter().copied()).collect())
}

/// Returns the gradient that units pass back.
fn through<T: Element>(units: &[T], gradient: &[T], factor: T) -> Vec<T> {
    let mut out = gradient.to_vec();
    let pieces = out.par_chunks_mut(PIECE).zip(units.par_chunks(PIECE));
    pieces.for_each(|(out, units)| units::stop_at_zero(units, factor, out));
    out
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

    /// Returns γ ⊙ x̂ + β, and what `then` makes of it: it gets the place of some rows, and what they are.
    fn apply<T: Element>(
        &self,
        x: &[T],
        scale: &[T],
        shift: &[T],
        sizes: Sizes,
        then: impl Fn(usize, &mut [T]) + Sync,
    ) -> Vec<T> {
        let mean: Vec<T> = self.mean.iter().map(|mean| T::narrow(*mean)).collect();
        let rate: Vec<T> = scale.iter().zip(&self.rate).map(|(s, r)| T::narrow(s.widen() * r)).collect();
        sizes.pieces(x, |first, lane, out| {
            let of = lane * sizes.columns..(lane + 1) * sizes.columns;
            columns::normalise(out, &mean[of.clone()], &rate[of.clone()], &shift[of]);
            then(first, out);
        })
    }

    /// The gradients of X, γ and β.
    fn back<T: Element>(&self, x: &[T], gradient: &[T], scale: &[T], sizes: Sizes) -> [Vec<T>; 3] {
        let [of_shift, of_scale] = column_sums(sizes, |of, range, sums| {
            columns::add_products(&x[range.clone()], &gradient[range], &self.mean[of.clone()], &self.rate[of], sums);
        });
        let count = sizes.rows.max(1) as f64;
        let of_columns = |value: &dyn Fn(usize) -> f64| (0..scale.len()).map(|c| T::narrow(value(c))).collect();
        let mean: Vec<T> = of_columns(&|c| self.mean[c]);
        let rate: Vec<T> = of_columns(&|c| scale[c].widen() * self.rate[c]);
        let level: Vec<T> = of_columns(&|c| of_shift[c] / count);
        let slope: Vec<T> = of_columns(&|c| of_scale[c] * self.rate[c] / count);
        let of_x = sizes.pieces(gradient, |first, lane, out| {
            let (of, x) = (lane * sizes.columns..(lane + 1) * sizes.columns, &x[first..]);
            columns::pass_back(out, x, [&mean, &rate, &level, &slope].map(|values| &values[of.clone()]));
        });
        let narrow = |values: Vec<f64>| values.into_iter().map(T::narrow).collect();
        [of_x, narrow(of_scale), narrow(of_shift)]
    }
}
