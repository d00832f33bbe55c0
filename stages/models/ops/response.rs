//! The response of a filter that is a polynomial on every bin of eigenvalues: h_i = Σ_j Γ_{bin(i), j} λ_i^j.
//!
//! Of every lane, Γ: bins × (order + 1) and h: pairs; ∂Γ_{b, j} = Σ_{i in b} λ_i^j ∂h_i. Bins are ranges of neighbouring
//! pairs. candle would spread Γ over all pairs first, a number for every pair and degree of every lane.

use std::ops::Range;
use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use crate::math::dense::powers;
use crate::tensor::slices::{self, by_float};

/// Powers of eigenvalues, and the bins that they fall into.
#[derive(Clone)]
pub struct Response(Arc<Inner>);

struct Inner {
    /// λ_i^j, pairs × degrees, computed in double precision.
    powers: Vec<f64>,
    degrees: usize,
    bins: Vec<Range<usize>>,
    #[cfg(any(feature = "cuda", test))]
    uploaded: std::sync::OnceLock<Tensor>,
}

impl Response {
    /// Prepares the powers up to `order`. `bins` are the ranges of eigenvalues of every bin, one after the other.
    pub fn new(values: &[f64], order: usize, bins: Vec<Range<usize>>) -> Self {
        Self(Arc::new(Inner {
            powers: powers(values, order),
            degrees: order + 1,
            bins,
            #[cfg(any(feature = "cuda", test))]
            uploaded: std::sync::OnceLock::new(),
        }))
    }

    /// Returns h, lanes × pairs, of coefficients Γ, lanes × bins × (order + 1). Gradients reach Γ.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn of(&self, gamma: &Tensor) -> Result<Tensor> {
        on_gpu!(gamma => gamma.flatten_from(1)?.matmul(self.0.on_gpu(gamma.device())?));
        gamma.contiguous()?.apply_op1(Forward(self.0.clone()))
    }
}

impl Inner {
    fn check(&self, dims: &[usize]) -> Result<usize> {
        match dims {
            [lanes, bins, degrees] if (*bins, *degrees) == (self.bins.len(), self.degrees) => Ok(*lanes),
            _ => bail!("coefficients of {dims:?} for {} bins and {} degrees", self.bins.len(), self.degrees),
        }
    }

    fn pairs(&self) -> usize {
        self.powers.len() / self.degrees
    }

    /// Returns (bins · degrees) × pairs, λ_i^j where pair i is in the bin and 0 elsewhere. On a GPU one product with it is
    /// faster than any sum by bins, and candle goes back through it.
    #[cfg(any(feature = "cuda", test))]
    fn on_gpu(&self, device: &candle_core::Device) -> Result<&Tensor> {
        crate::tensor::cuda::once(&self.uploaded, || {
            let (rows, pairs) = (self.bins.len() * self.degrees, self.pairs());
            let mut spread = vec![0f32; rows * pairs];
            for (bin, range) in self.bins.iter().enumerate() {
                for i in range.clone() {
                    for j in 0..self.degrees {
                        spread[(bin * self.degrees + j) * pairs + i] = self.powers[i * self.degrees + j] as f32;
                    }
                }
            }
            Tensor::from_vec(spread, (rows, pairs), device)
        })
    }
}

struct Forward(Arc<Inner>);

impl CustomOp1 for Forward {
    fn name(&self) -> &'static str {
        "response"
    }

    fn cpu_fwd(&self, gamma: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let of = &*self.0;
        let (lanes, pairs, degrees) = (of.check(layout.dims())?, of.pairs(), of.degrees);
        let out = by_float!(gamma.dtype(), "a response", T => {
            let gamma: &[T] = slices::slice(gamma, layout)?;
            let mut out = vec![T::default(); lanes * pairs];
            out.par_chunks_mut(pairs.max(1)).zip(gamma.par_chunks(of.bins.len() * degrees)).for_each(|(out, gamma)| {
                for (bin, gamma) in of.bins.iter().zip(gamma.chunks_exact(degrees)) {
                    let powers = of.powers[bin.start * degrees..].chunks_exact(degrees);
                    for (out, powers) in out[bin.clone()].iter_mut().zip(powers) {
                        *out = T::narrow(gamma.iter().zip(powers).map(|(g, p)| g.widen() * p).sum());
                    }
                }
            });
            Ok(T::to_cpu_storage_owned(out))
        })?;
        Ok((out, Shape::from((lanes, pairs))))
    }

    fn bwd(&self, gamma: &Tensor, _response: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let of = &*self.0;
        let (pairs, degrees) = (of.pairs(), of.degrees);
        by_float!(gamma.dtype(), "a response", T => {
            let gradient = slices::lend::<T, _, 1>([grad], |[grad]| {
                let lane = |grad: &[T]| {
                    let bin = |bin: &Range<usize>| {
                        let mut sums = vec![0.0; degrees];
                        let powers = of.powers[bin.start * degrees..].chunks_exact(degrees);
                        for (g, powers) in grad[bin.clone()].iter().zip(powers) {
                            sums.iter_mut().zip(powers).for_each(|(sum, p)| *sum += g.widen() * p);
                        }
                        sums.into_iter().map(T::narrow).collect::<Vec<T>>()
                    };
                    of.bins.iter().flat_map(bin).collect::<Vec<T>>()
                };
                Ok(grad.par_chunks(pairs.max(1)).flat_map_iter(lane).collect::<Vec<T>>())
            })?;
            slices::tensor(gradient, gamma.dims()).map(Some)
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::models::testing;

    #[test]
    fn it_is_the_polynomial_of_its_bin() {
        let values = [0.9, 0.5, -0.2, -0.8];
        let gamma = testing::normal(&[2, 2, 3], 1);
        let response = Response::new(&values, 2, vec![0..3, 3..4]);
        let h = response.of(&gamma).unwrap().to_vec2::<f64>().unwrap();
        let gamma = gamma.to_vec3::<f64>().unwrap();
        for (lane, h) in h.iter().enumerate() {
            for (i, value) in values.iter().enumerate() {
                let row = &gamma[lane][usize::from(i == 3)];
                assert!((h[i] - (row[0] + row[1] * value + row[2] * value * value)).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let response = Response::new(&[0.9, 0.5, -0.2, -0.8], 3, vec![0..2, 2..4]);
        let gamma = Var::from_tensor(&testing::normal(&[3, 2, 4], 2)).unwrap();
        let weight = testing::normal(&[3, 4], 3);
        let loss = || (response.of(&gamma).unwrap() * &weight).unwrap().sum_all().unwrap();
        testing::assert_gradients(&[&gamma], loss, 1e-6);
    }
}
