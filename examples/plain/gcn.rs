//! GCN (Kipf and Welling, ICLR 2017): Ã drop(ReLU(Ã X W₁ + b₁)) W₂ + b₂.

use ppgnn::stages::candle_core::{Result, Tensor};
use ppgnn::stages::candle_nn::{Init, Linear, Module, VarBuilder};
use ppgnn::stages::contract::Crate;
use ppgnn::stages::contract::params::{DropoutRate, Params as Checked};
use ppgnn::stages::models::{Mode, PlainFeatures, PlainGraph, PlainModel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of `plain-gcn`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1))]
    pub hidden: usize,
    /// Share of hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5 }
    }
}

impl Checked for Params {}

/// Two convolutions, each with the dropout before it.
pub struct Gcn([(Linear, Tensor); 2], f64);

impl PlainModel for Gcn {
    const NAME: &'static str = "plain-gcn";
    const ABOUT: &'static str = "Two graph convolutions with dropout between them, in plain form";
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate { name: "plain", version: "0.1.0" };
    type Params = Params;

    fn build(params: &Params, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        let convolution = |inputs: usize, outputs: usize, vb: VarBuilder| -> Result<(Linear, Tensor)> {
            let r = (6.0 / (inputs + outputs) as f64).sqrt();
            let weight = vb.get_with_hints((outputs, inputs), "weight", Init::Uniform { lo: -r, up: r })?;
            Ok((Linear::new(weight, None), vb.get(outputs, "bias")?))
        };
        let first = convolution(graph.columns(), params.hidden, vb.pp("conv1"))?;
        Ok(Self([first, convolution(params.hidden, graph.classes(), vb.pp("conv2"))?], params.dropout))
    }

    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        let [(w1, b1), (w2, b2)] = &self.0;
        let hidden = graph.propagate(&x.linear(w1)?)?.broadcast_add(b1)?.relu()?;
        let hidden = mode.dropout(&hidden, self.1, "dropout/hidden")?;
        graph.propagate(&w2.forward(&hidden)?)?.broadcast_add(b2)
    }
}
