//! LGC, linear graph convolution (Navarin et al., "Linear Graph Convolutional Networks", ESANN 2020; Pasa et al., "Simple Graph
//! Convolutional Networks", 2021): a trained polynomial of the operator on linear outputs.
//!
//! ```text
//! logits = Σ_{k=0}^{K} α_k S^k drop_p(X) W          W: features × classes, shared by all k
//! ```
//!
//! No bias and no non-linearity. Propagation is linear, so W comes first and products with S have as many columns as there are
//! classes; published code propagates all features. W is drawn from U(±1/√classes), α from U(±1/√K); both are decayed. S is Ã by
//! default here; published code has no self-loops on citation graphs (`normalize.self-loops: false`) and has them on Reddit.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ops::Basis;
use super::response::polynomial;
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Param, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::Rule;

/// Parameters of `lgc`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The largest power of the operator.
    #[schemars(range(min = 1, max = 1000))]
    pub order: usize,
    /// Share of features dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { order: 10, dropout: 0.5 }
    }
}

impl crate::contract::params::Params for Params {}

/// A layer on the features, filtered.
pub struct Lgc {
    weight: Param,
    /// lanes × (order + 1).
    alpha: Param,
    dropout: f64,
}

impl Build for Lgc {
    const NAME: &'static str = "lgc";
    const ABOUT: &'static str = "Linear layer filtered by a trained polynomial of the operator";
    const REFERENCE: &'static str = "Navarin et al., \"Linear Graph Convolutional Networks\", ESANN 2020";
    const EQUATION: &'static str = "Σ_k α_k Ã^k drop(X) W";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> =
        Some(|_, learned, at| Level::of(polynomial(&learned.values("alpha"), at.lambda)));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let range = |count: usize| 1.0 / (count.max(1) as f64).sqrt();
        let shape = [graph.features.columns(), graph.classes];
        let weight = weights.uniform("lin.weight", Rule::decayed(), &shape, "init/lin", range(graph.classes))?;
        let alpha =
            weights.uniform("alpha", Rule::decayed(), &[params.order + 1], "init/alpha", range(params.order))?;
        Ok(Self { weight, alpha, dropout: params.dropout })
    }

    fn widest(_: &Params, graph: &GraphView) -> usize {
        graph.nodes * graph.classes
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        ModelWork::on(graph).features(graph.classes, 1).hops(params.order, graph.classes).trained(params.order + 1)
    }
}

impl Model for Lgc {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let z = x.dropout_times(&self.weight, pass.dropout(self.dropout, "dropout/features"))?;
        let logits = z.polynomial(&graph.operator, Basis::Powers, &self.alpha)?;
        Ok(Output::from(logits).with_hidden("network", &z))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::ops::AsTensor;
    use crate::models::testing;

    #[test]
    fn logits_are_the_published_sum_over_propagated_features() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Lgc>(&Params { order: 4, dropout: 0.5 }, &graph, 2);
        let (operator, logits) = (testing::dense_operator(&graph), built.eval(&graph));
        for lane in 0..2 {
            let alpha = testing::flat(&built.weight("alpha").get(lane).unwrap());
            let mut hop = graph.features.to_dense().unwrap();
            let mut sum = (&hop * alpha[0]).unwrap();
            for alpha in &alpha[1..] {
                hop = operator.matmul(&hop).unwrap();
                sum = (sum + (&hop * *alpha).unwrap()).unwrap();
            }
            let expected = sum.matmul(&built.weight("lin.weight").get(lane).unwrap()).unwrap();
            assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
        }
    }

    #[test]
    fn everything_is_decayed_and_starts_in_its_range() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Lgc>(&Params { order: 25, dropout: 0.5 }, &graph, 2);
        assert!(built.weights.iter().all(|w| w.rule == Some(Rule::decayed())));
        // 1/√25 and 1/√2.
        for (name, r) in [("alpha", 0.2), ("lin.weight", 0.5_f64.sqrt())] {
            let values = testing::flat(&built.weight(name));
            assert!(values.iter().all(|v| v.abs() <= r) && values.iter().any(|v| v.abs() > 0.7 * r), "{name}");
        }
    }

    #[test]
    fn it_is_gpr_gnn_on_a_linear_layer_without_bias() {
        // Invariant: LGC on Ã with α = γ is GPR-GNN whose network is X W: PP-GNN of one layer without its spectral branch.
        let graph = testing::view(DType::F64);
        let built = testing::build::<Lgc>(&Params { order: 3, dropout: 0.0 }, &graph, 2);
        let params = serde_json::json!({"linear": true, "eta": 0.0, "order": 3, "dropout": 0.0, "dprate": 0.0});
        let gpr = testing::build_by_name("pp-gnn", &params, &graph, testing::streams(2));
        for weight in &gpr.weights {
            let value = match weight.name.as_ref() {
                "lin1.weight" => built.weight("lin.weight"),
                "gamma" => built.weight("alpha"),
                _ => weight.param.tensor().zeros_like().unwrap(),
            };
            weight.param.set(&value).unwrap();
        }
        assert!(testing::distance(&built.eval(&graph), &testing::eval(&*gpr.model, &graph, 2)) < 1e-12);
    }

    #[test]
    fn there_is_no_bias_and_no_non_linearity() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Lgc>(&Params { order: 3, dropout: 0.5 }, &graph, 1);
        assert_eq!(built.weights.iter().map(|w| &*w.name).collect::<Vec<_>>(), ["lin.weight", "alpha"]);
        let before = built.eval(&graph);
        let weight = &built.weights[0].param;
        weight.set(&(weight.tensor() * -3.0).unwrap()).unwrap();
        assert!(testing::distance(&built.eval(&graph), &(before * -3.0).unwrap()) < 1e-12);
    }
}
