//! Factors for every column or row: X + (Y − X) ⊙ t with a share t per column, and X ⊙ s with a factor s per row.
//!
//! Of every lane, X and Y: rows × columns. With G the gradient of the result, for shares ∂X = G ⊙ (1 − t), ∂Y = G ⊙ t and
//! ∂t = Σ_rows G ⊙ (Y − X); for factors ∂X = G ⊙ s and ∂s = Σ_columns G ⊙ X. Sums over rows are in double precision, in order.

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use super::sizes::Sizes;
use crate::math::dense::sums_of_columns;
use crate::tensor::slices::by_float;

impl Sided {
    /// Returns X + (Y − X) ⊙ t of every lane; `share` is t, lanes × columns: 0 stays at X, 1 is Y.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn towards(&self, other: &Self, share: &impl AsTensor) -> Result<Self> {
        let share = share.tensor();
        let (lanes, _, columns) = self.main().dims3()?;
        if self.dims() != other.dims() || share.dims() != [lanes, columns] {
            bail!("{:?} cannot go towards {:?} by {:?}", self.dims(), other.dims(), share.dims());
        }
        on_gpu!(share => super::cuda::towards(self, other, &share));
        let sizes = Sizes::of(self);
        by_float!(self.dtype(), "a step towards", T => operation::<T, _, 2, 1>(
            [self, other],
            [&share],
            self.dims(),
            |sides, [t]| {
                let one = |[x, y]: &[&[T]; 2]| sizes.rows(|at, lane, out| {
                    let (x, y, t) = (&x[at..], &y[at..], &t[lane * columns..]);
                    out.iter_mut().enumerate().for_each(|(c, out)| *out = x[c] + (y[c] - x[c]) * t[c]);
                });
                Ok((sides.iter().map(one).collect(), ()))
            },
            move |Back { gradient: g, inputs: [x, y], weights: [t], .. }| {
                let one = T::narrow(1.0);
                let of_x = sizes.rows(|at, lane, out| {
                    let (g, t) = (&g[at..], &t[lane * columns..]);
                    out.iter_mut().enumerate().for_each(|(c, out)| *out = g[c] * (one - t[c]));
                });
                let of_y = sizes.rows(|at, lane, out| {
                    let (g, t) = (&g[at..], &t[lane * columns..]);
                    out.iter_mut().enumerate().for_each(|(c, out)| *out = g[c] * t[c]);
                });
                let products = sizes.rows(|at, _, out| {
                    let (g, x, y) = (&g[at..], &x[at..], &y[at..]);
                    out.iter_mut().enumerate().for_each(|(c, out)| *out = g[c] * (y[c] - x[c]));
                });
                let sums = products.par_chunks(sizes.lane()).map(|p| sums_of_columns(p, columns)).collect::<Vec<_>>();
                let of_t = sums.into_iter().flatten().map(T::narrow).collect();
                Ok(vec![Gradient::Of(of_x), Gradient::Of(of_y), Gradient::Of(of_t)])
            },
        ))
    }

    /// Returns X ⊙ s of every lane; `factors` is s, lanes × rows.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn scale_rows(&self, factors: &impl AsTensor) -> Result<Self> {
        let factors = factors.tensor();
        let (lanes, rows, columns) = self.main().dims3()?;
        if factors.dims() != [lanes, rows] {
            bail!("rows of {:?} cannot be scaled by {:?}", self.dims(), factors.dims());
        }
        on_gpu!(factors => super::cuda::scale_rows(self, &factors));
        let sizes = Sizes::of(self);
        by_float!(self.dtype(), "scaling of rows", T => operation::<T, _, 1, 1>(
            [self],
            [&factors],
            self.dims(),
            |sides, [s]| Ok((sides.iter().map(|[x]| sizes.scaled(x, s)).collect(), ())),
            move |Back { gradient: g, inputs: [x], weights: [s], .. }| {
                let dot = |(g, x): (&[T], &[T])| T::narrow(g.iter().zip(x).map(|(g, x)| g.widen() * x.widen()).sum());
                let width = columns.max(1);
                let of_s = g.par_chunks(width).zip(x.par_chunks(width)).with_min_len(64).map(dot).collect();
                Ok(vec![Gradient::Of(sizes.scaled(g, s)), Gradient::Of(of_s)])
            },
        ))
    }
}
