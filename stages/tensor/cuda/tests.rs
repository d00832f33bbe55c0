//! Tests of single kernels against plain loops, on the emulated GPU.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::testing::{here, with_gpu};
use super::*;
use crate::models::testing::{flat, normal};

fn single(dims: &[usize], seed: u64) -> Tensor {
    normal(dims, seed).to_dtype(DType::F32).unwrap().to_device(&here()).unwrap()
}

/// Which of many entries are dropped, with these keys.
fn dropped(keys: &[u64], pass: u64, p: f64, entries: usize) -> Vec<bool> {
    let masks = Masks::new(Arc::new(Keys::new(keys.to_vec())), pass, p);
    let ones = Tensor::ones((keys.len(), entries, 1), DType::F32, &here()).unwrap();
    flat(&dropout(&ones, &masks).unwrap()).iter().map(|x| *x == 0.0).collect()
}

#[test]
fn masks_drop_their_share_independently_of_neighbours_lanes_and_passes() {
    with_gpu(|| {
        let n = 100_000;
        let [now, next] = [11, 12].map(|pass| dropped(&[3, 1 << 63], pass, 0.25, n));
        let share = |count: usize| count as f64 / n as f64;
        // Four standard deviations.
        let near = |found: f64, p: f64| (found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt();
        let both = |a: &[bool], b: &[bool]| share(a.iter().zip(b).filter(|(a, b)| **a && **b).count());
        assert!(near(share(now[..n].iter().filter(|gone| **gone).count()), 0.25));
        assert!(near(both(&now[..n], &next[..n]), 0.0625), "passes");
        assert!(near(both(&now[..n], &now[n..]), 0.0625), "lanes");
        assert!(near(both(&now[..n - 1], &now[1..n]), 0.0625), "neighbours");
    });
}

#[test]
fn masks_are_the_numbers_of_split_mix() {
    // The generator, written from its definition.
    fn mixed(mut x: u64) -> u64 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    with_gpu(|| {
        let (key, pass) = (77, 5);
        let state = mixed(key ^ mixed(pass + 1));
        let number = |i: u64| mixed(state.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 32;
        let expected: Vec<bool> = (0..500).map(|i| number(i) < 1 << 30).collect();
        assert_eq!(dropped(&[key], pass, 0.25, 500), expected);
    });
}

#[test]
fn adam_takes_the_steps_of_its_formula() {
    with_gpu(steps_of_adam);
}

/// Compares some steps with the formula.
pub(crate) fn steps_of_adam() {
    let n = 1001;
    let weights = single(&[7, 143], 1);
    let [first, second] = [0, 1].map(|_| Tensor::zeros((7, 143), DType::F32, &here()).unwrap());
    let (mut w, mut m, mut v) = (flat(&weights), vec![0.0; n], vec![0.0; n]);
    let (lr, decay) = (0.01, 0.05);
    for t in 1..=4 {
        let gradient = single(&[7, 143], 10 + t as u64);
        let [rate, unbias] = [lr / (1.0 - 0.9f64.powi(t)), 1.0 - 0.999f64.powi(t)];
        let step = Step { decay, betas: [0.9, 0.999], epsilon: 1e-8, rate, unbias };
        adam(&weights, [&first, &second], &gradient, &step).unwrap();
        for (i, g) in flat(&gradient).into_iter().enumerate() {
            let g = g + decay * w[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= rate * m[i] / ((v[i] / unbias).sqrt() + 1e-8);
        }
        // 1 − 0.999 in single precision is wrong by 1.3·10⁻⁵, 1 − 0.9 by 2·10⁻⁷; roundings of values cancel in their sums.
        let total = |values: &[f64]| values.iter().map(|x| x.abs()).sum::<f64>();
        for (ours, expected, tolerance) in [(&second, &v, 1e-6), (&first, &m, 1e-7)] {
            let far = (total(&flat(ours)) / total(expected) - 1.0).abs();
            assert!(far < tolerance, "step {t}: {far:.1e}");
        }
    }
    let far = flat(&weights).iter().zip(&w).map(|(ours, w)| (ours - w).abs()).fold(0.0, f64::max);
    assert!(far < 1e-6, "{far:.1e}");
}

#[test]
fn sums_over_nodes_lose_nothing() {
    with_gpu(|| {
        for (lanes, nodes, columns) in [(1, 1, 1), (2, 3000, 3), (3, 17, 40)] {
            let x = single(&[lanes, nodes, columns], 3);
            let values = flat(&x);
            let sum = |at: usize| (0..nodes).map(|i| values[(at / columns * nodes + i) * columns + at % columns]).sum();
            let expected: Vec<f64> = (0..lanes * columns).map(sum).collect();
            let ours = flat(&column_sums(&x).unwrap());
            assert!(ours.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4 * nodes as f64 / 1e3 + 1e-6));
            let y = single(&[lanes, nodes, columns], 4);
            let mut dots = Dots::new(2);
            dots.add(1, &x, &x).unwrap();
            dots.add(0, &x, &y).unwrap();
            let others = flat(&y);
            let of = |lane: usize, other: &[f64]| {
                (lane * nodes * columns..(lane + 1) * nodes * columns).map(|at| values[at] * other[at]).sum::<f64>()
            };
            let expected: Vec<f64> = (0..lanes).flat_map(|lane| [of(lane, &others), of(lane, &values)]).collect();
            let ours = flat(&dots.sum().unwrap());
            assert!(ours.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs())));
        }
    });
}

#[test]
fn a_matrix_without_entries_and_features_without_any_are_fine() {
    with_gpu(|| {
        let none = Sparse::new(&here(), &[0u32, 0, 0], &[], &[], 2).unwrap();
        let out = none.times(&single(&[2, 2, 3], 5)).unwrap();
        assert!(flat(&out).iter().all(|x| *x == 0.0) && out.dims() == [2, 2, 3]);
    });
}

#[test]
fn what_does_not_fit_is_refused_before_a_kernel_starts() {
    with_gpu(|| {
        let before = Counts::so_far();
        let x = single(&[2, 3, 4], 6);
        assert!(plus_bias(&x, &single(&[2, 5], 7)).is_err());
        assert!(combine(&x, 1.0, &single(&[2, 3, 5], 8), 1.0).is_err());
        assert!(rectify(&x.to_dtype(DType::F64).unwrap(), None, None).is_err());
        assert!(apart(&x, 2, 2).is_err());
        let none = Tensor::zeros((2, 0, 4), DType::F32, &here()).unwrap();
        let error = rectify(&none, None, None).unwrap_err();
        assert!(error.to_string().contains("`rectify` has nothing to do"), "{error}");
        assert_eq!(Counts::so_far(), before);
    });
}
