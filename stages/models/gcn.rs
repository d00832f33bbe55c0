//! GCN (Kipf and Welling) in the form of the GPR-GNN repository, which the paper's main tables use.
//!
//! ```text
//! H      = ReLU(Ã X W₁ + b₁)              nodes × hidden
//! logits = Ã drop_p(H) W₂ + b₂            nodes × classes
//! ```
//!
//! Weights meet features first, then the graph. Dropout stands between the layers only, none on the input, so training
//! and evaluation share everything below it. W is drawn from Glorot's uniform distribution, U(±√(6/(in + out))), biases
//! start at 0; both are decayed. Kipf's own code has no biases, dropout on the input too, and decays W₁ alone.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ops::{self, LayerWeights, Wide};
use super::{Build, GraphView, Model, Param, Pass, Weights};
use crate::contract::StageError;
use crate::optim::Rule;

/// Parameters of `gcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of hidden units dropped in training.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5 }
    }
}

impl crate::params::Params for Params {}

/// Two convolutions.
pub struct Gcn {
    first: Convolution,
    second: Convolution,
    dropout: f64,
}

/// Ã X W + b.
struct Convolution {
    /// lanes × in × out.
    weight: Param,
    /// lanes × out.
    bias: Param,
}

impl Build for Gcn {
    const NAME: &'static str = "gcn";
    const ABOUT: &'static str = "Two graph convolutions with dropout between them";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let mut convolution = |names: [&'static str; 3], inputs: usize, outputs: usize| -> Result<Convolution> {
            let r = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
            let weight = weights.uniform(names[0], Rule::decayed(), &[inputs, outputs], names[2], r)?;
            let bias = weights.add(names[1], Rule::decayed(), &[outputs], names[2], |_| vec![0.0; outputs])?;
            Ok(Convolution { weight, bias })
        };
        let first = convolution(["conv1.weight", "conv1.bias", "init/conv1"], graph.features.columns(), params.hidden)?;
        let second = convolution(["conv2.weight", "conv2.bias", "init/conv2"], params.hidden, graph.classes)?;
        Ok(Self { first, second, dropout: params.dropout })
    }
}

impl Model for Gcn {
    fn forward(&self, graph: &GraphView, pass: &mut Pass) -> Result<Wide> {
        let xw = pass.layer(&graph.features, LayerWeights { weight: self.first.weight.tensor(), bias: None }, None)?;
        let h = ops::shift(&ops::propagate(&graph.operator, &xw)?, &self.first.bias.tensor())?;
        let h = pass.rectify(&h, self.dropout, "dropout/hidden")?;
        let hw = ops::product(&h, &self.second.weight.tensor())?;
        ops::shift(&ops::propagate(&graph.operator, &hw)?, &self.second.bias.tensor())
    }
}
