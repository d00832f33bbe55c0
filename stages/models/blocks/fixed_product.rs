//! The product A·B of a fixed matrix A with a trainable B.
//!
//! The same numbers as candle's `matmul`, but the backward pass computes ∂B = Aᵀ·∂(A·B) only. candle would compute ∂A as
//! well, which for features (nodes × features) and eigenvectors costs as much again and is thrown away.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::host;

/// Multiplies fixed `a` (m × k) with `b` (k × n); gradients reach `b` only.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn fixed_product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    b.apply_op1(FixedProduct { a: a.detach() })
}

struct FixedProduct {
    a: Tensor,
}

impl CustomOp1 for FixedProduct {
    fn name(&self) -> &'static str {
        "fixed-product"
    }

    fn cpu_fwd(&self, b: &CpuStorage, b_layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let ((m, k), (k_b, n)) = (self.a.dims2()?, b_layout.shape().dims2()?);
        if k != k_b {
            bail!("a matrix of {k} columns cannot be multiplied with one of {k_b} rows");
        }
        let product = host::lend(&self.a, |a, a_layout| a.matmul(b, (1, m, n, k), a_layout, b_layout))?;
        Ok((product, Shape::from((m, n))))
    }

    fn bwd(&self, _b: &Tensor, _product: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(self.a.t()?.matmul(&grad.contiguous()?)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn values_and_gradient_are_those_of_matmul() {
        let a = Tensor::arange(0f64, 12.0, &Device::Cpu).unwrap().reshape((4, 3)).unwrap();
        let b = Var::from_tensor(&Tensor::arange(1f64, 7.0, &Device::Cpu).unwrap().reshape((3, 2)).unwrap()).unwrap();
        for a in [a.clone(), a.t().unwrap().contiguous().unwrap().t().unwrap()] {
            let (ours, theirs) = (fixed_product(&a, &b).unwrap(), a.matmul(&b).unwrap());
            assert_eq!(ours.to_vec2::<f64>().unwrap(), theirs.to_vec2::<f64>().unwrap());
            let gradient = |t: &Tensor| {
                let grads = t.sqr().unwrap().sum_all().unwrap().backward().unwrap();
                grads.get(b.as_tensor()).unwrap().to_vec2::<f64>().unwrap()
            };
            assert_eq!(gradient(&ours), gradient(&theirs));
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let (a, b) = (
            Tensor::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap(),
            Tensor::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap(),
        );
        assert!(fixed_product(&a, &b).is_err());
    }
}
