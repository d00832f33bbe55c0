//! A model that needs what no built-in one does, so that the interface for it is tried: a quantity that the model changes
//! itself, a loss term made of activations, a second operator, and activations that are kept.
//!
//! ```text
//! H      = ReLU(X W₁ − m)          m: the column means of X W₁ in training, their running mean in evaluation
//! logits = A₂ H W₂                 loss term: 0.1 · mean of H²
//! ```

use candle_core::{DType, Device, Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::StageError;
use crate::math::real::Real;
use crate::models::ops::{AsTensor, Back, Gradient, Sided, Sides, operation};
use crate::models::testing::{self, assert_tape_gradients, bits, flat, forward, normal, streams, weighted_pass};
use crate::models::{Build, GraphView, Input, Model, ModelDef, Output, Param, Pass, State, Weights};
use crate::optim::Rule;
use crate::tensor::slices::{by_float, lend};

/// Parameters of `centred`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Params {}

impl crate::contract::params::Params for Params {}

pub(crate) struct Centred {
    first: Param,
    second: Param,
    mean: State,
}

const HIDDEN: usize = 3;

impl Build for Centred {
    const NAME: &'static str = "centred";
    const ABOUT: &'static str = "A model for tests of the interface";
    const VERSION: u32 = 1;
    const NEEDS: &'static [&'static str] = &["second-operator"];
    const HIDDEN: &'static [&'static str] = &["units"];
    type Params = Params;

    fn build(_: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let inputs = graph.features.columns();
        Ok(Self {
            first: weights.uniform("first", Rule::decayed(), &[inputs, HIDDEN], "init/first", 1.0)?,
            second: weights.uniform("second", Rule::free(), &[HIDDEN, graph.classes], "init/second", 1.0)?,
            mean: weights.state("mean", &[HIDDEN], &[0.0; HIDDEN])?,
        })
    }

    fn widest(_: &Params, graph: &GraphView) -> usize {
        graph.nodes * HIDDEN
    }
}

impl Model for Centred {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let second_operator = graph.second_operator.as_ref().unwrap();
        let units = x.times(&self.first)?;
        let now = units.main().mean(1)?.detach();
        let h = centred(&units, &self.mean.tensor())?.relu()?;
        self.mean.update(((self.mean.tensor() * 0.9)? + (now * 0.1)?)?, pass);
        let logits = h.propagate(second_operator)?.times(&self.second)?;
        let term = if pass.trains() { Some(mean_square(&h)?) } else { None };
        Ok(Output::from(logits).with_term(term).with_hidden("units", &h))
    }
}

pub(crate) static ROW: ModelDef = ModelDef::of::<Centred>();

/// X − m of every lane, columns: means of X in training, `running` in evaluation.
fn centred(x: &Sided, running: &Tensor) -> Result<Sided> {
    let [lanes, rows, columns] = *x.dims() else { candle_core::bail!("three dimensions") };
    let trains = x.sides().train();
    fn means<T: Real>(x: &[T], (lanes, rows, columns): (usize, usize, usize)) -> Vec<T> {
        let mean = |at: usize| {
            let (lane, column) = (at / columns, at % columns);
            let sum: f64 = (0..rows).map(|row| x[(lane * rows + row) * columns + column].widen()).sum();
            T::narrow(sum / rows as f64)
        };
        (0..lanes * columns).map(mean).collect()
    }
    fn minus<T: Real>(x: &[T], means: &[T], (_, rows, columns): (usize, usize, usize)) -> Vec<T> {
        (0..x.len()).map(|at| x[at] - means[at / (rows * columns) * columns + at % columns]).collect()
    }
    let sizes = (lanes, rows, columns);
    by_float!(x.dtype(), "centring", T => {
        let running = lend::<T, _, 1>([running], |[m]| Ok(m.to_vec()))?;
        operation::<T, _, 1, 0>(
            [&x.parted()],
            [],
            x.dims(),
            |sides, []| {
                let side = |(i, [x]): (usize, &[&[T]; 1])| {
                    if trains && i == 0 { minus(x, &means(x, sizes), sizes) } else { minus(x, &running, sizes) }
                };
                Ok((sides.iter().enumerate().map(side).collect(), ()))
            },
            // The mean of what is centred moves along: ∂X = G − mean(G).
            move |Back { gradient, .. }| Ok(vec![Gradient::Of(minus(gradient, &means(gradient, sizes), sizes))]),
        )
    })
}

/// 0.1 · the mean of all squares of a lane, of the training side.
fn mean_square(h: &Sided) -> Result<Tensor> {
    let size = h.dims()[1] * h.dims()[2];
    by_float!(h.dtype(), "a term", T => Ok(operation::<T, _, 1, 0>(
        [&h.without_eval()],
        [],
        &[h.lanes()],
        |sides, []| {
            let lane = |h: &[T]| T::narrow(0.1 * h.iter().map(|x| x.widen() * x.widen()).sum::<f64>() / size as f64);
            Ok((sides.iter().map(|[h]| h.chunks(size).map(lane).collect()).collect(), ()))
        },
        move |Back { gradient, inputs: [h], .. }| {
            let of = |at: usize| T::narrow(0.2 * gradient[at / size].widen() * h[at].widen() / size as f64);
            Ok(vec![Gradient::Of((0..h.len()).map(of).collect())])
        },
    )?
    .main()
    .clone()))
}

#[test]
fn gradients_reach_through_terms_of_activations_and_a_second_operator() {
    let graph = testing::view(DType::F64);
    let built = testing::build::<Centred>(&Params {}, &graph, 2);
    let (weight, vars) = (normal(&[2, graph.nodes, graph.classes], 5), built.vars());
    assert_eq!(vars.len(), 2, "the mean is not trained");
    let pass = || weighted_pass(&*built.model, &graph, &weight);
    assert_tape_gradients(&vars.iter().collect::<Vec<_>>(), pass, 1e-6);
}

#[test]
fn both_sides_read_the_state_that_belongs_to_their_weights() {
    let graph = testing::view(DType::F32);
    let mut built = testing::build::<Centred>(&Params {}, &graph, 2);
    let mean = |built: &testing::Built<Centred>| flat(&built.weight("mean"));
    let alone = bits(&built.eval(&graph));
    let both = forward(&*built.model, &graph, Sides::Both, &mut built.streams).logits;
    assert_eq!(bits(both.eval().unwrap()), alone, "the mean of this pass is not in the evaluation beside it");
    assert_eq!(mean(&built), [0.0; 2 * HIDDEN], "nor in the state before the pass ends");
    built.weights.iter().for_each(|weight| weight.param.commit().unwrap());
    let (after, x) = (mean(&built), graph.features.to_dense().unwrap());
    for lane in 0..2 {
        let units = x.matmul(&built.weight("first").get(lane).unwrap()).unwrap().mean(0).unwrap();
        let expected = flat(&units).into_iter().map(|m| 0.1 * m);
        assert!(after[lane * HIDDEN..].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6));
    }
    assert_ne!(bits(&built.eval(&graph)), alone);
    built.eval(&graph);
    built.weights.iter().for_each(|weight| weight.param.commit().unwrap());
    assert_eq!(mean(&built), after, "an evaluation changes nothing");
}

#[test]
fn lanes_do_not_see_each_other() {
    let graph = testing::view(DType::F32);
    let mut together = testing::build::<Centred>(&Params {}, &graph, 3);
    let all = forward(&*together.model, &graph, Sides::Both, &mut together.streams);
    for (lane, stream) in streams(3).into_iter().enumerate() {
        let mut own = vec![stream];
        let mut weights = Weights::new(&mut own, DType::F32, Device::Cpu);
        let model = Centred::build(&Params {}, &graph, &mut weights).unwrap();
        let alone = forward(&model, &graph, Sides::Both, &mut own);
        let of_lane = |t: &Tensor| bits(&t.narrow(0, lane, 1).unwrap());
        assert_eq!(bits(alone.logits.main()), of_lane(all.logits.main()));
        assert_eq!(bits(alone.logits.eval().unwrap()), of_lane(all.logits.eval().unwrap()));
        assert_eq!(bits(&alone.term.unwrap()), of_lane(all.term.as_ref().unwrap()));
    }
}
