//! Batch normalisation: what evaluation does, and which moments are handed on.

use candle_core::{DType, Device, Tensor};

use super::super::sided::Eval;
use super::super::*;
use crate::models::testing::{distance, normal};

const LANES: usize = 2;
const COLUMNS: usize = 5;

fn row(value: f64) -> Tensor {
    Tensor::full(value, (LANES, COLUMNS), &Device::Cpu).unwrap()
}

#[test]
fn evaluation_uses_the_running_moments_and_training_those_of_the_nodes() {
    let (z, scale, shift) =
        (normal(&[LANES, 30, COLUMNS], 1), normal(&[LANES, COLUMNS], 2), normal(&[LANES, COLUMNS], 3));
    let running = Moments { mean: row(0.5), variance: row(4.0) };
    let x = |sides| Sided::new(z.clone(), Eval::Same, &Tape::new(sides));
    let norm = Norm { scale: scale.clone(), shift: shift.clone(), running: &running };
    let (both, seen) = x(Sides::Both).batch_norm(&norm).unwrap();
    let expected = ((&z - 0.5).unwrap() / (4.0 + 1e-5_f64).sqrt()).unwrap();
    let expected = expected.broadcast_mul(&scale.unsqueeze(1).unwrap()).unwrap();
    let expected = expected.broadcast_add(&shift.unsqueeze(1).unwrap()).unwrap();
    assert!(distance(both.eval().unwrap(), &expected) < 1e-12);
    assert!(distance(both.main(), &expected) > 0.1, "training has moments of its own");
    let (alone, none) = x(Sides::Eval).batch_norm(&norm).unwrap();
    assert!(distance(alone.main(), &expected) < 1e-12 && none.is_none());
    let (training, _) = x(Sides::Train).batch_norm(&norm).unwrap();
    assert!(training.eval().is_none());
    assert_eq!(distance(training.main(), both.main()), 0.0);

    let seen = seen.unwrap();
    let mean = z.mean(1).unwrap();
    let variance = z.broadcast_sub(&mean.unsqueeze(1).unwrap()).unwrap().sqr().unwrap().mean(1).unwrap();
    assert!(distance(&seen.mean, &mean) < 1e-12 && distance(&seen.variance, &variance) < 1e-12, "biased");
}

#[test]
fn large_means_do_not_swallow_the_variance() {
    // In single precision the mean of squares of numbers around 1000 would be wrong in its third digit.
    let z = (normal(&[LANES, 4000, COLUMNS], 4) + 1000.0).unwrap().to_dtype(DType::F32).unwrap();
    let one = |value: f64| row(value).to_dtype(DType::F32).unwrap();
    let x = Sided::new(z, Eval::Same, &Tape::new(Sides::Train));
    let running = Moments { mean: one(0.0), variance: one(1.0) };
    let norm = Norm { scale: one(1.0), shift: one(0.0), running: &running };
    let (out, seen) = x.batch_norm(&norm).unwrap();
    let variance = seen.unwrap().variance.to_vec2::<f32>().unwrap().concat();
    assert!(variance.iter().all(|v| (0.9..1.1).contains(v)), "{variance:?}");
    let square = out.main().sqr().unwrap().mean_all().unwrap().to_scalar::<f32>().unwrap();
    assert!((square - 1.0).abs() < 1e-3, "{square}");
}
