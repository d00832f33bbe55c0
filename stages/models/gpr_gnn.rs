//! GPR-GNN (Chien et al., "Adaptive Universal Generalized PageRank Graph Neural Network", ICLR 2021).
//!
//! ```text
//! H      = drop_p(ReLU(drop_p(X) W₁ + b₁)) W₂ + b₂          nodes × classes
//! logits = Σ_{k=0}^{K} γ_k Ã^k drop_dprate(H)               K products with classes columns
//! ```
//!
//! γ is trained and never decayed; both layers are decayed. `order` is K. The published code also offers an init `Null`
//! that it refuses itself, crashes on its `SGC`, and needs `WS` weights from Python; see the schemes in
//! [`Scheme`]. Its runs use lr 0.002 and choose the epoch of the smallest validation loss.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Init, Perceptron, Scheme};
use super::ops::Basis;
use super::response::polynomial;
use super::{Build, GraphSizes, GraphView, Input, Level, Model, ModelWork, Output, Param, Pass, Respond, Weights};
use crate::contract::StageError;
use crate::contract::params::{DropoutRate, Problem};

/// Parameters of `gpr-gnn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Share of the network's output dropped before propagation.
    #[schemars(with = "DropoutRate")]
    pub dprate: f64,
    /// Degree of the polynomial, which is the number of propagation steps.
    #[schemars(range(min = 0, max = 1000))]
    pub order: usize,
    /// How the coefficients start.
    pub init: Scheme,
    /// Parameter of the init: restart probability of `ppr`, base of `nppr`, power of `sgc`.
    pub alpha: f64,
    /// Starting coefficients of init `ws`, from degree 0 to `order`.
    pub weights: Option<Vec<f64>>,
}

impl Default for Params {
    fn default() -> Self {
        Self { hidden: 64, dropout: 0.5, dprate: 0.5, order: 10, init: Scheme::Ppr, alpha: 0.1, weights: None }
    }
}

impl Params {
    fn start(&self) -> Init<'_> {
        Init { scheme: self.init, alpha: self.alpha, weights: self.weights.as_deref() }
    }
}

impl crate::contract::params::Params for Params {
    fn check(&self) -> std::result::Result<(), Vec<Problem>> {
        let problems = self.start().check(self.order, "alpha", "weights");
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// A perceptron whose output is propagated by a trained polynomial.
pub struct GprGnn {
    net: Perceptron,
    /// lanes × (order + 1).
    gamma: Param,
    dprate: f64,
}

impl Build for GprGnn {
    const NAME: &'static str = "gpr-gnn";
    const ABOUT: &'static str = "Perceptron propagated by one trained polynomial of the operator";
    const REFERENCE: &'static str =
        "Chien et al., \"Adaptive Universal Generalized PageRank Graph Neural Network\", ICLR 2021";
    const EQUATION: &'static str = "Σ_k γ_k Ã^k drop(MLP(X))";
    const VERSION: u32 = 2;
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> =
        Some(|_, learned, at| Level::of(polynomial(&learned.values("gamma"), at.lambda)));
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let net = Perceptron::new(graph, Some(params.hidden), params.dropout, weights)?;
        let gamma = params.start().trained("gamma", &[params.order + 1], "init/gamma", weights)?;
        Ok(Self { net, gamma, dprate: params.dprate })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, Some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let net = Perceptron::work(graph, Some(params.hidden), 1);
        net.units(graph.classes).hops(params.order, graph.classes).trained(params.order + 1)
    }
}

impl Model for GprGnn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let h = self.net.forward(x, pass)?;
        let dropped = h.dropout(pass.dropout(self.dprate, "dropout/propagated"))?;
        let logits = dropped.polynomial(&graph.operator, Basis::Powers, &self.gamma)?;
        Ok(Output::from(logits).with_hidden("network", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::contract::params::Params as _;
    use crate::models::testing::{self, distance};
    use crate::models::{Appnp, Mlp};
    use crate::optim::Rule;

    #[test]
    fn ppr_coefficients_give_appnp() {
        let graph = testing::view(DType::F32);
        for (order, alpha) in [(10, 0.1), (4, 0.5), (1, 0.9)] {
            let ours = testing::build::<GprGnn>(&Params { order, alpha, ..Params::default() }, &graph, 2);
            let params = serde_json::from_value(serde_json::json!({"order": order, "alpha": alpha})).unwrap();
            // Streams are named by purpose, so both have the same network.
            let theirs = testing::build::<Appnp>(&params, &graph, 2);
            assert!(distance(&ours.eval(&graph), &theirs.eval(&graph)) < 1e-5);
        }
    }

    #[test]
    fn all_weight_on_degree_zero_gives_the_mlp() {
        let graph = testing::view(DType::F32);
        let params = Params { init: Scheme::Sgc, alpha: 0.0, dprate: 0.0, ..Params::default() };
        let mut ours = testing::build::<GprGnn>(&params, &graph, 2);
        let mut theirs = testing::build::<Mlp>(&Default::default(), &graph, 2);
        assert!(distance(&ours.eval(&graph), &theirs.eval(&graph)) < 1e-6);
        // Even the masks are the same.
        assert!(distance(&ours.train(&graph), &theirs.train(&graph)) < 1e-6);
    }

    #[test]
    fn coefficients_are_not_decayed() {
        let built = testing::build::<GprGnn>(&Params::default(), &testing::view(DType::F32), 1);
        let rules: Vec<_> = built.weights.iter().filter_map(|w| w.rule).collect();
        assert_eq!(rules, [[Rule::decayed(); 4].as_slice(), &[Rule::free()]].concat());
    }

    #[test]
    fn listed_weights_start_the_filter_and_must_fit() {
        let weights = vec![0.5, -1.0, 0.25];
        let params = Params { order: 2, init: Scheme::Ws, weights: Some(weights), ..Params::default() };
        assert!(params.check().is_ok());
        let built = testing::build::<GprGnn>(&params, &testing::view(DType::F64), 2);
        assert_eq!(built.weight("gamma").to_vec2::<f64>().unwrap(), [[0.5, -1.0, 0.25]; 2]);
        assert!(Params { order: 3, ..params }.check().is_err());
    }
}
