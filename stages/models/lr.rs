//! LR: logistic regression on the features, no graph.
//!
//! logits = drop_p(X) W + b. X: nodes × features, W: features × classes. The paper gives no detail of its LR; dropout on
//! the input is part of the sweep that it shares among all models. W and b are decayed.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Linear, Names};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;

/// Parameters of `lr`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Share of features dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { dropout: 0.5 }
    }
}

impl crate::contract::params::Params for Params {}

/// One layer on the features.
pub struct Lr {
    layer: Linear,
    dropout: f64,
}

impl Build for Lr {
    const NAME: &'static str = "lr";
    const ABOUT: &'static str = "Logistic regression on the features alone";
    const REFERENCE: &'static str = "Cox, Journal of the Royal Statistical Society B, 1958";
    const EQUATION: &'static str = "drop(X) W + b";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let names = Names::new("lin.weight", "lin.bias", "init/lin");
        let layer = Linear::new(names, graph.features.columns(), graph.classes, weights)?;
        Ok(Self { layer, dropout: params.dropout })
    }

    fn widest(_: &Params, graph: &GraphView) -> usize {
        graph.nodes * graph.classes
    }

    fn work(_: &Params, graph: &GraphSizes) -> ModelWork {
        ModelWork::on(graph).features(graph.classes, 1)
    }
}

impl Model for Lr {
    fn forward(&self, _: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        Ok(x.layer(&self.layer, pass.dropout(self.dropout, "dropout/features"))?.into())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_the_formula() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Lr>(&Params::default(), &graph, 2);
        let (logits, x) = (built.eval(&graph), graph.features.to_dense().unwrap());
        for lane in 0..2 {
            let weight = |name: &str| built.weight(name).get(lane).unwrap();
            let expected = x.matmul(&weight("lin.weight")).unwrap().broadcast_add(&weight("lin.bias")).unwrap();
            assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
        }
    }
}
