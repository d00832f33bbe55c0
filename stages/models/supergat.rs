//! SuperGAT (Kim and Oh, "How to Find Your Friendly Neighborhood", ICLR 2021): attention that also learns to tell edges from other pairs.
//!
//! ```text
//! Q        = drop_p(X) W₁                                       nodes × (f · heads); N'(i): neighbours of i, and i itself
//! s_ij     = ⟨q_i, q_j⟩                                          by head
//! MX: e_ij = (a · [q_i ; q_j]) σ(s_ij),  z_ij = mean_h s_ij      a ∈ R^{2f} by head
//! SD: e_ij = s_ij / √f,                  z_ij = mean_h e_ij
//! α_ij     = softmax over j ∈ N'(i) of LeakyReLU_0.2(e_ij)       by head
//! H        = ELU([Σ_j drop_p(α_ij) q_j of every head] + b₁)
//! logits   = mean over heads of the same of drop_p(H) W₂, f = classes, + b₂
//! loss     + λ_E Σ_layers mean BCE(z_ij, 1[(i, j) is an edge])   over ⌊p_e |E'|⌋ edges and ⌊p_n p_e |E'|⌋ pairs that are none
//! ```
//!
//! E' are the entries of the operator: it says who attends to whom, and must have every self-loop (`normalize` with `self-loops: true`,
//! its default); its values are not used. Edges and other pairs are ordered and drawn without replacement, anew for each layer in every
//! training pass; self-pairs are edges. Their logits see the features that dropout has left. With λ_E = 0 nothing is drawn.
//!
//! W and a are drawn from Glorot's uniform distribution, a as a matrix of heads × 2f; biases start at 0; all are decayed. In columns of W and
//! rows of a, the values of a feature stand beside each other, one per head. Where published code gathers a row of 2f values for every
//! edge and head, a · [q_i ; q_j] is a sum of two numbers per node, and nothing is larger than edges × heads.

use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ops::{AsTensor, Links, Merge, Sided};
use super::{Build, Dropout, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::{DropoutRate, Problem};
use crate::math::pairs::{count_others, some_edges, some_others};
use crate::optim::Rule;

/// How scores of attention are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Mixed: a trained score of both nodes, times the probability of an edge between them.
    #[default]
    Mx,
    /// Scaled dot product: how alike both nodes are.
    Sd,
}

/// Parameters of `supergat`. Defaults are the settings that were published for Cora.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// How scores of attention are made.
    pub kind: Kind,
    /// Hidden units per head.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Heads of the first layer, which stand side by side.
    #[schemars(range(min = 1, max = 1024))]
    pub heads: usize,
    /// Heads of the second layer, which are averaged.
    #[schemars(range(min = 1, max = 1024))]
    pub out_heads: usize,
    /// Share of features, hidden units and weights of attention dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Weight of the loss on edges, λ_E; 0 leaves it out.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub edge_loss: f64,
    /// Share of the edges that every layer learns from in an epoch, p_e.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub edges: f64,
    /// Pairs without an edge for each of them, p_n.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub negatives: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            kind: Kind::Mx,
            hidden: 8,
            heads: 8,
            out_heads: 8,
            dropout: 0.6,
            edge_loss: 11.347,
            edges: 0.8,
            negatives: 0.5,
        }
    }
}

/// The most hidden units that a model may have, all heads together.
const MOST: usize = 1 << 16;

impl crate::contract::params::Params for Params {
    fn check(&self) -> std::result::Result<(), Vec<Problem>> {
        let units = self.hidden.saturating_mul(self.heads);
        if units <= MOST {
            return Ok(());
        }
        let what = format!(
            "`{}` heads of `{}` hidden units are `{units}`, expected at most `{MOST}`",
            self.heads, self.hidden
        );
        Err(vec![
            Problem::value("heads", what)
                .with_help("`hidden` counts the units of one head; published settings have 8 of 8"),
        ])
    }
}

impl Params {
    /// Edges and other pairs that a layer draws, out of this many entries.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count is a count")]
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 entries")]
    fn drawn(&self, entries: usize) -> [usize; 2] {
        [self.edges * entries as f64, self.negatives * self.edges * entries as f64].map(|count| count.floor() as usize)
    }

    /// Refuses a graph without edges, and more pairs than there are.
    fn fit(&self, nodes: usize, entries: usize) -> std::result::Result<(), StageError> {
        if entries <= nodes {
            return Err(StageError::unusable(
                format!("`supergat` attends along edges, but the graph of `{nodes}` nodes has none"),
                "use a model without a graph, such as `mlp`",
            ));
        }
        let ([edges, others], there) = (self.drawn(entries), count_others(nodes, entries));
        if self.edge_loss == 0.0 || (edges > 0 && others as u64 <= there) {
            return Ok(());
        }
        let Self { edges: share, negatives, .. } = self;
        Err(match edges {
            0 => StageError::unusable(
                format!("the loss on edges has none: `edges: {share}` of `{entries}` edges, self-loops included"),
                "raise `edges`, or set `edge-loss: 0`",
            ),
            _ => StageError::unusable(
                format!(
                    "`supergat` would draw `{others}` pairs without an edge (`negatives: {negatives}` × `edges: {share}` × `{entries}` \
                     edges), but a graph of `{nodes}` nodes has `{there}`"
                ),
                "lower `negatives` or `edges`, or set `edge-loss: 0`",
            ),
        })
    }
}

fn lacks_loops(which: &str) -> StageError {
    StageError::unusable(
        format!("in `supergat` every node attends to itself, too: its operator needs all self-loops, but {which}"),
        "set `self-loops: true` in the `normalize` that `train` is wired to",
    )
}

/// A layer of attention.
struct Layer {
    /// W, lanes × inputs × (f · heads).
    weight: Param,
    /// a, lanes × 2f × heads; for MX.
    vectors: Option<Param>,
    /// b, lanes × columns of the result.
    bias: Param,
    heads: usize,
    /// c of z = c ⟨q_i, q_j⟩, all heads together.
    link_scale: f64,
}

/// What a layer is called: weights, and the streams of its initial weights, edges and other pairs.
struct Names {
    weight: &'static str,
    vectors: &'static str,
    bias: &'static str,
    init: &'static str,
    links: [&'static str; 2],
}

const FIRST: Names = Names {
    weight: "conv1.weight",
    vectors: "conv1.attention",
    bias: "conv1.bias",
    init: "init/conv1",
    links: ["links/edges1", "links/others1"],
};
const LAST: Names = Names {
    weight: "conv2.weight",
    vectors: "conv2.attention",
    bias: "conv2.bias",
    init: "init/conv2",
    links: ["links/edges2", "links/others2"],
};

impl Layer {
    /// `sizes`: inputs, features per head, heads, columns of the result.
    fn new(names: &Names, kind: Kind, sizes: [usize; 4], weights: &mut Weights) -> Result<Self> {
        let ([inputs, features, heads, outputs], rule) = (sizes, Rule::decayed());
        let weight = weights.glorot(names.weight, rule, [inputs, features * heads], names.init)?;
        #[expect(clippy::cast_precision_loss, reason = "counts of units")]
        let (r, f, h) = ((6.0 / (heads + 2 * features) as f64).sqrt(), features as f64, heads as f64);
        let vectors = match kind {
            Kind::Mx => Some(weights.uniform(names.vectors, rule, &[2 * features, heads], names.init, r)?),
            Kind::Sd => None,
        };
        let bias = weights.add(names.bias, rule, &[outputs], names.init, |_| vec![0.0; outputs])?;
        let link_scale = if kind == Kind::Mx { 1.0 / h } else { 1.0 / (h * f.sqrt()) };
        Ok(Self { weight, vectors, bias, heads, link_scale })
    }

    /// Attention of Q, before the bias.
    fn attend(&self, q: &Sided, graph: &GraphView, merge: Merge, dropout: Dropout) -> Result<Sided> {
        let vectors = self.vectors.as_ref().map(|vectors| vectors as &dyn AsTensor);
        q.attend(&graph.operator, self.heads, vectors, merge, dropout)
    }
}

/// Two layers of attention.
pub struct SuperGat {
    first: Layer,
    last: Layer,
    params: Params,
}

impl Build for SuperGat {
    const NAME: &'static str = "supergat";
    const ABOUT: &'static str = "Attention of several heads that also learns to tell edges from other pairs";
    const REFERENCE: &'static str = "Kim and Oh, \"How to Find Your Friendly Neighborhood: Graph Attention Design with Self-Supervision\", ICLR 2021";
    const EQUATION: &'static str =
        "mean_h Σ_j drop(α_ij) q_j + b₂ of Q = drop(H) W₂,  H = ELU([Σ_j drop(α_ij) q_j] + b₁) of Q = drop(X) W₁";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["hidden"];
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        if let Some(node) = graph.operator.first_without_loop() {
            return Err(lacks_loops(&format!("node `{node}` has none")));
        }
        params.fit(graph.nodes, graph.operator.matrix().indices.len())?;
        let Params { kind, hidden, heads, out_heads, .. } = *params;
        let units = hidden * heads;
        let first = Layer::new(&FIRST, kind, [graph.features.columns(), hidden, heads, units], weights)?;
        let last = Layer::new(&LAST, kind, [units, graph.classes, out_heads, graph.classes], weights)?;
        Ok(Self { first, last, params: params.clone() })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        let columns = (params.hidden * params.heads).max(graph.classes * params.out_heads);
        let entries = graph.operator.matrix().indices.len();
        (2 * graph.nodes * columns).max(entries * params.heads.max(params.out_heads))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (units, outputs) = (params.hidden * params.heads, graph.classes * params.out_heads);
        let links = |work: ModelWork, columns| match params.edge_loss {
            0.0 => work,
            _ => work.links(params.edges * (1.0 + params.negatives), columns),
        };
        let work = links(ModelWork::on(graph).features(units, 1), units.into());
        let work = work.attention(units, params.heads).units(units).masked(units);
        links(work.dense(units, outputs), outputs).attention(outputs, params.out_heads)
    }

    fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        let (Some(nodes), Some(loops)) = (graph.nodes.known(), graph.loops) else { return Ok(()) };
        if loops < nodes {
            return Err(lacks_loops(&format!("`{loops}` of `{nodes}` nodes have one")));
        }
        graph.entries.known().map_or(Ok(()), |entries| params.fit(nodes, entries))
    }
}

impl Model for SuperGat {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let (Self { first, last, .. }, p) = (self, self.params.dropout);
        let q = x.dropout_times(&first.weight, pass.dropout(p, "dropout/features"))?;
        let of_first = self.link_loss(&q, first, &FIRST, graph, pass)?;
        let h = first.attend(&q, graph, Merge::Join, pass.dropout(p, "dropout/attention"))?.bias_elu(&first.bias)?;
        let q = h.dropout_times(pass.dropout(p, "dropout/hidden"), &last.weight)?;
        let of_last = self.link_loss(&q, last, &LAST, graph, pass)?;
        let sums = last.attend(&q, graph, Merge::Mean, pass.dropout(p, "dropout/attention"))?;
        let term: Option<Tensor> = match (of_first, of_last) {
            (Some(first), Some(last)) => Some(first.plus(&last)?.main().clone()),
            _ => None,
        };
        Ok(Output::from(sums.plus_bias(&last.bias)?).with_term(term).with_hidden("hidden", &h))
    }
}

impl SuperGat {
    /// λ_E times the loss of a layer on edges and other pairs, drawn for every lane; nothing if it does not count.
    fn link_loss(
        &self,
        q: &Sided,
        of: &Layer,
        names: &Names,
        graph: &GraphView,
        pass: &mut Pass,
    ) -> Result<Option<Sided>> {
        let weight = self.params.edge_loss;
        if !pass.trains() || weight == 0.0 {
            return Ok(None);
        }
        let (matrix, [for_edges, for_others]) = (graph.operator.matrix(), names.links);
        let [edges, others] = self.params.drawn(matrix.indices.len());
        let links = pass.draw(|lane| {
            let edges = some_edges(matrix, edges, lane.open(for_edges))?;
            Some(Links { edges, others: some_others(matrix, others, lane.open(for_others))? })
        });
        let Some(links) = links.into_iter().collect::<Option<Vec<_>>>() else {
            bail!("a graph of {} entries has fewer than {edges} edges, or {others} other pairs", matrix.indices.len());
        };
        q.link_loss(Arc::new(links), of.link_scale, weight).map(Some)
    }
}

#[cfg(test)]
mod tests;
