//! GFIR, a general FIR filter: a layer of its own for every power of the operator, as the PP-GNN paper compares with.
//!
//! ```text
//! logits = Σ_{k=0}^{K} Ã^k X H_k                     H_k: features × classes, all independent
//!        = X H_0 + Ã (X H_1 + Ã (X H_2 + …))
//! ```
//!
//! The second line is what is computed: K products with Ã, of as many columns as there are classes. No bias. The unconstrained form
//! has no dropout and no weight decay (`dropout: 0` and `weight-decay: 0`), the constrained one has both. The paper applies
//! dropout "on the H_k", which can be read in two ways: `drops: features` masks the features that enter H_k, with a mask for
//! every k, before they are propagated; `drops: weights` masks the entries of H_k. H_k is drawn from Glorot's uniform distribution.
//!
//! The paper compares models of about the same size: `cap-hidden` refuses more weights than a PP-GNN of so many hidden units has.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::within_cap;
use super::ops::Sided;
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::Rule;

/// What dropout masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Drops {
    /// The features that enter H_k, apart for every k.
    #[default]
    Features,
    /// The entries of H_k.
    Weights,
}

/// Parameters of `gfir`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The largest power of the operator.
    #[schemars(range(min = 0, max = 1000))]
    pub order: usize,
    /// Share of features, or of weights, dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// What is dropped.
    pub drops: Drops,
    /// Refuse more weights than a PP-GNN of this many hidden units has.
    #[schemars(range(min = 1, max = 65536))]
    pub cap_hidden: Option<usize>,
}

impl Default for Params {
    fn default() -> Self {
        Self { order: 4, dropout: 0.5, drops: Drops::Features, cap_hidden: None }
    }
}

impl crate::contract::params::Params for Params {}

/// A layer for every power.
pub struct Gfir {
    /// H_0 to H_K.
    layers: Vec<Param>,
    dropout: f64,
    drops: Drops,
}

impl Build for Gfir {
    const NAME: &'static str = "gfir";
    const ABOUT: &'static str = "A linear layer of its own for every power of the operator";
    const REFERENCE: &'static str =
        "Lingam et al., \"A Piece-wise Polynomial Filtering Approach for Graph Neural Networks\", 2021";
    const EQUATION: &'static str = "Σ_k Ã^k drop(X) H_k";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let shape = [graph.features.columns(), graph.classes];
        let layer = |k| weights.glorot(format!("h{k}.weight"), Rule::decayed(), shape, "init/h");
        let layers = (0..=params.order).map(layer).collect::<Result<_>>()?;
        Ok(Self { layers, dropout: params.dropout, drops: params.drops })
    }

    fn widest(_: &Params, graph: &GraphView) -> usize {
        graph.nodes * graph.classes
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let work = ModelWork::on(graph);
        (0..=params.order).fold(work, |work, _| work.features(graph.classes, 1)).hops(params.order, graph.classes)
    }

    fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        let weights = graph.features * graph.classes * (params.order + 1);
        within_cap(weights, params.cap_hidden, params.order == 0, graph, "lower `order`")
    }
}

impl Gfir {
    /// X H, masked as the parameters say.
    fn layer(&self, x: &Input, weight: &Param, pass: &mut Pass) -> Result<Sided> {
        match self.drops {
            Drops::Features => x.dropout_times(weight, pass.dropout(self.dropout, "dropout/features")),
            Drops::Weights => {
                let masked = x.weight(weight).dropout(pass.dropout(self.dropout, "dropout/weights"))?;
                let whole = x.times(weight)?;
                if !pass.trains() || self.dropout == 0.0 {
                    Ok(whole)
                } else {
                    x.times(masked.main())?.evaluated_as(&whole)
                }
            }
        }
    }
}

impl Model for Gfir {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let mut terms =
            self.layers.iter().map(|h| self.layer(x, h, pass)).collect::<Result<Vec<_>>>()?.into_iter().rev();
        let Some(last) = terms.next() else { candle_core::bail!("a filter without layers") };
        let logits = terms.try_fold(last, |sum, term| sum.propagate(&graph.operator)?.plus(&term))?;
        Ok(logits.into())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::contract::Size;
    use crate::models::ops::AsTensor;
    use crate::models::testing;
    use crate::models::work;

    #[test]
    fn logits_are_the_sum_over_powers() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Gfir>(&Params { order: 3, ..Params::default() }, &graph, 2);
        let (operator, logits) = (testing::dense_operator(&graph), built.eval(&graph));
        for lane in 0..2 {
            let mut hop = graph.features.to_dense().unwrap();
            let mut sum = hop.matmul(&built.weight("h0.weight").get(lane).unwrap()).unwrap();
            for k in 1..=3 {
                hop = operator.matmul(&hop).unwrap();
                let term = hop.matmul(&built.weight(&format!("h{k}.weight")).get(lane).unwrap()).unwrap();
                sum = (sum + term).unwrap();
            }
            assert!(testing::distance(&logits.get(lane).unwrap(), &sum) < 1e-12);
        }
    }

    #[test]
    fn there_are_no_biases_and_every_layer_is_decayed() {
        let graph = testing::view(DType::F64);
        let built = testing::build::<Gfir>(&Params { order: 2, ..Params::default() }, &graph, 1);
        assert_eq!(built.weights.iter().map(|w| &*w.name).collect::<Vec<_>>(), ["h0.weight", "h1.weight", "h2.weight"]);
        assert!(built.weights.iter().all(|w| w.rule == Some(Rule::decayed())));
    }

    #[test]
    fn every_power_has_a_mask_of_its_own() {
        // With one H for all powers on an operator of no edges, Ã = I, one mask for all would give multiples of one product.
        let (_, nodes, _) = testing::artifacts();
        let alone: Vec<Vec<f64>> =
            (0..nodes.len()).map(|i| (0..nodes.len()).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        let (operator, spectrum) = testing::normalised(&alone);
        let graph = testing::view_of((operator, nodes, spectrum), DType::F64);
        let [one, two] = [0, 1].map(|order| {
            let mut built = testing::build::<Gfir>(&Params { order, ..Params::default() }, &graph, 1);
            let shared = testing::normal(built.weights[0].param.tensor().dims(), 4);
            built.weights.iter().for_each(|w| w.param.set(&shared).unwrap());
            (built.train(&graph), built.eval(&graph))
        });
        assert!(testing::distance(&two.1, &(one.1 * 2.0).unwrap()) < 1e-12, "the sums are of one product");
        assert!(testing::distance(&two.0, &(one.0 * 2.0).unwrap()) > 1e-3, "the masks are not");
    }

    #[test]
    fn masks_on_weights_leave_the_evaluation_alone() {
        let graph = testing::view(DType::F64);
        let params = Params { order: 1, drops: Drops::Weights, ..Params::default() };
        let mut built = testing::build::<Gfir>(&params, &graph, 2);
        let alone = built.eval(&graph);
        let both = testing::forward(&*built.model, &graph, crate::models::ops::Sides::Both, &mut built.streams);
        assert_eq!(testing::distance(both.logits.eval().unwrap(), &alone), 0.0);
        assert!(testing::distance(both.logits.main(), &alone) > 1e-3);
    }

    #[test]
    fn more_weights_than_the_cap_allows_are_refused() {
        // 20 features, 3 classes: a PP-GNN of 8 hidden units has 20·8 + 8 + 8·3 + 3 = 195 weights, H_k has 60.
        let graph = work::tests::graph();
        let fits = |order, cap_hidden| Gfir::fits(&Params { order, cap_hidden, ..Params::default() }, &graph);
        assert!(fits(2, Some(8)).is_ok() && fits(50, None).is_ok() && fits(0, Some(1)).is_ok());
        let error = fits(3, Some(8)).unwrap_err();
        assert_eq!(error.to_string(), "`240` weights are more than the `195` of a PP-GNN with `8` hidden units");
        assert!(error.hint().unwrap().contains("`order`"));
        let unknown = GraphSizes { features: Size::guess(500.0), ..graph };
        assert!(Gfir::fits(&Params { order: 3, cap_hidden: Some(8), ..Params::default() }, &unknown).is_ok());
    }
}
