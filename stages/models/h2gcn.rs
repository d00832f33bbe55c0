//! H2GCN (Zhu et al., "Beyond Homophily in Graph Neural Networks", NeurIPS 2020): nodes, neighbours and nodes two hops away, kept apart.
//!
//! ```text
//! r₀     = σ(X W_e)                                nodes × d; σ: ReLU, or nothing with `relu: false`
//! r_k    = [Ā₁ r_{k−1} ; Ā₂ r_{k−1}]               nodes × 2^k d; no weights, no σ
//! logits = drop_p([r₁ ; r₀]) W_c                   `rounds: 1`, H2GCN-1; W_c: 3d × classes
//! logits = drop_p([r₂ ; r₀ ; r₁]) W_c              `rounds: 2`, H2GCN-2; W_c: 7d × classes
//! ```
//!
//! Ā₁ joins neighbours and Ā₂ nodes at distance exactly two, each normalised by its own degrees and without self-loops: `operator` is a
//! `normalize` with `self-loops: false`, and `second-operator` one with `hops: 2` besides. There are no biases, and nothing is dropped
//! but what the classifier reads. Both W are drawn from Glorot's uniform distribution and decayed. Published code adds c‖W‖² to the
//! loss (Keras), whose gradient is 2cW: its c = 5e-4 is `weight-decay: 0.001` here.
//!
//! The columns are never joined: [P₁ ; P₂ ; …] W_c is the sum of P_i times the rows of W_c that belong to it. Dropout is on the parts,
//! which all passes share below it, so with dropout they are made, by products with d columns; what is left of them is not kept. Without
//! dropout W_c comes first, since Ā (r W) = (Ā r) W, and products have as many columns as there are classes:
//!
//! ```text
//! logits = Z₀ + Ā₁(Z₁ + Ā₁ Z₁₁ + Ā₂ Z₁₂) + Ā₂(Z₂ + Ā₁ Z₂₁ + Ā₂ Z₂₂)      Z_w = r₀ times the rows of W_c for Ā_w r₀
//! ```

use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ops::{AsTensor, Propagator, Sided};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::params::DropoutRate;
use crate::contract::{Size, StageError};
use crate::math::csr::Csr;
use crate::optim::Rule;

/// Parameters of `h2gcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units of a node, before any round.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Rounds of propagation: 1 is H2GCN-1, 2 is H2GCN-2.
    #[schemars(range(min = 1, max = 2))]
    pub rounds: usize,
    /// Whether hidden units are rectified before they are propagated.
    pub relu: bool,
    /// Share of what the classifier reads that is dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, rounds: 2, relu: true, dropout: 0.5 }
    }
}

impl crate::contract::params::Params for Params {}

/// Parts of a node that the classifier reads: 3 or 7.
fn parts(rounds: usize) -> usize {
    (2 << rounds) - 1
}

/// Where the parts of a round begin among all: the last round stands first, then the others in order.
fn first_part(round: usize, rounds: usize) -> usize {
    if round == rounds { 0 } else { (1 << rounds) + (1 << round) - 1 }
}

/// An embedding, its rounds and a classifier.
pub struct H2gcn {
    /// W_e, lanes × features × d.
    embed: Param,
    /// W_c, lanes × (3d or 7d) × classes.
    classifier: Param,
    /// Ā₂.
    second: Arc<Propagator>,
    params: Params,
}

impl Build for H2gcn {
    const NAME: &'static str = "h2gcn";
    const ABOUT: &'static str = "Nodes, neighbours and nodes two hops away, kept apart up to the classifier";
    const REFERENCE: &'static str = "Zhu et al., \"Beyond Homophily in Graph Neural Networks\", NeurIPS 2020";
    const EQUATION: &'static str = "drop([r₂; r₀; r₁]) W_c,  r₀ = ReLU(X W_e),  r_k = [Ā₁ r_{k−1}; Ā₂ r_{k−1}]";
    const VERSION: u32 = 1;
    const NEEDS: &'static [&'static str] = &["second-operator"];
    const HIDDEN: &'static [&'static str] = &["hidden"];
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let slot = "second-operator";
        let second = graph.second_operator.clone().ok_or(StageError::MissingInput { slot })?;
        for (slot, operator) in [("operator", &graph.operator), (slot, &second)] {
            if let Some(node) = operator.first_loop() {
                return Err(has_loops(&format!("node `{node}` of `{slot}` has one")));
            }
        }
        if let Some((i, j)) = first_shared(graph.operator.matrix(), second.matrix()) {
            return Err(StageError::unusable(
                format!("`{slot}` of `h2gcn` joins the nodes `{i}` and `{j}`, which are neighbours"),
                format!("wire `{slot}` to a `normalize` of the same graph with `hops: 2` and `self-loops: false`"),
            ));
        }
        let (inputs, hidden) = (graph.features.columns(), params.hidden);
        let embed = weights.glorot("embed.weight", Rule::decayed(), [inputs, hidden], "init/embed")?;
        let joined = [parts(params.rounds) * hidden, graph.classes];
        let classifier = weights.glorot("classifier.weight", Rule::decayed(), joined, "init/classifier")?;
        Ok(Self { embed, classifier, second, params: params.clone() })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        let hidden = if params.dropout > 0.0 { 2 * params.hidden } else { params.hidden };
        graph.nodes * hidden.max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (hidden, parts) = (params.hidden, parts(params.rounds));
        let mut work = ModelWork::on(graph).features(hidden, 1).units(hidden);
        for _ in 0..parts {
            work = work.dense(hidden, graph.classes);
        }
        // Training and evaluation share every product with a graph, so it is made once there and once back, instead of three times.
        #[expect(clippy::cast_precision_loss, reason = "at most three")]
        let products = Size::from((parts / 2) as f64 * 2.0 / 3.0);
        match params.dropout > 0.0 {
            true => {
                let work = work.masked(parts * hidden).propagated(hidden);
                work.hops(products, hidden).second_hops(products, hidden)
            }
            false => work.hops(products, graph.classes).second_hops(products, graph.classes),
        }
    }

    fn fits(_: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        for (slot, loops) in [("operator", graph.loops), ("second-operator", graph.second_loops)] {
            if loops.is_some_and(|loops| loops > 0) {
                return Err(has_loops(&format!("`{slot}` has some")));
            }
        }
        Ok(())
    }
}

fn has_loops(which: &str) -> StageError {
    StageError::unusable(
        format!("`h2gcn` keeps a node apart from its neighbours and takes operators without self-loops, but {which}"),
        "set `self-loops: false` in the `normalize` stages that `operator` and `second-operator` of `train` are wired to",
    )
}

/// The first pair of nodes that both graphs join.
fn first_shared(near: &Csr, far: &Csr) -> Option<(usize, usize)> {
    let shared = |i: usize| near.row(i).0.iter().find(|j| far.get(i, **j as usize) != 0.0).map(|j| (i, *j as usize));
    (0..near.n()).find_map(shared)
}

impl Model for H2gcn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let z = x.times(&self.embed)?;
        let r = if self.params.relu { z.relu()? } else { z };
        let operators = [&graph.operator, &self.second];
        let logits = match self.params.dropout > 0.0 {
            true => self.classify_parts(&r, operators, pass)?,
            false => self.propagate_classes(&r, operators)?,
        };
        Ok(Output::from(logits).with_hidden("hidden", &r))
    }
}

impl H2gcn {
    /// The rows of W_c for a part of a round.
    fn rows(&self, round: usize, part: usize) -> Result<Tensor> {
        let Params { hidden, rounds, .. } = self.params;
        self.classifier.tensor().narrow(1, (first_part(round, rounds) + part) * hidden, hidden)?.contiguous()
    }

    /// Σ drop(P) W over all parts P.
    fn classify_parts(&self, r: &Sided, operators: [&Arc<Propagator>; 2], pass: &mut Pass) -> Result<Sided> {
        let mut parts = vec![r.clone()];
        let mut logits: Option<Sided> = None;
        for round in 0..=self.params.rounds {
            if round > 0 {
                let further = operators.into_iter().flat_map(|a| parts.iter().map(move |part| part.propagate(a)));
                parts = further.collect::<Result<_>>()?;
            }
            for (at, part) in parts.iter().enumerate() {
                let dropout = pass.dropout(self.params.dropout, "dropout/parts");
                let term = part.dropout_times(dropout, &self.rows(round, at)?)?;
                logits = Some(logits.map_or(Ok(term.clone()), |sum| sum.plus(&term))?);
            }
        }
        logits.ok_or_else(|| candle_core::Error::msg("a node has no parts"))
    }

    /// The same without dropout: the classes of the last round are propagated and join those of the round before.
    fn propagate_classes(&self, r: &Sided, [near, far]: [&Arc<Propagator>; 2]) -> Result<Sided> {
        let classes = |round: usize, at: usize| r.times(&self.rows(round, at)?);
        let rounds = self.params.rounds;
        let mut last = (0..1 << rounds).map(|at| classes(rounds, at)).collect::<Result<Vec<_>>>()?;
        for round in (0..rounds).rev() {
            let before = |(at, pair): (usize, &[Sided])| match pair {
                [one, two] => classes(round, at)?.plus(&one.propagate(near)?)?.plus(&two.propagate(far)?),
                _ => bail!("parts come in pairs"),
            };
            last = last.chunks(2).enumerate().map(before).collect::<Result<_>>()?;
        }
        last.pop().ok_or_else(|| candle_core::Error::msg("a node has no parts"))
    }
}

#[cfg(test)]
mod tests;
