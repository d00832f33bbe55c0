//! Tests of the backward pass itself: where gradients meet, and where they go on through candle.

use candle_core::{DType, Device, Tensor, Var};

use super::super::sided::Eval;
use super::super::*;
use crate::models::testing::{assert_tape_gradients, distance, flat, normal};

fn var(shape: &[usize], seed: u64) -> Var {
    Var::from_tensor(&normal(shape, seed)).unwrap()
}

#[test]
fn gradients_that_meet_are_added() {
    // (z + b) + (z + b) + z: three ways to z, two to b.
    let (z, b, tape) = (var(&[2, 4, 3], 1), var(&[2, 3], 2), Tape::new(Sides::Both));
    let x = Sided::new(z.as_tensor().clone(), Eval::Same, &tape);
    let shifted = x.plus_bias(b.as_tensor()).unwrap();
    let out = shifted.plus(&shifted).unwrap().plus(&x).unwrap();
    let ones = out.main().ones_like().unwrap();
    let gradients = tape.back(vec![(out.main().clone(), ones.clone())]).unwrap();
    assert_eq!(distance(&gradients.of(&z).unwrap().unwrap(), &(ones * 3.0).unwrap()), 0.0);
    assert_eq!(flat(&gradients.of(&b).unwrap().unwrap()), [8.0; 6]);
}

#[test]
fn what_does_not_reach_the_loss_has_no_gradient() {
    let (z, b, c, tape) = (var(&[1, 4, 3], 1), var(&[1, 3], 2), var(&[1, 3], 3), Tape::new(Sides::Both));
    let x = Sided::new(z.as_tensor().clone(), Eval::Same, &tape);
    let used = x.plus_bias(b.as_tensor()).unwrap();
    let _unused = used.plus_bias(c.as_tensor()).unwrap();
    let gradients = tape.back(vec![(used.main().clone(), used.main().ones_like().unwrap())]).unwrap();
    assert!(gradients.of(&b).unwrap().is_some() && gradients.of(&c).unwrap().is_none());
}

#[test]
fn gradients_go_on_through_what_candle_made_of_weights() {
    // The same weight directly, squared by candle, and in a term of its own.
    let (z, b, weight) = (var(&[2, 4, 3], 1), var(&[2, 3], 2), normal(&[2, 4, 3], 4));
    let pass = || {
        let tape = Tape::new(Sides::Both);
        let x = Sided::new(z.as_tensor().clone(), Eval::Same, &tape);
        let out = x.plus_bias(b.as_tensor()).unwrap().plus_bias(&b.sqr().unwrap()).unwrap().main().clone();
        let term = b.as_tensor().powf(3.0).unwrap().sum(1).unwrap();
        let fit = (&out * &weight).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap();
        let value = fit + term.sum_all().unwrap().to_scalar::<f64>().unwrap();
        let ones = term.ones_like().unwrap();
        (value, tape.back(vec![(out, weight.clone()), (term, ones)]).unwrap())
    };
    assert_tape_gradients(&[&z, &b], pass, 1e-7);
}

#[test]
fn a_pass_that_evaluates_has_no_way_back() {
    let (z, b, tape) = (var(&[1, 4, 3], 1), var(&[1, 3], 2), Tape::new(Sides::Eval));
    let out = Sided::new(z.as_tensor().clone(), Eval::Same, &tape).plus_bias(b.as_tensor()).unwrap();
    let gradients = tape.back(vec![(out.main().clone(), out.main().ones_like().unwrap())]).unwrap();
    assert!(gradients.of(&b).unwrap().is_none());
}

#[test]
fn a_sum_is_evaluated_if_both_of_its_sides_are() {
    let tape = Tape::new(Sides::Both);
    let t = |x: f64| Tensor::full(x, (1, 2, 2), &Device::Cpu).unwrap();
    let with = |eval| Sided::new(t(1.0), eval, &tape);
    let sum = |a, b| with(a).plus(&with(b)).unwrap().eval().map(|t| flat(t)[0]);
    assert_eq!(sum(Eval::Same, Eval::Same), Some(2.0));
    assert_eq!(sum(Eval::Own(t(5.0)), Eval::Same), Some(6.0));
    assert_eq!(sum(Eval::Own(t(5.0)), Eval::Own(t(7.0))), Some(12.0));
    assert_eq!(sum(Eval::Absent, Eval::Same), None);
}

#[test]
fn responses_of_a_lane_are_the_same_alone_and_in_company() {
    let response = Response::new(&[0.9, 0.5, -0.2, -0.8, -0.9], 3, vec![0..2, 2..5]);
    let gamma = var(&[3, 2, 4], 2).to_dtype(DType::F32).unwrap();
    let together = response.of(&gamma).unwrap();
    for lane in 0..3 {
        let alone = response.of(&gamma.narrow(0, lane, 1).unwrap()).unwrap();
        assert_eq!(flat(&alone), flat(&together.narrow(0, lane, 1).unwrap()));
    }
    assert!(response.of(&normal(&[3, 4, 2], 1)).is_err());
}
