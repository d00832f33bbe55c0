//! Hidden units in one step: drop(ReLU(X + b)), and drop(ReLU(S·X + b)) for square S.
//!
//! Some rows at a time are made, shifted, rectified and dropped while they are in cache; what is between these steps is never
//! written to memory. With U the units of the training side and s the scale of their dropout, the way back is
//! Δ = s·G where U > 0 (a unit that is zero, rectified or dropped, passes nothing), ∂b = column sums of Δ, and ∂X = Δ or Sᵀ·Δ.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::{Mask, Masks};
use super::propagate::{Propagator, product, side_by_side};
use super::sided::{AsTensor, Eval, Sided};
use super::tape::Sides;
use crate::math::dense::sums_of_columns;
use crate::math::kernels::{BLOCK, units};
use crate::models::Dropout;
use crate::tensor::is_gpu;
use crate::tensor::slices::{self, Element, by_float};

/// Values of a piece that one task makes, about: they stay in a core's own cache.
const PIECE: usize = 1 << 14;

impl Sided {
    /// Returns ReLU(X); the gradient at 0 is 0.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn relu(&self) -> Result<Self> {
        self.units(None, None, None)
    }

    /// Returns ReLU(X), and drops entries of it on the training side.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn relu_dropout(&self, dropout: Dropout) -> Result<Self> {
        self.units(None, None, dropout.masks(self.entries())?)
    }

    /// Returns ReLU(X + b) of every lane, and drops entries of it on the training side; `bias`: lanes × columns.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn bias_relu_dropout(&self, bias: &impl AsTensor, dropout: Dropout) -> Result<Self> {
        self.units(None, Some(bias.tensor()), dropout.masks(self.entries())?)
    }

    /// Returns ReLU(S·X + b) of every lane for square S: nodes × nodes, and drops entries of it on the training side;
    /// `bias`: lanes × columns, or nothing.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn propagate_relu_dropout(
        &self,
        operator: &Arc<Propagator>,
        bias: Option<&dyn AsTensor>,
        dropout: Dropout,
    ) -> Result<Self> {
        self.propagated_units(operator, bias.map(AsTensor::tensor), dropout.masks(self.entries())?)
    }

    pub(super) fn propagated_units(
        &self,
        operator: &Arc<Propagator>,
        bias: Option<Tensor>,
        masks: Option<Masks>,
    ) -> Result<Self> {
        let rows = side_by_side(operator, self.dims())?.rows;
        if operator.n() != rows {
            bail!("an operator of {} × {rows} makes no units of {:?}", operator.n(), self.dims());
        }
        let wide = self.dims().last().is_some_and(|columns| columns.is_multiple_of(BLOCK));
        if !wide || is_gpu(self.main().device()) {
            // Lanes of a few columns share a pass over the graph.
            return self.propagate(operator)?.units(None, bias, masks);
        }
        self.units(Some(operator), bias, masks)
    }

    /// Entries of one lane.
    pub(super) fn entries(&self) -> usize {
        self.dims().iter().skip(1).product()
    }

    /// Returns ReLU(X + b), or ReLU(S·X + b) for columns that fill registers, with masks on the training side.
    pub(super) fn units(
        &self,
        operator: Option<&Arc<Propagator>>,
        bias: Option<Tensor>,
        masks: Option<Masks>,
    ) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::units(self, bias.as_ref(), masks));
        let (lanes, rows, columns) = self.main().dims3()?;
        if let Some(bias) = bias.as_ref().filter(|bias| bias.dims() != [lanes, columns]) {
            bail!("a bias of {:?} for {:?}", bias.dims(), self.dims());
        }
        let shape = Shape { lanes, rows, columns };
        by_float!(self.dtype(), "units", T => {
            let (main, eval) = self.both_units::<T>(shape, operator, bias.as_ref(), masks.as_ref())?;
            // A unit that is zero passes nothing back.
            let scale = T::narrow(masks.as_ref().map_or(1.0, |masks| masks.scale()));
            let (input, output, operator) = (self.main().clone(), main.clone(), operator.cloned());
            Ok(self.next(main, eval, move |gradient| {
                let delta = slices::lend::<T, _, 2>([&output, gradient], |[u, g]| Ok(shape.back(u, g, scale)))?;
                let of_bias = bias.map(|bias| {
                    let sums: Vec<Vec<f64>> =
                        delta.par_chunks(shape.lane()).map(|delta| sums_of_columns(delta, columns)).collect();
                    let sums = sums.into_iter().flatten().map(T::narrow).collect();
                    slices::tensor::<T>(sums, bias.dims()).map(|gradient| (bias, gradient))
                });
                let of_x = match operator {
                    Some(operator) => product(operator.back(), &[&delta], side_by_side(&operator, input.dims())?).remove(0),
                    None => delta,
                };
                let of_x = slices::tensor(of_x, input.dims())?;
                of_bias.into_iter().chain([Ok((input, of_x))]).collect()
            }))
        })
    }

    /// The units of both sides.
    fn both_units<T: Element>(
        &self,
        shape: Shape,
        operator: Option<&Arc<Propagator>>,
        bias: Option<&Tensor>,
        masks: Option<&Masks>,
    ) -> Result<(Tensor, Eval)> {
        let of_lanes = |bias: &Tensor| slices::lend::<T, _, 1>([bias], |[bias]| Ok(bias.to_vec()));
        let bias = bias.map(of_lanes).transpose()?;
        let masks = masks.map(|masks| masks.drawn(shape.lanes)).transpose()?;
        let units = |x: &Tensor, masks: Option<&[Mask]>, beside: bool| {
            slices::lend::<T, _, 1>([x], |[x]| {
                let fill = |lane: usize, rows: Range<usize>, out: &mut [T]| {
                    let x = &x[lane * shape.lane()..][..shape.lane()];
                    match operator {
                        Some(operator) => operator.product_rows(rows, x, shape.columns, out),
                        None => out.copy_from_slice(&x[rows.start * shape.columns..rows.end * shape.columns]),
                    }
                    let bias = bias.as_ref().map(|bias| &bias[lane * shape.columns..(lane + 1) * shape.columns]);
                    match bias {
                        Some(bias) => units::rectify_rows(out, bias),
                        None => units::rectify(out),
                    }
                };
                shape.fill(fill, masks, beside)
            })
        };
        // What is not dropped is what evaluation sees.
        let together = matches!(self.eval, Eval::Same) && masks.is_some() && self.sides() == Sides::Both;
        let (main, beside) = units(self.main(), masks, together)?;
        let eval = match (&self.eval, beside) {
            (_, Some(beside)) => Eval::Own(beside),
            (Eval::Own(eval), None) => Eval::Own(units(eval, None, false)?.0),
            (Eval::Same, None) if masks.is_none() => Eval::Same,
            (Eval::Same | Eval::Absent, None) => Eval::Absent,
        };
        Ok((main, eval))
    }
}

#[derive(Clone, Copy)]
struct Shape {
    lanes: usize,
    rows: usize,
    columns: usize,
}

impl Shape {
    /// Values of a lane.
    fn lane(self) -> usize {
        (self.rows * self.columns).max(1)
    }

    /// Rows of a piece: a multiple of 64, so that every piece of a mask starts with a word.
    fn piece(self) -> usize {
        (PIECE / self.columns.max(1)).max(64) / 64 * 64
    }

    /// Makes units piece by piece and drops some of them; with what is there before, if it is wanted.
    fn fill<T: Element>(
        self,
        fill: impl Fn(usize, Range<usize>, &mut [T]) + Sync,
        masks: Option<&[Mask]>,
        beside: bool,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let size = self.lanes * self.rows * self.columns;
        let (mut main, mut before) = (vec![T::default(); size], vec![T::default(); if beside { size } else { 0 }]);
        let piece = (self.piece() * self.columns).max(1);
        let work = |lane: usize, at: usize, main: &mut [T], before: Option<&mut [T]>| {
            let first = at * self.piece();
            fill(lane, first..first + main.len() / self.columns, main);
            if let Some(before) = before {
                before.copy_from_slice(main);
            }
            if let Some(masks) = masks {
                masks[lane].apply_from(first * self.columns, main);
            }
        };
        let lanes = main.par_chunks_mut(self.lane()).enumerate();
        if beside {
            lanes.zip(before.par_chunks_mut(self.lane())).for_each(|((lane, main), before)| {
                let pieces = main.par_chunks_mut(piece).zip(before.par_chunks_mut(piece)).enumerate();
                pieces.for_each(|(at, (main, before))| work(lane, at, main, Some(before)));
            });
        } else {
            lanes.for_each(|(lane, main)| {
                main.par_chunks_mut(piece).enumerate().for_each(|(at, main)| work(lane, at, main, None));
            });
        }
        let tensor = |values| slices::tensor(values, &[self.lanes, self.rows, self.columns]);
        Ok((tensor(main)?, beside.then(|| tensor(before)).transpose()?))
    }

    /// Δ of units and the gradient that has arrived at them.
    fn back<T: Element>(self, units: &[T], gradient: &[T], scale: T) -> Vec<T> {
        let mut delta = vec![T::default(); units.len()];
        let pieces = delta.par_chunks_mut(PIECE).zip(units.par_chunks(PIECE)).zip(gradient.par_chunks(PIECE));
        pieces.for_each(|((delta, units), gradient)| units::pass_back(units, gradient, scale, delta));
        delta
    }
}
