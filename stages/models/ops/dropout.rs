//! Dropout and ReLU, also as one step. Dropout is where training and evaluation part.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::masks::{Masks, WORDS};
use super::sided::{Sided, both_sides};
use crate::math::kernels::units;
use crate::models::Dropout;
use crate::tensor::slices::{self, by_float};

/// Entries of a lane that one task handles; a multiple of 64.
const PIECE: usize = 64 * WORDS;

impl Sided {
    /// Drops entries of the training side; the evaluation side stays as it is.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn dropout(&self, dropout: Dropout) -> Result<Self> {
        match dropout.masks(self.entries())? {
            Some(masks) => self.masked(masks),
            None => Ok(self.clone()),
        }
    }

    /// Returns ReLU(X); the gradient at 0 is 0.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn relu(&self) -> Result<Self> {
        self.rectified(None)
    }

    /// Returns ReLU(X), and drops entries of it on the training side.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn relu_dropout(&self, dropout: Dropout) -> Result<Self> {
        self.rectified(dropout.masks(self.entries())?)
    }

    /// Entries of one lane.
    fn entries(&self) -> usize {
        self.dims().iter().skip(1).product()
    }

    /// Applies masks to the training side; gradients pass through the same masks.
    pub(super) fn masked(&self, masks: Masks) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::dropout(self, masks));
        let (x, lanes, input) = (self.parted(), self.lanes(), self.main().clone());
        let apply = move |tensor: &Tensor, masks: &Masks| {
            let masks = masks.drawn(lanes)?;
            by_float!(tensor.dtype(), "dropout", T => {
                let mut out = slices::lend::<T, _, 1>([tensor], |[x]| Ok(x.to_vec()))?;
                each_piece(&mut out, lanes, |lane, first, values| masks[lane].apply_from(first, values));
                slices::tensor(out, tensor.dims())
            })
        };
        let main = apply(&input, &masks)?;
        Ok(x.next(main, x.eval.clone(), move |gradient| Ok(vec![(input, apply(gradient, &masks)?)])))
    }

    /// Returns ReLU(X), with masks on top of the training side if there are any.
    pub(super) fn rectified(&self, masks: Option<Masks>) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::relu(self, masks));
        let (lanes, size) = (self.lanes(), self.entries());
        let x = if masks.is_some() { self.parted() } else { self.clone() };
        let drawn = masks.as_ref().map(|masks| masks.drawn(lanes)).transpose()?;
        // A unit that is zero, rectified or dropped, passes nothing back.
        let scale = masks.as_ref().map_or(1.0, |masks| masks.scale());
        by_float!(self.dtype(), "ReLU", T => {
            let forward = |sides: &[[&[T]; 1]], []: [&[T]; 0]| {
                // The first side is that of training.
                let outputs = sides.iter().zip([drawn, None]).map(|([x], masks)| {
                    let mut out = vec![T::default(); x.len()];
                    each_piece(&mut out, lanes, |lane, first, out| {
                        units::rectify(&x[lane * size + first..][..out.len()], out);
                        if let Some(masks) = masks {
                            masks[lane].apply_from(first, out);
                        }
                    });
                    out
                });
                Ok((outputs.collect(), ()))
            };
            let (main, eval, ()) = both_sides::<T, _, 1, 0>([&x], [], self.dims(), forward)?;
            let (input, output) = (self.main().clone(), main.clone());
            Ok(x.next(main, eval, move |gradient| {
                let mut of_x = vec![T::default(); output.elem_count()];
                slices::lend::<T, _, 2>([&output, gradient], |[output, gradient]| {
                    each_piece(&mut of_x, 1, |_, first, of_x| {
                        units::pass_back(&output[first..], &gradient[first..], T::narrow(scale), of_x);
                    });
                    Ok(())
                })?;
                let gradient = slices::tensor(of_x, input.dims())?;
                Ok(vec![(input, gradient)])
            }))
        })
    }
}

/// Runs `work` on every piece of every lane of `out`, given the lane and the first entry of the piece in it.
fn each_piece<T: Send>(out: &mut [T], lanes: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
    let size = out.len().checked_div(lanes).unwrap_or(0).max(1);
    out.par_chunks_mut(size).enumerate().for_each(|(lane, values)| {
        values.par_chunks_mut(PIECE).enumerate().for_each(|(i, piece)| work(lane, i * PIECE, piece));
    });
}
