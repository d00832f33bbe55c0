//! The backward pass of the layers on features: all training passes of a lane at once.
//!
//! With G the gradient of the output, H the kept hidden units and s the scale of their dropout: ∂W₂ = Σ HᵀG, ∂b₂ = column
//! sums of G, Δ = s·(G·W₂ᵀ) where H > 0; ∂W₁ = Σ drop(X)ᵀΔ, ∂b₁ = column sums of Δ. Sums run over the training passes.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{Layers, RANGE, ROWS, Sizes, WEIGHT_ROWS, masked_rows};
use crate::host::{self, Element};
use crate::math::kernels::tall::{Matrix, Onto};
use crate::math::kernels::{pad_rows, padded, unpad_rows};
use crate::math::real::Real;
use crate::models::features::Stored;

/// Sums of one range of rows of one lane.
struct Partial<T> {
    weight: Vec<T>,
    bias: Vec<f64>,
    first_bias: Vec<f64>,
}

fn padded_copy<T: Element>(rows: &Tensor, columns: usize) -> Result<Vec<T>> {
    host::values::<T, _>(rows, |rows| {
        let mut out = vec![T::default(); rows.len() / columns.max(1) * padded(columns)];
        pad_rows(rows, columns, &mut out);
        Ok(out)
    })
}

impl Layers {
    /// Returns the gradients of all weights. `hidden` are the kept units of every pass, `arrived` the gradients of their
    /// outputs.
    pub(super) fn back<T: Element>(
        &self,
        s: Sizes,
        hidden: Vec<Vec<T>>,
        arrived: &[Option<Tensor>],
    ) -> Result<Vec<(Tensor, Tensor)>> {
        let (mut deltas, mut kept) = (Vec::new(), Vec::new());
        let mut hidden = hidden.into_iter();
        for (pass, gradient) in arrived.iter().enumerate() {
            let units = hidden.next();
            let Some(gradient) = gradient else { continue };
            kept.push((pass, gradient));
            // Units are overwritten with Δ once they have been read.
            deltas.push(units.map_or_else(|| padded_copy::<T>(gradient, s.hidden), Ok)?);
        }
        let sums = self.deltas::<T>(s, &kept, &mut deltas)?;
        let gradient =
            |of: &Tensor, values: Vec<T>| host::tensor(values, of.dims()).map(|gradient| (of.clone(), gradient));
        let narrow = |sums: &[f64]| sums.iter().map(|x| T::narrow(*x)).collect::<Vec<T>>();
        let mut gradients = Vec::new();
        if let Some(bias) = &self.first.bias {
            gradients.push(gradient(bias, sums.iter().flat_map(|p| narrow(&p.first_bias)).collect())?);
        }
        if let Some(second) = &self.second {
            gradients.push(gradient(&second.weight, sums.iter().flat_map(|p| p.weight.iter().copied()).collect())?);
            if let Some(bias) = &second.bias {
                gradients.push(gradient(bias, sums.iter().flat_map(|p| narrow(&p.bias)).collect())?);
            }
        }
        let passes: Vec<usize> = kept.iter().map(|(pass, _)| *pass).collect();
        gradients.push(gradient(&self.first.weight, self.first_gradient(s, &passes, &deltas))?);
        Ok(gradients)
    }

    /// Turns kept hidden units into Δ, and sums what the second layer and the biases need, by lane.
    fn deltas<T: Element>(
        &self,
        s: Sizes,
        kept: &[(usize, &Tensor)],
        deltas: &mut [Vec<T>],
    ) -> Result<Vec<Partial<T>>> {
        let ranges = s.nodes.div_ceil(RANGE);
        let transposed: Vec<Vec<T>> = match &self.second {
            Some(second) => host::values::<T, _>(&second.weight, |w| {
                Ok(w.chunks(s.hidden * s.outputs).map(|w| transposed(w, s.outputs)).collect())
            })?,
            None => Vec::new(),
        };
        let mut partials: Vec<Partial<T>> = Vec::new();
        for ((pass, gradient), deltas) in kept.iter().zip(deltas) {
            let scale = self.passes[*pass].hidden.as_ref().map_or(1.0, |masks| masks[0].scale());
            let of_pass: Vec<Partial<T>> = host::values::<T, _>(gradient, |gradient| {
                let pieces = deltas.par_chunks_mut(s.nodes * s.wide).enumerate().flat_map(|(lane, deltas)| {
                    deltas.par_chunks_mut(RANGE * s.wide).enumerate().map(move |(range, deltas)| (lane, range, deltas))
                });
                let work = |(lane, range, deltas): (usize, usize, &mut [T])| {
                    let first = (lane * s.nodes + range * RANGE) * s.outputs;
                    let rows = deltas.len() / s.wide;
                    let gradient = &gradient[first..first + rows * s.outputs];
                    delta_of_range(s, transposed.get(lane).map(Vec::as_slice), gradient, deltas, T::narrow(scale))
                };
                Ok(pieces.map(work).collect())
            })?;
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
        Ok(lanes)
    }

    /// ∂W₁ of every lane.
    fn first_gradient<T: Element>(&self, s: Sizes, passes: &[usize], deltas: &[Vec<T>]) -> Vec<T> {
        let mut out = vec![T::default(); s.lanes * s.inputs * s.hidden];
        let lane_of = |lane: usize| lane * s.nodes * s.wide..(lane + 1) * s.nodes * s.wide;
        match self.x.stored_as::<T>() {
            Stored::Sparse { pattern, values } => {
                let masked = self.masked_values::<T>(s.lanes);
                out.par_chunks_mut(s.inputs * s.hidden).enumerate().for_each(|(lane, out)| {
                    let values = |i: usize| masked[lane][passes[i]].as_deref().unwrap_or(values);
                    let sources: Vec<(&[T], &[T])> =
                        deltas.iter().enumerate().map(|(i, d)| (values(i), &d[lane_of(lane)])).collect();
                    out.par_chunks_mut(WEIGHT_ROWS * s.hidden).enumerate().for_each_init(
                        Vec::new,
                        |wide, (task, out)| {
                            let rows = task * WEIGHT_ROWS..task * WEIGHT_ROWS + out.len() / s.hidden;
                            if s.wide == s.hidden {
                                pattern.by_columns().sum_of(rows, &sources, s.wide, out);
                            } else {
                                wide.resize(rows.len() * s.wide, T::default());
                                pattern.by_columns().sum_of(rows, &sources, s.wide, wide);
                                unpad_rows(wide, s.hidden, out);
                            }
                        },
                    );
                });
            }
            Stored::Dense(values) => {
                let ranges = s.nodes.div_ceil(RANGE);
                let partials: Vec<Vec<T>> = (0..s.lanes * ranges)
                    .into_par_iter()
                    .map_init(Vec::new, |scratch, task| {
                        let (lane, range) = (task / ranges, task % ranges);
                        let mut sum = vec![T::default(); s.inputs * s.wide];
                        for (pass, deltas) in passes.iter().zip(deltas) {
                            let mask = self.passes[*pass].features.as_ref().map(|masks| &masks[lane]);
                            let deltas = &deltas[lane_of(lane)];
                            for first in (range * RANGE..s.nodes.min((range + 1) * RANGE)).step_by(ROWS) {
                                let rows = first..(first + ROWS).min(s.nodes);
                                let x = masked_rows(values, &rows, s.inputs, mask, scratch);
                                let deltas = &deltas[rows.start * s.wide..rows.end * s.wide];
                                Matrix::new(x, s.inputs).transposed_times(deltas, s.hidden, Onto::Sums, &mut sum);
                            }
                        }
                        sum
                    })
                    .collect();
                let lanes = out.par_chunks_mut(s.inputs * s.hidden).zip(partials.par_chunks(ranges));
                lanes.for_each(|(out, partials)| {
                    let (first, others) = (&partials[0], &partials[1..]);
                    let mut sum = first.clone();
                    others.iter().for_each(|part| add(&mut sum, part));
                    unpad_rows(&sum, s.hidden, out);
                });
            }
        }
        out
    }
}

impl<T: Real> Partial<T> {
    fn add(&mut self, other: &Self) {
        add(&mut self.weight, &other.weight);
        self.bias.iter_mut().zip(&other.bias).for_each(|(a, b)| *a += b);
        self.first_bias.iter_mut().zip(&other.first_bias).for_each(|(a, b)| *a += b);
    }
}

fn add<T: Real>(sum: &mut [T], part: &[T]) {
    sum.iter_mut().zip(part).for_each(|(a, b)| *a += *b);
}

/// Handles some rows of one lane: `deltas` holds hidden units, if there is a second layer, and Δ afterwards.
fn delta_of_range<T: Element>(
    s: Sizes,
    transposed: Option<&[T]>,
    gradient: &[T],
    deltas: &mut [T],
    scale: T,
) -> Partial<T> {
    let mut partial = Partial { weight: Vec::new(), bias: Vec::new(), first_bias: Vec::new() };
    if let Some(transposed) = transposed {
        let wide_outputs = padded(s.outputs);
        let mut wide = vec![T::default(); gradient.len() / s.outputs * wide_outputs];
        pad_rows(gradient, s.outputs, &mut wide);
        let mut weight = vec![T::default(); s.wide * wide_outputs];
        Matrix::new(deltas, s.wide).transposed_times(&wide, s.outputs, Onto::Nothing, &mut weight);
        partial.weight = vec![T::default(); s.hidden * s.outputs];
        unpad_rows(&weight[..s.hidden * wide_outputs], s.outputs, &mut partial.weight);
        partial.bias = sums_of_columns(gradient, s.outputs);
        let mut back = vec![T::default(); ROWS * s.wide];
        for (gradient, deltas) in gradient.chunks(ROWS * s.outputs).zip(deltas.chunks_mut(ROWS * s.wide)) {
            let back = &mut back[..deltas.len()];
            Matrix::new(gradient, s.outputs).times(transposed, s.hidden, Onto::Nothing, back);
            pulp::Arch::new().dispatch(Deactivate { deltas, back, scale });
        }
    }
    partial.first_bias = sums_of_columns(deltas, s.wide);
    partial.first_bias.truncate(s.hidden);
    partial
}

/// Turns hidden units into what goes back through them, compiled for the widest registers there are.
struct Deactivate<'a, T> {
    deltas: &'a mut [T],
    back: &'a [T],
    scale: T,
}

impl<T: Element> pulp::WithSimd for Deactivate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (delta, back) in self.deltas.iter_mut().zip(self.back) {
            let through = *back * self.scale;
            *delta = if *delta > T::default() { through } else { T::default() };
        }
    }
}

fn sums_of_columns<T: Real>(rows: &[T], columns: usize) -> Vec<f64> {
    // Eight rows in the type itself, then on in double precision: fast and accurate.
    let mut sums = vec![0.0; columns];
    let mut few = vec![T::default(); columns];
    for rows in rows.chunks(8 * columns.max(1)) {
        few.fill(T::default());
        rows.chunks_exact(columns.max(1)).for_each(|row| add(&mut few, row));
        sums.iter_mut().zip(&few).for_each(|(sum, x)| *sum += x.widen());
    }
    sums
}

/// Wᵀ with padded rows; W has rows of `columns` values.
fn transposed<T: Element>(w: &[T], columns: usize) -> Vec<T> {
    let rows = w.len() / columns.max(1);
    let wide = padded(rows);
    let mut out = vec![T::default(); columns * wide];
    for (i, row) in w.chunks_exact(columns.max(1)).enumerate() {
        row.iter().enumerate().for_each(|(j, x)| out[j * wide + i] = *x);
    }
    out
}
