//! GCN as its authors wrote it (Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017).
//!
//! ```text
//! H      = ReLU(Ã drop_p(X) W₁)              nodes × hidden
//! logits = Ã drop_p(H) W₂                    nodes × classes
//! ```
//!
//! No biases, dropout on the input of both layers (on stored features, which is the same as on all of them), and weight decay on
//! W₁ alone. W is drawn from Glorot's uniform distribution. With `batch-norm`, hidden units are normalised before ReLU, by a scale
//! and a shift that are not decayed either. The paper's tables print this form for Texas and Cornell, and `gcn` for the others. The original also scales features to rows of
//! sum 1 (`featurize.rows`), stops by a window of 10, and keeps the last epoch.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{BatchNorm, Convolution};
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Param, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::Rule;

/// Parameters of `gcn-kipf`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Whether hidden units are normalised over all nodes.
    pub batch_norm: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 16, dropout: 0.5, batch_norm: false }
    }
}

impl crate::contract::params::Params for Params {}

/// Two convolutions without biases.
pub struct GcnKipf {
    first: Param,
    norm: Option<BatchNorm>,
    second: Param,
    dropout: f64,
}

impl Build for GcnKipf {
    const NAME: &'static str = "gcn-kipf";
    const ABOUT: &'static str =
        "Two graph convolutions without biases, dropout on the features too, decay on the first alone";
    const REFERENCE: &'static str = "Kipf and Welling, ICLR 2017";
    const EQUATION: &'static str = "Ã drop(ReLU(Ã drop(X) W₁)) W₂";
    const VERSION: u32 = 2;
    const HIDDEN: &'static [&'static str] = &["hidden"];
    // Both convolutions together, without the ReLU between them.
    const RESPONSE: Option<Respond<Params>> = Some(|_, _, at| Level::of(at.lambda * at.lambda));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (inputs, hidden) = (graph.features.columns(), params.hidden);
        let first = weights.glorot("conv1.weight", Rule::decayed(), [inputs, hidden], "init/conv1")?;
        let norm = params.batch_norm.then(|| BatchNorm::new("norm1", hidden, Rule::free(), weights)).transpose()?;
        let second = weights.glorot("conv2.weight", Rule::free(), [hidden, graph.classes], "init/conv2")?;
        Ok(Self { first, norm, second, dropout: params.dropout })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        Convolution::work_of_two(graph, params.hidden, params.batch_norm)
    }
}

impl Model for GcnKipf {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let (a, Self { first, norm, second, dropout }) = (&graph.operator, self);
        let z = x.dropout_times(first, pass.dropout(*dropout, "dropout/features"))?;
        let h = Convolution { bias: None, norm: norm.as_ref(), dropout: *dropout }.forward(&z, graph, pass)?;
        let logits = h.times(second)?.propagate(a)?;
        Ok(Output::from(logits).with_hidden("hidden", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_those_of_dense_products_and_there_are_no_biases() {
        let graph = testing::view(DType::F64);
        let (operator, x) = (testing::dense_operator(&graph), graph.features.to_dense().unwrap());
        let built = testing::build::<GcnKipf>(&Params { hidden: 5, ..Params::default() }, &graph, 2);
        assert_eq!(built.weights.len(), 2);
        let logits = built.eval(&graph);
        for lane in 0..2 {
            let weight = |name: &str| built.weight(name).get(lane).unwrap();
            let h = operator.matmul(&x.matmul(&weight("conv1.weight")).unwrap()).unwrap().relu().unwrap();
            let expected = operator.matmul(&h.matmul(&weight("conv2.weight")).unwrap()).unwrap();
            assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12);
        }
    }

    #[test]
    fn only_the_first_layer_is_decayed() {
        let graph = testing::view(DType::F32);
        for batch_norm in [false, true] {
            let built = testing::build::<GcnKipf>(&Params { batch_norm, ..Params::default() }, &graph, 1);
            for weight in built.weights.iter().filter(|w| w.rule.is_some()) {
                let expected = if weight.name == "conv1.weight" { Rule::decayed() } else { Rule::free() };
                assert_eq!(weight.rule, Some(expected), "{}", weight.name);
            }
        }
    }

    #[test]
    fn features_are_dropped_unlike_in_the_other_form() {
        let graph = testing::view(DType::F64);
        let mut built = testing::build::<GcnKipf>(&Params { hidden: 5, ..Params::default() }, &graph, 2);
        assert!(!built.drops_hidden_units_alone(&graph));
    }
}
