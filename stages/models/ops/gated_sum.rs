//! A sum over neighbours with a trained gate for every entry: Y_i = ε E_i + Σ_j w_ij X_j with w_ij = drop(tanh(a_i + b_j + c)·S_ij).
//!
//! S is symmetric; X, E: nodes × columns; a and b are two numbers per node, so nothing has more values than entries × 1. The mask has
//! a bit for every stored entry, in their order: (i, j) and (j, i) have gates and bits of their own. With G the gradient of Y
//! and Δ_ij = ⟨G_i, X_j⟩ ∂w_ij, the way back is ∂X_j = Σ_i w_ij G_i, ∂E = ε G, ∂a_i = Σ_j Δ_ij, ∂b_j = Σ_i Δ_ij and ∂c = Σ_ij Δ_ij.
//!
//! Gates are made for some rows at a time and used while they are in cache. They are not kept for the way back, which makes them
//! anew: a gate costs a few of the `columns` multiplications of its entry, and kept ones would be as large as the units on graphs
//! with many edges. Columns of W are walked along the rows of S; what needs the other place (a bit of the mask, Δ for a) looks it
//! up in the list of mirrors. A row is summed by one task, in the order of its entries. In main memory alone: there is no form for a GPU.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::{Mask, Masks};
use super::propagate::{Propagator, symmetric};
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::csr::pieces;
use crate::math::kernels::gates::{Gates, dots};
use crate::math::kernels::{padded, with_padding, without_padding};
use crate::models::Dropout;
use crate::tensor::slices::{Element, by_float};

/// Rows whose Δ one task sums.
const ROWS: usize = 512;

impl Sided {
    /// Returns ε·E + Σ_j drop(tanh(a_i + b_j + c)·S_ij)·X_j of every lane for symmetric S: nodes × nodes. `scores` holds a and b,
    /// lanes × nodes × 2; `shift` is c, lanes × 1; `ego` is E, of the shape of X, with ε. Masks have an entry for every stored one of S.
    ///
    /// # Errors
    /// When the shapes or types do not fit, or S has an entry without its mirror.
    pub fn gated_sum(
        &self,
        operator: &Arc<Propagator>,
        scores: &Self,
        shift: &impl AsTensor,
        ego: (&Self, f64),
        dropout: Dropout,
    ) -> Result<Self> {
        let masks = dropout.masks(operator.matrix().indices.len())?;
        self.gated(operator, scores, &shift.tensor(), ego, masks)
    }

    pub(super) fn gated(
        &self,
        operator: &Arc<Propagator>,
        scores: &Self,
        shift: &Tensor,
        (ego, epsilon): (&Self, f64),
        masks: Option<Masks>,
    ) -> Result<Self> {
        let shape = symmetric(operator, self.dims())?;
        let (lanes, columns) = (shape.lanes, shape.columns);
        let fits = scores.dims() == [lanes, shape.rows, 2] && shift.dims() == [lanes, 1] && ego.dims() == self.dims();
        if !fits {
            let [x, scores, ego] = [self, scores, ego].map(Self::dims);
            bail!("{x:?} cannot be summed with scores of {scores:?}, a shift of {:?} and {ego:?}", shift.dims());
        }
        if operator.mirrors().is_none() {
            bail!("an entry of the operator has no mirror");
        }
        on_gpu!(self.main() => super::cuda::gated(operator, [self, scores, ego], shift, epsilon, masks));
        masks.as_ref().map(|masks| masks.drawn(lanes)).transpose()?;
        let parted = |x: &Self| if masks.is_some() { x.parted() } else { x.clone() };
        let (again, masks_again) = (operator.clone(), masks.clone());
        by_float!(self.dtype(), "a gated sum", T => operation::<T, _, 3, 1>(
            [&parted(self), &parted(scores), &parted(ego)],
            [shift],
            self.dims(),
            |sides, [shift]| {
                let side = |(side, [x, scores, ego]): (usize, &[&[T]; 3])| {
                    // The training side comes first; evaluation drops nothing.
                    let masks = masks.as_ref().filter(|_| side == 0);
                    Lanes { operator, columns, scores, shift, masks }.sum(x, ego, T::narrow(epsilon))
                };
                Ok((sides.iter().enumerate().map(side).collect(), ()))
            },
            move |Back { gradient, inputs: [x, scores, _], weights: [shift], .. }| {
                let of = Lanes { operator: &again, columns, scores, shift, masks: masks_again.as_ref() };
                let [of_x, of_scores, of_shift] = of.back(x, gradient);
                let epsilon = T::narrow(epsilon);
                let of_ego = gradient.par_iter().map(|g| *g * epsilon).collect();
                Ok([of_x, of_scores, of_ego, of_shift].map(Gradient::Of).into())
            },
        ))
    }
}

/// Gates of all lanes.
struct Lanes<'a, T> {
    operator: &'a Propagator,
    columns: usize,
    scores: &'a [T],
    shift: &'a [T],
    masks: Option<&'a Masks>,
}

/// Gates of one lane.
struct Lane<'a, T> {
    gates: Gates<'a, T>,
    mask: Option<&'a Mask>,
    /// Values of a row, padded.
    width: usize,
}

impl<T: Element> Lanes<'_, T> {
    fn lane(&self, lane: usize) -> Lane<'_, T> {
        let size = 2 * self.operator.n();
        let scores = &self.scores[lane * size..(lane + 1) * size];
        Lane {
            gates: Gates { of: self.operator, scores, shift: self.shift[lane] },
            mask: self.masks.and_then(|masks| masks.lane(lane)),
            width: padded(self.columns),
        }
    }

    /// Values of a lane, padded.
    fn size(&self) -> usize {
        (self.operator.n() * padded(self.columns)).max(1)
    }

    fn wide<'v>(&self, values: &'v [T]) -> Cow<'v, [T]> {
        match self.columns == padded(self.columns) {
            true => Cow::Borrowed(values),
            false => Cow::Owned(with_padding(values, self.columns)),
        }
    }

    fn narrow(&self, values: Vec<T>) -> Vec<T> {
        let width = padded(self.columns);
        if width == self.columns { values } else { without_padding(&values, self.columns, values.len() / width.max(1)) }
    }

    /// ε·E + Σ_j w_ij X_j.
    fn sum(&self, x: &[T], ego: &[T], epsilon: T) -> Vec<T> {
        let (x, mut out) = (self.wide(x), with_padding(ego, self.columns));
        let lanes = out.par_chunks_mut(self.size()).zip(x.par_chunks(self.size())).enumerate();
        lanes.for_each(|(lane, (out, x))| self.lane(lane).sum(x, epsilon, out));
        self.narrow(out)
    }

    /// The gradients of X, of scores and of shifts.
    fn back(&self, x: &[T], gradient: &[T]) -> [Vec<T>; 3] {
        let (x, g) = (self.wide(x), self.wide(gradient));
        let (mut of_x, mut of_scores) = (vec![T::default(); x.len()], vec![T::default(); self.scores.len()]);
        let inputs = x.par_chunks(self.size()).zip(g.par_chunks(self.size()));
        let outputs = of_x.par_chunks_mut(self.size()).zip(of_scores.par_chunks_mut((2 * self.operator.n()).max(1)));
        let lanes = inputs.zip(outputs).enumerate();
        let of_shift = lanes.map(|(lane, ((x, g), (of_x, of_scores)))| self.lane(lane).back(x, g, of_x, of_scores));
        let of_shift = of_shift.collect();
        [self.narrow(of_x), of_scores, of_shift]
    }
}

impl<T: Element> Lane<'_, T> {
    /// out ← ε·out + Σ_j w_ij X_j.
    fn sum(&self, x: &[T], epsilon: T, out: &mut [T]) {
        let of = self.gates.of;
        let tasks = pieces(of.tasks(), out, self.width).into_par_iter().zip(of.tasks());
        tasks.for_each_init(Vec::new, |weights, (out, rows)| {
            let entries = of.entries(rows.clone());
            // A part of a mask starts with a word: some weights before the first are there for nothing.
            let lead = entries.start % 64;
            weights.resize(lead + entries.len(), T::default());
            self.gates.of_rows(rows.clone(), &mut weights[lead..]);
            if let Some(mask) = self.mask {
                mask.apply_from(entries.start - lead, weights);
            }
            of.weighted_rows(&weights[lead..], rows.clone(), x, self.width, epsilon, out);
        });
    }

    /// Writes the gradients of X and of scores, and returns that of the shift.
    fn back(&self, x: &[T], g: &[T], of_x: &mut [T], of_scores: &mut [T]) -> T {
        let of = self.gates.of;
        let mirrors = of.mirrors().unwrap_or_default();
        // Δ_ij, where S_ji stands.
        let mut deltas = vec![T::default(); mirrors.len()];
        let mut rest = &mut deltas[..];
        let cut =
            of.tasks().iter().map(|rows| rest.split_off_mut(..of.entries(rows.clone()).len()).unwrap_or_default());
        let cut: Vec<&mut [T]> = cut.collect();
        let tasks = pieces(of.tasks(), of_x, self.width).into_par_iter().zip(cut).zip(of.tasks());
        tasks.for_each_init(<[Vec<T>; 2]>::default, |[weights, slopes], ((of_x, deltas), rows)| {
            let entries = of.entries(rows.clone());
            weights.resize(entries.len(), T::default());
            slopes.resize(entries.len(), T::default());
            self.gates.of_columns(rows.clone(), weights, slopes);
            if let Some(mask) = self.mask {
                for ((weight, slope), mirror) in weights.iter_mut().zip(slopes.iter_mut()).zip(&mirrors[entries]) {
                    let factor: T = mask.factor(*mirror as usize);
                    (*weight, *slope) = (*weight * factor, *slope * factor);
                }
            }
            dots(of, rows.clone(), x, g, self.width, deltas);
            deltas.iter_mut().zip(slopes).for_each(|(delta, slope)| *delta *= *slope);
            of.weighted_rows(weights, rows.clone(), g, self.width, T::default(), of_x);
        });
        of_scores.par_chunks_mut(2 * ROWS).enumerate().for_each(|(task, of_scores)| {
            for (i, scores) in (task * ROWS..).zip(of_scores.chunks_exact_mut(2)) {
                let entries = of.entries(i..i + 1);
                let mirrored = mirrors[entries.clone()].iter().map(|mirror| deltas[*mirror as usize].widen());
                scores[0] = T::narrow(mirrored.sum());
                scores[1] = T::narrow(deltas[entries].iter().map(|delta| delta.widen()).sum());
            }
        });
        T::narrow(of_scores.iter().skip(1).step_by(2).map(|of_b| of_b.widen()).sum())
    }
}
