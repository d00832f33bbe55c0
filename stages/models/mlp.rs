//! MLP: two layers on the features, no graph.
//!
//! logits = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂. X: nodes × features, W₁: features × hidden, W₂: hidden × classes.
//! The same network stands under the propagation of GPR-GNN and PP-GNN. The paper gives no detail of its MLP; this is the
//! one of the GPR-GNN code family. Both layers are decayed, biases included.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::Perceptron;
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;

/// Parameters of `mlp`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5 }
    }
}

impl crate::contract::params::Params for Params {}

/// Two layers on the features.
pub struct Mlp {
    net: Perceptron,
}

impl Build for Mlp {
    const NAME: &'static str = "mlp";
    const ABOUT: &'static str = "Two-layer perceptron on the features alone";
    const REFERENCE: &'static str = "Rumelhart, Hinton and Williams, Nature, 1986";
    const EQUATION: &'static str = "drop(ReLU(drop(X) W₁ + b₁)) W₂ + b₂";
    const VERSION: u32 = 2;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        Ok(Self { net: Perceptron::new(graph, Some(params.hidden), params.dropout, weights)? })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, Some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        Perceptron::work(graph, Some(params.hidden), 1)
    }
}

impl Model for Mlp {
    fn forward(&self, _: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        Ok(self.net.forward(x, pass)?.into())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor};

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_the_formula() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Mlp>(&Params { hidden: 6, dropout: 0.5 }, &graph, 2);
        let (logits, x) = (built.eval(&graph), graph.features.to_dense().unwrap());
        for lane in 0..2 {
            let weight = |name: &str| built.weight(name).get(lane).unwrap();
            let layer = |x: &Tensor, name: &str| {
                let (w, b) = (weight(&format!("{name}.weight")), weight(&format!("{name}.bias")));
                x.matmul(&w).unwrap().broadcast_add(&b).unwrap()
            };
            let expected = layer(&layer(&x, "lin1").relu().unwrap(), "lin2");
            assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
        }
    }
}
