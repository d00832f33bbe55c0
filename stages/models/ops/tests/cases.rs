//! The operations, and how candle computes the same.

mod attention;
mod columns;
mod directed;
mod gated;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

use super::super::sided::Eval;
use super::super::*;
use crate::kinds::{Features, Matrix};
use crate::math::csr::Csr;
use crate::math::random::Stream;
use crate::math::testing::random;
use crate::math::testing::symmetric;
use crate::models::testing::{flat, normal};
use crate::models::{FeatureView, Input};
use crate::tensor::cuda;
use crate::tensor::cuda::testing::here;
use crate::tensor::slices::by_float;
pub use attention::attention;
pub use gated::gated_sums;

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub lanes: usize,
    pub nodes: usize,
    pub columns: usize,
    pub features: u32,
    pub hidden: usize,
    pub pairs: usize,
}

/// Inputs, lanes first, the first of them with this evaluation side if there is one; which lanes they are; the tape.
type Op = dyn Fn(&[Tensor], Option<&Tensor>, Range<usize>, &Tape) -> Result<Sided> + Send + Sync;
type Plain = dyn Fn(&[Tensor]) -> Tensor + Send + Sync;

/// An operation with its inputs.
pub struct Case {
    pub name: String,
    pub lanes: usize,
    /// Lanes first, in double precision.
    pub inputs: Vec<Tensor>,
    pub op: Box<Op>,
    /// The same by candle.
    pub plain: Box<Plain>,
    /// Whether the first input may have an evaluation side, on which the operation does the same.
    pub has_beside: bool,
    /// Inputs that may have any number of columns.
    pub any_width: Vec<usize>,
}

fn sided(main: &Tensor, eval: Option<&Tensor>, tape: &Tape) -> Sided {
    Sided::new(main.clone(), eval.map_or(Eval::Same, |eval| Eval::Own(eval.clone())), tape)
}

/// A second input, which has an evaluation side of its own where the first has: of the same values, but another tensor.
fn beside(main: &Tensor, eval: Option<&Tensor>, tape: &Tape) -> Sided {
    sided(main, eval.map(|_| main.copy().unwrap()).as_ref(), tape)
}

/// One mask per lane; hashed where tensors are on a GPU.
fn masks(lanes: usize, entries: usize, seed: u64) -> Masks {
    if crate::tensor::is_gpu(&here()) {
        let keys = (0..lanes as u64).map(|lane| seed << 32 | lane).collect();
        return Arc::new(LaneMasks::Hashed(cuda::Masks::new(Arc::new(cuda::Keys::new(keys)), seed, 0.4)));
    }
    let mut stream = Stream::new(seed, &["test", "masks"]);
    Arc::new(LaneMasks::Drawn((0..lanes).map(|_| Mask::draw(&mut stream, entries, 0.4)).collect()))
}

fn of_lanes(masks: &Masks, lanes: Range<usize>) -> Masks {
    if let LaneMasks::Hashed(masks) = &**masks {
        return Arc::new(LaneMasks::Hashed(masks.of_lanes(lanes)));
    }
    Arc::new(LaneMasks::Drawn(lanes.filter_map(|lane| masks.lane(lane).cloned()).collect()))
}

/// What masks multiply with, lanes × shape.
fn factors(masks: &Masks, shape: &[usize]) -> Tensor {
    if let LaneMasks::Hashed(masks) = &**masks {
        if shape.contains(&0) {
            return Tensor::zeros([&[masks.lanes()], shape].concat(), DType::F64, &Device::Cpu).unwrap();
        }
        let ones = Tensor::ones((masks.lanes(), shape.iter().product(), 1), DType::F32, &here()).unwrap();
        let factors = cuda::dropout(&ones, masks).unwrap().to_device(&Device::Cpu).unwrap();
        let factors = factors.to_dtype(DType::F64).unwrap();
        return factors.reshape([&[masks.lanes()], shape].concat()).unwrap();
    }
    let lane = |mask: &Mask| {
        let mut ones = vec![1.0; shape.iter().product()];
        mask.apply(&mut ones);
        ones
    };
    let masks: Vec<&Mask> = (0..).map_while(|lane| masks.lane(lane)).collect();
    let shape = [&[masks.len()], shape].concat();
    Tensor::from_vec(masks.into_iter().flat_map(lane).collect::<Vec<f64>>(), shape, &Device::Cpu).unwrap()
}

/// A·Z of every lane, A the same for all.
fn times(a: &Tensor, z: &Tensor) -> Tensor {
    a.broadcast_left(z.dim(0).unwrap()).unwrap().contiguous().unwrap().matmul(z).unwrap()
}

fn layer(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    x.matmul(w).unwrap().broadcast_add(&b.unsqueeze(1).unwrap()).unwrap()
}

fn dense(matrix: &Csr) -> Tensor {
    let n = matrix.n();
    let full: Vec<f64> = (0..n * n).map(|at| matrix.get(at / n, at % n)).collect();
    Tensor::from_vec(full, (n, n), &Device::Cpu).unwrap()
}

/// Every operation; `plain` is slow for many nodes.
pub fn cases(s: Sizes) -> Vec<Case> {
    let z = normal(&[s.lanes, s.nodes, s.columns], 1);
    let case = |name: &str, inputs: Vec<Tensor>, op: Box<Op>, plain: Box<Plain>| Case {
        name: name.to_owned(),
        lanes: s.lanes,
        inputs,
        op,
        plain,
        has_beside: true,
        any_width: Vec::new(),
    };
    let (w, b) = (normal(&[s.lanes, s.columns, s.hidden], 2), normal(&[s.lanes, s.hidden], 3));
    let mut all = vec![
        case(
            "product and bias",
            vec![z.clone(), w.clone(), b],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).times(&x[1])?.plus_bias(&x[2])),
            Box::new(|x| layer(&x[0], &x[1], &x[2])),
        ),
        Case {
            any_width: vec![1],
            ..case(
                "product",
                vec![z.clone(), w],
                Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).times(&x[1])),
                Box::new(|x| x[0].matmul(&x[1]).unwrap()),
            )
        },
        case(
            "bias",
            vec![z.clone(), normal(&[s.lanes, s.columns], 4)],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).plus_bias(&x[1])),
            Box::new(|x| x[0].broadcast_add(&x[1].unsqueeze(1).unwrap()).unwrap()),
        ),
        case(
            "sum",
            vec![z.clone(), normal(&[s.lanes, s.nodes, s.columns], 5)],
            Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).plus(&beside(&x[1], eval, tape))),
            Box::new(|x| (&x[0] + &x[1]).unwrap()),
        ),
        Case {
            any_width: vec![0],
            ..case(
                "relu",
                vec![z.clone()],
                Box::new(|x, eval, _, tape| sided(&x[0], eval, tape).relu()),
                Box::new(|x| x[0].relu().unwrap()),
            )
        },
    ];
    all.push(gated(s, &z));
    all.extend(columns::cases(s, &z));
    all.extend(on_graph(s, &z));
    all.extend(with_masks(s, &z));
    all.extend(units(s));
    all.extend(gated_sums(s));
    all.extend(attention(s).into_iter().flatten());
    all.push(attention::link_loss(s));
    all.extend(directed::directed(s));
    for sparse in [false, true] {
        for hidden in [false, true] {
            all.extend([0, 1, 2].map(|passes| on_features(s, sparse, hidden, passes)));
        }
    }
    all
}

/// X ⊙ Y ⊙ w with w of every lane, columns: what gates and attention are like, two inputs that both have two sides, a
/// weight, and something that is kept for the way back.
fn gated(s: Sizes, z: &Tensor) -> Case {
    fn gate(x: &Sided, y: &Sided, w: &Tensor) -> Result<Sided> {
        if x.dims() != y.dims() || w.dims() != [x.lanes(), x.dims()[2]] {
            candle_core::bail!("{:?}, {:?} and {:?} do not fit", x.dims(), y.dims(), w.dims());
        }
        let (lane, columns) = (x.dims()[1] * x.dims()[2], x.dims()[2]);
        by_float!(x.dtype(), "a gate", T => operation::<T, Vec<T>, 2, 1>(
            [x, y],
            [w],
            x.dims(),
            |sides, [w]| {
                let weight = |at: usize| w[at / lane * columns + at % columns];
                let one = |[x, y]: &[&[T]; 2]| (0..x.len()).map(|at| x[at] * y[at] * weight(at)).collect();
                let product = sides[0][0].iter().zip(sides[0][1]).map(|(x, y)| *x * *y).collect();
                Ok((sides.iter().map(one).collect(), product))
            },
            move |Back { kept, gradient: g, inputs: [x, y], weights: [w], .. }| {
                let weight = |at: usize| w[at / lane * columns + at % columns];
                let mut of_w = vec![T::default(); w.len()];
                (0..g.len()).for_each(|at| of_w[at / lane * columns + at % columns] += g[at] * kept[at]);
                let of = |other: &[T]| Gradient::Of((0..g.len()).map(|at| g[at] * other[at] * weight(at)).collect());
                Ok(vec![of(y), of(x), Gradient::Of(of_w)])
            },
        ))
    }
    Case {
        name: "gate".into(),
        lanes: s.lanes,
        inputs: vec![z.clone(), normal(z.dims(), 31), normal(&[s.lanes, s.columns], 32)],
        op: Box::new(|x, eval, _, tape| gate(&sided(&x[0], eval, tape), &beside(&x[1], eval, tape), &x[2])),
        plain: Box::new(|x| (&x[0] * &x[1]).unwrap().broadcast_mul(&x[2].unsqueeze(1).unwrap()).unwrap()),
        has_beside: true,
        any_width: Vec::new(),
    }
}

fn on_graph(s: Sizes, z: &Tensor) -> Vec<Case> {
    let matrix = symmetric(s.nodes, 3, 6);
    let operator = Arc::new(Propagator::new(matrix.clone()));
    // Only small graphs are compared with dense products.
    let full = if s.nodes < 1000 { dense(&matrix) } else { normal(&[1, 1], 0) };
    let rows: Vec<f32> = flat(&normal(&[s.pairs + 2, s.nodes], 7)).iter().map(|x| (x * 0.3) as f32).collect();
    // Some of the pairs, neither the first nor the last.
    let vectors = [DType::F32, DType::F64]
        .map(|dtype| Eigenvectors::new(&[&rows[..s.nodes], &rows[s.nodes..]], s.nodes, dtype, &here()).unwrap())
        .map(|all| all.keep(1..s.pairs + 1));
    let kept: Vec<f64> = rows[s.nodes..(s.pairs + 1) * s.nodes].iter().map(|x| f64::from(*x)).collect();
    let u = Tensor::from_vec(kept, (s.pairs, s.nodes), &Device::Cpu).unwrap();
    let (of, full_of) = (operator.clone(), full.clone());
    let (vectors_again, u_again) = (vectors.clone(), u.clone());
    let mut all = vec![
        Case {
            name: "synthesize".into(),
            lanes: s.lanes,
            inputs: vec![normal(&[s.lanes, s.pairs, s.columns], 12), normal(&[s.lanes, s.pairs], 13)],
            op: Box::new(move |x, eval, _, tape| {
                let vectors = &vectors_again[usize::from(x[0].dtype() == DType::F64)];
                sided(&x[0], eval, tape).synthesize(vectors, &x[1])
            }),
            plain: Box::new(move |x| {
                times(&u_again.t().unwrap(), &x[0].broadcast_mul(&x[1].unsqueeze(2).unwrap()).unwrap())
            }),
            has_beside: true,
            any_width: vec![0],
        },
        Case {
            name: "propagate".into(),
            lanes: s.lanes,
            inputs: vec![z.clone()],
            op: Box::new(move |x, eval, _, tape| sided(&x[0], eval, tape).propagate(&of)),
            plain: Box::new(move |x| times(&full_of, &x[0])),
            has_beside: true,
            any_width: vec![0],
        },
        Case {
            name: "filter".into(),
            lanes: s.lanes,
            inputs: vec![z.clone(), normal(&[s.lanes, s.pairs], 8)],
            op: Box::new(move |x, eval, _, tape| {
                let vectors = &vectors[usize::from(x[0].dtype() == DType::F64)];
                sided(&x[0], eval, tape).filter(vectors, &x[1])
            }),
            plain: Box::new(move |x| {
                let y = times(&u, &x[0]).broadcast_mul(&x[1].unsqueeze(2).unwrap()).unwrap();
                times(&u.t().unwrap(), &y)
            }),
            has_beside: true,
            any_width: vec![0],
        },
    ];
    for (basis, order) in [(Basis::Powers, 0), (Basis::Powers, 3), (Basis::Chebyshev, 1), (Basis::Chebyshev, 4)] {
        let (of, full) = (operator.clone(), full.clone());
        all.push(Case {
            name: format!("{basis:?} up to {order}"),
            lanes: s.lanes,
            inputs: vec![z.clone(), normal(&[s.lanes, order + 1], 9)],
            op: Box::new(move |x, eval, _, tape| sided(&x[0], eval, tape).polynomial(&of, basis, &x[1])),
            plain: Box::new(move |x| {
                let mut hops = vec![x[0].clone()];
                for k in 1..=order {
                    let next = times(&full, &hops[k - 1]);
                    let chebyshev = basis == Basis::Chebyshev && k > 1;
                    hops.push(if chebyshev { ((next * 2.0).unwrap() - &hops[k - 2]).unwrap() } else { next });
                }
                let term = |(k, hop): (usize, &Tensor)| {
                    hop.broadcast_mul(&x[1].narrow(1, k, 1).unwrap().unsqueeze(2).unwrap()).unwrap()
                };
                hops.iter().enumerate().map(term).reduce(|a, b| (a + b).unwrap()).unwrap()
            }),
            has_beside: true,
            any_width: vec![0, 1],
        });
    }
    all
}

fn with_masks(s: Sizes, z: &Tensor) -> Vec<Case> {
    let masks = masks(s.lanes, s.nodes * s.columns, 10);
    let factors = factors(&masks, &[s.nodes, s.columns]);
    let (of_product, times) = (masks.clone(), factors.clone());
    let product = Case {
        name: "dropout and product".into(),
        lanes: s.lanes,
        inputs: vec![z.clone(), normal(&[s.lanes, s.columns, s.hidden], 17)],
        op: Box::new(move |x, _, lanes, tape| {
            sided(&x[0], None, tape).masked_times(&x[1], Some(of_lanes(&of_product, lanes)))
        }),
        plain: Box::new(move |x| (&x[0] * &times).unwrap().matmul(&x[1]).unwrap()),
        has_beside: false,
        any_width: vec![1],
    };
    [false, true]
        .map(|rectifies| {
            let (masks, factors) = (masks.clone(), factors.clone());
            Case {
                name: if rectifies { "relu and dropout" } else { "dropout" }.into(),
                lanes: s.lanes,
                inputs: vec![z.clone()],
                op: Box::new(move |x, _, lanes, tape| {
                    let (x, masks) = (sided(&x[0], None, tape), of_lanes(&masks, lanes));
                    if rectifies { x.units(None, None, Some(masks)) } else { x.masked(masks) }
                }),
                plain: Box::new(move |x| {
                    let x = if rectifies { x[0].relu().unwrap() } else { x[0].clone() };
                    (x * &factors).unwrap()
                }),
                has_beside: false,
                any_width: vec![0],
            }
        })
        .into_iter()
        .chain([product])
        .collect()
}

/// Layers on features; `passes` with masks of their own whose outputs are added, or one without masks.
pub fn on_features(s: Sizes, sparse: bool, hidden: bool, passes: usize) -> Case {
    let columns = s.features as usize;
    let features = if sparse {
        Features::Sparse(random(s.nodes, s.features, 0.3, 11))
    } else {
        let data = flat(&normal(&[s.nodes, columns], 12)).iter().map(|x| *x as f32).collect();
        Features::Dense(Matrix { rows: s.nodes, cols: columns, data })
    };
    let views = [DType::F32, DType::F64].map(|dtype| Arc::new(FeatureView::new(&features, dtype).unwrap()));
    let pass = |seed: u64| PassMasks {
        features: Some(masks(s.lanes, Input::new(&views[0], &Tape::new(Sides::Eval)).stored(), seed)),
        hidden: hidden.then(|| masks(s.lanes, s.nodes * s.hidden, seed + 1)),
    };
    let masks: Vec<PassMasks> = match passes {
        0 => vec![PassMasks::default()],
        _ => (0..passes as u64).map(|i| pass(20 + 2 * i)).collect(),
    };
    // The features of every lane and pass as the first layer sees them, and what the hidden units are multiplied with.
    let seen = |pass: &PassMasks| {
        let lane = |lane: usize| {
            let mut values: Vec<f64> = features.values().iter().map(|x| f64::from(*x)).collect();
            if let Some(masks) = &pass.features {
                let factors = flat(&factors(masks, &[values.len()]).get(lane).unwrap());
                values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
            }
            let mut full = vec![0.0; s.nodes * columns];
            for (at, x) in values.into_iter().enumerate() {
                let (row, column) = features.place(at);
                full[row * columns + column] = x;
            }
            full
        };
        let full: Vec<f64> = (0..s.lanes).flat_map(lane).collect();
        Tensor::from_vec(full, (s.lanes, s.nodes, columns), &Device::Cpu).unwrap()
    };
    let plain: Vec<(Tensor, Option<Tensor>)> = masks
        .iter()
        .map(|pass| (seen(pass), pass.hidden.as_ref().map(|masks| factors(masks, &[s.nodes, s.hidden]))))
        .collect();
    let mut inputs = vec![normal(&[s.lanes, columns, s.hidden], 13), normal(&[s.lanes, s.hidden], 14)];
    if hidden {
        inputs.extend([normal(&[s.lanes, s.hidden, s.columns], 15), normal(&[s.lanes, s.columns], 16)]);
    }
    let op = move |x: &[Tensor], _: Option<&Tensor>, lanes: Range<usize>, tape: &Tape| {
        let layer = |i: usize| LayerWeights { weight: x[i].clone(), bias: Some(x[i + 1].clone()) };
        let some = |masks: &Masks| of_lanes(masks, lanes.clone());
        let masks = masks.iter().map(|pass| PassMasks {
            features: pass.features.as_ref().map(some),
            hidden: pass.hidden.as_ref().map(some),
        });
        let view = &views[usize::from(x[0].dtype() == DType::F64)];
        let (x, second) = (Input::new(view, tape), hidden.then(|| layer(2)));
        let outputs = match <[PassMasks; 1]>::try_from(masks.collect::<Vec<_>>()) {
            Ok(one) => x.layers(layer(0), second, one)?.to_vec(),
            Err(two) => x.layers::<2>(layer(0), second, two.try_into().ok().unwrap())?.to_vec(),
        };
        let (first, others) = outputs.split_first().unwrap();
        others.iter().try_fold(first.clone(), |sum, other| sum.plus(other))
    };
    Case {
        name: format!(
            "{} layer{} on {} features, {passes} passes with masks",
            if hidden { 2 } else { 1 },
            if hidden { "s" } else { "" },
            if sparse { "sparse" } else { "dense" }
        ),
        lanes: s.lanes,
        inputs,
        op: Box::new(op),
        plain: Box::new(move |x| {
            let one = |(seen, units): &(Tensor, Option<Tensor>)| {
                let first = layer(seen, &x[0], &x[1]);
                if x.len() == 2 {
                    return first;
                }
                let h = first.relu().unwrap();
                layer(&units.as_ref().map_or(h.clone(), |units| (&h * units).unwrap()), &x[2], &x[3])
            };
            plain.iter().map(one).reduce(|a, b| (a + b).unwrap()).unwrap()
        }),
        has_beside: false,
        any_width: Vec::new(),
    }
}

/// drop(ReLU(X + b)) and drop(ReLU(S·X + b)), with and without masks.
pub fn units(s: Sizes) -> Vec<Case> {
    let matrix = symmetric(s.nodes, 3, 21);
    let (full, operator) = (dense(&matrix), Arc::new(Propagator::new(matrix)));
    let masks = masks(s.lanes, s.nodes * s.columns, 22);
    let factors = factors(&masks, &[s.nodes, s.columns]);
    let (z, b) = (normal(&[s.lanes, s.nodes, s.columns], 23), normal(&[s.lanes, s.columns], 24));
    let case = |propagates: bool, drops: bool| {
        let (operator, full) = (propagates.then(|| operator.clone()), propagates.then(|| full.clone()));
        let (masks, factors) = (drops.then(|| masks.clone()), drops.then(|| factors.clone()));
        Case {
            name: format!(
                "units{}{}",
                if propagates { ", propagated" } else { "" },
                if drops { ", dropped" } else { "" }
            ),
            lanes: s.lanes,
            inputs: vec![z.clone(), b.clone()],
            op: Box::new(move |x, eval, lanes, tape| {
                let (masks, bias) = (masks.as_ref().map(|masks| of_lanes(masks, lanes)), Some(x[1].clone()));
                let x = sided(&x[0], eval, tape);
                match &operator {
                    Some(operator) => x.propagated_units(operator, bias, masks),
                    None => x.units(None, bias, masks),
                }
            }),
            plain: Box::new(move |x| {
                let z = full.as_ref().map_or(x[0].clone(), |full| times(full, &x[0]));
                let units = z.broadcast_add(&x[1].unsqueeze(1).unwrap()).unwrap().relu().unwrap();
                factors.as_ref().map_or(units.clone(), |factors| (&units * factors).unwrap())
            }),
            has_beside: !drops,
            any_width: Vec::new(),
        }
    };
    [(false, false), (false, true), (true, false), (true, true)]
        .map(|(propagates, drops)| case(propagates, drops))
        .into()
}
