//! GCN (Kipf and Welling) in the form of the GPR-GNN repository, which the paper's main tables use.
//!
//! ```text
//! H      = ReLU(Ã X W₁ + b₁)              nodes × hidden
//! logits = Ã drop_p(H) W₂ + b₂            nodes × classes
//! ```
//!
//! Weights meet features first, then the graph. Dropout stands between the layers only, none on the input, so training
//! and evaluation share everything below it. W is drawn from Glorot's uniform distribution, U(±√(6/(in + out))), biases
//! start at 0; both are decayed. With `batch-norm`, hidden units are normalised before ReLU. Kipf's own code has no biases, dropout on the input too, and decays W₁ alone.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{BatchNorm, Convolution, Linear, Names};
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::Rule;

const FIRST: Names = Names::new("conv1.weight", "conv1.bias", "init/conv1");
const SECOND: Names = Names::new("conv2.weight", "conv2.bias", "init/conv2");

/// Parameters of `gcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Whether hidden units are normalised over all nodes.
    // Not in the key unless it is asked for: results without it stay what they are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub batch_norm: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5, batch_norm: false }
    }
}

impl crate::contract::params::Params for Params {}

/// Two convolutions.
pub struct Gcn {
    /// W and b of Ã X W + b.
    first: Linear,
    norm: Option<BatchNorm>,
    second: Linear,
    dropout: f64,
}

impl Build for Gcn {
    const NAME: &'static str = "gcn";
    const ABOUT: &'static str = "Two graph convolutions with dropout between them";
    const REFERENCE: &'static str = "Kipf and Welling, ICLR 2017, in the form of the GPR-GNN repository";
    const EQUATION: &'static str = "Ã drop(ReLU(Ã X W₁ + b₁)) W₂ + b₂";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["hidden"];
    // Both convolutions together, without the ReLU between them.
    const RESPONSE: Option<Respond<Params>> = Some(|_, _, at| Level::of(at.lambda * at.lambda));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let first = Linear::glorot(FIRST, graph.features.columns(), params.hidden, weights)?;
        let norm =
            params.batch_norm.then(|| BatchNorm::new("norm1", params.hidden, Rule::decayed(), weights)).transpose()?;
        let second = Linear::glorot(SECOND, params.hidden, graph.classes, weights)?;
        Ok(Self { first, norm, second, dropout: params.dropout })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        Convolution::work_of_two(graph, params.hidden, params.batch_norm)
    }
}

impl Model for Gcn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let (a, Self { first, norm, second, dropout }) = (&graph.operator, self);
        let units = Convolution { bias: Some(&first.bias), norm: norm.as_ref(), dropout: *dropout };
        let h = units.forward(&x.times(&first.weight)?, graph, pass)?;
        let logits = h.times(&second.weight)?.propagate(a)?.plus_bias(&second.bias)?;
        Ok(Output::from(logits).with_hidden("hidden", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor};

    use super::*;
    use crate::models::ops::AsTensor;
    use crate::models::testing::{self, flat};

    #[test]
    fn logits_are_those_of_dense_products() {
        let graph = testing::view(DType::F64);
        let operator = testing::dense_operator(&graph);
        for hidden in [1, 6, 16, 64] {
            let built = testing::build::<Gcn>(&Params { hidden, ..Params::default() }, &graph, 2);
            // Biases start at 0, where a mistake would not be seen.
            for bias in built.weights.iter().filter(|w| w.name.ends_with("bias")) {
                bias.param.set(&testing::normal(bias.param.tensor().dims(), 3)).unwrap();
            }
            let (logits, x) = (built.eval(&graph), graph.features.to_dense().unwrap());
            for lane in 0..2 {
                let weight = |name: &str| built.weight(name).get(lane).unwrap();
                let convolution = |x: &Tensor, name: &str| {
                    let (w, b) = (weight(&format!("{name}.weight")), weight(&format!("{name}.bias")));
                    operator.matmul(&x.matmul(&w).unwrap()).unwrap().broadcast_add(&b).unwrap()
                };
                let expected = convolution(&convolution(&x, "conv1").relu().unwrap(), "conv2");
                assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
            }
        }
    }

    #[test]
    fn weights_start_as_glorot_says_and_biases_at_zero() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Gcn>(&Params { hidden: 1000, ..Params::default() }, &graph, 1);
        // √(6 / (5 + 1000)).
        let (r, weights) = ((6.0f64 / 1005.0).sqrt(), flat(&built.weight("conv1.weight")));
        let largest = weights.iter().fold(0.0f64, |m, w| m.max(w.abs()));
        assert!(largest <= r && largest > 0.99 * r);
        assert!(["conv1.bias", "conv2.bias"].iter().all(|name| flat(&built.weight(name)).iter().all(|b| *b == 0.0)));
    }

    #[test]
    fn both_layers_are_decayed_biases_too_unlike_in_the_authors_form() {
        let graph = testing::view(DType::F32);
        let built = testing::build::<Gcn>(&Params { batch_norm: true, ..Params::default() }, &graph, 1);
        assert!(built.weights.iter().filter_map(|w| w.rule).all(|rule| rule == Rule::decayed()));
    }

    #[test]
    fn features_are_not_dropped() {
        let graph = testing::view(DType::F64);
        let mut built = testing::build::<Gcn>(&Params { hidden: 6, ..Params::default() }, &graph, 2);
        assert!(built.drops_hidden_units_alone(&graph));
    }
}
