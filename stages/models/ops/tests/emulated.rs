//! The operations as they run on a GPU, on an emulated one: their kernels and their own composition of them, forward and back.
//! Skipped where there is no C++ compiler.

use super::*;
use crate::tensor::cuda::emulated::{Emulator, KERNELS};
use crate::tensor::cuda::testing::{here, with_gpu};
use crate::tensor::cuda::tests::steps_of_adam;

/// Cases of operations that are ours: that of a gate is written for these tests, in main memory.
fn on_gpu(sizes: Sizes) -> impl Iterator<Item = Case> {
    cases(sizes).into_iter().filter(|case| case.name != "gate")
}

#[test]
fn values_and_gradients_on_a_gpu_equal_those_of_plain_products() {
    with_gpu(|| {
        for sizes in SIZES {
            for case in on_gpu(sizes) {
                let ours = run(&case, &(0..case.lanes), DType::F32);
                for (i, (ours, plain)) in ours.iter().zip(&run_plain(&case)).enumerate() {
                    assert_eq!(ours.dims(), plain.dims(), "{} with {sizes:?}: {i}", case.name);
                    let far = distance(ours, plain) / size_of(plain);
                    assert!(far < 1e-5, "{} with {sizes:?}: {i} differs by {far}", case.name);
                }
            }
        }
    });
}

#[test]
fn a_gpu_gives_the_same_bytes_again() {
    with_gpu(|| {
        for case in on_gpu(SIZES[2]) {
            let twice = || run(&case, &(0..case.lanes), DType::F32).iter().map(bits).collect::<Vec<_>>();
            assert!(twice() == twice(), "{}", case.name);
        }
    });
}

#[test]
fn tensors_that_begin_inside_their_memory_change_no_byte() {
    with_gpu(|| {
        for case in on_gpu(SMALL) {
            let inside = |tensor: &Tensor| {
                let more = Tensor::cat(&[&tensor.ones_like().unwrap(), tensor], 0).unwrap();
                more.narrow(0, tensor.dim(0).unwrap(), tensor.dim(0).unwrap()).unwrap()
            };
            let result = |inputs: &[Tensor]| {
                let tape = Tape::new(Sides::Train);
                let out = (case.op)(inputs, None, 0..case.lanes, &tape).unwrap().main().clone();
                let gradients = tape.back(vec![(out.clone(), weight(&case, &(0..case.lanes), &out))]).unwrap();
                drop(gradients);
                bits(&out)
            };
            let plain = tensors(&inputs(&case, &(0..case.lanes), DType::F32));
            let views: Vec<Tensor> = plain.iter().map(inside).collect();
            assert_eq!(result(&views), result(&plain), "{}", case.name);
        }
    });
}

#[test]
fn the_evaluation_beside_on_a_gpu_is_that_of_one_alone() {
    with_gpu(|| {
        for sizes in [SMALL, SIZES[1]] {
            for case in on_gpu(sizes).filter(|case| case.has_beside) {
                let all = 0..case.lanes;
                let vars = tensors(&inputs(&case, &all, DType::F32));
                let eval = normal(vars[0].dims(), 99).to_dtype(DType::F32).unwrap().to_device(&here()).unwrap();
                let both = (case.op)(&vars, Some(&eval), all.clone(), &Tape::new(Sides::Both)).unwrap();
                let swapped = [vec![eval], vars[1..].to_vec()].concat();
                let alone = (case.op)(&swapped, None, all.clone(), &Tape::new(Sides::Eval)).unwrap();
                let far = distance(both.eval().unwrap(), alone.main()) / size_of(alone.main());
                assert!(far < 1e-6, "{} with {sizes:?}: {far}", case.name);
                let main = (case.op)(&vars, None, all.clone(), &Tape::new(Sides::Train)).unwrap();
                let far = distance(both.main(), main.main()) / size_of(main.main());
                assert!(far < 1e-6, "{} with {sizes:?}: the other side: {far}", case.name);
            }
        }
    });
}

#[test]
fn evaluation_on_a_gpu_sees_what_is_there_before_dropout() {
    with_gpu(|| {
        let (units, gated, attention) = (units(SMALL), gated_sums(SMALL), attention(SMALL));
        for [kept, dropped] in units.as_chunks::<2>().0.iter().chain([&gated]).chain(&attention) {
            let all = 0..kept.lanes;
            let vars = tensors(&inputs(kept, &all, DType::F32));
            let both = (dropped.op)(&vars, None, all.clone(), &Tape::new(Sides::Both)).unwrap();
            let expected = (kept.op)(&vars, None, all.clone(), &Tape::new(Sides::Both)).unwrap();
            assert_eq!(bits(both.eval().unwrap()), bits(expected.main()), "{}", dropped.name);
            assert_ne!(bits(both.main()), bits(expected.main()), "{}: something is dropped", dropped.name);
        }
    });
}

#[test]
fn an_operation_without_a_form_for_a_gpu_is_refused_there() {
    with_gpu(|| {
        let case = cases(SMALL).into_iter().find(|case| case.name == "gate").unwrap();
        let vars = tensors(&inputs(&case, &(0..case.lanes), DType::F32));
        let error = (case.op)(&vars, None, 0..case.lanes, &Tape::new(Sides::Train)).err().unwrap();
        assert!(error.to_string().starts_with("a tensor in main memory is needed here"), "{error}");
    });
}

#[test]
fn every_kernel_is_started_by_an_operation() {
    let Some(gpu) = Emulator::of(KERNELS) else { return };
    gpu.run(|| {
        on_gpu(SMALL).for_each(|case| drop(run(&case, &(0..case.lanes), DType::F32)));
        steps_of_adam();
        let (logits, targets) = (normal(&[2, 6, 3], 1).to_dtype(DType::F32).unwrap(), targets());
        let sided = Sided::new(logits.clone(), sided::Eval::Same, &Tape::new(Sides::Both));
        score_pass(&sided, Some(&targets), None, Some(&targets)).unwrap();
        keep_lanes(&mut Some(logits.copy().unwrap()), &logits, &[1]).unwrap();
    });
    assert_eq!(gpu.unused(), [""; 0]);
}

fn targets() -> Targets {
    Targets::new([0, 1, 2, 0, 1, 2].into(), vec![vec![0, 2, 3], vec![1]])
}

#[test]
fn losses_and_scores_on_a_gpu_are_those_of_the_cpu() {
    let sizes = [(1, 1, 2), (3, 301, 5), (2, 3000, 3)];
    let on = |(lanes, nodes, classes): (usize, usize, usize)| {
        let logits = normal(&[lanes, nodes, classes], 5).to_dtype(DType::F32).unwrap().to_device(&here()).unwrap();
        let labels = (0..nodes).map(|i| (i * 7 % classes) as u32).collect();
        let of_lane = |lane: usize| (0..nodes as u32).step_by(lane + 1).collect();
        let targets = Targets::new(labels, (0..lanes).map(of_lane).collect());
        let term = Tensor::ones(lanes, DType::F32, logits.device()).unwrap();
        let sided = Sided::new(logits.clone(), sided::Eval::Same, &Tape::new(Sides::Both));
        let scores = score_pass(&sided, Some(&targets), Some(&term), Some(&targets)).unwrap();
        let (losses, gradient) = scores.train.unwrap();
        (losses, flat(&gradient), scores.val.unwrap())
    };
    with_gpu(|| {
        let ours = sizes.map(on);
        let theirs = std::thread::scope(|scope| scope.spawn(|| sizes.map(on)).join().unwrap());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let near = |a: &f64, b: &f64| (a - b).abs() < 1e-5 * (1.0 + b.abs());
            assert!(ours.0.iter().zip(&theirs.0).all(|(a, b)| near(a, b)));
            assert!(ours.1.iter().zip(&theirs.1).all(|(a, b)| near(a, b)));
            assert!(ours.2.iter().zip(&theirs.2).all(|(a, b)| near(&a.loss, &b.loss) && a.accuracy == b.accuracy));
        }
    });
}

#[test]
fn values_are_kept_and_read_lane_by_lane() {
    with_gpu(|| {
        let now = |seed| normal(&[3, 5, 2], seed).to_dtype(DType::F32).unwrap().to_device(&here()).unwrap();
        let mut kept = None;
        keep_lanes(&mut kept, &now(1), &[1]).unwrap();
        keep_lanes(&mut kept, &now(2), &[0, 2]).unwrap();
        let many = normal(&[70, 2], 3).to_dtype(DType::F32).unwrap().to_device(&here()).unwrap();
        let mut none = Some(many.zeros_like().unwrap());
        keep_lanes(&mut none, &many, &[3, 66]).unwrap();
        for lane in [3, 4, 66, 67] {
            let there = lane_values(none.as_ref().unwrap(), lane).unwrap() == lane_values(&many, lane).unwrap();
            assert_eq!(there, [3, 66].contains(&lane));
        }
        for (lane, seed) in [(0, 2), (1, 1), (2, 2)] {
            let expected: Vec<f32> = now(seed).get(lane).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            assert_eq!(lane_values(kept.as_ref().unwrap(), lane).unwrap(), expected);
        }
    });
}

/// A change of the kernels that a reader could miss, and what finds it.
struct Mutation {
    what: &'static str,
    from: &'static str,
    to: &'static str,
    /// Whether the operations find it; else the optimiser does.
    by_operations: bool,
}

const MUTATIONS: [Mutation; 5] = [
    Mutation {
        what: "the order of two arguments of the same type",
        from: "spmm(const u32 *starts, const u32 *indices,",
        to: "spmm(const u32 *indices, const u32 *starts,",
        by_operations: true,
    },
    Mutation {
        what: "a bound",
        from: "for (u32 e = starts[i]; e < starts[i + 1]; e++) sum += values[e] * z",
        to: "for (u32 e = starts[i]; e <= starts[i + 1]; e++) sum += values[e] * z",
        by_operations: true,
    },
    Mutation {
        what: "a constant of the optimiser",
        from: "beta2 * v[i] + rest2 * slope",
        to: "beta2 * v[i] + (1.0f - beta2) * slope",
        by_operations: false,
    },
    Mutation { what: "the slope of LeakyReLU", from: "0.2f * x", to: "0.21f * x", by_operations: true },
    Mutation {
        what: "a type that is declared",
        from: "plus_bias(const float *x, const float *bias, u64 size, u32 columns",
        to: "plus_bias(const float *x, const float *bias, u64 size, u64 columns",
        by_operations: true,
    },
];

#[test]
fn a_change_of_a_kernel_is_found() {
    for Mutation { what, from, to, by_operations } in MUTATIONS {
        assert_eq!(KERNELS.matches(from).count(), 1, "{what}");
        let Some(gpu) = Emulator::of(&KERNELS.replace(from, to)) else { return };
        let suite = || match by_operations {
            true => on_gpu(SMALL).all(|case| {
                let ours = run(&case, &(0..case.lanes), DType::F32);
                ours.iter().zip(&run_plain(&case)).all(|(ours, plain)| distance(ours, plain) / size_of(plain) < 1e-5)
            }),
            false => {
                steps_of_adam();
                true
            }
        };
        let passes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gpu.run(suite)));
        assert!(!matches!(passes, Ok(true)), "nobody notices a change of {what}");
    }
}
