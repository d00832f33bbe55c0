//! Sums with gates, and how candle computes the same with matrices nodes × nodes.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Case, Sizes, beside, dense, factors, masks, of_lanes, sided};
use crate::math::testing::symmetric;
use crate::models::ops::{Masks, Propagator};
use crate::models::testing::{flat, normal};

/// ε·E + Σ_j drop(tanh(a_i + b_j + c)·S_ij)·X_j, without masks and with them.
pub fn gated_sums(s: Sizes) -> [Case; 2] {
    let matrix = symmetric(s.nodes, 3, 41);
    let entries: Vec<usize> =
        (0..s.nodes).flat_map(|i| matrix.row(i).0.iter().map(move |j| i * s.nodes + *j as usize)).collect();
    let (full, drawn) = (dense(&matrix), masks(s.lanes, entries.len(), 42));
    let operator = Arc::new(Propagator::new(matrix));
    let inputs = vec![
        normal(&[s.lanes, s.nodes, s.columns], 43),
        normal(&[s.lanes, s.nodes, 2], 44),
        normal(&[s.lanes, 1], 45),
        normal(&[s.lanes, s.nodes, s.columns], 46),
    ];
    [None, Some(drawn)].map(|masks| {
        let (operator, full, entries) = (operator.clone(), full.clone(), entries.clone());
        let (of_op, drops) = (masks.clone(), masks.is_some());
        Case {
            name: format!("gated sum{}", if drops { ", dropped" } else { "" }),
            lanes: s.lanes,
            inputs: inputs.clone(),
            op: Box::new(move |x, eval, lanes, tape| {
                let masks = of_op.as_ref().map(|masks| of_lanes(masks, lanes));
                let [scores, ego] = [&x[1], &x[3]].map(|x| beside(x, eval, tape));
                sided(&x[0], eval, tape).gated(&operator, &scores, &x[2], (&ego, 0.3), masks)
            }),
            plain: Box::new(move |x| {
                let [a, b] = [0, 1].map(|at| x[1].narrow(2, at, 1).unwrap());
                let sums = a.broadcast_add(&b.transpose(1, 2).unwrap()).unwrap();
                let gates = sums.broadcast_add(&x[2].unsqueeze(2).unwrap()).unwrap().tanh().unwrap();
                let mut weights = gates.broadcast_mul(&full).unwrap();
                if let Some(masks) = &masks {
                    weights = (weights * factors_of(masks, &entries, s)).unwrap();
                }
                (weights.matmul(&x[0]).unwrap() + (&x[3] * 0.3).unwrap()).unwrap()
            }),
            has_beside: !drops,
            any_width: Vec::new(),
        }
    })
}

/// What masks on stored entries multiply with, lanes × nodes × nodes.
fn factors_of(masks: &Masks, entries: &[usize], s: Sizes) -> Tensor {
    let of_entries = factors(masks, &[entries.len()]);
    let lane = |lane: usize| {
        let mut full = vec![0.0; s.nodes * s.nodes];
        entries.iter().zip(flat(&of_entries.get(lane).unwrap())).for_each(|(at, factor)| full[*at] = factor);
        full
    };
    let full: Vec<f64> = (0..s.lanes).flat_map(lane).collect();
    Tensor::from_vec(full, (s.lanes, s.nodes, s.nodes), &Device::Cpu).unwrap()
}
