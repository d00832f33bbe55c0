//! GPR-GNN (Chien et al., ICLR 2021): Σ_k γ_k Ã^k drop(MLP(X)), with γ as personalised PageRank starts.

use ppgnn::stages::candle_core::{Result, Tensor};
use ppgnn::stages::candle_nn::{Init, Linear, Module, VarBuilder, linear};
use ppgnn::stages::models::{Mode, PlainFeatures, PlainGraph, PlainModel};
use ppgnn::stages::{contract::Crate, optim::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `plain-gpr-gnn`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Degree of the polynomial.
    pub order: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self { order: 10 }
    }
}
impl ppgnn::stages::contract::params::Params for Params {}

/// A perceptron of 64 hidden units, and the coefficients by degree.
pub struct GprGnn([Linear; 2], Vec<Tensor>);

impl PlainModel for GprGnn {
    const NAME: &'static str = "plain-gpr-gnn";
    const ABOUT: &'static str = "Perceptron propagated by one trained polynomial, in plain form";
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate { name: "plain", version: "0.1.0" };
    type Params = Params;

    fn build(params: &Params, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        let layers = [linear(graph.columns(), 64, vb.pp("lin1"))?, linear(64, graph.classes(), vb.pp("lin2"))?];
        let gamma = |k: usize| {
            let start = 0.9f64.powf(k as f64) * if k < params.order { 0.1 } else { 1.0 };
            vb.get_with_hints(1, &format!("gamma.{k}"), Init::Const(start))
        };
        Ok(Self(layers, (0..=params.order).map(gamma).collect::<Result<_>>()?))
    }

    fn rule(_: &Params, weight: &str) -> Rule {
        if weight.starts_with("gamma") { Rule::free() } else { Rule::decayed() }
    }

    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        let hidden = x.dropout(mode, 0.5, "dropout/features")?.linear(&self.0[0])?.relu()?;
        let hidden = self.0[1].forward(&mode.dropout(&hidden, 0.5, "dropout/hidden")?)?;
        let mut hop = mode.dropout(&hidden, 0.5, "dropout/propagated")?;
        let mut sum = hop.broadcast_mul(&self.1[0])?;
        for gamma in &self.1[1..] {
            hop = graph.propagate(&hop)?;
            sum = (sum + hop.broadcast_mul(gamma)?)?;
        }
        Ok(sum)
    }
}
