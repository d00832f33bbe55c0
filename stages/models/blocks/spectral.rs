//! Filtering in the basis of the kept eigenvectors: U(h ⊙ UᵀZ), and the powers of eigenvalues that h is made of.
//!
//! U: nodes × k (given as its transpose, k × nodes), h: k, Z: nodes × classes. The nodes × nodes matrix U diag(h) Uᵀ is
//! never formed; published code forms it in every pass.

use candle_core::{DType, Device, Result, Tensor};

use super::fixed_product;

/// Returns U(h ⊙ UᵀZ). `vectors` is Uᵀ, k × nodes; gradients reach `response` (k) and `z` only.
///
/// # Errors
/// When the shapes do not fit.
pub fn filter(vectors: &Tensor, response: &Tensor, z: &Tensor) -> Result<Tensor> {
    let spectrum = fixed_product(vectors, z)?;
    let filtered = spectrum.broadcast_mul(&response.unsqueeze(1)?)?;
    fixed_product(&vectors.t()?, &filtered)
}

/// Returns the powers λ_i^j, k × (order + 1), computed in double precision.
///
/// # Errors
/// When the tensor library refuses an operation.
pub fn vandermonde(values: &[f64], order: usize, dtype: DType) -> Result<Tensor> {
    let powers = |value: &f64| {
        let value = *value;
        std::iter::successors(Some(1.0), move |power| Some(power * value)).take(order + 1)
    };
    let flat: Vec<f64> = values.iter().flat_map(powers).collect();
    Tensor::from_vec(flat, (values.len(), order + 1), &Device::Cpu)?.to_dtype(dtype)
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::models::testing;

    #[test]
    fn filtering_equals_the_dense_product() {
        let (n, k, c) = (12, 5, 3);
        let (u_t, h, z) = (testing::normal(&[k, n], 1), testing::normal(&[k], 2), testing::normal(&[n, c], 3));
        let diagonal = Tensor::eye(k, DType::F64, &Device::Cpu).unwrap().broadcast_mul(&h).unwrap();
        let dense = u_t.t().unwrap().matmul(&diagonal).unwrap().matmul(&u_t).unwrap().matmul(&z).unwrap();
        let ours = filter(&u_t, &h, &z).unwrap();
        let worst: f64 =
            (ours - dense).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap();
        assert!(worst < 1e-12, "differs by {worst}");
    }

    #[test]
    fn gradients_reach_response_and_input() {
        let u_t = testing::normal(&[4, 9], 1);
        let h = Var::from_tensor(&testing::normal(&[4], 2)).unwrap();
        let z = Var::from_tensor(&testing::normal(&[9, 2], 3)).unwrap();
        let weight = testing::normal(&[9, 2], 4);
        let loss = || (filter(&u_t, &h, &z).unwrap() * &weight).unwrap().sum_all().unwrap();
        testing::assert_gradients(&[&h, &z], loss, 1e-6);
    }

    #[test]
    fn powers_start_at_degree_zero() {
        let v = vandermonde(&[2.0, -0.5], 3, DType::F64).unwrap().to_vec2::<f64>().unwrap();
        assert_eq!(v, [[1.0, 2.0, 4.0, 8.0], [1.0, -0.5, 0.25, -0.125]]);
    }
}
