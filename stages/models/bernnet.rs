//! BernNet (He et al., "Learning Arbitrary Graph Spectral Filters via Bernstein Approximation", NeurIPS 2021).
//!
//! ```text
//! H      = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂                                nodes × classes
//! logits = Σ_{k=0}^{K} ReLU(t_k) 2^{−K} C(K, k) (2I − L)^{K−k} L^k drop_dprate(H),   L = I − Â₀
//! ```
//!
//! The operator is Â₀, without self-loops (`normalize` with `self-loops: false`). t starts at 1, which makes the filter
//! the identity; it has a learning rate of its own and no decay. The published code takes K + K(K+1)/2 products; here it
//! is K, see [`to_chebyshev`].

use candle_core::{DType, Device, Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Perceptron, to_chebyshev};
use super::ops::{self, Basis, Wide};
use super::{Build, GraphView, Model, Param, Pass, Weights};
use crate::contract::StageError;
use crate::optim::{Decay, Rate, Rule};

/// Parameters of `bernnet`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Share of the network's output dropped before propagation.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dprate: f64,
    /// Order of the Bernstein polynomials, which is the number of propagation steps.
    #[schemars(range(min = 0, max = 200))]
    pub order: usize,
    /// Learning rate of the filter's coefficients.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0.0))]
    pub bern_lr: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5, dprate: 0.5, order: 10, bern_lr: 0.01 }
    }
}

impl crate::params::Params for Params {}

/// A perceptron filtered by a non-negative combination of Bernstein polynomials.
pub struct BernNet {
    net: Perceptron,
    /// t, lanes × (order + 1).
    theta: Param,
    /// Chebyshev coefficients of every Bernstein polynomial, (order + 1) × (order + 1), in double precision.
    bernstein: Tensor,
    dprate: f64,
}

impl Build for BernNet {
    const NAME: &'static str = "bernnet";
    const ABOUT: &'static str = "Perceptron filtered by trained Bernstein polynomials of the Laplacian";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        if let Some(node) = graph.operator.first_loop() {
            return Err(StageError::unusable(
                format!(
                    "`bernnet` filters with the Laplacian of a graph without self-loops, but node `{node}` has one"
                ),
                "set `self-loops: false` in the `normalize` that `train` is wired to",
            ));
        }
        let net = Perceptron::new(graph, Some(params.hidden), params.dropout, weights)?;
        let rule = Rule { rate: Rate::Own(params.bern_lr), decay: Decay::Off };
        let count = params.order + 1;
        let theta = weights.add("theta", rule, &[count], "init/theta", |_| vec![1.0; count])?;
        let bernstein = Tensor::from_vec(to_chebyshev(params.order).concat(), (count, count), &Device::Cpu)?;
        Ok(Self { net, theta, bernstein: bernstein.to_device(weights.device())?, dprate: params.dprate })
    }
}

impl Model for BernNet {
    fn forward(&self, graph: &GraphView, pass: &mut Pass) -> Result<Wide> {
        let h = self.net.forward(graph, pass)?;
        let h = pass.drop(&h, self.dprate, "dropout/propagated")?;
        // A few numbers, in double precision: large terms of opposite signs may meet here.
        let coefficients = self.theta.tensor().relu()?.to_dtype(DType::F64)?.matmul(&self.bernstein)?;
        ops::polynomial(&graph.operator, Basis::Chebyshev, &coefficients.to_dtype(graph.dtype())?, &h)
    }
}
