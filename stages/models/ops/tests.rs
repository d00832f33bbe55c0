//! Tests of the operations. Each is a [`Case`]: the operation, and the same by plain products of candle. All cases go
//! through all tests: values, gradients, precision, lanes in company and alone, threads, the evaluation beside.

mod batch_norm;
mod cases;
mod emulated;
mod loss;
mod tape;

use std::ops::Range;

use candle_core::{DType, Tensor, Var};

use super::*;
use crate::models::testing::{assert_tape_gradients, bits, distance, flat, normal, with_threads};
use crate::tensor::cuda::testing::here;
use cases::{Case, Sizes, attention, cases, gated_sums, on_features, units};

/// Odd and even widths, one node, one lane, one hidden unit, rows beyond a task of the layers.
const SIZES: [Sizes; 6] = [
    Sizes { lanes: 2, nodes: 1, columns: 1, features: 1, hidden: 1, pairs: 1 },
    Sizes { lanes: 1, nodes: 67, columns: 5, features: 7, hidden: 10, pairs: 20 },
    Sizes { lanes: 3, nodes: 130, columns: 7, features: 40, hidden: 16, pairs: 97 },
    Sizes { lanes: 2, nodes: 100, columns: 16, features: 17, hidden: 64, pairs: 50 },
    Sizes { lanes: 2, nodes: 70, columns: 17, features: 5, hidden: 70, pairs: 30 },
    Sizes { lanes: 3, nodes: 65, columns: 40, features: 33, hidden: 1, pairs: 12 },
];
const SMALL: Sizes = Sizes { lanes: 2, nodes: 6, columns: 3, features: 4, hidden: 5, pairs: 3 };
/// Beyond every number that cuts work into tasks: 1024 rows of layers, 512 of lanes side by side, 65 536 entries of masks,
/// 4096 entries of the operator.
const LARGE: Sizes = Sizes { lanes: 2, nodes: 2100, columns: 33, features: 70, hidden: 20, pairs: 110 };

/// So many nodes that the gradient of a layer on sparse features is scattered, by several tasks.
const LONG: Sizes = Sizes { lanes: 2, nodes: 9000, columns: 3, features: 20, hidden: 17, pairs: 1 };

/// Hidden units that fill registers, in several pieces.
const WIDE: Sizes = Sizes { lanes: 2, nodes: 1100, columns: 32, features: 1, hidden: 1, pairs: 1 };

/// Some lanes of the inputs of a case.
fn inputs(case: &Case, lanes: &Range<usize>, dtype: DType) -> Vec<Var> {
    let part = |t: &Tensor| t.narrow(0, lanes.start, lanes.len()).unwrap().to_dtype(dtype).unwrap();
    let there = |t: &Tensor| part(t).contiguous().unwrap().to_device(&here()).unwrap();
    case.inputs.iter().map(|t| Var::from_tensor(&there(t)).unwrap()).collect()
}

fn tensors(vars: &[Var]) -> Vec<Tensor> {
    vars.iter().map(|var| var.as_tensor().clone()).collect()
}

/// What the result of some lanes is weighted with, to make a number of it.
fn weight(case: &Case, lanes: &Range<usize>, like: &Tensor) -> Tensor {
    let mut dims = like.dims().to_vec();
    dims[0] = case.lanes;
    let part = normal(&dims, 77).narrow(0, lanes.start, lanes.len()).unwrap();
    part.contiguous().unwrap().to_dtype(like.dtype()).unwrap().to_device(like.device()).unwrap()
}

/// The result of an operation, and the gradients of its inputs.
fn run(case: &Case, lanes: &Range<usize>, dtype: DType) -> Vec<Tensor> {
    let (vars, tape) = (inputs(case, lanes, dtype), Tape::new(Sides::Train));
    let out = (case.op)(&tensors(&vars), None, lanes.clone(), &tape).unwrap().main().clone();
    let gradients = tape.back(vec![(out.clone(), weight(case, lanes, &out))]).unwrap();
    let of = |var: &Var| gradients.of(var.as_tensor()).unwrap().unwrap();
    [vec![out], vars.iter().map(of).collect()].concat()
}

/// The same by candle, in double precision.
fn run_plain(case: &Case) -> Vec<Tensor> {
    let all = 0..case.lanes;
    let double = |t: &Tensor| Var::from_tensor(&t.contiguous().unwrap()).unwrap();
    let vars: Vec<Var> = case.inputs.iter().map(double).collect();
    let out = (case.plain)(&tensors(&vars));
    let store = (&out * weight(case, &all, &out)).unwrap().sum_all().unwrap().backward().unwrap();
    let of = |var: &Var| store.get(var.as_tensor()).cloned().unwrap_or_else(|| var.zeros_like().unwrap());
    [vec![out], vars.iter().map(of).collect()].concat()
}

fn size_of(tensor: &Tensor) -> f64 {
    flat(tensor).into_iter().map(f64::abs).fold(1.0, f64::max)
}

/// Cases of many sizes that candle can compute too.
fn all_sizes() -> impl Iterator<Item = (Sizes, Case)> {
    let long = [1, 2].map(|passes| (LONG, on_features(LONG, true, true, passes)));
    SIZES.into_iter().flat_map(|sizes| cases(sizes).into_iter().map(move |case| (sizes, case))).chain(long)
}

#[test]
fn values_and_gradients_equal_those_of_plain_products_in_both_precisions() {
    for (sizes, case) in all_sizes() {
        let plain = run_plain(&case);
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
            for (i, (ours, plain)) in run(&case, &(0..case.lanes), dtype).iter().zip(&plain).enumerate() {
                assert_eq!((ours.dims(), ours.dtype()), (plain.dims(), dtype));
                let far = distance(ours, plain) / size_of(plain);
                assert!(far < tolerance, "{} with {sizes:?}: {i} differs by {far} in {dtype:?}", case.name);
            }
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for case in cases(SMALL) {
        let all = 0..case.lanes;
        let vars = inputs(&case, &all, DType::F64);
        let pass = || {
            let tape = Tape::new(Sides::Train);
            let out = (case.op)(&tensors(&vars), None, all.clone(), &tape).unwrap().main().clone();
            let weight = weight(&case, &all, &out);
            let value = (&out * &weight).unwrap().sum_all().unwrap().to_scalar().unwrap();
            (value, tape.back(vec![(out, weight)]).unwrap())
        };
        assert_tape_gradients(&vars.iter().collect::<Vec<_>>(), pass, 1e-7);
    }
}

#[test]
fn a_lane_has_the_same_bytes_alone_and_in_company() {
    for (sizes, case) in all_sizes() {
        let together = run(&case, &(0..case.lanes), DType::F32);
        for lane in 0..case.lanes {
            for (alone, together) in run(&case, &(lane..lane + 1), DType::F32).iter().zip(&together) {
                let in_company = together.narrow(0, lane, 1).unwrap();
                assert_eq!(bits(alone), bits(&in_company), "{} with {sizes:?}", case.name);
            }
        }
    }
}

#[test]
fn threads_change_no_byte() {
    for case in
        cases(LARGE).into_iter().chain([on_features(LONG, true, true, 2)]).chain(units(WIDE)).chain(gated_sums(WIDE))
    {
        let all = 0..case.lanes;
        let with =
            |threads| with_threads(threads, || run(&case, &all, DType::F32).iter().map(bits).collect::<Vec<_>>());
        let one = with(1);
        assert!(with(2) == one && with(3) == one, "{}", case.name);
    }
}

#[test]
fn the_evaluation_beside_has_the_bytes_of_one_alone() {
    for sizes in SIZES {
        for case in cases(sizes).into_iter().filter(|case| case.has_beside) {
            let all = 0..case.lanes;
            let vars = tensors(&inputs(&case, &all, DType::F32));
            let eval = normal(vars[0].dims(), 99).to_dtype(DType::F32).unwrap();
            let tape = Tape::new(Sides::Train);
            let both = (case.op)(&vars, Some(&eval), all.clone(), &tape).unwrap();
            let swapped = [vec![eval], vars[1..].to_vec()].concat();
            let alone = (case.op)(&swapped, None, all.clone(), &Tape::new(Sides::Eval)).unwrap();
            assert_eq!(bits(both.eval().unwrap()), bits(alone.main()), "{} with {sizes:?}", case.name);
            let main = (case.op)(&vars, None, all.clone(), &tape).unwrap();
            assert_eq!(bits(both.main()), bits(main.main()), "{}: the other side is not touched", case.name);
        }
    }
}

#[test]
fn evaluation_sees_what_is_there_before_dropout() {
    for sizes in SIZES.into_iter().chain([WIDE]) {
        let cases = units(sizes);
        let (gated, attention) = (gated_sums(sizes), attention(sizes));
        for [kept, dropped] in cases.as_chunks::<2>().0.iter().chain([&gated]).chain(&attention) {
            let all = 0..kept.lanes;
            let vars = tensors(&inputs(kept, &all, DType::F32));
            let both = (dropped.op)(&vars, None, all.clone(), &Tape::new(Sides::Both)).unwrap();
            let expected = (kept.op)(&vars, None, all.clone(), &Tape::new(Sides::Both)).unwrap();
            assert_eq!(bits(both.eval().unwrap()), bits(expected.main()), "{} with {sizes:?}", dropped.name);
            let train = (dropped.op)(&vars, None, all.clone(), &Tape::new(Sides::Train)).unwrap();
            assert!(train.eval().is_none());
            assert_eq!(bits(both.main()), bits(train.main()), "{} with {sizes:?}", dropped.name);
        }
    }
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    for case in cases(SMALL) {
        let whole = tensors(&inputs(&case, &(0..2), DType::F64));
        let refused = |inputs: &[Tensor]| (case.op)(inputs, None, 0..2, &Tape::new(Sides::Eval)).is_err();
        assert!(!refused(&whole), "{}", case.name);
        for at in 0..whole.len() {
            let with = |t: Tensor| {
                let mut inputs = whole.clone();
                inputs[at] = t;
                inputs
            };
            if whole.len() > 1 {
                assert!(refused(&with(whole[at].narrow(0, 0, 1).unwrap())), "{}: a lane of {at} is missing", case.name);
                let single = whole[at].to_dtype(DType::F32).unwrap();
                assert!(refused(&with(single)), "{}: input {at} of another type", case.name);
            }
            // ReLU does not ask how many columns there are, and a polynomial may have any degree.
            if !case.any_width.contains(&at) {
                let last = whole[at].rank() - 1;
                let wide = Tensor::cat(&[&whole[at], &whole[at]], last).unwrap();
                assert!(refused(&with(wide)), "{}: input {at} is too wide", case.name);
            }
        }
    }
}
