//! Lanes do not see each other, the evaluation beside training is the one alone, and threads change nothing: of every
//! model, to the last bit.

use candle_core::{DType, Tensor};

use crate::models::ops::{AsTensor, Sides};
use crate::models::testing::{
    Built, bits, build_by_name, eval, flat, forward, normal, sparse_view_for, streams, undropped, view_for,
    weighted_pass, with_threads, zoo,
};
use crate::models::{GraphView, Model};

const LANES: usize = 3;

fn views(name: &str, dtype: DType) -> [GraphView; 2] {
    [view_for(name, dtype), sparse_view_for(name, dtype)]
}

/// Training and evaluation logits of a pass that goes on with the streams of the model.
fn both(built: &mut Built<dyn Model>, graph: &GraphView) -> [Tensor; 2] {
    let logits = forward(&*built.model, graph, Sides::Both, &mut built.streams).logits;
    [logits.main().clone(), logits.eval().unwrap().clone()]
}

fn lane_of(tensor: &Tensor, lane: usize) -> Vec<u64> {
    bits(&tensor.narrow(0, lane, 1).unwrap())
}

#[test]
fn the_evaluation_that_rides_along_has_the_bytes_of_one_alone() {
    for (name, params) in zoo() {
        for graph in views(name, DType::F32) {
            for params in [&params, &undropped(name, &params)] {
                let mut built = build_by_name(name, params, &graph, streams(LANES));
                let alone = bits(&eval(&*built.model, &graph, LANES));
                for _ in 0..2 {
                    let [_, beside] = both(&mut built, &graph);
                    assert_eq!(bits(&beside), alone, "{name} {params}");
                }
            }
        }
    }
}

#[test]
fn training_is_not_touched_by_the_evaluation_that_rides_along() {
    for (name, params) in zoo() {
        for graph in views(name, DType::F32) {
            let [mut with, mut without] = [0, 1].map(|_| build_by_name(name, &params, &graph, streams(LANES)));
            for _ in 0..2 {
                let [main, _] = both(&mut with, &graph);
                let alone = forward(&*without.model, &graph, Sides::Train, &mut without.streams);
                assert_eq!(bits(&main), bits(alone.logits.main()), "{name}");
            }
        }
    }
}

#[test]
fn a_lane_is_the_same_alone_and_in_company() {
    for (name, params) in zoo() {
        for graph in views(name, DType::F32) {
            let mut together = build_by_name(name, &params, &graph, streams(LANES));
            let sides = both(&mut together, &graph);
            for (lane, stream) in streams(LANES).into_iter().enumerate() {
                let mut alone = build_by_name(name, &params, &graph, vec![stream]);
                for (alone, together) in alone.weights.iter().zip(&together.weights) {
                    assert_eq!(bits(&alone.param.tensor()), lane_of(&together.param.tensor(), lane), "{name}");
                }
                for (alone, together) in both(&mut alone, &graph).iter().zip(&sides) {
                    assert_eq!(bits(alone), lane_of(together, lane), "{name}, lane {lane}");
                }
            }
        }
    }
}

#[test]
fn the_weights_of_a_lane_move_its_own_logits_only() {
    for (name, params) in zoo() {
        let graph = view_for(name, DType::F64);
        let mut built = build_by_name(name, &params, &graph, streams(LANES));
        let before = eval(&*built.model, &graph, LANES);
        let [trained, _] = both(&mut built, &graph);
        let moved = build_by_name(name, &params, &graph, streams(LANES));
        for weight in &moved.weights {
            let old = weight.param.tensor();
            let part = |lane| old.narrow(0, lane, 1).unwrap();
            let other = (part(1) + normal(part(1).dims(), 8)).unwrap();
            weight.param.set(&Tensor::cat(&[part(0), other, part(2)], 0).unwrap()).unwrap();
        }
        let after = eval(&*moved.model, &graph, LANES);
        let mut moved = moved;
        let [trained_after, _] = both(&mut moved, &graph);
        for lane in [0, 2] {
            assert_eq!(lane_of(&before, lane), lane_of(&after, lane), "{name}");
            assert_eq!(lane_of(&trained, lane), lane_of(&trained_after, lane), "{name}");
        }
        assert_ne!(lane_of(&before, 1), lane_of(&after, 1), "{name}");
        assert_ne!(lane_of(&trained, 1), lane_of(&trained_after, 1), "{name}");
    }
}

#[test]
fn a_weight_that_is_not_a_number_is_seen_in_its_lane_alone() {
    for (name, params) in zoo() {
        let graph = view_for(name, DType::F32);
        let built = build_by_name(name, &params, &graph, streams(LANES));
        for weight in &built.weights {
            let before = weight.param.tensor().copy().unwrap();
            let part = |lane| before.narrow(0, lane, 1).unwrap();
            let broken = (part(1) * f64::NAN).unwrap();
            weight.param.set(&Tensor::cat(&[part(0), broken, part(2)], 0).unwrap()).unwrap();
            let logits = eval(&*built.model, &graph, LANES);
            let finite = |lane| flat(&logits.narrow(0, lane, 1).unwrap()).iter().all(|x| x.is_finite());
            assert!(finite(0) && finite(2), "{name}: {}", weight.name);
            // candle's ReLU takes what is not a number for 0.
            let hidden =
                (name, &*weight.name) == ("bernnet", "theta") || weight.name == "gamma" && params["eta"] == 1.0;
            assert_eq!(finite(1), hidden, "{name}: {}", weight.name);
            weight.param.set(&before).unwrap();
        }
    }
}

#[test]
fn the_gradient_of_a_lane_reaches_its_own_weights_only() {
    for (name, params) in zoo() {
        let graph = view_for(name, DType::F64);
        let mut built = build_by_name(name, &params, &graph, streams(LANES));
        let weight = normal(&[LANES, graph.nodes, graph.classes], 5);
        let zeros = weight.narrow(0, 0, 1).unwrap().zeros_like().unwrap();
        let of_one = Tensor::cat(&[&zeros, &weight.narrow(0, 1, 1).unwrap(), &zeros], 0).unwrap();
        let (_, all) = weighted_pass(&*built.model, &graph, &weight);
        let (_, one) = weighted_pass(&*built.model, &graph, &of_one);
        let penalised = forward(&*built.model, &graph, Sides::Train, &mut built.streams).term.is_some();
        for weight in built.weights.iter().filter(|weight| weight.rule.is_some()) {
            let [all, one] = [&all, &one].map(|of| of.of(&weight.param.tensor()).unwrap());
            let (Some(all), Some(one)) = (all, one) else {
                assert!(weight.name == "gamma" && params["eta"] == 1.0, "{name}: {} has no gradient", weight.name);
                continue;
            };
            assert_eq!(lane_of(&all, 1), lane_of(&one, 1), "{name}: {}", weight.name);
            if !penalised {
                let others = [0, 2].map(|lane| flat(&one.narrow(0, lane, 1).unwrap()));
                assert!(others.concat().iter().all(|g| *g == 0.0), "{name}: {}", weight.name);
            }
        }
    }
}

#[test]
fn threads_change_no_byte() {
    for (name, params) in zoo() {
        for graph in views(name, DType::F32) {
            let with = |threads| {
                with_threads(threads, || {
                    let mut built = build_by_name(name, &params, &graph, streams(LANES));
                    both(&mut built, &graph).map(|t| bits(&t))
                })
            };
            let one = with(1);
            assert!(with(2) == one && with(3) == one, "{name}");
        }
    }
}
