//! AdaGNN (Dong et al., "AdaGNN: Graph Neural Networks with Adaptive Frequency Response Filter", CIKM 2021): a filter of its own
//! for every feature.
//!
//! ```text
//! f(E; φ, W, b) = (E − L̃E ⊙ (1 + φ)) W + b             L̃ = I − Ã, φ: a number for every column of E
//! g(E; φ)       = E − L̃E ⊙ φ
//! E       = drop_p(ReLU(f₁(X)))                          nodes × hidden
//! E       ← drop_p(g_i(E))                               i = 1..N−2
//! logits  = f₂(E)
//! ```
//!
//! f is linear in E, so it is computed as Ã(E W₊) − E W_φ with W_φ = diag(φ) W and W₊ = W + W_φ: no product has more columns than W has,
//! and nothing of the size nodes × features is made; published code multiplies by an explicit diagonal matrix. At the start f₁ and
//! f₂ are convolutions of GCN up to noise (φ from N(0, 0.01²)) and g_i are identities (φ = 0). W and b are drawn from U(±1/√out). The
//! loss has a term l1 · Σ‖φ‖₁; everything is decayed. No dropout on the input.
//!
//! With `pretrained`, f₁ and f₂ start from the weights of another `train` of this model, wired to `pretrained`: published code
//! always trains two layers first. The symmetric operator is that of mode "s"; mode "r", by rows, is not there.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Linear, Names};
use super::ops::{AsTensor, Sided};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;
use crate::math::random::Stream;
use crate::optim::Rule;

/// Standard deviation of φ at the start, in layers with weights.
const NOISE: f64 = 0.01;

/// Parameters of `adagnn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Layers; all but two have a filter and no weights.
    #[schemars(range(min = 2, max = 1024))]
    pub layers: usize,
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Weight of Σ‖φ‖₁ in the training loss.
    #[schemars(range(min = 0.0))]
    pub l1: f64,
    /// Whether the first and the last layer start from the `train` that is wired to `pretrained`.
    pub pretrained: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { layers: 8, hidden: 128, dropout: 0.1, l1: 1e-6, pretrained: false }
    }
}

impl crate::contract::params::Params for Params {}

/// A layer with a filter for every column of its input.
struct Filtered {
    layer: Linear,
    /// lanes × inputs.
    phi: Param,
}

/// Layers with filters.
pub struct AdaGnn {
    first: Filtered,
    /// lanes × (layers − 2) × hidden; none if there are two layers.
    inner: Option<Param>,
    last: Filtered,
    dropout: f64,
    l1: f64,
}

impl Build for AdaGnn {
    const NAME: &'static str = "adagnn";
    const ABOUT: &'static str = "Layers with a trained filter of its own for every feature";
    const REFERENCE: &'static str = "Dong et al., \"AdaGNN\", CIKM 2021";
    const EQUATION: &'static str =
        "f(E) = (E − L̃E ⊙ (1 + φ)) W + b;  g(E) = E − L̃E ⊙ φ;  f₂(drop(g(… drop(ReLU(f₁(X))))))";
    const VERSION: u32 = 1;
    const NEEDS: &'static [&'static str] = &["pretrained"];
    const HIDDEN: &'static [&'static str] = &["hidden"];
    type Params = Params;

    fn needs(params: &Params) -> &'static [&'static str] {
        if params.pretrained { Self::NEEDS } else { &[] }
    }

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (inputs, hidden) = (graph.features.columns(), params.hidden);
        let first = Filtered::new(["first.weight", "first.bias", "first.phi"], [inputs, hidden], weights)?;
        let count = params.layers - 2;
        let zero = |_: &mut Stream| vec![0.0; count * hidden];
        let inner = (count > 0)
            .then(|| weights.add("inner.phi", Rule::decayed(), &[count, hidden], "init/phi", zero))
            .transpose()?;
        let last = Filtered::new(["last.weight", "last.bias", "last.phi"], [hidden, graph.classes], weights)?;
        if params.pretrained {
            weights.start_from_pretrained(&[
                "first.weight",
                "first.bias",
                "first.phi",
                "last.weight",
                "last.bias",
                "last.phi",
            ])?;
        }
        Ok(Self { first, inner, last, dropout: params.dropout, l1: params.l1 })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * (2 * params.hidden).max(graph.classes)
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (hidden, classes, inner) = (params.hidden, graph.classes, params.layers - 2);
        let mut work = ModelWork::on(graph)
            .features(hidden, 1)
            .features(hidden, 1)
            .hops(1, hidden)
            .propagated(hidden)
            .units(hidden);
        for _ in 0..inner {
            work = work.hops(1, hidden).units(hidden).units(hidden);
        }
        work.dense(hidden, classes).dense(hidden, classes).hops(1, classes)
    }
}

impl Filtered {
    fn new(
        [weight, bias, phi]: [&'static str; 3],
        [inputs, outputs]: [usize; 2],
        weights: &mut Weights,
    ) -> Result<Self> {
        let names = Names::new(weight, bias, "init/layers");
        let r = 1.0 / (outputs.max(1) as f64).sqrt();
        let layer = Linear::uniform(names, [inputs, outputs], r, weights)?;
        let noise = |stream: &mut Stream| (0..inputs).map(|_| NOISE * stream.normal()).collect();
        let phi = weights.add(phi, Rule::decayed(), &[inputs], "init/phi", noise)?;
        Ok(Self { layer, phi })
    }

    /// Returns W₊ and W_φ.
    fn weights(&self, x: &Input) -> Result<[Tensor; 2]> {
        let weight = x.weight(&self.layer.weight);
        let scaled = weight.scale_rows(&self.phi)?;
        Ok([weight.plus(&scaled)?.as_weight()?, scaled.as_weight()?])
    }

    /// Returns Ã Z₊ − Z_φ + b, for Z₊ = E W₊ and Z_φ = E W_φ.
    fn filtered(&self, graph: &GraphView, z: &Sided, of_phi: &Sided) -> Result<Sided> {
        z.propagate(&graph.operator)?.minus(of_phi)?.plus_bias(&self.layer.bias)
    }
}

impl Model for AdaGnn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let [plus, phi] = self.first.weights(x)?;
        let e = self.first.filtered(graph, &x.times(&plus)?, &x.times(&phi)?)?;
        let mut e = e.relu_dropout(pass.dropout(self.dropout, "dropout/hidden"))?;
        let inner = self.inner.as_ref().map(AsTensor::tensor);
        for layer in 0..inner.as_ref().map_or(0, |inner| inner.dims()[1]) {
            let Some(inner) = &inner else { break };
            let phi = inner.narrow(1, layer, 1)?.squeeze(1)?;
            e = e.towards(&e.propagate(&graph.operator)?, &phi)?;
            e = e.dropout(pass.dropout(self.dropout, "dropout/hidden"))?;
        }
        let [plus, phi] = self.last.weights(x)?;
        let logits = self.last.filtered(graph, &e.times(&plus)?, &e.times(&phi)?)?;
        Ok(Output::from(logits).with_hidden("hidden", &e).with_term(self.term()?))
    }
}

impl AdaGnn {
    /// l1 · Σ‖φ‖₁ of every lane.
    fn term(&self) -> Result<Option<Tensor>> {
        if self.l1 == 0.0 {
            return Ok(None);
        }
        let norm = |phi: &Param| phi.tensor().abs()?.flatten_from(1)?.sum(1);
        let mut sum = (norm(&self.first.phi)? + norm(&self.last.phi)?)?;
        if let Some(inner) = &self.inner {
            sum = (sum + norm(inner)?)?;
        }
        Ok(Some((sum * self.l1)?))
    }
}

#[cfg(test)]
mod tests;
