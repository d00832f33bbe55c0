//! Cases of operations on columns, rows and stacks, and of batch normalisation.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::{Case, Op, Plain, Sizes, beside, dense, factors, masks, normal, of_lanes, sided, times};
use crate::math::testing::symmetric;
use crate::models::Input;
use crate::models::ops::masks::Masks;
use crate::models::ops::{Moments, Norm, Propagator, Sides, Stacks, Tape};

/// Copies of a network that every lane has.
const STACKS: usize = 3;

/// All of them; `z`: lanes × nodes × columns.
pub fn cases(s: Sizes, z: &Tensor) -> Vec<Case> {
    let case = |name: &str, inputs: Vec<Tensor>, op: Box<Op>, plain: Box<Plain>| Case {
        name: name.to_owned(),
        lanes: s.lanes,
        inputs,
        op,
        plain,
        has_beside: true,
        any_width: Vec::new(),
    };
    let row = |seed| normal(&[s.lanes, s.columns], seed);
    let drawn = masks(s.lanes, s.nodes * s.columns, 47);
    vec![
        case(
            "difference",
            vec![z.clone(), normal(z.dims(), 41)],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).minus(&beside(&x[1], eval, tape))),
            Box::new(|x| (&x[0] - &x[1]).unwrap()),
        ),
        case(
            "towards",
            vec![z.clone(), normal(z.dims(), 42), row(43)],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).towards(&beside(&x[1], eval, tape), &x[2])),
            Box::new(|x| {
                let way = (&x[1] - &x[0]).unwrap().broadcast_mul(&x[2].unsqueeze(1).unwrap()).unwrap();
                (&x[0] + way).unwrap()
            }),
        ),
        case(
            "bias and ELU",
            vec![z.clone(), row(48)],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).bias_elu(&x[1])),
            Box::new(|x| x[0].broadcast_add(&x[1].unsqueeze(1).unwrap()).unwrap().elu(1.0).unwrap()),
        ),
        Case {
            any_width: vec![0],
            ..case(
                "scaled rows",
                vec![z.clone(), normal(&[s.lanes, s.nodes], 44)],
                Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).scale_rows(&x[1])),
                Box::new(|x| x[0].broadcast_mul(&x[1].unsqueeze(2).unwrap()).unwrap()),
            )
        },
        Case { has_beside: false, ..normalised(s, case, z.clone(), [row(45), row(46)], None) },
        Case { has_beside: false, ..normalised(s, case, z.clone(), [row(45), row(46)], Some(&drawn)) },
        Case { has_beside: false, any_width: vec![0], ..stacks(s, case) },
        Case { has_beside: false, any_width: vec![1], ..between_stacks(s, case) },
        hops(s, case, z),
    ]
}

/// Training side: with the moments of the batch; as it is, or rectified and dropped by masks.
fn normalised(
    s: Sizes,
    case: impl Fn(&str, Vec<Tensor>, Box<Op>, Box<Plain>) -> Case,
    z: Tensor,
    [scale, shift]: [Tensor; 2],
    masks: Option<&Masks>,
) -> Case {
    let columns = s.columns;
    let (drawn, factors) = (masks.cloned(), masks.map(|masks| factors(masks, &[s.nodes, s.columns])));
    case(
        if masks.is_some() { "batch normalisation, ReLU and dropout" } else { "batch normalisation" },
        vec![z, scale, shift],
        Box::new(move |x, _, lanes, tape| {
            let running = |value: f64| {
                Tensor::full(value, (lanes.len(), columns), x[0].device()).unwrap().to_dtype(x[0].dtype()).unwrap()
            };
            // Only evaluation reads them.
            let running = Moments { mean: running(7.0), variance: running(3.0) };
            let x0 = sided(&x[0], None, &Tape::new(Sides::Train));
            // The pass decides which moments count; this one trains whatever the test asks for.
            let training = if tape.sides().train() { sided(&x[0], None, tape) } else { x0 };
            let norm = Norm { scale: x[1].clone(), shift: x[2].clone(), running: &running };
            Ok(match &drawn {
                Some(masks) => training.normed_units(&norm, Some(of_lanes(masks, lanes)))?.0,
                None => training.batch_norm(&norm)?.0,
            })
        }),
        Box::new(move |x| {
            let mean = x[0].mean_keepdim(1).unwrap();
            let centred = x[0].broadcast_sub(&mean).unwrap();
            let variance = centred.sqr().unwrap().mean_keepdim(1).unwrap();
            let hat = centred.broadcast_div(&(variance + 1e-5).unwrap().sqrt().unwrap()).unwrap();
            let row = |at: usize| x[at].unsqueeze(1).unwrap();
            let normed = hat.broadcast_mul(&row(1)).unwrap().broadcast_add(&row(2)).unwrap();
            match &factors {
                Some(factors) => (normed.relu().unwrap() * factors).unwrap(),
                None => normed,
            }
        }),
    )
}

/// Weights of several stacks, apart and averaged.
fn stacks(s: Sizes, case: impl Fn(&str, Vec<Tensor>, Box<Op>, Box<Plain>) -> Case) -> Case {
    case(
        "stacks",
        vec![normal(&[s.lanes, STACKS, s.hidden, s.columns], 47)],
        Box::new(|x, _, _, tape| {
            let features = crate::models::testing::view(DType::F32).features;
            let input = Input::new(&features, tape);
            let stacks = Stacks::of(STACKS, x[0].dims()[3]);
            input.weight(&input.stacked(&x[0], stacks)?).mean_of_stacks(stacks)
        }),
        Box::new(|x| x[0].mean(1).unwrap()),
    )
}

/// Layers from stack to stack, averaged.
fn between_stacks(s: Sizes, case: impl Fn(&str, Vec<Tensor>, Box<Op>, Box<Plain>) -> Case) -> Case {
    case(
        "between stacks",
        vec![normal(&[s.lanes, STACKS, s.hidden, s.columns], 55), normal(&[s.lanes, STACKS, s.columns, s.columns], 56)],
        Box::new(|x, _, _, tape| {
            let features = crate::models::testing::view(DType::F32).features;
            let input = Input::new(&features, tape);
            let stacks = Stacks::of(STACKS, x[0].dims()[3]);
            let y = input.weight(&input.stacked(&x[0], stacks)?);
            y.times(&input.stacked_between(&x[1], stacks)?)?.mean_of_stacks(stacks)
        }),
        Box::new(|x| x[0].matmul(&x[1]).unwrap().mean(1).unwrap()),
    )
}

/// A weighted sum over operators.
fn hops(s: Sizes, case: impl Fn(&str, Vec<Tensor>, Box<Op>, Box<Plain>) -> Case, z: &Tensor) -> Case {
    let matrices = [51, 52, 53].map(|seed| symmetric(s.nodes, 3, seed));
    let operators = matrices.clone().map(|matrix| Arc::new(Propagator::new(matrix)));
    // Only small graphs are compared with dense products.
    let full = if s.nodes < 1000 { matrices.each_ref().map(dense).to_vec() } else { Vec::new() };
    Case {
        any_width: vec![0],
        ..case(
            "sum over hops",
            vec![z.clone(), normal(&[s.lanes, 4], 54)],
            Box::new(move |x, eval, _, tape| sided(&x[0], eval, tape).hop_sum(&operators, &x[1])),
            Box::new(move |x| {
                let scaled = |hop: &Tensor, l| {
                    let theta = x[1].narrow(1, l, 1).unwrap().unsqueeze(2).unwrap();
                    hop.broadcast_mul(&theta).unwrap()
                };
                let terms = full.iter().enumerate().map(|(l, full)| scaled(&times(full, &x[0]), l + 1));
                terms.fold(scaled(&x[0], 0), |sum, term| (sum + term).unwrap())
            }),
        )
    }
}
