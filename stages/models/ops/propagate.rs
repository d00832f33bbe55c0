//! Propagation over the graph: S·Z, and the polynomial Σ_k c_k p_k(S) Z with trained coefficients.
//!
//! S is symmetric, so the backward pass of a product is the same product. For the polynomial with G the gradient of the
//! result: ∂Z = Σ_k c_k p_k(S) G, and ∂c_k = ⟨p_k(S) Z, G⟩ = ⟨Z, p_k(S) G⟩. Both come from the hops of G, so backward
//! costs as many products as forward, and no hop is kept between them.
//!
//! Lanes of a few columns stand side by side, so that a pass over the graph serves all of them; wide ones (hidden units)
//! are taken one by one, since a row of one lane fills the registers and the rows of all would fill no cache.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::side_by_side::SideBySide;
use super::wide::{Beside, Wide};
use crate::math::csr::Csr;
use crate::math::kernels::BLOCK;
use crate::math::kernels::hops;
pub use crate::math::kernels::hops::Basis;
use crate::tensor::slices::{self, Element, by_float};

/// A symmetric operator made ready for products.
pub struct Propagator {
    matrix: hops::Propagator,
    #[cfg(feature = "cuda")]
    uploaded: std::sync::OnceLock<crate::tensor::cuda::Sparse>,
}

impl Propagator {
    /// Prepares a matrix.
    pub fn new(matrix: Csr) -> Self {
        Self {
            matrix: hops::Propagator::new(matrix),
            #[cfg(feature = "cuda")]
            uploaded: std::sync::OnceLock::new(),
        }
    }

    /// Returns the matrix on the card where it is used.
    #[cfg(feature = "cuda")]
    pub(super) fn on_card(&self, device: &candle_core::Device) -> Result<&crate::tensor::cuda::Sparse> {
        crate::tensor::cuda::once(&self.uploaded, || {
            let matrix = self.matrix.matrix();
            let starts: Vec<u32> =
                matrix.indptr.iter().map(|start| crate::tensor::cuda::index(*start)).collect::<Result<_>>()?;
            let values: Vec<f32> = matrix.values.iter().map(|value| *value as f32).collect();
            crate::tensor::cuda::Sparse::new(device.as_cuda_device()?, &starts, &matrix.indices, &values, matrix.cols())
        })
    }
}

impl std::ops::Deref for Propagator {
    type Target = hops::Propagator;

    fn deref(&self) -> &hops::Propagator {
        &self.matrix
    }
}

/// Returns S·Z of every lane for symmetric S: nodes × nodes and `z`: lanes × nodes × columns.
///
/// # Errors
/// When shapes or types do not fit.
pub fn propagate(operator: &Arc<Propagator>, z: &Wide) -> Result<Wide> {
    on_card!(z.main() => super::cuda::propagate(operator, z));
    let (input, again) = (z.main().clone(), operator.clone());
    z.apply(
        |z, beside| z.apply_op1_no_bwd(&Product { operator: operator.clone(), beside }),
        move |grad| {
            let gradient = grad.apply_op1_no_bwd(&Product { operator: again, beside: Beside::nothing() })?;
            Ok(vec![(input, gradient)])
        },
    )
}

/// Returns Σ_k c_k p_k(S) Z of every lane for symmetric S: nodes × nodes, `coefficients`: lanes × (order + 1), and `z`:
/// lanes × nodes × columns.
///
/// # Errors
/// When shapes or types do not fit.
pub fn polynomial(operator: &Arc<Propagator>, basis: Basis, coefficients: &Tensor, z: &Wide) -> Result<Wide> {
    on_card!(z.main() => super::cuda::polynomial(operator, basis, coefficients, z));
    let coefficients = coefficients.contiguous()?;
    let (input, of, again) = (z.main().clone(), coefficients.clone(), operator.clone());
    z.apply(
        |z, beside| z.apply_op2_no_bwd(&coefficients, &Polynomial { operator: operator.clone(), basis, beside }),
        move |grad| {
            let (of_z, of_c) = polynomial_back(&again, basis, &input, &of, grad)?;
            Ok(vec![(input, of_z), (of, of_c)])
        },
    )
}

struct Product {
    operator: Arc<Propagator>,
    beside: Beside,
}

impl Product {
    fn run<T: Element>(&self, tensors: &[&[T]], shape: SideBySide) -> Vec<Vec<T>> {
        if shape.columns.is_multiple_of(BLOCK) {
            let one = |z: &&[T]| {
                let mut out = vec![T::default(); z.len()];
                let size = (shape.rows * shape.columns).max(1);
                let lanes = out.par_chunks_mut(size).zip(z.par_chunks(size));
                lanes.for_each(|(out, z)| self.operator.product(z, shape.columns, out));
                out
            };
            return tensors.iter().map(one).collect();
        }
        let joined = shape.join(tensors);
        let mut out = vec![T::default(); joined.len()];
        self.operator.product(&joined, shape.width(tensors.len()), &mut out);
        (0..tensors.len()).map(|i| shape.part(&out, i, tensors.len())).collect()
    }
}

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "propagate"
    }

    fn cpu_fwd(&self, z: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let shape = side_by_side(&self.operator, layout.shape())?;
        let out = by_float!(z.dtype(), "propagation", T => {
            self.beside.both::<T>(slices::slice(z, layout)?, layout.shape(), |tensors| Ok(self.run(tensors, shape)))
        })?;
        Ok((out, layout.shape().clone()))
    }
}

struct Polynomial {
    operator: Arc<Propagator>,
    basis: Basis,
    beside: Beside,
}

impl CustomOp2 for Polynomial {
    fn name(&self) -> &'static str {
        "propagate-polynomial"
    }

    fn cpu_fwd(&self, z: &CpuStorage, zl: &Layout, c: &CpuStorage, cl: &Layout) -> Result<(CpuStorage, Shape)> {
        let shape = side_by_side(&self.operator, zl.shape())?;
        let out = by_float!(z.dtype(), "propagation", T => {
            let c = coefficients::<T>(slices::slice(c, cl)?, cl.dims(), shape)?;
            self.beside.both::<T>(slices::slice(z, zl)?, zl.shape(), |tensors| {
                let count = tensors.len();
                let joined = shape.join(tensors);
                let sum = self.operator.polynomial(self.basis, &c.rows(count), &joined, shape.width(count));
                Ok((0..count).map(|i| shape.part(&sum, i, count)).collect())
            })
        })?;
        Ok((out, zl.shape().clone()))
    }
}

/// ∂Z and ∂c.
fn polynomial_back(
    operator: &Propagator,
    basis: Basis,
    z: &Tensor,
    c: &Tensor,
    grad: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let shape = side_by_side(operator, z.shape())?;
    by_float!(z.dtype(), "propagation", T => {
        let of_lane = slices::values::<T, _>(c, |values| coefficients::<T>(values, c.dims(), shape))?;
        let (of_z, of_c) = slices::values::<T, _>(z, |z| {
            slices::values::<T, _>(grad, |grad| {
                let (z, grad) = (shape.join(&[z]), shape.join(&[grad]));
                let (rows, width) = (of_lane.rows(1), shape.width(1));
                let (sum, dots) = operator.polynomial_against(basis, &rows, &grad, &z, width);
                Ok((shape.part(&sum, 0, 1), of_lane.sums(&dots, width)))
            })
        })?;
        Ok((slices::tensor(of_z, z.dims())?, slices::tensor(of_c, c.dims())?))
    })
}

/// Coefficients of every lane, and how lanes stand side by side.
struct Coefficients<T> {
    values: Vec<T>,
    degrees: usize,
    shape: SideBySide,
}

fn coefficients<T: Element>(values: &[T], dims: &[usize], shape: SideBySide) -> Result<Coefficients<T>> {
    match dims {
        [lanes, degrees] if *lanes == shape.lanes => {
            Ok(Coefficients { values: values.to_vec(), degrees: *degrees, shape })
        }
        _ => bail!("coefficients of {dims:?} for {} lanes", shape.lanes),
    }
}

impl<T: Element> Coefficients<T> {
    /// Returns a padded row for every degree.
    fn rows(&self, count: usize) -> Vec<T> {
        let row = |k: usize| self.shape.spread(|lane| self.values[lane * self.degrees + k], count);
        (0..self.degrees).flat_map(row).collect()
    }

    /// Sums the columns of every lane.
    fn sums(&self, dots: &[f64], width: usize) -> Vec<T> {
        let of = |lane: usize, k: usize| {
            let first = k * width + lane * self.shape.columns;
            T::narrow(dots[first..first + self.shape.columns].iter().sum())
        };
        (0..self.shape.lanes).flat_map(|lane| (0..self.degrees).map(move |k| of(lane, k))).collect()
    }
}

fn side_by_side(operator: &Propagator, shape: &Shape) -> Result<SideBySide> {
    match shape.dims3()? {
        (lanes, rows, columns) if rows == operator.n() => Ok(SideBySide { lanes, rows, columns }),
        (_, rows, _) => bail!("an operator of {} nodes cannot propagate {rows} rows", operator.n()),
    }
}
