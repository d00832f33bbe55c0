//! Geom-GCN (Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks", ICLR 2020): neighbours in the graph and in an embedding,
//! kept apart by the quadrant they lie in.
//!
//! ```text
//! H      = ReLU([S_1 drop_p(X) W_1 ; … ; S_9 drop_p(X) W_9])      nodes × 9 hidden; W_r: features × hidden
//! logits = 1/9 Σ_r S_r drop_p(H) V_r                              nodes × classes; V_r: 9 hidden × classes
//! ```
//!
//! The relations r are four quadrants of neighbours in the graph, four of neighbours in the embedding, and the node itself, as `relate`
//! reads them: (S_r)_ij = (d_i d_j)^{−1/2} if node i hears node j in relation r, with d_i the nodes that i hears in any. S_r is not symmetric. There
//! are no biases; what each layer reads is dropped once for all relations. Every W_r and V_r is drawn from Glorot's uniform distribution for
//! its own size, and decayed, the V_r by a rate of their own if one is given. The operator is not used.
//!
//! All W_r are one product with drop(X), and all S_r one sparse product of the same cost as a product with the whole graph
//! (`related.rs`). V_r comes before S_r, so that products with the graph have as many columns as there are classes. A relation that
//! no pair has (Chameleon has six and a node's own with Poincaré's embedding) gives zeros in the first layer and adds none in the second,
//! but counts in the mean: it is left out, with its weights.
//!
//! Published code has heads, independent copies that are joined, and runs with one, as here. It stops when neither validation
//! accuracy nor loss has improved for 100 epochs, lowers the learning rate where the loss stays, and reports the last epoch by mistake.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::related::Related;
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::optim::{Decay, Rule};

/// Parameters of `geom-gcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units of every relation.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Weight decay of the second layer; that of the run if left out.
    #[schemars(range(min = 0.0))]
    pub weight_decay_2: Option<f64>,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 48, dropout: 0.5, weight_decay_2: None }
    }
}

impl crate::contract::params::Params for Params {}

/// Two layers over related nodes.
pub struct GeomGcn {
    /// All W_r side by side, lanes × features × (parts · hidden).
    first: Param,
    /// All V_r side by side, lanes × (parts · hidden) × (parts · classes).
    second: Param,
    params: Params,
}

impl Build for GeomGcn {
    const NAME: &'static str = "geom-gcn";
    const ABOUT: &'static str = "Neighbours in the graph and in an embedding, kept apart by the quadrant they lie in";
    const REFERENCE: &'static str = "Pei et al., \"Geom-GCN: Geometric Graph Convolutional Networks\", ICLR 2020";
    const EQUATION: &'static str = "1/9 Σ_r S_r drop(H) V_r,  H = ReLU([S_1 drop(X) W_1; …; S_9 drop(X) W_9])";
    const VERSION: u32 = 1;
    const NEEDS: &'static [&'static str] = &["relations"];
    const HIDDEN: &'static [&'static str] = &["hidden"];
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let parts = related(graph).ok_or(StageError::MissingInput { slot: "relations" })?.parts;
        let decay = params.weight_decay_2.map_or(Decay::Shared, Decay::Own);
        let (features, hidden, joined, classes) =
            (graph.features.columns(), params.hidden, parts * params.hidden, graph.classes);
        // Glorot's bound for one relation.
        let bound = |inputs: usize, outputs: usize| (6.0 / (inputs + outputs) as f64).sqrt();
        let (shape, r) = ([features, joined], bound(features, hidden));
        let first = weights.uniform("layer1.weight", Rule::decayed(), &shape, "init/layer1", r)?;
        let (shape, r) = ([joined, parts * classes], bound(joined, classes));
        let second = weights.uniform("layer2.weight", Rule { decay, ..Rule::decayed() }, &shape, "init/layer2", r)?;
        Ok(Self { first, second, params: params.clone() })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        let parts = related(graph).map_or(1, |related| related.parts);
        graph.nodes * parts * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (hidden, parts) = (params.hidden, graph.relations);
        let work = ModelWork::on(graph).features(parts * hidden, 1).propagated(parts * hidden);
        work.related(hidden).dense(parts * hidden, parts * graph.classes).related(graph.classes)
    }
}

fn related(graph: &GraphView) -> Option<&Related> {
    graph.relations.as_ref()
}

impl Model for GeomGcn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let Self { first, second, params: Params { hidden, dropout, .. } } = self;
        let related = related(graph).ok_or_else(|| candle_core::Error::msg("a graph without relations"))?;
        let z = x.dropout_times(first, pass.dropout(*dropout, "dropout/features"))?.in_rows_of(*hidden)?;
        let h = z.propagate_relu_dropout(&related.apart, None, pass.dropout(*dropout, "dropout/hidden"))?;
        let h = h.in_rows_of(related.parts * hidden)?;
        let logits = h.times(second)?.in_rows_of(graph.classes)?.propagate(&related.mean)?;
        Ok(Output::from(logits).with_hidden("hidden", &h))
    }
}

#[cfg(test)]
mod tests;
