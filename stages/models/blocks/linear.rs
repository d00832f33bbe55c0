//! A linear layer of every lane, Y = X W + b with W: in × out, initialised as PyTorch's `Linear`.
//!
//! W and b are drawn from U(−1/√in, 1/√in). candle's own layer draws weights from a normal distribution of variance
//! 2/in, six times as much. PyTorch stores W as out × in; here it stands as in the formula. Both are decayed: PyTorch
//! decays the bias too.

use candle_core::Result;

use crate::models::ops::{AsTensor, LayerWeights};
use crate::models::{Param, WeightName, Weights};
use crate::optim::Rule;

/// A linear layer.
#[derive(Clone)]
pub struct Linear {
    /// lanes × in × out.
    pub weight: Param,
    /// lanes × out.
    pub bias: Param,
}

/// The names of a layer's weights, and of the stream that they are drawn from.
#[derive(Clone)]
pub struct Names {
    /// Of W.
    pub weight: WeightName,
    /// Of b.
    pub bias: WeightName,
    /// Of the stream.
    pub stream: &'static str,
}

impl Names {
    /// Names that are fixed.
    pub const fn new(weight: &'static str, bias: &'static str, stream: &'static str) -> Self {
        Self { weight: WeightName::Borrowed(weight), bias: WeightName::Borrowed(bias), stream }
    }

    /// Names of the layer of a number, such as `conv3.weight`. All of them draw from one stream, one after the other.
    pub fn numbered(layer: &str, number: usize, stream: &'static str) -> Self {
        Self { weight: format!("{layer}{number}.weight").into(), bias: format!("{layer}{number}.bias").into(), stream }
    }
}

impl Linear {
    /// Draws a layer.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(names: Names, inputs: usize, outputs: usize, weights: &mut Weights) -> Result<Self> {
        Self::with_rule(names, [inputs, outputs], Rule::decayed(), weights)
    }

    /// Draws a layer with a learning rate or decay of its own.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn with_rule(names: Names, sizes: [usize; 2], rule: Rule, weights: &mut Weights) -> Result<Self> {
        let r = 1.0 / (sizes[0].max(1) as f64).sqrt();
        Self::drawn(names, sizes, rule, r, weights)
    }

    /// Draws W and b from U(±r) instead.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn uniform(names: Names, sizes: [usize; 2], r: f64, weights: &mut Weights) -> Result<Self> {
        Self::drawn(names, sizes, Rule::decayed(), r, weights)
    }

    fn drawn(names: Names, [inputs, outputs]: [usize; 2], rule: Rule, r: f64, weights: &mut Weights) -> Result<Self> {
        let weight = weights.uniform(names.weight, rule, &[inputs, outputs], names.stream, r)?;
        let bias = weights.uniform(names.bias, rule, &[outputs], names.stream, r)?;
        Ok(Self { weight, bias })
    }

    /// Draws W from Glorot's uniform distribution, U(±√(6/(in + out))), instead; b starts at 0.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn glorot(names: Names, inputs: usize, outputs: usize, weights: &mut Weights) -> Result<Self> {
        let weight = weights.glorot(names.weight, Rule::decayed(), [inputs, outputs], names.stream)?;
        let bias = weights.add(names.bias, Rule::decayed(), &[outputs], names.stream, |_| vec![0.0; outputs])?;
        Ok(Self { weight, bias })
    }

    /// Returns both tensors as they are now.
    pub(crate) fn weights(&self) -> LayerWeights {
        LayerWeights { weight: self.weight.tensor(), bias: Some(self.bias.tensor()) }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::models::Streams;
    use crate::models::testing::{self, flat};

    const NAMES: Names = Names::new("w", "b", "init/test");

    fn layer(inputs: usize, outputs: usize, streams: &mut [Streams]) -> Linear {
        Linear::new(NAMES, inputs, outputs, &mut Weights::new(streams, DType::F64, Device::Cpu)).unwrap()
    }

    #[test]
    fn weights_fill_the_range_of_pytorch() {
        let layer = layer(64, 100, &mut testing::streams(1));
        let (weights, bias) = (flat(&layer.weight.tensor()), flat(&layer.bias.tensor()));
        // 1/√64 = 0.125.
        assert!(weights.iter().chain(&bias).all(|w| w.abs() <= 0.125));
        let (low, high) = (weights.iter().copied().fold(0.0, f64::min), weights.iter().copied().fold(0.0, f64::max));
        assert!(low < -0.124 && high > 0.124);
        // The variance of U(±r) is r²/3; 6400 draws are within 5 % of it.
        let variance = weights.iter().map(|w| w * w).sum::<f64>() / 6400.0;
        assert!((variance / (0.125 * 0.125 / 3.0) - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_lane_draws_the_same_weights_in_any_company() {
        let together = layer(3, 2, &mut testing::streams(3));
        for (lane, stream) in testing::streams(3).into_iter().enumerate() {
            let alone = layer(3, 2, &mut [stream]);
            for (alone, together) in [(&alone.weight, &together.weight), (&alone.bias, &together.bias)] {
                assert_eq!(flat(&alone.tensor()), flat(&together.tensor().get(lane).unwrap()));
            }
        }
    }
}
