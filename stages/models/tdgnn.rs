//! TDGNN (Wang and Derr, "Tree Decomposed Graph Neural Network", CIKM 2021): every hop of the neighbourhood with a weight of its own.
//!
//! ```text
//! H      = drop_{p₂}(ReLU(drop_{p₁}(X) W₁ + b₁)) W₂ + b₂         nodes × classes
//! logits = θ₀ H + Σ_{l ∈ hops} θ_l P_l H
//! ```
//!
//! P_l holds the entries of Σ_{k=1}^{T} Ã^k between nodes at distance l, and P_1 its diagonal as well; it is fixed and comes from the stage
//! `separate`. TDGNN-s has θ ≡ 1; TDGNN-w (`weighted`) trains θ from 1. Both layers and θ have a weight decay of their own
//! (`weight-decay-1`, `-2`, `-theta`), or that of the run. Published code takes WebKB graphs as directed ones; here all are
//! undirected, as in the PP-GNN paper.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Perceptron, Rates};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::StageError;
use crate::contract::params::{DropoutRate, Problem};
use crate::math::random::Stream;
use crate::optim::{Decay, Rule};

/// Parameters of `tdgnn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Hidden units.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Share of hidden units dropped in training; as `dropout` if left out.
    #[schemars(with = "Option<DropoutRate>")]
    pub dropout_hidden: Option<f64>,
    /// The hops that count, out of those that `separate` makes.
    pub hops: Vec<usize>,
    /// Whether the weight of every hop is trained.
    pub weighted: bool,
    /// Weight decay of the first layer; that of the run if left out.
    #[schemars(range(min = 0.0))]
    pub weight_decay_1: Option<f64>,
    /// Weight decay of the second layer; that of the run if left out.
    #[schemars(range(min = 0.0))]
    pub weight_decay_2: Option<f64>,
    /// Weight decay of θ; that of the run if left out.
    #[schemars(range(min = 0.0))]
    pub weight_decay_theta: Option<f64>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            hidden: 64,
            dropout: 0.5,
            dropout_hidden: None,
            hops: vec![1, 2, 3, 4],
            weighted: false,
            weight_decay_1: None,
            weight_decay_2: None,
            weight_decay_theta: None,
        }
    }
}

impl crate::contract::params::Params for Params {
    fn check(&self) -> std::result::Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if self.hops.is_empty() || self.hops.contains(&0) {
            problems.push(Problem::value("hops", "expected a list of hops from 1 on").with_help("such as `[1, 2]`"));
        }
        let mut sorted = self.hops.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            problems.push(Problem::value("hops", format!("hop `{}` is listed twice", twice[0])));
        }
        if self.weight_decay_theta.is_some() && !self.weighted {
            let what = "`weight-decay-theta` is read with `weighted: true` only";
            problems.push(Problem::name("weight-decay-theta", what));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// A perceptron summed over hops.
pub struct Tdgnn {
    net: Perceptron,
    /// lanes × (1 + hops); none where all are 1.
    theta: Option<Param>,
    /// As many ones.
    ones: Tensor,
    hops: Vec<usize>,
}

impl Build for Tdgnn {
    const NAME: &'static str = "tdgnn";
    const ABOUT: &'static str = "Perceptron summed over the hops of the neighbourhood, each with a weight of its own";
    const REFERENCE: &'static str = "Wang and Derr, \"Tree Decomposed Graph Neural Network\", CIKM 2021";
    const EQUATION: &'static str = "θ₀ H + Σ_l θ_l (Σ_k Ã^k ⊙ 1[dist = l]) H,  H = MLP(X)";
    const VERSION: u32 = 1;
    const NEEDS: &'static [&'static str] = &["hops"];
    const HIDDEN: &'static [&'static str] = &["network"];
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let hops = graph.hops.as_ref().ok_or(StageError::MissingInput { slot: "hops" })?;
        let there: Vec<usize> = hops.iter().map(|(hop, _)| *hop).collect();
        must_be_there(&params.hops, &there)?;
        let rates = Rates { features: params.dropout, hidden: params.dropout_hidden.unwrap_or(params.dropout) };
        let own = |decay: Option<f64>| Rule { decay: decay.map_or(Decay::Shared, Decay::Own), ..Rule::decayed() };
        let rules = [own(params.weight_decay_1), own(params.weight_decay_2)];
        let net = Perceptron::with_rules(graph, Some(params.hidden), rates, rules, weights)?;
        let count = 1 + params.hops.len();
        let one = |_: &mut Stream| vec![1.0; count];
        let theta = params
            .weighted
            .then(|| weights.add("theta", own(params.weight_decay_theta), &[count], "init/theta", one))
            .transpose()?;
        let ones = weights.constant(&vec![1.0; count], &[1, count])?;
        Ok(Self { net, theta, ones, hops: params.hops.clone() })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, Some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let work = Perceptron::work(graph, Some(params.hidden), 1).units(graph.classes);
        let work = work.hop_sum(&params.hops, graph.classes);
        if params.weighted { work.trained(1 + params.hops.len()) } else { work }
    }

    fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        let there = graph.hops.as_ref().map(|hops| hops.iter().map(|(hop, _)| *hop).collect::<Vec<_>>());
        there.filter(|there| !there.is_empty()).map_or(Ok(()), |there| must_be_there(&params.hops, &there))
    }
}

/// Refuses hops that `separate` has not made.
fn must_be_there(wanted: &[usize], there: &[usize]) -> std::result::Result<(), StageError> {
    match wanted.iter().find(|hop| !there.contains(hop)) {
        None => Ok(()),
        Some(hop) => Err(StageError::unusable(
            format!("hop `{hop}` is not among those that were separated, {there:?}"),
            "list it under `hops` of `separate`, or leave it out here",
        )),
    }
}

impl Model for Tdgnn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let h = self.net.forward(x, pass)?;
        let theta = match &self.theta {
            Some(theta) => super::ops::AsTensor::tensor(theta),
            None => self.ones.repeat((h.lanes(), 1))?,
        };
        let Some(all) = &graph.hops else { candle_core::bail!("there are no hops") };
        let operators: Vec<_> =
            self.hops.iter().filter_map(|hop| all.iter().find(|(l, _)| l == hop)).map(|(_, p)| p.clone()).collect();
        let logits = h.hop_sum(&operators, &theta)?;
        Ok(Output::from(logits).with_hidden("network", &h))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::ops::AsTensor;
    use crate::models::testing;

    #[test]
    fn all_hops_with_weight_one_are_the_sum_of_all_powers() {
        // Invariant: (I + Σ_{k=1}^{T} Ã^k) H, with T = 4 powers that reach at most distance 4.
        let graph = testing::view(DType::F64);
        let operator = testing::dense_operator(&graph);
        let hops = vec![1, 2, 3, 4];
        let built = testing::build::<Tdgnn>(&Params { hops, hidden: 5, ..Params::default() }, &graph, 2);
        assert_eq!(built.weights.len(), 4, "nothing but the network is trained");
        let h = testing::evaluated(&graph, |x, pass| built.model.net.forward(x, pass), 2);
        let logits = built.eval(&graph);
        for lane in 0..2 {
            let mut power = h.get(lane).unwrap();
            let mut sum = power.clone();
            for _ in 0..4 {
                power = operator.matmul(&power).unwrap();
                sum = (sum + &power).unwrap();
            }
            // Entries are stored in single precision.
            assert!(testing::distance(&logits.get(lane).unwrap(), &sum) < 1e-6);
        }
    }

    #[test]
    fn weights_of_hops_start_at_one_and_have_a_decay_of_their_own() {
        let graph = testing::view(DType::F64);
        let params =
            Params { weighted: true, weight_decay_2: Some(0.3), weight_decay_theta: Some(0.2), ..Params::default() };
        let built = testing::build::<Tdgnn>(&Params { hops: vec![2, 3], hidden: 5, ..params }, &graph, 2);
        assert_eq!(testing::flat(&built.weight("theta")), vec![1.0; 6]);
        let decay = |name: &str| built.weights.iter().find(|w| w.name == name).unwrap().rule.unwrap().decay;
        assert_eq!(decay("theta"), Decay::Own(0.2));
        assert_eq!((decay("lin1.weight"), decay("lin2.bias")), (Decay::Shared, Decay::Own(0.3)));
        let plain = testing::build::<Tdgnn>(&Params { hops: vec![2, 3], hidden: 5, ..Params::default() }, &graph, 2);
        for weight in &plain.weights {
            weight.param.set(&built.weight(&weight.name)).unwrap();
        }
        assert!(testing::distance(&built.eval(&graph), &plain.eval(&graph)) < 1e-12);
        assert_eq!(built.model.theta.as_ref().unwrap().tensor().dims(), [2, 3]);
    }

    #[test]
    fn hops_that_are_not_there_are_refused() {
        let graph = testing::view(DType::F64);
        let params = Params { hops: vec![1, 7], ..Params::default() };
        let mut streams = testing::streams(1);
        let mut weights = Weights::new(&mut streams, DType::F64, graph.device().clone());
        let error = Tdgnn::build(&params, &graph, &mut weights).err().unwrap();
        assert!(error.to_string().starts_with("hop `7` is not among"), "{error}");
        use crate::contract::params::Params as _;
        assert!(Params { hops: vec![], ..Params::default() }.check().is_err());
        assert!(Params { hops: vec![1, 2, 1], ..Params::default() }.check().is_err());
        assert!(Params { weight_decay_theta: Some(0.1), ..Params::default() }.check().is_err());
    }
}
