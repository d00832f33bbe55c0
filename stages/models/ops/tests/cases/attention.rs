//! Attention and losses on pairs, and how candle computes the same with matrices nodes × nodes.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Case, Sizes, factors as of_masks, masks, of_lanes, sided};
use crate::math::kernels::heads::Heads;
use crate::math::pairs::{some_edges, some_others};
use crate::math::random::Stream;
use crate::math::testing::symmetric;
use crate::models::ops::attention::mask_size;
use crate::models::ops::{Links, Masks, Merge, Propagator};
use crate::models::testing::{flat, normal};

/// Heads that fill a block and that do not, and more than a block has.
const HEADS: [(usize, bool, Merge); 6] = [
    (8, true, Merge::Join),
    (8, true, Merge::Mean),
    (3, false, Merge::Join),
    (1, false, Merge::Mean),
    (19, true, Merge::Mean),
    (18, false, Merge::Join),
];

/// Attention by every number of heads, mixed and scaled, joined and averaged; without masks and with them.
pub fn attention(s: Sizes) -> Vec<[Case; 2]> {
    HEADS.map(|(heads, mixed, merge)| [false, true].map(|drops| one(s, heads, mixed, merge, drops))).into()
}

fn one(s: Sizes, heads: usize, mixed: bool, merge: Merge, drops: bool) -> Case {
    let matrix = symmetric(s.nodes, 3, 61);
    let entries: Vec<usize> =
        (0..s.nodes).flat_map(|i| matrix.row(i).0.iter().map(move |j| i * s.nodes + *j as usize)).collect();
    let features = s.columns.min(9);
    let operator = Arc::new(Propagator::new(matrix));
    let masks = drops.then(|| masks(s.lanes, mask_size(&operator, heads), 62));
    let factors = (s.nodes < 1000).then(|| factors(masks.as_ref(), &entries, heads, s));
    let mut inputs = vec![(normal(&[s.lanes, s.nodes, features * heads], 63) * 0.5).unwrap()];
    if mixed {
        inputs.push(normal(&[s.lanes, 2 * features, heads], 64));
    }
    let kind = if mixed { "mixed" } else { "scaled" };
    Case {
        name: format!("attention, {kind} scores of {heads} heads, {merge:?}{}", if drops { ", dropped" } else { "" }),
        lanes: s.lanes,
        inputs,
        op: Box::new(move |x, eval, lanes, tape| {
            let masks = masks.as_ref().map(|masks| of_lanes(masks, lanes));
            sided(&x[0], eval, tape).attention(&operator, heads, x.get(1), merge, masks)
        }),
        plain: Box::new(move |x| {
            let [there, factors] = factors.as_ref().unwrap();
            let alpha = plain_weights(x, heads, there);
            let sums = (alpha * factors).unwrap().matmul(&by_head(&x[0], heads)).unwrap();
            let rows = sums.permute((0, 2, 3, 1)).unwrap();
            match merge {
                Merge::Join => rows.contiguous().unwrap().reshape(x[0].dims()).unwrap(),
                Merge::Mean => rows.mean(3).unwrap(),
            }
        }),
        has_beside: !drops,
        any_width: if mixed { Vec::new() } else { vec![0] },
    }
}

/// lanes × heads × nodes × features.
fn by_head(q: &Tensor, heads: usize) -> Tensor {
    let (lanes, nodes, columns) = q.dims3().unwrap();
    let apart = q.reshape((lanes, nodes, columns / heads, heads)).unwrap();
    apart.permute((0, 3, 1, 2)).unwrap().contiguous().unwrap()
}

/// The softmax of scores where there is an entry: lanes × heads × nodes × nodes.
fn plain_weights(x: &[Tensor], heads: usize, there: &Tensor) -> Tensor {
    let q = by_head(&x[0], heads);
    let (features, s) = (q.dim(3).unwrap(), q.matmul(&q.t().unwrap().contiguous().unwrap()).unwrap());
    let e = match x.get(1) {
        Some(a) => {
            // lanes × heads × 2 × features.
            let (lanes, _, _) = a.dims3().unwrap();
            let a = a.transpose(1, 2).unwrap().contiguous().unwrap().reshape((lanes, heads, 2, features)).unwrap();
            let both = q.matmul(&a.t().unwrap().contiguous().unwrap()).unwrap();
            let [l, r] = [0, 1].map(|at| both.narrow(3, at, 1).unwrap());
            let gate = (s.neg().unwrap().exp().unwrap() + 1.0).unwrap().recip().unwrap();
            (l.broadcast_add(&r.t().unwrap()).unwrap() * gate).unwrap()
        }
        None => (s / (features as f64).sqrt()).unwrap(),
    };
    let leaky = (e.relu().unwrap() - (e.neg().unwrap().relu().unwrap() * 0.2).unwrap()).unwrap();
    let powers = leaky.exp().unwrap().broadcast_mul(there).unwrap();
    powers.broadcast_div(&powers.sum_keepdim(3).unwrap()).unwrap()
}

/// 1 where there is an entry, nodes × nodes; and what weights are multiplied with, lanes × heads × nodes × nodes.
fn factors(masks: Option<&Masks>, entries: &[usize], heads: usize, s: Sizes) -> [Tensor; 2] {
    let size = s.nodes * s.nodes;
    let mut there = vec![0.0; size];
    entries.iter().for_each(|at| there[*at] = 1.0);
    let side = Heads { count: heads, features: 1 }.side();
    let drawn = masks.map(|masks| of_masks(masks, &[heads.div_ceil(16) * entries.len() * side]));
    let of_head = |lane: usize, head: usize| {
        let Some(drawn) = &drawn else { return vec![1.0; size] };
        let drawn = flat(&drawn.get(lane).unwrap());
        let mut full = vec![0.0; size];
        let first = head / 16 * entries.len() * side + head % 16;
        entries.iter().enumerate().for_each(|(entry, at)| full[*at] = drawn[first + entry * side]);
        full
    };
    let full = (0..s.lanes).flat_map(|lane| (0..heads).flat_map(move |head| of_head(lane, head)));
    let full = Tensor::from_vec(full.collect::<Vec<f64>>(), (s.lanes, heads, s.nodes, s.nodes), &Device::Cpu).unwrap();
    [Tensor::from_vec(there, (s.nodes, s.nodes), &Device::Cpu).unwrap(), full]
}

/// The mean loss on pairs, other ones in every lane.
pub fn link_loss(s: Sizes) -> Case {
    let matrix = symmetric(s.nodes, 3, 65);
    let links = |lane: usize| {
        let mut stream = Stream::new(lane as u64, &["test", "links"]);
        let edges = some_edges(&matrix, matrix.indices.len() - lane.min(1), &mut stream).unwrap();
        let others =
            some_others(&matrix, (s.nodes * s.nodes - matrix.indices.len()).min(s.nodes), &mut stream).unwrap();
        // One node has no pair but with itself.
        Links { edges: [edges, vec![[0, 0]]].concat(), others }
    };
    let links: Vec<Links> = (0..s.lanes).map(links).collect();
    let (of_op, scale, weight) = (links.clone(), 0.3, 1.7);
    Case {
        name: "loss on pairs".into(),
        lanes: s.lanes,
        inputs: vec![normal(&[s.lanes, s.nodes, s.columns], 66)],
        op: Box::new(move |x, eval, lanes, tape| {
            sided(&x[0], eval, tape).link_loss(Arc::new(of_op[lanes].to_vec()), scale, weight)
        }),
        plain: Box::new(move |x| {
            let lane = |(lane, links): (usize, &Links)| {
                let (q, pairs) = (x[0].get(lane).unwrap(), [&links.edges[..], &links.others].concat());
                let [i, j] = [0, 1].map(|end| {
                    let ends: Vec<u32> = pairs.iter().map(|pair| pair[end]).collect();
                    q.index_select(&Tensor::new(ends, &Device::Cpu).unwrap(), 0).unwrap()
                });
                let z = ((i * j).unwrap().sum(1).unwrap() * scale).unwrap();
                let sign = |at: usize| if at < links.edges.len() { -1.0 } else { 1.0 };
                let signs = Tensor::from_iter((0..pairs.len()).map(sign), &Device::Cpu).unwrap();
                let losses = ((z * signs).unwrap().exp().unwrap() + 1.0).unwrap().log().unwrap();
                (losses.mean(0).unwrap() * weight).unwrap()
            };
            Tensor::stack(&links.iter().enumerate().map(lane).collect::<Vec<_>>(), 0).unwrap()
        }),
        has_beside: false,
        any_width: vec![0],
    }
}
