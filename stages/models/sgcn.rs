//! SGCN, or SGC (Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019): logistic regression on propagated features.
//!
//! ```text
//! logits = drop_p(Ã^K X) W + b              X: nodes × features, W: features × classes
//! ```
//!
//! The original drops nothing. Without dropout the same is computed as Ã^K (X W) + b, whose products have as many columns as there
//! are classes. With dropout, Ã^K X is made once, by the first batch that needs it. W and b are drawn as PyTorch's `Linear`, and
//! are decayed. The original scales features to rows of sum 1 and uses learning rates up to 0.2.

use std::sync::Arc;

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Linear, Names};
use super::{
    Build, FeatureView, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Pass, Respond, Weights,
};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;

/// Parameters of `sgcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Propagation steps.
    #[schemars(range(min = 0, max = 1000))]
    pub order: usize,
    /// Share of propagated features dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { order: 2, dropout: 0.0 }
    }
}

impl crate::contract::params::Params for Params {}

/// One layer on propagated features.
pub struct Sgcn {
    layer: Linear,
    order: usize,
    dropout: f64,
    /// Ã^K X, where something of it is dropped.
    propagated: Option<Arc<FeatureView>>,
}

impl Build for Sgcn {
    const NAME: &'static str = "sgcn";
    const ABOUT: &'static str = "Logistic regression on propagated features";
    const REFERENCE: &'static str = "Wu et al., \"Simplifying Graph Convolutional Networks\", ICML 2019";
    const EQUATION: &'static str = "drop(Ã^K X) W + b";
    const VERSION: u32 = 1;
    const RESPONSE: Option<Respond<Params>> =
        Some(|params, _, at| Level::of(at.lambda.powi(i32::try_from(params.order).unwrap_or(i32::MAX))));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let names = Names::new("lin.weight", "lin.bias", "init/lin");
        let layer = Linear::new(names, graph.features.columns(), graph.classes, weights)?;
        let propagated = (params.dropout > 0.0).then(|| graph.propagated(params.order)).transpose()?;
        Ok(Self { layer, order: params.order, dropout: params.dropout, propagated })
    }

    fn widest(_: &Params, graph: &GraphView) -> usize {
        graph.nodes * graph.classes
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        match params.dropout > 0.0 && params.order > 0 {
            true => ModelWork::on(&graph.propagated(params.order)).features(graph.classes, 1),
            false => ModelWork::on(graph).features(graph.classes, 1).hops(params.order, graph.classes),
        }
    }
}

impl Model for Sgcn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        if let Some(propagated) = &self.propagated {
            return Ok(x
                .reading(propagated)
                .layer(&self.layer, pass.dropout(self.dropout, "dropout/features"))?
                .into());
        }
        let mut z = x.times(&self.layer.weight)?;
        for _ in 0..self.order {
            z = z.propagate(&graph.operator)?;
        }
        Ok(z.plus_bias(&self.layer.bias)?.into())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_the_formula_and_the_two_ways_to_them_agree() {
        for graph in [testing::view(DType::F64), testing::sparse_view_for("sgcn", DType::F64)] {
            let (operator, x) = (testing::dense_operator(&graph), graph.features.to_dense().unwrap());
            for order in [0, 1, 3] {
                let [plain, dropped] =
                    [0.0, 0.5].map(|dropout| testing::build::<Sgcn>(&Params { order, dropout }, &graph, 2));
                let (logits, by_features) = (plain.eval(&graph), dropped.eval(&graph));
                assert!(plain.model.propagated.is_none() && dropped.model.propagated.is_some());
                let x = (0..order).fold(x.clone(), |x, _| operator.matmul(&x).unwrap());
                for lane in 0..2 {
                    let weight = |name: &str| plain.weight(name).get(lane).unwrap();
                    let expected = x.matmul(&weight("lin.weight")).unwrap().broadcast_add(&weight("lin.bias")).unwrap();
                    assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
                    // Propagated features are stored in single precision, as features are.
                    assert!(testing::distance(&by_features.get(lane).unwrap(), &expected) < 1e-6);
                }
            }
        }
    }

    #[test]
    fn nothing_is_dropped_by_default_and_masks_come_after_propagation() {
        let graph = testing::view(DType::F64);
        let mut plain = testing::build::<Sgcn>(&Params::default(), &graph, 2);
        assert_eq!(testing::distance(&plain.train(&graph), &plain.eval(&graph)), 0.0);
        // W = 1 of one feature at a time and p = ½: a logit is 0, or twice the propagated feature. A mask before propagation would
        // leave sums of some neighbours.
        let mut built = testing::build::<Sgcn>(&Params { order: 2, dropout: 0.5 }, &graph, 1);
        let [weight, bias] = ["lin.weight", "lin.bias"].map(|name| built.weight(name).zeros_like().unwrap());
        let one = candle_core::Tensor::ones((1, 1, 2), DType::F64, weight.device()).unwrap();
        let weight = weight.slice_assign(&[0..1, 0..1, 0..2], &one).unwrap();
        for (named, value) in built.weights.iter().zip([weight, bias]) {
            named.param.set(&value).unwrap();
        }
        let [trained, whole] = [built.train(&graph), built.eval(&graph)].map(|t| testing::flat(&t));
        assert!(trained.iter().zip(&whole).all(|(t, w)| *t == 0.0 || (t - 2.0 * w).abs() < 1e-12));
        assert!(trained.contains(&0.0) && trained.iter().any(|t| *t != 0.0));
    }

    #[test]
    fn propagated_features_are_made_once_for_all_batches() {
        let graph = testing::view(DType::F32);
        let [a, b] = [(); 2].map(|()| testing::build::<Sgcn>(&Params { order: 2, dropout: 0.3 }, &graph, 1).model);
        assert!(Arc::ptr_eq(&a.propagated.unwrap(), &b.propagated.unwrap()));
    }
}
