//! Dropout: where training and evaluation part.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::masks::{Masks, WORDS};
use super::sided::Sided;
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
}

/// Runs `work` on every piece of every lane of `out`, given the lane and the first entry of the piece in it.
fn each_piece<T: Send>(out: &mut [T], lanes: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
    let size = out.len().checked_div(lanes).unwrap_or(0).max(1);
    out.par_chunks_mut(size).enumerate().for_each(|(lane, values)| {
        values.par_chunks_mut(PIECE).enumerate().for_each(|(i, piece)| work(lane, i * PIECE, piece));
    });
}
