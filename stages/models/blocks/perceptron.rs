//! The network under every propagation: Z₀ = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂, or one layer, Z₀ = drop_p(X) W + b.
//!
//! X: nodes × features; of every lane, W₁: features × hidden, W₂: hidden × classes, W: features × classes.

use candle_core::Result;

use super::linear::{Linear, Names};
use crate::models::ops::{PassMasks, Sided};
use crate::models::{GraphSizes, GraphView, Input, ModelWork, Pass, Weights};
use crate::optim::Rule;

const FIRST: Names = Names::new("lin1.weight", "lin1.bias", "init/lin1");
const SECOND: Names = Names::new("lin2.weight", "lin2.bias", "init/lin2");
/// The streams of masks on features and on hidden units, of the first and of a second pass: a second pass never shifts
/// the first.
const MASKS: [(&str, &str); 2] = [("dropout/features", "dropout/hidden"), ("dropout/features-2", "dropout/hidden-2")];

/// One or two linear layers with dropout on the input of each.
pub struct Perceptron {
    first: Linear,
    second: Option<Linear>,
    hidden: usize,
    rates: Rates,
}

/// How much is dropped in training, at the input of either layer.
#[derive(Clone, Copy)]
pub struct Rates {
    /// Of the features.
    pub features: f64,
    /// Of the hidden units.
    pub hidden: f64,
}

impl Perceptron {
    /// Draws two layers with `hidden` units between them, or one layer if there are none.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(graph: &GraphView, hidden: Option<usize>, dropout: f64, weights: &mut Weights) -> Result<Self> {
        let rates = Rates { features: dropout, hidden: dropout };
        Self::with_rules(graph, hidden, rates, [Rule::decayed(); 2], weights)
    }

    /// Draws layers with rules of their own, and rates for the input of each.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn with_rules(
        graph: &GraphView,
        hidden: Option<usize>,
        rates: Rates,
        [first, second]: [Rule; 2],
        weights: &mut Weights,
    ) -> Result<Self> {
        let (inputs, outputs) = (graph.features.columns(), graph.classes);
        let first = Linear::with_rule(FIRST, [inputs, hidden.unwrap_or(outputs)], first, weights)?;
        let second = hidden.map(|hidden| Linear::with_rule(SECOND, [hidden, outputs], second, weights)).transpose()?;
        Ok(Self { first, second, hidden: hidden.unwrap_or(0), rates })
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
        if pass.trains() && self.rates.features.max(self.rates.hidden) > 0.0 {
            return self.passes(x, pass);
        }
        let both = self.forward(x, pass)?;
        Ok([both.clone(), both])
    }

    /// Returns the largest activation of one lane: nodes × hidden or nodes × classes.
    pub fn widest(graph: &GraphView, hidden: Option<usize>) -> usize {
        graph.nodes * hidden.unwrap_or(0).max(graph.classes)
    }

    /// Counts the work of the network, in this many training passes with masks of their own.
    pub fn work(graph: &GraphSizes, hidden: Option<usize>, passes: usize) -> ModelWork {
        let work = ModelWork::on(graph);
        match hidden {
            Some(hidden) => {
                let work = work.features(hidden, passes);
                (0..passes).fold(work, |work, _| work.units(hidden)).dense(hidden, graph.classes)
            }
            None => work.features(graph.classes, passes),
        }
    }

    fn passes<const P: usize>(&self, x: &Input, pass: &mut Pass) -> Result<[Sided; P]> {
        let mut masks: [PassMasks; P] = std::array::from_fn(|_| PassMasks::default());
        for (masks, (on_features, on_hidden)) in masks.iter_mut().zip(MASKS) {
            masks.features = pass.dropout(self.rates.features, on_features).masks(x.stored())?;
            if self.second.is_some() {
                masks.hidden = pass.dropout(self.rates.hidden, on_hidden).masks(x.rows() * self.hidden)?;
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
