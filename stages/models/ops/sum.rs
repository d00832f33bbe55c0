//! Sums: a bias for every lane, and two quantities of the same shape.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::dense::sums_of_columns;
use crate::tensor::slices::{self, Element, by_float};

/// Values that one task adds.
const TASK: usize = 1 << 14;

impl Sided {
    /// Returns X + b of every lane; `bias`: lanes × columns.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn plus_bias(&self, bias: &impl AsTensor) -> Result<Self> {
        let bias = bias.tensor();
        on_gpu!(bias => super::cuda::plus_bias(self, &bias));
        let (lanes, rows, columns) = self.main().dims3()?;
        if bias.dims() != [lanes, columns] {
            bail!("a bias of {:?} for {:?}", bias.dims(), self.dims());
        }
        let size = (rows * columns).max(1);
        by_float!(self.dtype(), "a bias", T => operation::<T, _, 1, 1>(
            [self],
            [&bias],
            self.dims(),
            |sides, [bias]| Ok((sides.iter().map(|[x]| shifted(x, bias, size, columns)).collect(), ())),
            move |Back { gradient, .. }| {
                let sums = gradient.par_chunks(size).map(|g| sums_of_columns(g, columns)).collect::<Vec<_>>();
                let of_bias = sums.into_iter().flatten().map(T::narrow).collect();
                Ok(vec![Gradient::Same, Gradient::Of(of_bias)])
            },
        ))
    }

    /// Returns X − Y.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn minus(&self, other: &Self) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::minus(self, other));
        if self.dims() != other.dims() {
            bail!("{:?} minus {:?} is no difference", self.dims(), other.dims());
        }
        by_float!(self.dtype(), "a difference", T => operation::<T, _, 2, 0>(
            [self, other],
            [],
            self.dims(),
            |sides, []| Ok((sides.iter().map(|[a, b]| both(a, b, |a, b| a - b)).collect(), ())),
            |Back { gradient, .. }| {
                let negative = gradient.par_iter().map(|g| T::default() - *g).collect();
                Ok(vec![Gradient::Same, Gradient::Of(negative)])
            },
        ))
    }

    /// Returns X + Y.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn plus(&self, other: &Self) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::plus(self, other));
        if self.dims() != other.dims() {
            bail!("{:?} plus {:?} is no sum", self.dims(), other.dims());
        }
        by_float!(self.dtype(), "a sum", T => operation::<T, _, 2, 0>(
            [self, other],
            [],
            self.dims(),
            |sides, []| Ok((sides.iter().map(|[a, b]| both(a, b, |a, b| a + b)).collect(), ())),
            |_| Ok(vec![Gradient::Same, Gradient::Same]),
        ))
    }
}

/// Returns a + b of plain tensors.
pub(super) fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    on_gpu!(a => a + b);
    if a.dims() != b.dims() {
        bail!("{:?} plus {:?} is no sum", a.dims(), b.dims());
    }
    by_float!(a.dtype(), "a sum", T => {
        slices::tensor(slices::lend::<T, _, 2>([a, b], |[a, b]| Ok(both(a, b, |a, b| a + b)))?, a.dims())
    })
}

/// `size`: values of a lane.
fn shifted<T: Element>(x: &[T], bias: &[T], size: usize, columns: usize) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    let lanes = out.par_chunks_mut(size).zip(x.par_chunks(size)).zip(bias.par_chunks(columns.max(1)));
    lanes.for_each(|((out, x), bias)| {
        for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
            out.iter_mut().zip(x).zip(bias).for_each(|((out, x), b)| *out = *x + *b);
        }
    });
    out
}

/// Joins two lists value by value.
fn both<T: Element>(a: &[T], b: &[T], join: impl Fn(T, T) -> T + Sync) -> Vec<T> {
    let mut out = vec![T::default(); a.len()];
    let tasks = out.par_chunks_mut(TASK).zip(a.par_chunks(TASK)).zip(b.par_chunks(TASK));
    tasks.for_each(|((out, a), b)| {
        out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = join(*a, *b));
    });
    out
}
