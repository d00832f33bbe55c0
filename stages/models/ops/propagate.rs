//! Propagation over the graph: S·Z, and the polynomial Σ_k c_k p_k(S) Z with trained coefficients.
//!
//! S is symmetric, so the backward pass of a product is the same product; an operator that is not, or that has other rows than
//! columns, keeps its transpose for the way back and is good for products alone. For the polynomial with G the gradient of the
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

/// An operator made ready for products.
pub struct Propagator {
    matrix: hops::Hops,
    /// What the way back multiplies by, if the operator is not symmetric.
    transposed: Option<Arc<Self>>,
    #[cfg(any(feature = "cuda", test))]
    uploaded: std::sync::OnceLock<crate::tensor::cuda::Sparse>,
    #[cfg(any(feature = "cuda", test))]
    entries_uploaded: std::sync::OnceLock<crate::tensor::cuda::Entries>,
}

impl Propagator {
    /// Prepares a symmetric matrix.
    pub fn new(matrix: Csr) -> Self {
        Self {
            matrix: hops::Hops::new(matrix),
            transposed: None,
            #[cfg(any(feature = "cuda", test))]
            uploaded: std::sync::OnceLock::new(),
            #[cfg(any(feature = "cuda", test))]
            entries_uploaded: std::sync::OnceLock::new(),
        }
    }

    /// Prepares a matrix that need not be symmetric, nor square.
    pub fn directed(matrix: Csr) -> Self {
        let transposed = Some(Arc::new(Self::new(matrix.transposed())));
        Self { transposed, ..Self::new(matrix) }
    }

    /// Returns what the way back multiplies by.
    pub(super) fn back(self: &Arc<Self>) -> &Arc<Self> {
        self.transposed.as_ref().unwrap_or(self)
    }

    /// Prepares a symmetric matrix that is stored in single precision.
    pub fn of_single(matrix: &Csr<f32>) -> Self {
        let values = matrix.values.iter().map(|value| f64::from(*value)).collect();
        let wide = Csr::new(matrix.n(), matrix.indptr.clone(), matrix.indices.clone(), values);
        // The parts of a matrix fit together.
        Self::new(wide.unwrap_or_default())
    }

    /// Returns the matrix with what gates and attention need of its entries, on the GPU where it is used.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn weighted_on_gpu(&self, device: &candle_core::Device) -> Result<crate::tensor::cuda::Weighted<'_>> {
        use crate::tensor::cuda::{Entries, Weighted, once};
        let entries = once(&self.entries_uploaded, || {
            let Some(mirrors) = self.mirrors() else { bail!("an entry of the operator has no mirror") };
            let row = |i: usize| std::iter::repeat_n(i as u32, self.entries(i..i + 1).len());
            Entries::new(device, &(0..self.n()).flat_map(row).collect::<Vec<u32>>(), mirrors)
        })?;
        Ok(Weighted { matrix: self.on_gpu(device)?, entries })
    }

    /// Returns the matrix on the GPU where it is used.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn on_gpu(&self, device: &candle_core::Device) -> Result<&crate::tensor::cuda::Sparse> {
        crate::tensor::cuda::once(&self.uploaded, || {
            let matrix = self.matrix.matrix();
            let values: Vec<f32> = matrix.values.iter().map(|value| *value as f32).collect();
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
    /// Returns S·X of every lane; S has as many columns as X has rows.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn propagate(&self, operator: &Arc<Propagator>) -> Result<Self> {
        on_gpu!(self.main() => super::cuda::propagate(operator, self));
        let (shape, back) = (side_by_side(operator, self.dims())?, operator.back().clone());
        let made = SideBySide { rows: operator.n(), ..shape };
        by_float!(self.dtype(), "propagation", T => operation::<T, _, 1, 0>(
            [self],
            [],
            &[made.lanes, made.rows, made.columns],
            |sides, []| Ok((product(operator, &firsts(sides), shape), ())),
            move |Back { gradient, .. }| Ok(product(&back, &[gradient], made).into_iter().map(Gradient::Of).collect()),
        ))
    }

    /// Returns Σ_k c_k p_k(S)·X of every lane for symmetric S: nodes × nodes; `coefficients`: lanes × (order + 1).
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn polynomial(&self, operator: &Arc<Propagator>, basis: Basis, coefficients: &impl AsTensor) -> Result<Self> {
        let c = coefficients.tensor();
        on_gpu!(self.main() => super::cuda::polynomial(operator, basis, &c, self));
        let (shape, again) = (symmetric(operator, self.dims())?, operator.clone());
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

/// S·X of some tensors, which have this shape.
pub(super) fn product<T: Element>(operator: &Propagator, tensors: &[&[T]], shape: SideBySide) -> Vec<Vec<T>> {
    let made = SideBySide { rows: operator.n(), ..shape };
    if shape.columns.is_multiple_of(BLOCK) {
        let one = |z: &&[T]| {
            let [size, from] = [made, shape].map(|shape| shape.rows * shape.columns);
            let mut out = vec![T::default(); shape.lanes * size];
            let lanes = out.par_chunks_mut(size.max(1)).zip(z.par_chunks(from.max(1)));
            lanes.for_each(|(out, z)| operator.product(z, shape.columns, out));
            out
        };
        return tensors.iter().map(one).collect();
    }
    let (joined, width) = (shape.join(tensors), shape.width(tensors.len()));
    let mut out = vec![T::default(); made.rows * width];
    operator.product(&joined, width, &mut out);
    (0..tensors.len()).map(|i| made.part(&out, i, tensors.len())).collect()
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
    let inner = operator.matrix().cols();
    match *dims {
        [lanes, rows, columns] if rows == inner => Ok(SideBySide { lanes, rows, columns }),
        _ => bail!("an operator of {inner} columns cannot propagate {dims:?}"),
    }
}

/// As [`side_by_side`], for an operation that goes back with the operator itself.
pub(super) fn symmetric(operator: &Propagator, dims: &[usize]) -> Result<SideBySide> {
    if operator.transposed.is_some() {
        bail!("an operator that is not symmetric is good for products alone");
    }
    side_by_side(operator, dims)
}
