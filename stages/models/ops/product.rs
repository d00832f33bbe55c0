//! Products of every lane on trained input: X·W, and drop(X)·W.
//!
//! Of every lane, X: rows × in and W: in × out; ∂X = G·Wᵀ and ∂W = XᵀG, with G the gradient of the product. Rows are cut
//! into ranges that depend on their number alone; sums of ranges are added in order. What is left of X after dropout is made a range
//! at a time and is never kept: the way back applies the mask again.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::{Mask, Masks};
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::kernels::tall::{Matrix, Onto};
use crate::math::kernels::{pad_transposed, padded, unpad_rows, with_padding, without_padding};
use crate::models::Dropout;
use crate::tensor::slices::{Element, by_float};

/// Rows that one task handles; a multiple of 64, so that every piece of a mask starts with a word.
const RANGE: usize = 1024;

impl Sided {
    /// Returns X·W of every lane; `weight`: lanes × in × out.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn times(&self, weight: &impl AsTensor) -> Result<Self> {
        self.masked_times(&weight.tensor(), None)
    }

    /// Returns X·W of every lane, with entries of X dropped on the training side; `weight`: lanes × in × out.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn dropout_times(&self, dropout: Dropout, weight: &impl AsTensor) -> Result<Self> {
        self.masked_times(&weight.tensor(), dropout.masks(self.entries())?)
    }

    pub(super) fn masked_times(&self, weight: &Tensor, masks: Option<Masks>) -> Result<Self> {
        on_gpu!(weight => match masks {
            Some(masks) => super::cuda::times(&super::cuda::dropout(self, masks)?, weight),
            None => super::cuda::times(self, weight),
        });
        let sizes @ [lanes, rows, inputs, outputs] = sizes(self.dims(), weight.dims())?;
        let (x, again) = (if masks.is_some() { self.parted() } else { self.clone() }, masks.clone());
        by_float!(self.dtype(), "a product", T => operation::<T, _, 1, 1>(
            [&x],
            [weight],
            &[lanes, rows, outputs],
            |sides, [w]| {
                let weights: Vec<Vec<T>> = w.chunks(inputs * outputs).map(|w| with_padding(w, outputs)).collect();
                let masks = masks.as_ref().map(|masks| masks.drawn(lanes)).transpose()?;
                // The training side comes first.
                let side = |(i, [x]): (usize, &[&[T]; 1])| times(x, &weights, masks.filter(|_| i == 0), sizes);
                Ok((sides.iter().enumerate().map(side).collect(), ()))
            },
            move |Back { gradient, inputs: [x], weights: [w], .. }| {
                let masks = again.as_ref().map(|masks| masks.drawn(lanes)).transpose()?;
                let (of_x, of_w) = gradients(x, w, gradient, masks, sizes);
                Ok(vec![Gradient::Of(of_x), Gradient::Of(of_w)])
            },
        ))
    }
}

/// lanes, rows, in, out.
type Sizes = [usize; 4];

fn sizes(x: &[usize], w: &[usize]) -> Result<Sizes> {
    match (x, w) {
        ([lanes, rows, inputs], [lanes_w, inputs_w, outputs]) if (lanes, inputs) == (lanes_w, inputs_w) => {
            Ok([*lanes, *rows, *inputs, *outputs])
        }
        _ => bail!("{x:?} times {w:?} is no product of every lane"),
    }
}

/// What is left of some rows of a lane, from `first` on.
fn kept<'k, T: Element>(x: &'k [T], mask: Option<&Mask>, first: usize, room: &'k mut Vec<T>) -> &'k [T] {
    let Some(mask) = mask else { return x };
    room.clear();
    room.extend_from_slice(x);
    mask.apply_from(first, room);
    room
}

fn times<T: Element>(
    x: &[T],
    weights: &[Vec<T>],
    masks: Option<&[Mask]>,
    [lanes, rows, inputs, outputs]: Sizes,
) -> Vec<T> {
    let mut out = vec![T::default(); lanes * rows * outputs];
    out.par_chunks_mut((rows * outputs).max(1)).enumerate().for_each(|(lane, out)| {
        let (x, mask) = (&x[lane * rows * inputs..], masks.map(|masks| &masks[lane]));
        let room = || (Vec::new(), Vec::new());
        out.par_chunks_mut(RANGE * outputs).enumerate().for_each_init(room, |(wide, room), (range, out)| {
            let (first, count) = (range * RANGE * inputs, out.len() / outputs);
            let x = kept(&x[first..][..count * inputs], mask, first, room);
            wide.resize(count * padded(outputs), T::default());
            Matrix::new(x, inputs).times(&weights[lane], outputs, Onto::Nothing, wide);
            unpad_rows(wide, outputs, out);
        });
    });
    out
}

fn gradients<T: Element>(
    x: &[T],
    w: &[T],
    g: &[T],
    masks: Option<&[Mask]>,
    [lanes, rows, inputs, outputs]: Sizes,
) -> (Vec<T>, Vec<T>) {
    let mut of_x = vec![T::default(); lanes * rows * inputs];
    let work = |(lane, range, of_x): (usize, usize, &mut [T])| {
        let (first, count) = (lane * rows + range * RANGE, of_x.len() / inputs);
        let (mask, entry, mut room) = (masks.map(|masks| &masks[lane]), range * RANGE * inputs, Vec::new());
        let x = kept(&x[first * inputs..(first + count) * inputs], mask, entry, &mut room);
        let g = &g[first * outputs..(first + count) * outputs];
        let transposed = pad_transposed(&w[lane * inputs * outputs..(lane + 1) * inputs * outputs], outputs);
        let mut wide = vec![T::default(); count * padded(inputs)];
        Matrix::new(g, outputs).times(&transposed, inputs, Onto::Nothing, &mut wide);
        unpad_rows(&wide, inputs, of_x);
        if let Some(mask) = mask {
            mask.apply_from(entry, of_x);
        }
        let mut wide_w = vec![T::default(); inputs * padded(outputs)];
        Matrix::new(x, inputs).transposed_times(&with_padding(g, outputs), outputs, Onto::Nothing, &mut wide_w);
        without_padding(&wide_w, outputs, inputs)
    };
    let pieces = of_x.par_chunks_mut((rows * inputs).max(1)).enumerate().flat_map(|(lane, of_x)| {
        of_x.par_chunks_mut(RANGE * inputs).enumerate().map(move |(range, of_x)| (lane, range, of_x))
    });
    let partials: Vec<Vec<T>> = pieces.map(work).collect();
    let mut of_w = Vec::with_capacity(w.len());
    for lane in partials.chunks(rows.div_ceil(RANGE).max(1)) {
        let mut sum = lane[0].clone();
        for part in &lane[1..] {
            sum.iter_mut().zip(part).for_each(|(a, b)| *a += *b);
        }
        of_w.extend(sum);
    }
    (of_x, of_w)
}
