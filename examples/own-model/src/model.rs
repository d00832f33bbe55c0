//! A network that keeps what a node says apart from what its neighbours say:
//!
//! ```text
//! H      = drop(ReLU(drop(X) W₁ + b₁))                 nodes × hidden
//! logits = H W₂ + b₂ + Σ_{k=1}^{hops} Ã^k H V_k         nodes × classes
//! ```

use ppgnn::stages::candle_core::{Result, Tensor};
use ppgnn::stages::candle_nn::{Linear, Module, VarBuilder, linear, linear_no_bias};
use ppgnn::stages::contract::Crate;
use ppgnn::stages::contract::params::DropoutRate;
use ppgnn::stages::models::{Mode, PlainFeatures, PlainGraph, PlainModel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters as they stand in a pipeline: every field is checked, listed and part of the key.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    hidden: usize,
    /// How far a node hears.
    #[schemars(range(min = 0, max = 10))]
    hops: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 32, hops: 2, dropout: 0.5 }
    }
}

impl ppgnn::stages::contract::params::Params for Params {}

pub struct OwnModel {
    units: Linear,
    own: Linear,
    /// One layer for every hop.
    heard: Vec<Linear>,
    dropout: f64,
}

impl PlainModel for OwnModel {
    const NAME: &'static str = "own-model";
    const ABOUT: &'static str = "Hidden units of the node and of its neighbours, each hop with weights of its own";
    const EQUATION: &'static str = "H W₂ + b₂ + Σ_k Ã^k H V_k";
    // Raise it when the same inputs give other results: everything computed with it is computed again.
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
    type Params = Params;

    fn build(params: &Params, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        let (hidden, classes) = (params.hidden, graph.classes());
        let heard = (1..=params.hops).map(|k| linear_no_bias(hidden, classes, vb.pp(format!("hop{k}"))));
        Ok(Self {
            units: linear(graph.columns(), hidden, vb.pp("units"))?,
            own: linear(hidden, classes, vb.pp("own"))?,
            heard: heard.collect::<Result<_>>()?,
            dropout: params.dropout,
        })
    }

    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        let units = x.dropout(mode, self.dropout, "dropout/features")?.linear(&self.units)?.relu()?;
        let mut hop = mode.dropout(&units, self.dropout, "dropout/hidden")?;
        let mut logits = self.own.forward(&hop)?;
        for layer in &self.heard {
            hop = graph.propagate(&hop)?;
            logits = (logits + layer.forward(&hop)?)?;
        }
        Ok(logits)
    }
}
