//! A model in plain form that uses all that there is: as lanes, as gradients, and what is refused.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{BatchNorm, Init, Linear, Module, ModuleT, VarBuilder, batch_norm, init, linear};

use super::lanes::Lanes;
use super::{Mode, PlainFeatures, PlainGraph, PlainModel};
use crate::contract::Crate;
use crate::contract::params::NoParams;
use crate::models::ops::{AsTensor, Sides};
use crate::models::testing::{
    self, assert_gradients, assert_tape_gradients, bits, distance, flat, forward, normal, sparse_view_for, streams,
    weighted_pass, with_threads,
};
use crate::models::{Build, GraphView, ModelDef, Named, Output, Streams, Weights};
use crate::optim::Rule;

/// logits = Ã drop(ReLU(norm(drop(X) W₁ + b₁))) W₂ + b₂ + Σ softmax(…) X V, where the last term is attention over edges.
pub(crate) struct Everything {
    first: Linear,
    norm: BatchNorm,
    second: Linear,
    values: Tensor,
}

impl PlainModel for Everything {
    const NAME: &'static str = "everything";
    const ABOUT: &'static str = "A model for tests of the plain form";
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate::BUILT_IN;
    type Params = NoParams;

    fn build(_: &NoParams, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            first: linear(graph.columns(), 3, vb.pp("first"))?,
            norm: batch_norm(3, 1e-5, vb.pp("norm"))?,
            second: linear(3, graph.classes(), vb.pp("second"))?,
            values: vb.get_with_hints((graph.columns(), graph.classes()), "values", init::DEFAULT_KAIMING_UNIFORM)?,
        })
    }

    fn rule(_: &NoParams, weight: &str) -> Rule {
        if weight.starts_with("norm.") { Rule::free() } else { Rule::decayed() }
    }

    fn forward(&self, graph: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        let hidden = x.dropout(mode, 0.3, "dropout/features")?.linear(&self.first)?;
        let hidden = self.norm.forward_t(&hidden, mode.trains())?.relu()?;
        let hidden = graph.propagate(&mode.dropout(&hidden, 0.4, "dropout/hidden")?)?;
        let (edges, values) = (graph.edges()?, x.times(&self.values)?);
        let attention = edges.softmax(&edges.of_sources(&values)?.narrow(1, 0, 1)?)?;
        let heard = edges.sum(&edges.of_sources(&values)?.broadcast_mul(&attention)?)?;
        self.second.forward(&hidden)? + heard
    }
}

pub(crate) static ROW: ModelDef = ModelDef::plain::<Everything>();

type Built = testing::Built<Lanes<Everything>>;

fn built(graph: &GraphView, streams: Vec<Streams>) -> Built {
    let mut streams = streams;
    let mut weights = Weights::new(&mut streams, graph.dtype(), Device::Cpu);
    let model = Box::new(Lanes::build(&NoParams {}, graph, &mut weights).unwrap());
    Built { model, weights: weights.into_named(), streams }
}

fn views(dtype: DType) -> [GraphView; 2] {
    [testing::view(dtype), sparse_view_for("gcn", dtype)]
}

fn both(built: &mut Built, graph: &GraphView) -> Output {
    let output = forward(&*built.model, graph, Sides::Both, &mut built.streams);
    built.weights.iter().for_each(|weight| weight.param.commit().unwrap());
    output
}

fn sides(output: &Output) -> [&Tensor; 2] {
    [output.logits.main(), output.logits.eval().unwrap()]
}

fn lane_of(tensor: &Tensor, lane: usize) -> Vec<u64> {
    bits(&tensor.narrow(0, lane, 1).unwrap())
}

#[test]
fn gradients_reach_every_weight_through_the_tape() {
    for graph in views(DType::F64) {
        let built = built(&graph, streams(2));
        let (weight, vars) = (normal(&[2, graph.nodes, graph.classes], 5), built.vars());
        let pass = || weighted_pass(&*built.model, &graph, &weight);
        assert_tape_gradients(&vars.iter().collect::<Vec<_>>(), pass, 1e-6);
        let gradients = pass().1;
        for named in built.weights.iter().filter(|named| named.rule.is_some()) {
            let gradient = gradients.of(&named.param.tensor()).unwrap().unwrap_or_else(|| panic!("{}", named.name));
            // Batch normalisation takes the mean of its input away, and with it the bias below.
            let moves = flat(&gradient).iter().any(|g| g.abs() > 1e-9);
            assert_eq!(moves, named.name != "first.bias", "{}", named.name);
        }
    }
}

/// Both sides of two passes, and then all tensors, of one lane.
fn two_passes(built: &mut Built, graph: &GraphView, lane: usize) -> Vec<Vec<u64>> {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let output = both(built, graph);
        seen.extend(sides(&output).map(|side| lane_of(side, lane)));
    }
    seen.extend(built.weights.iter().map(|weight| lane_of(&weight.param.tensor(), lane)));
    seen
}

#[test]
fn a_lane_is_the_same_alone_in_company_and_for_any_number_of_threads() {
    for graph in views(DType::F32) {
        for lane in 0..3 {
            let together = two_passes(&mut built(&graph, streams(3)), &graph, lane);
            let alone = |threads| {
                with_threads(threads, || two_passes(&mut built(&graph, vec![Streams::new(9, lane)]), &graph, 0))
            };
            assert!(alone(1) == together && alone(3) == together, "lane {lane}");
        }
    }
}

#[test]
fn lanes_that_stay_are_not_touched_by_those_that_leave() {
    let graph = testing::view(DType::F32);
    let [mut all, mut fewer] = [0, 1].map(|_| built(&graph, streams(3)));
    let rows = Tensor::new(&[0u32, 2], &Device::Cpu).unwrap();
    for weight in &fewer.weights {
        weight.param.set(&weight.param.tensor().detach().index_select(&rows, 0).unwrap()).unwrap();
    }
    fewer.streams.remove(1);
    let [all, fewer] = [both(&mut all, &graph), both(&mut fewer, &graph)];
    for (all, fewer) in sides(&all).into_iter().zip(sides(&fewer)) {
        assert_eq!((lane_of(all, 0), lane_of(all, 2)), (lane_of(fewer, 0), lane_of(fewer, 1)));
    }
}

#[test]
fn evaluation_reads_the_running_moments_that_the_passes_before_have_left() {
    let graph = testing::view(DType::F64);
    let mut built = built(&graph, streams(2));
    let moments = |built: &Built| flat(&built.weight("norm.running_mean"));
    let states: Vec<&Named> = built.weights.iter().filter(|weight| weight.rule.is_none()).collect();
    let names: Vec<&str> = states.iter().map(|state| &*state.name).collect();
    assert_eq!(names, ["norm.running_mean", "norm.running_var"]);
    let before = bits(&built.eval(&graph));
    assert_eq!(moments(&built), [0.0; 6], "an evaluation changes nothing");
    let first = both(&mut built, &graph);
    assert_eq!(bits(sides(&first)[1]), before, "the evaluation beside a training pass is the one before it");
    let after = moments(&built);
    assert!(after.iter().all(|mean| mean.abs() > 1e-6));
    let alone = bits(&built.eval(&graph));
    assert_ne!(alone, before);
    assert_eq!(bits(sides(&both(&mut built, &graph))[1]), alone);
    assert_ne!(moments(&built), after);
}

#[test]
fn rules_are_by_name() {
    let built = built(&testing::view(DType::F32), streams(1));
    for named in &built.weights {
        let expected = match &*named.name {
            "norm.running_mean" | "norm.running_var" => None,
            "norm.weight" | "norm.bias" => Some(Rule::free()),
            _ => Some(Rule::decayed()),
        };
        assert_eq!(named.rule, expected, "{}", named.name);
    }
}

#[test]
fn our_kernels_and_candles_operations_give_the_same() {
    for graph in views(DType::F64) {
        let plain = &graph.plain;
        let x = Var::from_tensor(&normal(&[graph.nodes, 5], 1)).unwrap();
        let by_kernel = plain.propagate(&x).unwrap();
        assert!(distance(&by_kernel, &testing::dense_operator(&graph).matmul(&x).unwrap()) < 1e-12);
        assert!(distance(&by_kernel, &plain.propagate_by_edges(&x).unwrap()) < 1e-12);
        let weight = normal(&[graph.nodes, 5], 2);
        let loss = |of: Tensor| (of * &weight).unwrap().sum_all().unwrap();
        assert_gradients(&[&x], || loss(plain.propagate(&x).unwrap()), 1e-6);
        assert_gradients(&[&x], || loss(plain.propagate_by_edges(&x).unwrap()), 1e-6);

        let w = Var::from_tensor(&normal(&[plain.columns(), 5], 3)).unwrap();
        let (features, mut streams) = (plain.features().unwrap(), streams(1));
        let dropped = features.dropout(&mut Mode::train(&mut streams[0]), 0.5, "dropout/features").unwrap();
        assert!(distance(&features.dense().unwrap(), &graph.features.to_dense().unwrap()) == 0.0);
        assert!(distance(&features.dense().unwrap(), &dropped.dense().unwrap()) > 0.1);
        for x in [features, &dropped] {
            let expected = x.dense().unwrap().matmul(&w).unwrap();
            assert!(distance(&x.times(&w).unwrap(), &expected) < 1e-12);
            assert!(distance(&x.times_by_places(&w).unwrap(), &expected) < 1e-12);
            assert_gradients(&[&w], || loss(x.times(&w).unwrap()), 1e-6);
            assert_gradients(&[&w], || loss(x.times_by_places(&w).unwrap()), 1e-6);
        }
    }
}

#[test]
fn attention_sums_to_one_at_every_node_whatever_the_scores() {
    let graph = testing::view(DType::F64);
    let edges = graph.plain.edges().unwrap();
    for scale in [1.0, 1e4] {
        let scores = Var::from_tensor(&(normal(&[edges.count(), 2], 4) * scale).unwrap()).unwrap();
        let sums = edges.sum(&edges.softmax(&scores).unwrap()).unwrap();
        assert!(flat(&sums).iter().all(|sum| (sum - 1.0).abs() < 1e-12));
        if scale == 1.0 {
            let weight = normal(&[edges.count(), 2], 5);
            let loss = || (edges.softmax(&scores).unwrap() * &weight).unwrap().sum_all().unwrap();
            assert_gradients(&[&scores], loss, 1e-6);
        }
    }
}

/// What a builder gives in the first lane.
fn asked<R>(ask: impl Fn(&VarBuilder) -> Result<R>) -> Result<R> {
    let (mut streams, device) = (streams(1).remove(0), Device::Cpu);
    let drawn = std::sync::Mutex::new(super::back_end::Drawn::new(&mut streams, DType::F64, device.clone()));
    ask(&VarBuilder::from_backend(Box::new(super::back_end::BackEnd(&drawn)), DType::F64, device))
}

#[test]
fn initial_values_are_those_that_candle_nn_declares() {
    let drawn = |init: Init| flat(&asked(|vb| vb.get_with_hints((100, 200), "w", init)).unwrap());
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, square.sqrt())
    };
    let largest = |values: &[f64]| values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    assert!(drawn(Init::Const(0.25)).iter().all(|value| *value == 0.25));
    let (mean, deviation) = moments(&drawn(Init::Randn { mean: 3.0, stdev: 0.5 }));
    // 20 000 draws: ten standard errors.
    assert!((mean - 3.0).abs() < 0.035 && (deviation - 0.5).abs() < 0.025);
    let uniform = drawn(Init::Uniform { lo: -1.0, up: 3.0 });
    assert!((moments(&uniform).0 - 1.0).abs() < 0.08 && uniform.iter().all(|value| (-1.0..3.0).contains(value)));
    // Fan in 200 and ReLU: deviation √(2/200) = 0.1; the uniform one ends at √3 times that.
    assert!((moments(&drawn(init::DEFAULT_KAIMING_NORMAL)).1 - 0.1).abs() < 0.005);
    let kaiming = drawn(init::DEFAULT_KAIMING_UNIFORM);
    assert!((moments(&kaiming).1 - 0.1).abs() < 0.005 && largest(&kaiming) < 0.1733 && largest(&kaiming) > 0.173);
}

#[test]
fn a_tensor_draws_the_same_whatever_is_drawn_before_it_and_is_shared_by_its_name() {
    let normal = Init::Randn { mean: 0.0, stdev: 1.0 };
    let get = |vb: &VarBuilder, name: &str| vb.get_with_hints(4, name, normal);
    let alone = asked(|vb| get(vb, "b")).unwrap();
    let [before, after, again] = asked(|vb| Ok([get(vb, "a")?, get(vb, "b")?, get(vb, "b")?])).unwrap();
    assert_eq!(bits(&alone), bits(&after));
    assert_ne!(bits(&before), bits(&after));
    assert_eq!(after.id(), again.id());
    let unchecked = asked(|vb| {
        get(vb, "b")?;
        vb.get_unchecked("b")
    });
    assert_eq!(bits(&alone), bits(&unchecked.unwrap()));
}

#[test]
fn what_a_builder_cannot_give_is_said() {
    let said = |result: Result<Tensor>| result.err().unwrap().to_string();
    let other_shape = said(asked(|vb| vb.get(4, "b").and_then(|_| vb.get(5, "b"))));
    assert!(other_shape.contains("`b` is asked for with the shape [5], and is there with [4]"), "{other_shape}");
    let half = said(asked(|vb| vb.to_dtype(DType::F16).get(4, "b")));
    assert!(half.contains("`b` is asked for as F16 on Cpu, but the run computes with F64 on Cpu"), "{half}");
    let shapeless = said(asked(|vb| vb.get_unchecked("b")));
    assert!(shapeless.contains("`b` is asked for without a shape"), "{shapeless}");
}

/// A model that makes a mistake.
struct Mistaken<const WHICH: u8>(Tensor);

impl<const WHICH: u8> PlainModel for Mistaken<WHICH> {
    const NAME: &'static str = "mistaken";
    const ABOUT: &'static str = "A model that makes a mistake";
    const VERSION: u32 = 1;
    const CRATE: Crate = Crate::BUILT_IN;
    type Params = NoParams;

    fn build(_: &NoParams, graph: &PlainGraph, vb: VarBuilder) -> Result<Self> {
        let drawn = vb.get_with_hints(1, "number", Init::Randn { mean: 0.0, stdev: 1.0 })?;
        if WHICH == 1 && drawn.to_vec1::<f64>()?[0] > 0.0 {
            vb.get(1, "further")?;
        }
        Ok(Self(vb.get((graph.columns(), 1), "w")?))
    }

    fn forward(&self, _: &PlainGraph, x: &PlainFeatures, mode: &mut Mode) -> Result<Tensor> {
        if mode.trains() {
            return x.dropout(mode, 1.0, "dropout/features")?.times(&self.0);
        }
        x.times(&self.0)
    }
}

#[test]
fn mistakes_of_a_model_are_named() {
    let graph = testing::view(DType::F64);
    let mut some = streams(8);
    let mut weights = Weights::new(&mut some, DType::F64, Device::Cpu);
    let error = Lanes::<Mistaken<1>>::build(&NoParams {}, &graph, &mut weights).err().unwrap();
    let error = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.contains("`mistaken` asks for the tensors") && error.contains(r#""further", "w"]"#), "{error}");
    let built = testing::build::<Lanes<Mistaken<0>>>(&NoParams {}, &graph, 1);
    let said = |sides| {
        testing::in_pass(sides, &graph, &mut streams(1), |x, pass| {
            Ok(crate::models::Model::forward(&*built.model, &graph, x, pass).err().unwrap().to_string())
        })
    };
    let shape = said(Sides::Eval);
    assert!(
        shape.contains("`mistaken` returned F64 of [14, 1], expected logits of F64: 14 nodes × 2 classes"),
        "{shape}"
    );
    let rate = said(Sides::Train);
    assert!(rate.contains("dropout `dropout/features` has the rate 1, expected at least 0 and below 1"), "{rate}");
}
