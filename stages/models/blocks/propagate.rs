//! Propagation over the graph: Ã·Z, and the polynomial Σ_k γ_k Ã^k Z with trainable γ.
//!
//! Ã is symmetric, so the backward pass of a product is the same product. For the polynomial with G the gradient of the
//! result: ∂Z = Σ_k γ_k Ã^k G, and ∂γ_k = ⟨Ã^k Z, G⟩ = ⟨Z, Ã^k G⟩. Both come from the hops of G, so backward costs K
//! products like forward, and no hop is kept between them.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, DType, Layout, Result, Shape, Tensor, bail};

use super::host::{self, Element};
use crate::math::propagate::{Propagator, dot};
use crate::math::real::Real;

/// Returns Ã·Z for symmetric Ã: n × n and Z: n × columns.
///
/// # Errors
/// When shapes do not fit, or Z is not of a float type.
pub fn propagate(operator: &Arc<Propagator>, z: &Tensor) -> Result<Tensor> {
    z.contiguous()?.apply_op1(Product(operator.clone()))
}

/// Returns Σ_k γ_k Ã^k Z for symmetric Ã: n × n, γ: K + 1, and Z: n × columns.
///
/// # Errors
/// When shapes or types do not fit.
pub fn polynomial(operator: &Arc<Propagator>, gamma: &Tensor, z: &Tensor) -> Result<Tensor> {
    z.contiguous()?.apply_op2(&gamma.contiguous()?, Polynomial(operator.clone()))
}

struct Product(Arc<Propagator>);

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "propagate"
    }

    fn cpu_fwd(&self, z: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: Element>(operator: &Propagator, z: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
            let columns = columns(operator, layout.shape())?;
            Ok(T::to_cpu_storage_owned(operator.product::<T>(host::slice(z, layout)?, columns)))
        }
        let out = match z {
            CpuStorage::F32(_) => run::<f32>(&self.0, z, layout)?,
            CpuStorage::F64(_) => run::<f64>(&self.0, z, layout)?,
            _ => return host::float_only("propagation"),
        };
        Ok((out, layout.shape().clone()))
    }

    fn bwd(&self, _z: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(self)?))
    }
}

struct Polynomial(Arc<Propagator>);

impl CustomOp2 for Polynomial {
    fn name(&self) -> &'static str {
        "propagate-polynomial"
    }

    fn cpu_fwd(&self, z: &CpuStorage, zl: &Layout, gamma: &CpuStorage, gl: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: Element>(operator: &Propagator, z: &[T], gamma: &[T], columns: usize) -> CpuStorage {
            T::to_cpu_storage_owned(weighted_hops(operator, z, gamma, columns, |_, _| {}))
        }
        let columns = columns(&self.0, zl.shape())?;
        let out = match z {
            CpuStorage::F32(_) => run::<f32>(&self.0, host::slice(z, zl)?, host::slice(gamma, gl)?, columns),
            CpuStorage::F64(_) => run::<f64>(&self.0, host::slice(z, zl)?, host::slice(gamma, gl)?, columns),
            _ => return host::float_only("propagation"),
        };
        Ok((out, zl.shape().clone()))
    }

    fn bwd(
        &self,
        z: &Tensor,
        gamma: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (of_z, of_gamma) = match z.dtype() {
            DType::F32 => self.gradients::<f32>(z, gamma, grad)?,
            DType::F64 => self.gradients::<f64>(z, gamma, grad)?,
            _ => return host::float_only("propagation"),
        };
        Ok((Some(of_z), Some(of_gamma)))
    }
}

impl Polynomial {
    fn gradients<T: Element>(&self, z: &Tensor, gamma: &Tensor, grad: &Tensor) -> Result<(Tensor, Tensor)> {
        let columns = columns(&self.0, z.shape())?;
        let (of_z, of_gamma) = host::values::<T, _>(z, |zs| {
            host::values::<T, _>(gamma, |gammas| {
                host::values::<T, _>(grad, |grads| {
                    let mut of_gamma = Vec::with_capacity(gammas.len());
                    let of_z = weighted_hops(&self.0, grads, gammas, columns, |_, hop| {
                        of_gamma.push(T::narrow(dot(zs, hop)));
                    });
                    Ok((of_z, of_gamma))
                })
            })
        })?;
        let of_z = Tensor::from_vec(of_z, z.shape(), z.device())?;
        Ok((of_z, Tensor::from_vec(of_gamma, gamma.shape(), z.device())?))
    }
}

/// Returns Σ_k γ_k S^k Z, and shows every hop to `visit`.
fn weighted_hops<T: Real>(
    operator: &Propagator,
    z: &[T],
    gamma: &[T],
    columns: usize,
    mut visit: impl FnMut(usize, &[T]),
) -> Vec<T> {
    let mut sum = vec![T::default(); z.len()];
    operator.hops(z, columns, gamma.len().saturating_sub(1), |k, hop| {
        visit(k, hop);
        if let Some(weight) = gamma.get(k) {
            sum.iter_mut().zip(hop).for_each(|(s, h)| *s += *weight * *h);
        }
    });
    sum
}

fn columns(operator: &Propagator, shape: &Shape) -> Result<usize> {
    match shape.dims2()? {
        (n, columns) if n == operator.n() => Ok(columns),
        (n, _) => bail!("an operator of {} nodes cannot propagate {n} rows", operator.n()),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::models::testing;

    fn dense(operator: &Arc<Propagator>, n: usize) -> Tensor {
        let eye = Tensor::eye(n, DType::F64, &Device::Cpu).unwrap();
        propagate(operator, &eye).unwrap()
    }

    fn close(a: &Tensor, b: &Tensor, tolerance: f64) {
        let worst: f64 = (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap();
        assert!(worst < tolerance, "differs by {worst}");
    }

    #[test]
    fn values_and_gradients_equal_those_of_dense_products() {
        let data = testing::view(DType::F64);
        let n = data.nodes;
        let a = dense(&data.operator, n);
        let z = Var::from_tensor(&testing::normal(&[n, 3], 1)).unwrap();
        let gamma = Var::from_tensor(&testing::normal(&[4], 2)).unwrap();
        let weight = testing::normal(&[n, 3], 3);

        let ours = polynomial(&data.operator, &gamma, &z).unwrap();
        let mut hop = z.as_tensor().clone();
        let mut theirs = hop.broadcast_mul(&gamma.get(0).unwrap()).unwrap();
        for k in 1..4 {
            hop = a.matmul(&hop).unwrap();
            theirs = (theirs + hop.broadcast_mul(&gamma.get(k).unwrap()).unwrap()).unwrap();
        }
        close(&ours, &theirs, 1e-12);
        let grads = |t: &Tensor| (t * &weight).unwrap().sum_all().unwrap().backward().unwrap();
        let (g_ours, g_theirs) = (grads(&ours), grads(&theirs));
        for var in [&z, &gamma] {
            close(g_ours.get(var.as_tensor()).unwrap(), g_theirs.get(var.as_tensor()).unwrap(), 1e-11);
        }
    }

    #[test]
    fn the_gradient_of_one_product_is_the_product() {
        let data = testing::view(DType::F64);
        let z = Var::from_tensor(&testing::normal(&[data.nodes, 2], 1)).unwrap();
        let weight = testing::normal(&[data.nodes, 2], 2);
        let loss = (propagate(&data.operator, &z).unwrap() * &weight).unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        close(
            grads.get(z.as_tensor()).unwrap(),
            &dense(&data.operator, data.nodes).t().unwrap().matmul(&weight).unwrap(),
            1e-12,
        );
    }

    #[test]
    fn single_precision_agrees_with_double() {
        let data = testing::view(DType::F64);
        let (z, gamma) = (testing::normal(&[data.nodes, 3], 1), testing::normal(&[5], 2));
        let single = |t: &Tensor| t.to_dtype(DType::F32).unwrap();
        let narrow = polynomial(&data.operator, &single(&gamma), &single(&z)).unwrap().to_dtype(DType::F64).unwrap();
        close(&narrow, &polynomial(&data.operator, &gamma, &z).unwrap(), 1e-5);
    }

    #[test]
    fn rows_that_are_not_nodes_are_refused() {
        let data = testing::view(DType::F64);
        assert!(propagate(&data.operator, &testing::normal(&[data.nodes + 1, 2], 1)).is_err());
    }
}
