//! The network under every propagation: Z₀ = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂, or one layer, Z₀ = drop_p(X) W + b.
//!
//! X: nodes × features; of every lane, W₁: features × hidden, W₂: hidden × classes, W: features × classes.

use candle_core::Result;

use super::linear::{Linear, Names};
use crate::models::ops::{PassMasks, Sided};
use crate::models::{GraphView, Input, Pass, Weights};

const FIRST: Names = Names { weight: "lin1.weight", bias: "lin1.bias", stream: "init/lin1" };
const SECOND: Names = Names { weight: "lin2.weight", bias: "lin2.bias", stream: "init/lin2" };
/// The streams of masks on features and on hidden units, of the first and of a second pass: a second pass never shifts
/// the first.
const MASKS: [(&str, &str); 2] = [("dropout/features", "dropout/hidden"), ("dropout/features-2", "dropout/hidden-2")];

/// One or two linear layers with dropout on the input of each.
pub struct Perceptron {
    first: Linear,
    second: Option<Linear>,
    hidden: usize,
    dropout: f64,
}

impl Perceptron {
    /// Draws two layers with `hidden` units between them, or one layer if there are none.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(graph: &GraphView, hidden: Option<usize>, dropout: f64, weights: &mut Weights) -> Result<Self> {
        let (inputs, outputs) = (graph.features.columns(), graph.classes);
        let first = Linear::new(FIRST, inputs, hidden.unwrap_or(outputs), weights)?;
        let second = hidden.map(|hidden| Linear::new(SECOND, hidden, outputs, weights)).transpose()?;
        Ok(Self { first, second, hidden: hidden.unwrap_or(0), dropout })
    }

    /// Returns Z₀, nodes × classes.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn forward(&self, x: &Input, pass: &mut Pass) -> Result<Sided> {
        let [z] = self.passes(x, pass)?;
        Ok(z)
    }

    /// Returns Z₀ of two passes with masks of their own, which share their evaluation; the same twice if nothing is dropped.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn forward_twice(&self, x: &Input, pass: &mut Pass) -> Result<[Sided; 2]> {
        if pass.trains() && self.dropout > 0.0 {
            return self.passes(x, pass);
        }
        let both = self.forward(x, pass)?;
        Ok([both.clone(), both])
    }

    /// Returns the largest activation of one lane: nodes × hidden or nodes × classes.
    pub fn widest(graph: &GraphView, hidden: Option<usize>) -> usize {
        graph.nodes * hidden.unwrap_or(0).max(graph.classes)
    }

    fn passes<const P: usize>(&self, x: &Input, pass: &mut Pass) -> Result<[Sided; P]> {
        let mut masks: [PassMasks; P] = std::array::from_fn(|_| PassMasks::default());
        for (masks, (on_features, on_hidden)) in masks.iter_mut().zip(MASKS) {
            masks.features = pass.dropout(self.dropout, on_features).masks(x.stored())?;
            if self.second.is_some() {
                masks.hidden = pass.dropout(self.dropout, on_hidden).masks(x.rows() * self.hidden)?;
            }
        }
        x.layers(self.first.weights(), self.second.as_ref().map(Linear::weights), masks)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor};

    use super::*;
    use crate::models::Streams;
    use crate::models::ops::Sides;
    use crate::models::testing::{self, bits, in_pass};

    fn net(graph: &GraphView, dropout: f64) -> (Perceptron, Vec<Streams>) {
        let mut streams = testing::streams(2);
        let mut weights = Weights::new(&mut streams, graph.dtype(), graph.device().clone());
        (Perceptron::new(graph, Some(7), dropout, &mut weights).unwrap(), streams)
    }

    #[test]
    fn a_second_pass_has_masks_of_its_own_and_never_shifts_the_first() {
        let graph = testing::view(DType::F32);
        let (model, mut streams) = net(&graph, 0.5);
        let twice = |streams: &mut [Streams]| {
            let [a, b] = in_pass(Sides::Both, &graph, streams, |x, pass| model.forward_twice(x, pass));
            assert_eq!(bits(a.eval().unwrap()), bits(b.eval().unwrap()), "they share their evaluation");
            assert_ne!(bits(a.main()), bits(b.main()));
            a.main().clone()
        };
        let first: Vec<Tensor> = (0..2).map(|_| twice(&mut streams)).collect();
        let mut streams = net(&graph, 0.5).1;
        for expected in first {
            let once = in_pass(Sides::Train, &graph, &mut streams, |x, pass| model.forward(x, pass));
            assert_eq!(bits(once.main()), bits(&expected));
            assert!(once.eval().is_none(), "nobody asked for it");
        }
    }

    #[test]
    fn without_dropout_one_pass_serves_both() {
        let graph = testing::view(DType::F32);
        let (model, mut streams) = net(&graph, 0.0);
        let [a, b] = in_pass(Sides::Train, &graph, &mut streams, |x, pass| model.forward_twice(x, pass));
        assert_eq!(a.main().id(), b.main().id());
    }
}
