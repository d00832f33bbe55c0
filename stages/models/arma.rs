//! ARMA (Bianchi et al., "Graph Neural Networks with Convolutional ARMA Filters", 2021) with one convolution from features to
//! classes, as the PP-GNN paper uses PyTorch Geometric's layer.
//!
//! ```text
//! Y_s⁰     = X
//! Y_s^{t+1} = σ(S Y_s^t W_{s,t} + drop_p(X) V_{s,t} + b_{s,t})       t = 0..T−1, for every stack s
//! logits   = mean over s of Y_s^T
//! ```
//!
//! W_{s,0} and V: features × classes, W_{s,t}: classes × classes, b: classes. σ is ReLU, in the last step too unless
//! `last-activation: identity`: the layer's default, so that logits are not negative; PyTorch Geometric's example turns it off. W and V
//! are drawn from Glorot's uniform distribution, b starts at 0; all are decayed. Dropout is on the skip branch alone, with one
//! mask for every t, shared by the stacks. With `shared-weights`, W (but for t = 0), V and b are the same for all t.
//!
//! The layer adds no self-loops to S. The paper's graphs contain them, so S is Ã by default here; `normalize.self-loops: false` is the
//! ARMA paper's. `cap-hidden` refuses more weights than a PP-GNN of so many hidden units has, as the paper does; one stack of
//! depth 1 is always allowed. PyTorch Geometric holds W_{s,1} even where depth 1 does not use it; it does not exist here and does not
//! count.
//!
//! Stacks stand side by side, or are lanes of their own, until they are averaged.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::within_cap;
use super::ops::{AsTensor, Stacks};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Weights};
use crate::contract::params::DropoutRate;
use crate::contract::{Size, StageError};
use crate::math::random::Stream;
use crate::optim::Rule;

/// What follows the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// Nothing.
    Identity,
}

/// Parameters of `arma`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Filters whose outputs are averaged.
    #[schemars(range(min = 1, max = 100))]
    pub stacks: usize,
    /// Steps of the recursion.
    #[schemars(range(min = 1, max = 100))]
    pub depth: usize,
    /// Share of features dropped on the skip branch in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Whether all steps share their weights.
    pub shared_weights: bool,
    /// What follows the last step.
    pub last_activation: Activation,
    /// Refuse more weights than a PP-GNN of this many hidden units has.
    #[schemars(range(min = 1, max = 65536))]
    pub cap_hidden: Option<usize>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            stacks: 1,
            depth: 1,
            dropout: 0.5,
            shared_weights: false,
            last_activation: Activation::Relu,
            cap_hidden: None,
        }
    }
}

impl crate::contract::params::Params for Params {}

impl Params {
    /// Weights of the skip branch: one for every step, or one for all.
    fn skips(&self) -> usize {
        if self.shared_weights { 1 } else { self.depth }
    }

    /// Weights between steps: those of step t ≥ 1.
    fn steps(&self) -> usize {
        if self.shared_weights { 1.min(self.depth - 1) } else { self.depth - 1 }
    }
}

/// Recursive filters, lanes × stacks × … each.
pub struct Arma {
    first: Param,
    /// For t ≥ 1.
    steps: Vec<Param>,
    skips: Vec<Param>,
    biases: Vec<Param>,
    params: Params,
}

impl Build for Arma {
    const NAME: &'static str = "arma";
    const ABOUT: &'static str = "Recursive filters of the operator with a skip connection to the features, averaged";
    const REFERENCE: &'static str =
        "Bianchi et al., \"Graph Neural Networks with Convolutional ARMA Filters\", TPAMI 2021";
    const EQUATION: &'static str = "Y ← ReLU(Ã Y W + drop(X) V + b), T times; mean over stacks";
    const VERSION: u32 = 1;
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (inputs, classes, stacks) = (graph.features.columns(), graph.classes, params.stacks);
        let glorot = |name: String, [from, to]: [usize; 2], weights: &mut Weights| {
            let r = (6.0 / (from + to).max(1) as f64).sqrt();
            weights.uniform(name, Rule::decayed(), &[stacks, from, to], "init/arma", r)
        };
        let first = glorot("init.weight".into(), [inputs, classes], weights)?;
        let steps = (1..=params.steps()).map(|t| glorot(format!("step{t}.weight"), [classes, classes], weights));
        let steps = steps.collect::<Result<_>>()?;
        let skips = (0..params.skips()).map(|t| glorot(format!("skip{t}.weight"), [inputs, classes], weights));
        let skips = skips.collect::<Result<_>>()?;
        let zero = |_: &mut Stream| vec![0.0; stacks * classes];
        let bias = |t| weights.add(format!("skip{t}.bias"), Rule::decayed(), &[stacks, classes], "init/arma", zero);
        let biases = (0..params.skips()).map(bias).collect::<Result<_>>()?;
        Ok(Self { first, steps, skips, biases, params: params.clone() })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        graph.nodes * graph.classes * params.stacks
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let (classes, columns) = (graph.classes, graph.classes * params.stacks);
        let mut work = ModelWork::on(graph).features(columns, 1);
        for t in 0..params.depth {
            work = if t > 0 { work.dense(classes, columns) } else { work };
            work = work.features(columns, 1).hops(1, columns).units(columns).units(columns);
        }
        work
    }

    fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        let (features, classes) = (graph.features, graph.classes);
        let of_stack = features * classes * (params.skips() + 1)
            + classes * classes * params.steps()
            + classes * Size::exact(params.skips());
        let is_smallest = params.stacks == 1 && params.depth == 1;
        let remedy = "lower `stacks` or `depth`";
        within_cap(of_stack * params.stacks, params.cap_hidden, is_smallest, graph, remedy)
    }
}

impl Model for Arma {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let Params { stacks, depth, dropout, last_activation, .. } = self.params;
        // Of step t, or of all.
        let of = |weights: &[Param], t: usize| weights[t.min(weights.len() - 1)].tensor();
        let stacks = Stacks::of(stacks, graph.classes);
        let mut y = x.times(&x.stacked(&self.first, stacks)?)?;
        for t in 0..depth {
            if t > 0 {
                y = y.times(&x.stacked_between(&of(&self.steps, t - 1), stacks)?)?;
            }
            let masks = pass.dropout(dropout, "dropout/features").for_lanes(stacks.lanes);
            let skip = x.dropout_times(&x.stacked(&of(&self.skips, t), stacks)?, masks)?;
            y = y.propagate(&graph.operator)?.plus(&skip)?.plus_bias(&x.stacked(&of(&self.biases, t), stacks)?)?;
            if t + 1 < depth || last_activation == Activation::Relu {
                y = y.relu()?;
            }
        }
        Ok(y.mean_of_stacks(stacks)?.into())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor};

    use super::*;
    use crate::models::testing;
    use crate::models::work;

    /// The formula with dense products, for one lane.
    fn by_hand(params: &Params, built: &testing::Built<Arma>, graph: &GraphView, lane: usize) -> Tensor {
        let (operator, x) = (testing::dense_operator(graph), graph.features.to_dense().unwrap());
        let stack = |s: usize| {
            let weight = |name: String| built.weight(&name).get(lane).unwrap().get(s).unwrap();
            let mut y = x.clone();
            for t in 0..params.depth {
                let of = if params.shared_weights { 0 } else { t };
                let w = match t {
                    0 => weight("init.weight".into()),
                    t => weight(format!("step{}.weight", if params.shared_weights { 1 } else { t })),
                };
                let skip = x.matmul(&weight(format!("skip{of}.weight"))).unwrap();
                y = (operator.matmul(&y.matmul(&w).unwrap()).unwrap() + skip).unwrap();
                y = y.broadcast_add(&weight(format!("skip{of}.bias"))).unwrap();
                if t + 1 < params.depth || params.last_activation == Activation::Relu {
                    y = y.relu().unwrap();
                }
            }
            y
        };
        let stacks: Vec<Tensor> = (0..params.stacks).map(stack).collect();
        Tensor::stack(&stacks, 0).unwrap().mean(0).unwrap()
    }

    #[test]
    fn logits_are_the_recursion_of_every_stack() {
        let graph = testing::view(DType::F64);
        for (stacks, depth, shared_weights) in [(1, 1, false), (3, 1, true), (2, 3, false), (2, 3, true)] {
            for last_activation in [Activation::Relu, Activation::Identity] {
                let params = Params { stacks, depth, shared_weights, last_activation, ..Params::default() };
                let built = testing::build::<Arma>(&params, &graph, 2);
                let logits = built.eval(&graph);
                for lane in 0..2 {
                    let expected = by_hand(&params, &built, &graph, lane);
                    assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-12, "{params:?}");
                }
            }
        }
    }

    #[test]
    fn one_step_of_one_stack_without_activation_is_two_layers() {
        // Invariant: S X W + X V + b, with self-loops and without, as the ARMA paper has it.
        for graph in [true, false].map(|loops| testing::view_of(testing::artifacts_with(loops), DType::F64)) {
            let params = Params { last_activation: Activation::Identity, ..Params::default() };
            let built = testing::build::<Arma>(&params, &graph, 1);
            let x = graph.features.to_dense().unwrap();
            let weight = |name: &str| built.weight(name).get(0).unwrap().get(0).unwrap();
            let through = testing::dense_operator(&graph).matmul(&x.matmul(&weight("init.weight")).unwrap()).unwrap();
            let expected = (through + x.matmul(&weight("skip0.weight")).unwrap()).unwrap();
            let expected = expected.broadcast_add(&weight("skip0.bias")).unwrap();
            assert!(testing::distance(&built.eval(&graph).get(0).unwrap(), &expected) < 1e-12);
        }
    }

    #[test]
    fn dropout_is_on_the_skip_branch_alone() {
        let graph = testing::view(DType::F64);
        let mut built = testing::build::<Arma>(&Params { stacks: 2, depth: 3, ..Params::default() }, &graph, 2);
        assert!(testing::distance(&built.train(&graph), &built.eval(&graph)) > 1e-3);
        for weight in built.weights.iter().filter(|w| w.name.starts_with("skip") && w.name.ends_with("weight")) {
            weight.param.set(&weight.param.tensor().zeros_like().unwrap()).unwrap();
        }
        assert_eq!(testing::distance(&built.train(&graph), &built.eval(&graph)), 0.0);
    }

    #[test]
    fn logits_are_not_negative_unless_the_last_activation_is_off() {
        let graph = testing::view(DType::F64);
        let negative = |last_activation| {
            let params = Params { last_activation, ..Params::default() };
            testing::flat(&testing::build::<Arma>(&params, &graph, 1).eval(&graph)).iter().any(|x| *x < 0.0)
        };
        assert!(!negative(Activation::Relu) && negative(Activation::Identity));
    }

    #[test]
    fn the_stacks_of_a_lane_share_a_mask() {
        // With the weights of one stack in both, their outputs are equal in training too, and so is the mean.
        let graph = testing::view(DType::F64);
        let one = testing::build::<Arma>(&Params::default(), &graph, 2);
        let two = testing::build::<Arma>(&Params { stacks: 2, ..Params::default() }, &graph, 2);
        for weight in &two.weights {
            let alone = one.weight(&weight.name);
            weight.param.set(&Tensor::cat(&[&alone, &alone], 1).unwrap()).unwrap();
        }
        let [one, two] = [one, two].map(|mut built| {
            built.streams = testing::streams(2);
            built.train(&graph)
        });
        assert!(testing::distance(&one, &two) < 1e-12);
    }

    #[test]
    fn more_weights_than_the_cap_allows_are_refused() {
        // 20 features and 3 classes: a stack of depth 1 has 2·60 + 3 = 123 weights, a PP-GNN of 8 hidden units has 195.
        let graph = work::tests::graph();
        let fits = |stacks, depth, hidden| {
            Arma::fits(&Params { stacks, depth, cap_hidden: Some(hidden), ..Params::default() }, &graph)
        };
        assert!(fits(1, 1, 8).is_ok() && fits(1, 1, 1).is_ok() && fits(2, 1, 16).is_ok());
        assert!(fits(2, 1, 8).unwrap_err().to_string().starts_with("`246` weights are more than the `195`"));
        // One more step: 60 + 3 + 9 weights more.
        assert!(fits(1, 2, 8).is_ok() && fits(1, 3, 8).unwrap_err().to_string().starts_with("`267`"));
    }
}
