//! MLP: two layers on the features, no graph.
//!
//! logits = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂. X: nodes × features, W₁: features × hidden, W₂: hidden × classes.
//! The same network stands under the propagation of GPR-GNN and PP-GNN. The paper gives no detail of its MLP; this is the
//! one of the GPR-GNN code family. Both layers are decayed, biases included.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Pass, Perceptron};
use super::{Build, GraphView, Mode, Model, Streams};
use crate::contract::StageError;
use crate::optim::ParamGroup;

/// Parameters of `mlp`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5 }
    }
}

impl crate::params::Params for Params {}

/// Two layers on the features.
pub struct Mlp {
    net: Perceptron,
}

impl Build for Mlp {
    const NAME: &'static str = "mlp";
    const ABOUT: &'static str = "Two-layer perceptron on the features alone";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, data: &GraphView, streams: &mut Streams) -> std::result::Result<Self, StageError> {
        Ok(Self { net: Perceptron::new(data, Some(params.hidden), params.dropout, streams)? })
    }
}

impl Model for Mlp {
    fn forward(&self, data: &GraphView, mode: &mut Mode) -> Result<Tensor> {
        self.net.forward(data, mode, Pass::MAIN)
    }

    fn groups(&self) -> Vec<ParamGroup> {
        self.net.groups()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_the_formula() {
        let data = testing::view(DType::F64);
        let params = Params { hidden: 6, dropout: 0.5 };
        let model = Mlp::build(&params, &data, &mut Streams::new(3, 0)).unwrap();
        let vars: Vec<Tensor> = model
            .groups()
            .iter()
            .flat_map(|g| g.vars.iter().map(|v| v.1.as_tensor().clone()).collect::<Vec<_>>())
            .collect();
        let layer = |x: &Tensor, i: usize| x.matmul(&vars[i]).unwrap().broadcast_add(&vars[i + 1]).unwrap();
        let expected = layer(&layer(&data.features.to_dense().unwrap(), 0).relu().unwrap(), 2);
        assert!(testing::distance(&model.forward(&data, &mut Mode::Eval).unwrap(), &expected) < 1e-12);
    }

    #[test]
    fn gradients_match_finite_differences() {
        let data = testing::view(DType::F64);
        let model = Mlp::build(&Params { hidden: 4, dropout: 0.0 }, &data, &mut Streams::new(3, 0)).unwrap();
        let groups = model.groups();
        let vars: Vec<_> = groups.iter().flat_map(|g| g.vars.iter().map(|v| &v.1)).collect();
        let weight = testing::normal(&[data.nodes, data.classes], 5);
        let loss = || (model.forward(&data, &mut Mode::Eval).unwrap() * &weight).unwrap().sum_all().unwrap();
        testing::assert_gradients(&vars, loss, 1e-6);
    }
}
