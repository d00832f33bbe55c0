//! FAGCN (Bo et al., "Beyond Low-frequency Information in Graph Convolutional Networks", AAAI 2021): neighbours are added or
//! subtracted, by a trained gate for every edge.
//!
//! ```text
//! H⁰     = drop_p(ReLU(drop_p(X) T₁ + c₁))                                       nodes × hidden
//! α_ij   = tanh(g_l · [h_i^{l−1} ; h_j^{l−1}] + c_l)                              i: target, j: source
//! h_i^l  = ε h_i⁰ + Σ_{j ∈ N(i)} drop_p(α_ij d_i^{−1/2} d_j^{−1/2}) h_j^{l−1}     l = 1..L
//! logits = H^L T₂ + c₂                                                           nodes × classes
//! ```
//!
//! Gates lie between −1 and 1: there is no softmax, and a negative one subtracts. The operator is Â₀, without self-loops (`normalize` with
//! `self-loops: false`); ε carries a node's own signal. H⁰ is what dropout has left, the same in every layer. Dropout on edges comes
//! after the factors of the degrees. T₁, T₂ and g are drawn from N(0, 1.414² · 2/(in + out)), biases from U(±1/√in); all are decayed.
//!
//! g · [h_i ; h_j] is the sum of two products with H, two numbers per node. Published code makes a row of 2 · hidden for every edge.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Linear, Names};
use super::ops::AsTensor;
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::math::random::Stream;
use crate::optim::Rule;

const FIRST: Names = Names::new("t1.weight", "t1.bias", "init/t1");
const LAST: Names = Names::new("t2.weight", "t2.bias", "init/t2");

/// What weights are larger by than Xavier's: √2 as published code rounds it.
const GAIN: f64 = 1.414;

/// Parameters of `fagcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Sums over neighbours, each with a gate of its own.
    #[schemars(range(min = 1, max = 1024))]
    pub layers: usize,
    /// Weight of a node's own hidden units in every layer, ε.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub epsilon: f64,
    /// Share of features, hidden units and edges dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 32, layers: 2, epsilon: 0.3, dropout: 0.5 }
    }
}

impl crate::contract::params::Params for Params {}

/// Sums over neighbours with gates.
pub struct Fagcn {
    first: Linear,
    /// Of every layer, (2 · hidden) × 1: the part of the target, then that of the source.
    gates: Vec<Linear>,
    last: Linear,
    epsilon: f64,
    dropout: f64,
}

impl Build for Fagcn {
    const NAME: &'static str = "fagcn";
    const ABOUT: &'static str = "Neighbours added or subtracted by a trained gate for every edge";
    const REFERENCE: &'static str =
        "Bo et al., \"Beyond Low-frequency Information in Graph Convolutional Networks\", AAAI 2021";
    const EQUATION: &'static str = "H T₂ + c₂;  h_i ← ε h⁰_i + Σ_j drop(tanh(g·[h_i ; h_j] + c) (Â₀)_ij) h_j, L times from H⁰ = drop(ReLU(drop(X) T₁ + c₁))";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["hidden"];
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        if let Some(node) = graph.operator.first_loop() {
            return Err(has_loops(&format!("node `{node}` has one")));
        }
        let Params { hidden, layers, epsilon, dropout } = *params;
        let first = drawn(FIRST, [graph.features.columns(), hidden], weights)?;
        let gate = |l| drawn(Names::numbered("gate", l, "init/gates"), [2 * hidden, 1], weights);
        let gates = (1..=layers).map(gate).collect::<Result<_>>()?;
        let last = drawn(LAST, [hidden, graph.classes], weights)?;
        Ok(Self { first, gates, last, epsilon, dropout })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let hidden = params.hidden;
        let work = ModelWork::on(graph).features(hidden, 1).units(hidden).propagated(hidden);
        let layer = |work: ModelWork, _| work.dense(hidden, 2).gated_sum(hidden);
        (0..params.layers).fold(work, layer).dense(hidden, graph.classes)
    }

    fn fits(_: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        if graph.loops.is_some_and(|loops| loops > 0) { Err(has_loops("the operator has some")) } else { Ok(()) }
    }
}

/// Draws W from N(0, gain² · 2/(in + out)) and b from U(±1/√in).
fn drawn(names: Names, [inputs, outputs]: [usize; 2], weights: &mut Weights) -> Result<Linear> {
    let deviation = GAIN * (2.0 / (inputs + outputs).max(1) as f64).sqrt();
    let normal = |stream: &mut Stream| (0..inputs * outputs).map(|_| deviation * stream.normal()).collect();
    let weight = weights.add(names.weight, Rule::decayed(), &[inputs, outputs], names.stream, normal)?;
    let r = 1.0 / (inputs.max(1) as f64).sqrt();
    let bias = weights.uniform(names.bias, Rule::decayed(), &[outputs], names.stream, r)?;
    Ok(Linear { weight, bias })
}

fn has_loops(which: &str) -> StageError {
    StageError::unusable(
        format!("`fagcn` sums over the neighbours of a graph without self-loops, but {which}"),
        "set `self-loops: false` in the `normalize` that `train` is wired to",
    )
}

impl Model for Fagcn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let Self { first, gates, last, epsilon, dropout } = self;
        let h = x.layer(first, pass.dropout(*dropout, "dropout/features"))?;
        let start = h.relu_dropout(pass.dropout(*dropout, "dropout/hidden"))?;
        let mut h = start.clone();
        for gate in gates {
            let scores = h.times(&halves(gate)?)?;
            let on_edges = pass.dropout(*dropout, "dropout/edges");
            h = h.gated_sum(&graph.operator, &scores, &gate.bias, (&start, *epsilon), on_edges)?;
        }
        let logits = h.times(&last.weight)?.plus_bias(&last.bias)?;
        Ok(Output::from(logits).with_hidden("hidden", &h))
    }
}

/// Returns both halves of g side by side: lanes × hidden × 2.
fn halves(gate: &Linear) -> Result<Tensor> {
    let weight = gate.weight.tensor();
    let (lanes, inputs, _) = weight.dims3()?;
    weight.reshape((lanes, 2, inputs / 2))?.transpose(1, 2)?.contiguous()
}

#[cfg(test)]
mod tests;
