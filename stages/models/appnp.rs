//! APPNP (Gasteiger et al., "Predict then Propagate", ICLR 2019) in the form of the GPR-GNN repository.
//!
//! ```text
//! H       = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂          nodes × classes
//! Z⁰      = H,   Z^{k+1} = (1 − α) Ã Z^k + α H,   k = 0..K−1
//! logits  = Z^K = Σ_{k<K} α (1−α)^k Ã^k H + (1−α)^K Ã^K H
//! ```
//!
//! The sum is what is computed: GPR-GNN's polynomial with fixed coefficients. Propagation has no weights; both layers are
//! decayed. The original also drops entries of Ã, here as in that repository it does not.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Init, Perceptron, Scheme};
use super::ops::Basis;
use super::response::polynomial;
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::DropoutRate;

/// Parameters of `appnp`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Propagation steps.
    #[schemars(range(min = 0, max = 1000))]
    pub order: usize,
    /// Probability of a restart.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub alpha: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5, order: 10, alpha: 0.1 }
    }
}

impl crate::contract::params::Params for Params {}

impl Params {
    fn restart(&self) -> Init<'static> {
        Init { scheme: Scheme::Ppr, alpha: self.alpha, weights: None }
    }
}

/// A perceptron whose output is propagated by personalised PageRank.
pub struct Appnp {
    net: Perceptron,
    /// From degree 0 to `order`; the same for all lanes.
    coefficients: Tensor,
}

impl Build for Appnp {
    const NAME: &'static str = "appnp";
    const ABOUT: &'static str = "Perceptron propagated by personalised PageRank";
    const REFERENCE: &'static str = "Gasteiger et al., \"Predict then Propagate\", ICLR 2019";
    const EQUATION: &'static str = "Z ← (1 − α) Ã Z + α H, K times from Z = H = MLP(X)";
    const VERSION: u32 = 1;
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> =
        Some(|params, _, at| Level::of(polynomial(&params.restart().fixed(params.order), at.lambda)));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let net = Perceptron::new(graph, Some(params.hidden), params.dropout, weights)?;
        let coefficients = params.restart().fixed(params.order);
        Ok(Self { net, coefficients: weights.constant(&coefficients, &[1, params.order + 1])? })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, Some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        Perceptron::work(graph, Some(params.hidden), 1).hops(params.order, graph.classes)
    }
}

impl Model for Appnp {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let h = self.net.forward(x, pass)?;
        let coefficients = self.coefficients.repeat((h.lanes(), 1))?;
        let logits = h.polynomial(&graph.operator, Basis::Powers, &coefficients)?;
        Ok(Output::from(logits).with_hidden("network", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::testing;

    #[test]
    fn logits_are_those_of_the_recurrence() {
        let graph = testing::view(DType::F64);
        let operator = testing::dense_operator(&graph);
        for (order, alpha) in [(10, 0.1), (4, 0.5), (1, 0.9), (3, 0.0), (3, 1.0), (0, 0.3)] {
            let built = testing::build::<Appnp>(&Params { order, alpha, ..Params::default() }, &graph, 2);
            let logits = built.eval(&graph);
            let h = testing::evaluated(&graph, |x, pass| built.model.net.forward(x, pass), 2);
            for lane in 0..2 {
                let h = h.get(lane).unwrap();
                let step =
                    |z, _| ((operator.matmul(&z).unwrap() * (1.0 - alpha)).unwrap() + (&h * alpha).unwrap()).unwrap();
                let expected = (0..order).fold(h.clone(), step);
                assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12, "{order}, {alpha}");
            }
        }
    }
}
