//! A linear layer of every lane, Y = X W + b with W: in × out, initialised as PyTorch's `Linear`.
//!
//! W and b are drawn from U(−1/√in, 1/√in). candle's own layer draws weights from a normal distribution of variance
//! 2/in, six times as much. PyTorch stores W as out × in; here it stands as in the formula. Both are decayed: PyTorch
//! decays the bias too.

use candle_core::Result;

use crate::models::ops::{self, LayerWeights, Wide};
use crate::models::{GraphView, Param, Pass, Weights};
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
#[derive(Clone, Copy)]
pub struct Names {
    /// Of W.
    pub weight: &'static str,
    /// Of b.
    pub bias: &'static str,
    /// Of the stream.
    pub stream: &'static str,
}

impl Linear {
    /// Draws a layer.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(names: Names, inputs: usize, outputs: usize, weights: &mut Weights) -> Result<Self> {
        let r = 1.0 / (inputs.max(1) as f64).sqrt();
        let weight = weights.uniform(names.weight, Rule::decayed(), &[inputs, outputs], names.stream, r)?;
        let bias = weights.uniform(names.bias, Rule::decayed(), &[outputs], names.stream, r)?;
        Ok(Self { weight, bias })
    }

    /// Applies the layer to a trained input.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward(&self, x: &Wide) -> Result<Wide> {
        ops::affine(x, &self.weight.tensor(), &self.bias.tensor())
    }

    /// Applies the layer to the features of a graph, with dropout of rate `p` on them.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward_features(&self, graph: &GraphView, pass: &mut Pass, p: f64, purpose: &'static str) -> Result<Wide> {
        let masks = pass.masks(graph.features.stored(), p, purpose);
        pass.layer(&graph.features, self.on_features(), masks)
    }

    /// Returns the layer for fixed features.
    pub(crate) fn on_features(&self) -> LayerWeights {
        LayerWeights { weight: self.weight.tensor(), bias: Some(self.bias.tensor()) }
    }
}
