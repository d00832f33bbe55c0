//! GCN as the Open Graph Benchmark trains it on OGBN-arXiv: more layers, with batch normalisation between them.
//!
//! ```text
//! H⁰     = X
//! Hˡ     = drop_p(ReLU(BN_l(Ã Hˡ⁻¹ W_l + b_l)))        l = 1..L−1, nodes × hidden
//! logits = Ã H^{L−1} W_L + b_L                          nodes × classes
//! ```
//!
//! No dropout on the input. W is drawn from Glorot's uniform distribution, biases start at 0. Statistics are over all nodes;
//! evaluation uses running ones. The benchmark trains without weight decay (`weight-decay: 0`), for 500 epochs without early
//! stopping (`window: 0`).

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{BatchNorm, Convolution, Linear, Names};
use super::ops::Sided;
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::Rule;

/// Parameters of `gcn-ogb`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Convolutions.
    #[schemars(range(min = 2, max = 64))]
    pub layers: usize,
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Whether hidden units are normalised over all nodes.
    pub batch_norm: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { layers: 3, hidden: 256, dropout: 0.5, batch_norm: true }
    }
}

impl crate::contract::params::Params for Params {}

/// Convolutions with normalised units between them.
pub struct GcnOgb {
    first: Linear,
    /// Those between the first and the last.
    inner: Vec<Linear>,
    last: Linear,
    /// One after every convolution but the last; none without batch normalisation.
    norms: Vec<BatchNorm>,
    dropout: f64,
}

impl Build for GcnOgb {
    const NAME: &'static str = "gcn-ogb";
    const ABOUT: &'static str = "Graph convolutions with batch normalisation and dropout between them";
    const REFERENCE: &'static str = "Hu et al., \"Open Graph Benchmark\", NeurIPS 2020";
    const EQUATION: &'static str = "Hˡ = drop(ReLU(BN(Ã Hˡ⁻¹ W + b)));  Ã H W + b";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["hidden"];
    // All convolutions together, without what is between them.
    const RESPONSE: Option<Respond<Params>> =
        Some(|params, _, at| Level::of(at.lambda.powi(i32::try_from(params.layers).unwrap_or(i32::MAX))));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (hidden, layers) = (params.hidden, params.layers);
        let names = |layer| Names::numbered("conv", layer, "init/conv");
        let (mut inner, mut norms) = (Vec::new(), Vec::new());
        let first = Linear::glorot(names(1), graph.features.columns(), hidden, weights)?;
        for layer in 1..layers {
            if layer > 1 {
                inner.push(Linear::glorot(names(layer), hidden, hidden, weights)?);
            }
            if params.batch_norm {
                norms.push(BatchNorm::new(&format!("norm{layer}"), hidden, Rule::decayed(), weights)?);
            }
        }
        let last = Linear::glorot(names(layers), hidden, graph.classes, weights)?;
        Ok(Self { first, inner, last, norms, dropout: params.dropout })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (hidden, classes) = (params.hidden, graph.classes);
        let mut work = ModelWork::on(graph).features(hidden, 1).propagated(hidden);
        for layer in 1..params.layers {
            work = if layer > 1 { work.dense(hidden, hidden) } else { work };
            work = work.hops(1, hidden).units(hidden);
            work = if params.batch_norm { BatchNorm::work(work, hidden) } else { work };
        }
        work.dense(hidden, classes).hops(1, classes)
    }
}

impl GcnOgb {
    /// drop_p(ReLU(BN(Ã Z + b))) after the convolution of a number, for Z = H W.
    fn units(&self, z: &Sided, layer: usize, bias: &Linear, graph: &GraphView, pass: &mut Pass) -> Result<Sided> {
        let norm = self.norms.get(layer);
        Convolution { bias: Some(&bias.bias), norm, dropout: self.dropout }.forward(z, graph, pass)
    }
}

impl Model for GcnOgb {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let mut h = self.units(&x.times(&self.first.weight)?, 0, &self.first, graph, pass)?;
        for (i, layer) in self.inner.iter().enumerate() {
            h = self.units(&h.times(&layer.weight)?, i + 1, layer, graph, pass)?;
        }
        let logits = h.times(&self.last.weight)?.propagate(&graph.operator)?.plus_bias(&self.last.bias)?;
        Ok(Output::from(logits).with_hidden("hidden", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn two_layers_without_normalisation_are_the_plain_model() {
        let graph = testing::view(DType::F64);
        let ours = Params { layers: 2, hidden: 5, batch_norm: false, ..Params::default() };
        let built = testing::build::<GcnOgb>(&ours, &graph, 2);
        let plain = testing::build_by_name("gcn", &serde_json::json!({"hidden": 5}), &graph, testing::streams(2));
        for weight in &plain.weights {
            weight.param.set(&built.weight(&weight.name)).unwrap();
        }
        assert!(testing::distance(&built.eval(&graph), &testing::eval(&*plain.model, &graph, 2)) < 1e-12);
    }

    #[test]
    fn features_are_not_dropped() {
        let graph = testing::view(DType::F64);
        let params = Params { layers: 2, hidden: 5, batch_norm: false, ..Params::default() };
        assert!(testing::build::<GcnOgb>(&params, &graph, 2).drops_hidden_units_alone(&graph));
    }

    #[test]
    fn every_layer_but_the_last_is_normalised() {
        let graph = testing::view(DType::F32);
        let built = testing::build::<GcnOgb>(&Params { layers: 4, hidden: 6, ..Params::default() }, &graph, 1);
        let has = |name: &str| built.weights.iter().any(|w| w.name == name);
        assert!(has("norm1.scale") && has("norm3.running-mean") && !has("norm4.scale"));
        assert_eq!(built.weight("conv3.weight").dims(), [1, 6, 6]);
        assert_eq!(built.weight("conv4.weight").dims(), [1, 6, graph.classes]);
    }
}
