//! Propagation over the graph: S·Z, and the polynomial Σ_k c_k p_k(S) Z with trained coefficients.
//!
//! S is symmetric, so the backward pass of a product is the same product. For the polynomial with G the gradient of the
//! result: ∂Z = Σ_k c_k p_k(S) G, and ∂c_k = ⟨p_k(S) Z, G⟩ = ⟨Z, p_k(S) G⟩. Both come from the hops of G, so backward
//! costs as many products as forward, and no hop is kept between them.
//!
//! Lanes of a few columns stand side by side, so that a pass over the graph serves all of them; wide ones (hidden units)
//! are taken one by one, since a row of one lane fills the registers and the rows of all would fill no cache.

use std::sync::Arc;

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::side_by_side::SideBySide;
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::csr::Csr;
use crate::math::kernels::BLOCK;
use crate::math::kernels::hops;
pub use crate::math::kernels::hops::Basis;
use crate::tensor::slices::{Element, by_float};

/// A symmetric operator made ready for products.
pub struct Propagator {
    matrix: hops::Hops,
    #[cfg(feature = "cuda")]
    uploaded: std::sync::OnceLock<crate::tensor::cuda::Sparse>,
}

impl Propagator {
    /// Prepares a matrix.
    pub fn new(matrix: Csr) -> Self {
        Self {
            matrix: hops::Hops::new(matrix),
            #[cfg(feature = "cuda")]
            uploaded: std::sync::OnceLock::new(),
        }
    }

    /// Prepares a matrix that is stored in single precision.
    pub fn of_single(matrix: &Csr<f32>) -> Self {
        let values = matrix.values.iter().map(|value| f64::from(*value)).collect();
        let wide = Csr::new(matrix.n(), matrix.indptr.clone(), matrix.indices.clone(), values);
        // The parts of a matrix fit together.
        Self::new(wide.unwrap_or_default())
    }

    /// Returns the matrix on the GPU where it is used.
    #[cfg(feature = "cuda")]
    pub(super) fn on_gpu(&self, device: &candle_core::Device) -> Result<&crate::tensor::cuda::Sparse> {
        crate::tensor::cuda::once(&self.uploaded, || {
            let matrix = self.matrix.matrix();
            let (device, values) = (device.as_cuda_device()?, matrix.values.iter().map(|value| *value as f32));
            let values: Vec<f32> = values.collect();
            crate::tensor::cuda::Sparse::new(device, &matrix.indptr, &matrix.indices, &values, matrix.cols())
        })
    }
}

impl std::ops::Deref for Propagator {
    type Target = hops::Hops;

    fn deref(&self) -> &hops::Hops {
        &self.matrix
    }
}

impl Sided {
    /// Returns S·X of every lane for symmetric S: nodes × nodes.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn propagate(&self, operator: &Arc<Propagator>) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::propagate(operator, self));
        let (shape, again) = (side_by_side(operator, self.dims())?, operator.clone());
        by_float!(self.dtype(), "propagation", T => operation::<T, _, 1, 0>(
            [self],
            [],
            self.dims(),
            |sides, []| Ok((product(operator, &firsts(sides), shape), ())),
            move |Back { gradient, .. }| Ok(product(&again, &[gradient], shape).into_iter().map(Gradient::Of).collect()),
        ))
    }

    /// Returns Σ_k c_k p_k(S)·X of every lane for symmetric S: nodes × nodes; `coefficients`: lanes × (order + 1).
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn polynomial(&self, operator: &Arc<Propagator>, basis: Basis, coefficients: &impl AsTensor) -> Result<Self> {
        let c = coefficients.tensor();
        on_gpu!(self.main() => super::cuda::polynomial(operator, basis, &c, self));
        let (shape, again) = (side_by_side(operator, self.dims())?, operator.clone());
        let degrees = match c.dims() {
            [lanes, degrees] if *lanes == shape.lanes => *degrees,
            dims => bail!("coefficients of {dims:?} for {} lanes", shape.lanes),
        };
        by_float!(self.dtype(), "propagation", T => operation::<T, _, 1, 1>(
            [self],
            [&c],
            self.dims(),
            |sides, [c]| {
                let (count, rows) = (sides.len(), Coefficients { values: c, degrees, shape }.rows(sides.len()));
                let (sum, _) = operator.polynomial(basis, &rows, &shape.join(&firsts(sides)), None, shape.width(count));
                Ok(((0..count).map(|i| shape.part(&sum, i, count)).collect(), ()))
            },
            move |Back { gradient, inputs: [x], weights: [c], .. }| {
                let (c, width) = (Coefficients { values: c, degrees, shape }, shape.width(1));
                let (x, gradient) = (shape.join(&[x]), shape.join(&[gradient]));
                let (sum, dots) = again.polynomial(basis, &c.rows(1), &gradient, Some(&x), width);
                Ok(vec![Gradient::Of(shape.part(&sum, 0, 1)), Gradient::Of(c.sums(&dots, width))])
            },
        ))
    }
}

/// The only input of every side.
pub(super) fn firsts<'s, T>(sides: &[[&'s [T]; 1]]) -> Vec<&'s [T]> {
    sides.iter().map(|[x]| *x).collect()
}

/// S·X of some tensors.
pub(super) fn product<T: Element>(operator: &Propagator, tensors: &[&[T]], shape: SideBySide) -> Vec<Vec<T>> {
    if shape.columns.is_multiple_of(BLOCK) {
        let one = |z: &&[T]| {
            let mut out = vec![T::default(); z.len()];
            let size = (shape.rows * shape.columns).max(1);
            let lanes = out.par_chunks_mut(size).zip(z.par_chunks(size));
            lanes.for_each(|(out, z)| operator.product(z, shape.columns, out));
            out
        };
        return tensors.iter().map(one).collect();
    }
    let joined = shape.join(tensors);
    let mut out = vec![T::default(); joined.len()];
    operator.product(&joined, shape.width(tensors.len()), &mut out);
    (0..tensors.len()).map(|i| shape.part(&out, i, tensors.len())).collect()
}

/// Coefficients of every lane, and how lanes stand side by side.
pub(super) struct Coefficients<'c, T> {
    pub values: &'c [T],
    pub degrees: usize,
    pub shape: SideBySide,
}

impl<T: Element> Coefficients<'_, T> {
    /// Returns a padded row for every degree.
    pub fn rows(&self, count: usize) -> Vec<T> {
        let row = |k: usize| self.shape.spread(|lane| self.values[lane * self.degrees + k], count);
        (0..self.degrees).flat_map(row).collect()
    }

    /// Sums the columns of every lane.
    pub fn sums(&self, dots: &[f64], width: usize) -> Vec<T> {
        let of = |lane: usize, k: usize| {
            let first = k * width + lane * self.shape.columns;
            T::narrow(dots[first..first + self.shape.columns].iter().sum())
        };
        (0..self.shape.lanes).flat_map(|lane| (0..self.degrees).map(move |k| of(lane, k))).collect()
    }
}

pub(super) fn side_by_side(operator: &Propagator, dims: &[usize]) -> Result<SideBySide> {
    match *dims {
        [lanes, rows, columns] if rows == operator.n() => Ok(SideBySide { lanes, rows, columns }),
        _ => bail!("an operator of {} nodes cannot propagate {dims:?}", operator.n()),
    }
}
