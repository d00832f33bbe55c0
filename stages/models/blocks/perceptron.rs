//! The network under every propagation: Z₀ = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂, or one layer, Z₀ = drop_p(X) W + b.
//!
//! X: nodes × features, W₁: features × hidden, W₂: hidden × classes, W: features × classes.

use candle_core::{Result, Tensor};

use super::Linear;
use crate::math::random::Stream;
use crate::models::{GraphView, Mode, Streams};
use crate::optim::ParamGroup;

/// Names the random streams of one pass, so that a second pass never shifts the first.
#[derive(Clone, Copy)]
pub struct Pass {
    features: &'static str,
    hidden: &'static str,
}

impl Pass {
    /// The pass that every model has.
    pub const MAIN: Self = Self { features: "dropout/features", hidden: "dropout/hidden" };
    /// The second pass, of a model whose branches see masks of their own.
    pub const SECOND: Self = Self { features: "dropout/features-2", hidden: "dropout/hidden-2" };
}

/// One or two linear layers with dropout on the input of each.
pub struct Perceptron {
    first: Linear,
    second: Option<Linear>,
    dropout: f64,
}

impl Perceptron {
    /// Draws two layers with `hidden` units between them, or one layer if there are none.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(data: &GraphView, hidden: Option<usize>, dropout: f64, streams: &mut Streams) -> Result<Self> {
        let (inputs, outputs) = (data.features.columns(), data.classes);
        let layer = |inputs, outputs, stream: &mut Stream| Linear::new(inputs, outputs, data.dtype(), stream);
        let first = layer(inputs, hidden.unwrap_or(outputs), streams.open("init/lin1"))?;
        let second = hidden.map(|hidden| layer(hidden, outputs, streams.open("init/lin2"))).transpose()?;
        Ok(Self { first, second, dropout })
    }

    /// Returns Z₀, nodes × classes.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn forward(&self, data: &GraphView, mode: &mut Mode, pass: Pass) -> Result<Tensor> {
        let mask = mode.mask(data.features.stored(), self.dropout, pass.features);
        let z = self.first.forward_features(&data.features, mask)?;
        match &self.second {
            Some(second) => second.forward(&mode.rectify(&z, self.dropout, pass.hidden)?),
            None => Ok(z),
        }
    }

    /// Returns whether two passes differ in this mode, because each draws masks.
    pub fn is_random(&self, mode: &Mode) -> bool {
        self.dropout > 0.0 && matches!(mode, Mode::Train(_))
    }

    /// Returns one decayed group a layer.
    pub fn groups(&self) -> Vec<ParamGroup> {
        let second = self.second.as_ref().map(|l| l.group("lin2.weight", "lin2.bias"));
        std::iter::once(self.first.group("lin1.weight", "lin1.bias")).chain(second).collect()
    }
}
