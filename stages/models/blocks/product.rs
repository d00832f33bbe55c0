//! Products of matrices with the backward passes that models need, and no more.
//!
//! ```text
//! fixed_product   A·B        A fixed, B trained:        ∂B = Aᵀ·G
//! affine          X·W + b    all trained:               ∂X = G·Wᵀ, ∂W = Xᵀ·G, ∂b = column sums of G
//! affine_fixed    X·W + b    X fixed, W and b trained:  ∂W = Xᵀ·G, ∂b = column sums of G
//! ```
//!
//! candle's `matmul` always computes the gradients of both sides; for features (nodes × features) and eigenvectors that
//! costs as much again and is thrown away. G is the gradient of the result.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Tensor, bail};

use super::host::{self, Element};
use crate::math::dense;

/// Multiplies fixed `a` (m × k) with `b` (k × n); gradients reach `b` only.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn fixed_product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    b.apply_op1(FixedProduct { a: a.detach() })
}

/// Returns X·W + b for fixed `x`: rows × in, `weight`: in × out, `bias`: out.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn affine_fixed(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    weight.apply_op2(bias, AffineFixed { x: x.detach() })
}

/// Returns X·W + b for `x`: rows × in, `weight`: in × out, `bias`: out.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn affine(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.apply_op3(weight, bias, Affine)
}

type Stored<'s> = (&'s CpuStorage, &'s Layout);

struct FixedProduct {
    a: Tensor,
}

impl CustomOp1 for FixedProduct {
    fn name(&self) -> &'static str {
        "fixed-product"
    }

    fn cpu_fwd(&self, b: &CpuStorage, b_layout: &Layout) -> Result<(CpuStorage, Shape)> {
        host::lend(&self.a, |a, a_layout| product((a, a_layout), (b, b_layout), None))
    }

    fn bwd(&self, _b: &Tensor, _product: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(times(&self.a.t()?, grad)?))
    }
}

struct AffineFixed {
    x: Tensor,
}

impl CustomOp2 for AffineFixed {
    fn name(&self) -> &'static str {
        "affine-fixed"
    }

    fn cpu_fwd(&self, w: &CpuStorage, wl: &Layout, b: &CpuStorage, bl: &Layout) -> Result<(CpuStorage, Shape)> {
        host::lend(&self.x, |x, xl| product((x, xl), (w, wl), Some((b, bl))))
    }

    fn bwd(&self, _w: &Tensor, _b: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(times(&self.x.t()?, grad)?), Some(column_sums(grad)?)))
    }
}

struct Affine;

impl CustomOp3 for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
        b: &CpuStorage,
        bl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        product((x, xl), (w, wl), Some((b, bl)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _b: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok((Some(times(grad, &w.t()?)?), Some(times(&x.t()?, grad)?), Some(column_sums(grad)?)))
    }
}

/// A·B without a backward pass of its own.
fn times(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    b.apply_op1_no_bwd(&FixedProduct { a: a.detach() })
}

fn product(a: Stored, b: Stored, bias: Option<Stored>) -> Result<(CpuStorage, Shape)> {
    fn run<T: Element>(a: Stored, b: Stored, bias: Option<Stored>) -> Result<CpuStorage> {
        let (a, b) = (host::matrix::<T>(a.0, a.1)?, host::matrix::<T>(b.0, b.1)?);
        let mut out = dense::product(a, b);
        if let Some((bias, layout)) = bias {
            let bias: &[T] = host::slice(bias, layout)?;
            out.chunks_exact_mut(bias.len().max(1))
                .for_each(|row| row.iter_mut().zip(bias).for_each(|(x, b)| *x += *b));
        }
        Ok(T::to_cpu_storage_owned(out))
    }
    let ((m, k), (k_b, n)) = (a.1.shape().dims2()?, b.1.shape().dims2()?);
    if k != k_b || bias.is_some_and(|(_, layout)| layout.dims() != [n]) {
        bail!("{m} × {k} times {k_b} × {n}, plus {:?}, is no product", bias.map(|b| b.1.dims()));
    }
    let out = match a.0 {
        CpuStorage::F32(_) => run::<f32>(a, b, bias)?,
        CpuStorage::F64(_) => run::<f64>(a, b, bias)?,
        _ => return host::float_only("a product"),
    };
    Ok((out, Shape::from((m, n))))
}

/// Returns the sum of every column.
pub(super) fn column_sums(values: &Tensor) -> Result<Tensor> {
    fn run<T: Element>(values: &Tensor) -> Result<Tensor> {
        let columns = values.dim(1)?;
        let sums = host::values::<T, _>(values, |v| Ok(dense::column_sums(v, columns)))?;
        Tensor::from_vec(sums, columns, values.device())
    }
    match values.dtype() {
        DType::F32 => run::<f32>(values),
        DType::F64 => run::<f64>(values),
        _ => host::float_only("a sum"),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::models::testing::{distance, normal};

    fn var(shape: &[usize], seed: u64) -> Var {
        Var::from_tensor(&normal(shape, seed)).unwrap()
    }

    /// Compares values and gradients of two ways to compute the same thing.
    fn assert_same(ours: &Tensor, theirs: &Tensor, vars: &[&Var]) {
        assert!(distance(ours, theirs) < 1e-12);
        let grads = |t: &Tensor| t.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let (ours, theirs) = (grads(ours), grads(theirs));
        for var in vars {
            assert!(distance(ours.get(var.as_tensor()).unwrap(), theirs.get(var.as_tensor()).unwrap()) < 1e-11);
        }
    }

    #[test]
    fn products_have_the_values_and_gradients_of_candle() {
        let (x, w, b) = (var(&[9, 4], 1), var(&[4, 3], 2), var(&[3], 3));
        let plain = x.matmul(&w).unwrap().broadcast_add(&b).unwrap();
        assert_same(&affine(&x, &w, &b).unwrap(), &plain, &[&x, &w, &b]);
        assert_same(&affine_fixed(&x, &w, &b).unwrap(), &plain, &[&w, &b]);
        let by_columns = x.t().unwrap().contiguous().unwrap().t().unwrap();
        for a in [x.as_tensor(), &by_columns] {
            assert_same(&fixed_product(a, &w).unwrap(), &a.matmul(&w).unwrap(), &[&w]);
        }
    }

    #[test]
    fn a_fixed_side_gets_no_gradient() {
        let (x, w) = (var(&[5, 4], 1), var(&[4, 3], 2));
        let grads = fixed_product(&x, &w).unwrap().sum_all().unwrap().backward().unwrap();
        assert!(grads.get(x.as_tensor()).is_none() && grads.get(w.as_tensor()).is_some());
    }

    #[test]
    fn shapes_and_types_that_do_not_fit_are_refused() {
        let (x, w, b) = (normal(&[5, 4], 1), normal(&[3, 4], 2), normal(&[4], 3));
        assert!(fixed_product(&x, &w).is_err());
        assert!(affine(&x, &w.t().unwrap(), &b).is_err());
        let single = Tensor::ones((4, 3), DType::F32, &Device::Cpu).unwrap();
        assert!(fixed_product(&x, &single).is_err());
    }
}
