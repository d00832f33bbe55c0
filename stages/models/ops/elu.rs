//! Hidden units: ELU(X + b) with ELU(x) = x for x > 0, e^x − 1 elsewhere.
//!
//! With G the gradient of the result, Δ = G where X + b > 0 and G e^(X + b) elsewhere, ∂X = Δ and ∂b = column sums of Δ. Nothing is kept.

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use super::sizes::Sizes;
use crate::math::dense::sums_of_columns;
use crate::math::kernels::units::{elu_back, elu_rows};
use crate::tensor::slices::by_float;

impl Sided {
    /// Returns ELU(X + b) of every lane; `bias`: lanes × columns.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn bias_elu(&self, bias: &impl AsTensor) -> Result<Self> {
        let bias = bias.tensor();
        let (lanes, _, columns) = self.main().dims3()?;
        if bias.dims() != [lanes, columns] {
            bail!("a bias of {:?} for {:?}", bias.dims(), self.dims());
        }
        on_gpu!(self.main() => super::cuda::bias_elu(self, &bias));
        let sizes = Sizes::of(self);
        by_float!(self.dtype(), "units", T => operation::<T, _, 1, 1>(
            [self],
            [&bias],
            self.dims(),
            |sides, [bias]| {
                let one = |[x]: &[&[T]; 1]| sizes.pieces(x, |_, lane, out| {
                    elu_rows(out, &bias[lane * columns..(lane + 1) * columns]);
                });
                Ok((sides.iter().map(one).collect(), ()))
            },
            move |Back { gradient, inputs: [x], weights: [bias], .. }| {
                let delta = sizes.pieces(gradient, |at, lane, out| {
                    elu_back(&x[at..at + out.len()], &bias[lane * columns..(lane + 1) * columns], out);
                });
                let sums = delta.par_chunks(sizes.lane()).map(|delta| sums_of_columns(delta, columns));
                let of_bias = sums.collect::<Vec<_>>().into_iter().flatten().map(T::narrow).collect();
                Ok(vec![Gradient::Of(delta), Gradient::Of(of_bias)])
            },
        ))
    }
}
