//! The backward pass of the layers on features: all training passes of a lane at once.
//!
//! With G the gradient of the output, H the kept hidden units and s the scale of their dropout: ∂W₂ = Σ HᵀG, ∂b₂ = column
//! sums of G, Δ = s·(G·W₂ᵀ) where H > 0; ∂W₁ = Σ drop(X)ᵀΔ, ∂b₁ = column sums of Δ. Sums run over the training passes.

use std::borrow::Cow;
use std::ops::Range;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{Layers, Masked, RANGE, ROWS, Sizes, WEIGHT_ROWS, masked_rows};
use crate::math::dense::sums_of_columns;
use crate::math::kernels::tall::{Matrix, Onto};
use crate::math::kernels::units::pass_back_in_place;
use crate::math::kernels::{pad_transposed, padded, unpad_rows, with_padding, without_padding};
use crate::math::real::Real;
use crate::math::sparse_product::TwoSided;
use crate::models::features::StoredFeatures;
use crate::tensor::slices::{self, Element};

/// Bytes of Δ of a lane up to which features gather rows of it; beyond, nodes scatter theirs.
const IN_CACHE: usize = 1 << 20;
/// Nodes whose part of ∂W₁ one task sums when they scatter.
const LONG_RANGE: usize = 8 * RANGE;

/// Δ of every pass: made of hidden units, or the gradient as it arrived.
type Deltas<'g, T> = Vec<Cow<'g, [T]>>;

/// Sums of one range of rows of one lane.
struct Partial<T> {
    weight: Vec<T>,
    bias: Vec<f64>,
    first_bias: Vec<f64>,
}

impl Layers {
    /// Returns the gradients of all weights, from the kept units and masked features of every pass and the gradients
    /// that have `arrived` at their outputs.
    pub(super) fn back<T: Element>(
        &self,
        s: Sizes,
        (hidden, masked): (Vec<Vec<T>>, Masked<T>),
        arrived: &[Option<Tensor>],
    ) -> Result<Vec<(Tensor, Tensor)>> {
        let mut hidden = hidden.into_iter();
        let (mut passes, mut units, mut gradients) = (Vec::new(), Vec::new(), Vec::new());
        for (pass, gradient) in arrived.iter().enumerate() {
            let of_pass = hidden.next();
            if let Some(gradient) = gradient {
                passes.push(pass);
                units.extend(of_pass);
                gradients.push(gradient);
            }
        }
        slices::lend_all::<T, _>(&gradients, |gradients| {
            let (sums, deltas) = self.deltas(s, &passes, units, gradients)?;
            let gradient =
                |of: &Tensor, values: Vec<T>| slices::tensor(values, of.dims()).map(|gradient| (of.clone(), gradient));
            let narrow = |sums: &[f64]| sums.iter().map(|x| T::narrow(*x)).collect::<Vec<T>>();
            let mut found = Vec::new();
            if let Some(bias) = &self.first.bias {
                found.push(gradient(bias, sums.iter().flat_map(|p| narrow(&p.first_bias)).collect())?);
            }
            if let Some(second) = &self.second {
                found.push(gradient(&second.weight, sums.iter().flat_map(|p| p.weight.iter().copied()).collect())?);
                if let Some(bias) = &second.bias {
                    found.push(gradient(bias, sums.iter().flat_map(|p| narrow(&p.bias)).collect())?);
                }
            }
            found.push(gradient(&self.first.weight, self.first_gradient(s, &passes, &masked, &deltas)?)?);
            Ok(found)
        })
    }

    /// Returns Δ of every pass, padded, and sums what the second layer and the biases need, by lane. `units` are the kept hidden
    /// units, if there is a second layer: they are overwritten with Δ once they have been read. Without one, Δ is the gradient.
    fn deltas<'g, T: Element>(
        &self,
        s: Sizes,
        passes: &[usize],
        units: Vec<Vec<T>>,
        gradients: &[&'g [T]],
    ) -> Result<(Vec<Partial<T>>, Deltas<'g, T>)> {
        let Some(second) = &self.second else {
            let deltas: Deltas<T> = gradients.iter().map(|gradient| padded_or_lent(gradient, s.hidden)).collect();
            let sums = if self.first.bias.is_some() { sums_of_lanes(s, &deltas) } else { Vec::new() };
            return Ok((sums, deltas));
        };
        let ranges = s.nodes.div_ceil(RANGE);
        let transposed: Vec<Vec<T>> = slices::lend::<T, _, 1>([&second.weight], |[w]| {
            Ok(w.chunks(s.hidden * s.outputs).map(|w| pad_transposed(w, s.outputs)).collect())
        })?;
        let mut partials: Vec<Partial<T>> = Vec::new();
        let mut deltas = units;
        for ((pass, gradient), deltas) in passes.iter().zip(gradients).zip(&mut deltas) {
            let scale = self.passes[*pass].hidden.as_ref().map_or(1.0, |masks| masks.scale());
            let pieces = deltas.par_chunks_mut(s.nodes * s.wide).enumerate().flat_map(|(lane, deltas)| {
                deltas.par_chunks_mut(RANGE * s.wide).enumerate().map(move |(range, deltas)| (lane, range, deltas))
            });
            let work = |(lane, range, deltas): (usize, usize, &mut [T])| {
                let first = (lane * s.nodes + range * RANGE) * s.outputs;
                let rows = deltas.len() / s.wide;
                let gradient = &gradient[first..first + rows * s.outputs];
                delta_of_range(s, &transposed[lane], gradient, deltas, T::narrow(scale))
            };
            let of_pass: Vec<Partial<T>> = pieces.map(work).collect();
            if partials.is_empty() {
                partials = of_pass;
            } else {
                partials.iter_mut().zip(of_pass).for_each(|(sum, part)| sum.add(&part));
            }
        }
        // Ranges of a lane are added in order.
        let mut lanes = Vec::with_capacity(s.lanes);
        let mut partials = partials.into_iter();
        while let Some(mut sum) = partials.next() {
            partials.by_ref().take(ranges - 1).for_each(|part| sum.add(&part));
            lanes.push(sum);
        }
        Ok((lanes, deltas.into_iter().map(Cow::Owned).collect()))
    }

    /// ∂W₁ of every lane.
    fn first_gradient<T: Element>(
        &self,
        s: Sizes,
        passes: &[usize],
        masked: &Masked<T>,
        deltas: &[Cow<[T]>],
    ) -> Result<Vec<T>> {
        let of_lane = |lane: usize| lane * s.nodes * s.wide..(lane + 1) * s.nodes * s.wide;
        Ok(match self.x.stored_as::<T>()? {
            StoredFeatures::Sparse { pattern, values } => {
                let sources = |lane: usize| -> Vec<(&[T], &[T])> {
                    let values = |pass: &usize| masked[lane][*pass].as_deref().unwrap_or(values);
                    passes.iter().zip(deltas).map(|(pass, d)| (values(pass), &d[of_lane(lane)])).collect()
                };
                if s.nodes * s.wide * size_of::<T>() <= IN_CACHE {
                    return Ok(gather(s, pattern, sources));
                }
                sum_of_ranges(s, LONG_RANGE, |lane, rows, sum| {
                    for (values, deltas) in sources(lane) {
                        pattern.by_rows().scatter(rows.clone(), values, deltas, s.wide, sum);
                    }
                })
            }
            StoredFeatures::Dense(values) => sum_of_ranges(s, RANGE, |lane, range, sum| {
                let mut scratch = Vec::new();
                for (pass, deltas) in passes.iter().zip(deltas) {
                    let mask = self.passes[*pass].on_features(lane);
                    let deltas = &deltas[of_lane(lane)];
                    for first in range.clone().step_by(ROWS) {
                        let rows = first..(first + ROWS).min(range.end);
                        let x = masked_rows(values, &rows, s.inputs, mask, &mut scratch);
                        let deltas = &deltas[rows.start * s.wide..rows.end * s.wide];
                        Matrix::new(x, s.inputs).transposed_times(deltas, s.hidden, Onto::Sums, sum);
                    }
                }
            }),
        })
    }
}

/// ∂W₁ row by row: every feature takes the rows of Δ that it occurs in.
fn gather<'d, T: Element>(
    s: Sizes,
    pattern: &TwoSided,
    sources: impl Fn(usize) -> Vec<(&'d [T], &'d [T])> + Sync,
) -> Vec<T> {
    let mut out = vec![T::default(); s.lanes * s.inputs * s.hidden];
    out.par_chunks_mut(s.inputs * s.hidden).enumerate().for_each(|(lane, out)| {
        let sources = sources(lane);
        out.par_chunks_mut(WEIGHT_ROWS * s.hidden).enumerate().for_each_init(Vec::new, |wide, (task, out)| {
            let rows = task * WEIGHT_ROWS..task * WEIGHT_ROWS + out.len() / s.hidden;
            if s.wide == s.hidden {
                pattern.by_columns().sum_of(rows, &sources, s.wide, out);
            } else {
                wide.resize(rows.len() * s.wide, T::default());
                pattern.by_columns().sum_of(rows, &sources, s.wide, wide);
                unpad_rows(wide, s.hidden, out);
            }
        });
    });
    out
}

/// ∂W₁ as the sum of what ranges of nodes add to it, in order; `add_range` gets the lane, the nodes and the sum.
fn sum_of_ranges<T: Element>(
    s: Sizes,
    range: usize,
    add_range: impl Fn(usize, Range<usize>, &mut [T]) + Sync,
) -> Vec<T> {
    let ranges = s.nodes.div_ceil(range).max(1);
    let part = |task: usize| {
        let (lane, first) = (task / ranges, task % ranges * range);
        let mut sum = vec![T::default(); s.inputs * s.wide];
        add_range(lane, first..(first + range).min(s.nodes), &mut sum);
        sum
    };
    let partials: Vec<Vec<T>> = (0..s.lanes * ranges).into_par_iter().map(part).collect();
    let mut out = vec![T::default(); s.lanes * s.inputs * s.hidden];
    out.par_chunks_mut(s.inputs * s.hidden).zip(partials.par_chunks(ranges)).for_each(|(out, partials)| {
        let mut sum = partials[0].clone();
        partials[1..].iter().for_each(|part| add(&mut sum, part));
        unpad_rows(&sum, s.hidden, out);
    });
    out
}

impl<T: Real> Partial<T> {
    fn add(&mut self, other: &Self) {
        add(&mut self.weight, &other.weight);
        add_sums(&mut self.bias, &other.bias);
        add_sums(&mut self.first_bias, &other.first_bias);
    }
}

fn add_sums(sums: &mut [f64], part: &[f64]) {
    sums.iter_mut().zip(part).for_each(|(a, b)| *a += b);
}

fn add<T: Real>(sum: &mut [T], part: &[T]) {
    sum.iter_mut().zip(part).for_each(|(a, b)| *a += *b);
}

/// Handles some rows of one lane: `deltas` holds hidden units, and Δ afterwards.
fn delta_of_range<T: Element>(s: Sizes, transposed: &[T], gradient: &[T], deltas: &mut [T], scale: T) -> Partial<T> {
    let wide = with_padding(gradient, s.outputs);
    let mut weight = vec![T::default(); s.wide * padded(s.outputs)];
    Matrix::new(deltas, s.wide).transposed_times(&wide, s.outputs, Onto::Nothing, &mut weight);
    let mut back = vec![T::default(); ROWS * s.wide];
    for (gradient, deltas) in gradient.chunks(ROWS * s.outputs).zip(deltas.chunks_mut(ROWS * s.wide)) {
        let back = &mut back[..deltas.len()];
        Matrix::new(gradient, s.outputs).times(transposed, s.hidden, Onto::Nothing, back);
        pass_back_in_place(deltas, back, scale);
    }
    Partial {
        weight: without_padding(&weight, s.outputs, s.hidden),
        bias: sums_of_columns(gradient, s.outputs),
        first_bias: sums_of_rows(s, deltas),
    }
}

/// What the bias of a layer needs that has no layer above it, by lane: ranges of a pass are added in order, after those of the
/// pass before.
fn sums_of_lanes<T: Element>(s: Sizes, deltas: &[Cow<[T]>]) -> Vec<Partial<T>> {
    let of_lane = |lane: usize| {
        let rows = |deltas: &Cow<[T]>| {
            let deltas = &deltas[lane * s.nodes * s.wide..(lane + 1) * s.nodes * s.wide];
            deltas.chunks(RANGE * s.wide).map(|range| sums_of_rows(s, range)).collect::<Vec<_>>()
        };
        let mut ranges: Vec<Vec<f64>> = Vec::new();
        for of_pass in deltas.iter().map(rows) {
            if ranges.is_empty() {
                ranges = of_pass;
            } else {
                ranges.iter_mut().zip(of_pass).for_each(|(sum, part)| add_sums(sum, &part));
            }
        }
        let mut ranges = ranges.into_iter();
        let mut sum = ranges.next().unwrap_or_default();
        ranges.for_each(|part| add_sums(&mut sum, &part));
        Partial { weight: Vec::new(), bias: Vec::new(), first_bias: sum }
    };
    (0..s.lanes).into_par_iter().map(of_lane).collect()
}

fn sums_of_rows<T: Element>(s: Sizes, rows: &[T]) -> Vec<f64> {
    let mut sums = sums_of_columns(rows, s.wide);
    sums.truncate(s.hidden);
    sums
}

/// Rows with padding; lent where there is none to add.
fn padded_or_lent<T: Element>(rows: &[T], columns: usize) -> Cow<'_, [T]> {
    if padded(columns) == columns { Cow::Borrowed(rows) } else { Cow::Owned(with_padding(rows, columns)) }
}
