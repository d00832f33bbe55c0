//! A linear layer, Y = X W + b with W: in × out, initialised as PyTorch's `Linear`.
//!
//! W and b are drawn from U(−1/√in, 1/√in). candle's own layer draws weights from a normal distribution of variance
//! 2/in, six times as much. PyTorch stores W as out × in; here it stands as in the formula.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::{Mask, affine, affine_fixed};
use crate::math::random::Stream;
use crate::models::FeatureView;
use crate::optim::ParamGroup;

/// A linear layer.
pub struct Linear {
    /// in × out.
    pub weight: Var,
    /// out.
    pub bias: Var,
}

impl Linear {
    /// Draws a layer.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(inputs: usize, outputs: usize, dtype: DType, stream: &mut Stream) -> Result<Self> {
        let r = 1.0 / (inputs.max(1) as f64).sqrt();
        let mut uniform = |shape: &[usize]| {
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| stream.symmetric(r)).collect();
            Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?)
        };
        Ok(Self { weight: uniform(&[inputs, outputs])?, bias: uniform(&[outputs])? })
    }

    /// Applies the layer to a trainable input.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        affine(x, &self.weight, &self.bias)
    }

    /// Applies the layer to a fixed input, which no gradient is computed for.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward_fixed(&self, x: &Tensor) -> Result<Tensor> {
        affine_fixed(x, &self.weight, &self.bias)
    }

    /// Applies the layer to features, with a mask of dropout on them if there is one.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward_features(&self, x: &FeatureView, mask: Option<Mask>) -> Result<Tensor> {
        x.affine(&self.weight, &self.bias, mask)
    }

    /// Returns weight and bias as one decayed group; PyTorch decays the bias too.
    pub fn group(&self, weight: &'static str, bias: &'static str) -> ParamGroup {
        ParamGroup::decayed(vec![(weight, self.weight.clone()), (bias, self.bias.clone())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_fill_the_range_of_pytorch() {
        let layer = Linear::new(64, 100, DType::F64, &mut Stream::new(0, &["test"])).unwrap();
        let weights = layer.weight.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let bias = layer.bias.to_vec1::<f64>().unwrap();
        // 1/√64 = 0.125.
        assert!(weights.iter().chain(&bias).all(|w| w.abs() <= 0.125));
        let (low, high) = (weights.iter().copied().fold(0.0, f64::min), weights.iter().copied().fold(0.0, f64::max));
        assert!(low < -0.124 && high > 0.124);
        // The variance of U(±r) is r²/3; 6400 draws are within 5 % of it.
        let variance = weights.iter().map(|w| w * w).sum::<f64>() / 6400.0;
        assert!((variance / (0.125 * 0.125 / 3.0) - 1.0).abs() < 0.05);
    }

    #[test]
    fn both_forms_agree() {
        let layer = Linear::new(3, 2, DType::F64, &mut Stream::new(0, &["test"])).unwrap();
        let x = Tensor::arange(0f64, 12.0, &Device::Cpu).unwrap().reshape((4, 3)).unwrap();
        let vec = |t: Tensor| t.to_vec2::<f64>().unwrap();
        assert_eq!(vec(layer.forward(&x).unwrap()), vec(layer.forward_fixed(&x).unwrap()));
    }
}
