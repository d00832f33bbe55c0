//! Powers of eigenvalues, which the response of a spectral filter is made of.

use candle_core::{DType, Device, Result, Tensor};

/// Returns the powers λ_i^j, pairs × (order + 1), computed in double precision.
///
/// # Errors
/// When the tensor library refuses an operation.
pub fn vandermonde(values: &[f64], order: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let powers = |value: &f64| {
        let value = *value;
        std::iter::successors(Some(1.0), move |power| Some(power * value)).take(order + 1)
    };
    let flat: Vec<f64> = values.iter().flat_map(powers).collect();
    Tensor::from_vec(flat, (values.len(), order + 1), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_start_at_degree_zero() {
        let v = vandermonde(&[2.0, -0.5], 3, DType::F64, &Device::Cpu).unwrap().to_vec2::<f64>().unwrap();
        assert_eq!(v, [[1.0, 2.0, 4.0, 8.0], [1.0, -0.5, 0.25, -0.125]]);
    }
}
