//! Tests of the loss and the scores.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};

use super::super::*;
use crate::models::testing::{assert_tape_gradients, bits, distance, flat, normal, with_threads};

fn labels(nodes: usize, classes: usize) -> Arc<[u32]> {
    (0..nodes).map(|i| (i * 7 % classes) as u32).collect()
}

/// Three lanes of some nodes each; the last has one.
fn targets(nodes: u32, classes: usize) -> Targets {
    let lanes = vec![(0..nodes).step_by(2).collect(), (0..nodes).collect(), vec![nodes - 1]];
    Targets::new(labels(nodes as usize, classes), lanes)
}

#[test]
fn loss_and_accuracy_follow_the_formula() {
    // Node 0 has logits (0, 0): loss ln 2, and the tie goes to class 0. Node 2 has (1, 3) and class 1:
    // ln(e¹ + e³) − 3 = ln(1 + e⁻²). Node 1 does not count.
    let logits = Tensor::new(&[[[0.0, 0.0], [9.0, 9.0], [1.0, 3.0]]], &Device::Cpu).unwrap();
    let targets = Targets::new([1, 0, 1].into(), vec![vec![0, 2]]);
    let score = targets.scores(&logits).unwrap().remove(0);
    let expected = (2f64.ln() + (1.0 + (-2f64).exp()).ln()) / 2.0;
    assert!((score.loss - expected).abs() < 1e-12);
    assert_eq!(score.accuracy, 0.5);
    let (losses, gradient) = targets.loss(&logits).unwrap();
    assert_eq!(losses, [score.loss]);
    // (softmax − 1[label]) / 2 on the nodes that count.
    let low = 1.0 / (1.0 + 2f64.exp());
    let expected = [0.25, -0.25, 0.0, 0.0, low / 2.0, -low / 2.0];
    assert!(flat(&gradient).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn gradients_match_finite_differences() {
    let (logits, targets) = (Var::from_tensor(&normal(&[3, 7, 4], 1)).unwrap(), targets(7, 4));
    let pass = || {
        let (losses, gradient) = targets.loss(&logits).unwrap();
        (losses.iter().sum(), Tape::new(Sides::Train).back(vec![(logits.as_tensor().clone(), gradient)]).unwrap())
    };
    assert_tape_gradients(&[&logits], pass, 1e-8);
}

#[test]
fn large_logits_lose_nothing() {
    let logits = Tensor::new(&[[[1e4, -1e4], [-1e4, 1e4]]], &Device::Cpu).unwrap();
    let score = |labels: [u32; 2]| Targets::new(labels.into(), vec![vec![0, 1]]).scores(&logits).unwrap().remove(0);
    assert_eq!(score([0, 1]), LaneScore { loss: 0.0, accuracy: 1.0, further: vec![] });
    assert_eq!(score([1, 0]), LaneScore { loss: 2e4, accuracy: 0.0, further: vec![] });
}

#[test]
fn lanes_alone_threads_and_precision_change_nothing() {
    let (nodes, classes) = (301, 5);
    let (double, targets) = (normal(&[3, nodes as usize, classes], 2), targets(nodes, classes));
    let single = double.to_dtype(DType::F32).unwrap();
    let (losses, gradient) = targets.loss(&single).unwrap();
    let scores = targets.scores(&single).unwrap();
    for lane in 0..3 {
        let (alone, own) = (targets.select(&[lane]), single.narrow(0, lane, 1).unwrap());
        let (loss, of_lane) = alone.loss(&own).unwrap();
        assert_eq!((loss[0], &scores[lane]), (losses[lane], &alone.scores(&own).unwrap()[0]));
        assert_eq!(bits(&of_lane), bits(&gradient.narrow(0, lane, 1).unwrap()));
    }
    for threads in [1, 2, 3] {
        let again = with_threads(threads, || (targets.loss(&single).unwrap(), targets.scores(&single).unwrap()));
        assert_eq!((&again.0.0, bits(&again.0.1), &again.1), (&losses, bits(&gradient), &scores));
    }
    let (exact, of_double) = targets.loss(&double).unwrap();
    assert!(losses.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(distance(&gradient, &of_double) < 1e-7);
}

#[test]
fn lanes_can_be_selected_in_any_order() {
    let (logits, targets) = (normal(&[3, 9, 4], 3), targets(9, 4));
    let scores = targets.scores(&logits).unwrap();
    let two = Tensor::cat(&[logits.narrow(0, 0, 1).unwrap(), logits.narrow(0, 2, 1).unwrap()], 0).unwrap();
    assert_eq!(targets.select(&[0, 2]).scores(&two).unwrap(), [scores[0].clone(), scores[2].clone()]);
}

#[test]
fn logits_of_other_nodes_or_lanes_are_refused() {
    let targets = targets(7, 4);
    assert!(targets.loss(&normal(&[2, 7, 4], 1)).is_err() && targets.scores(&normal(&[3, 8, 4], 1)).is_err());
    assert!(targets.loss(&Tensor::zeros((3, 7, 4), DType::U32, &Device::Cpu).unwrap()).is_err());
}
