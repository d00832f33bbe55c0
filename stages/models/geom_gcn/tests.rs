use candle_core::{DType, Device, Tensor};

use super::*;
use crate::kinds::{Features, Matrix, Nodes, Operator, Relations};
use crate::math::csr::Csr;
use crate::models::ops::{AsTensor, Sides};
use crate::models::testing::{self, TestGraph};
use crate::models::{GcnKipf, GraphParts};

fn params() -> Params {
    Params { hidden: 5, ..Params::default() }
}

/// The graph of the tests with other relations.
fn view(relations: &Relations) -> GraphView {
    let graph = TestGraph::of(testing::artifacts());
    GraphView::new(GraphParts { relations: Some(relations), ..graph.parts() }, DType::F64, Device::Cpu).unwrap()
}

/// S_r as a dense matrix.
fn dense(relations: &Relations, of: u8) -> Tensor {
    let (pairs, n) = (&relations.pairs, relations.nodes());
    let heard = |i: usize| pairs.row(i).0.len() as f64;
    let entry = |at: usize| {
        let (i, j) = (at / n, at % n);
        let (columns, all) = pairs.row(i);
        let is_it = columns.iter().zip(all).any(|(column, relation)| *column as usize == j && *relation == of);
        if is_it { 1.0 / (heard(i) * heard(j)).sqrt() } else { 0.0 }
    };
    Tensor::from_vec((0..n * n).map(entry).collect::<Vec<f64>>(), (n, n), &Device::Cpu).unwrap()
}

#[test]
fn logits_are_those_of_nine_dense_products() {
    let graph = testing::view(DType::F64);
    let relations = testing::relations(&testing::artifacts().0);
    let x = graph.features.to_dense().unwrap();
    let built = testing::build::<GeomGcn>(&params(), &graph, 2);
    let used: Vec<u8> = (0..9).filter(|r| relations.sizes_of_all()[usize::from(*r)] > 0).collect();
    assert_eq!(used, [1, 2, 3, 4, 5, 6, 8]);
    let logits = built.eval(&graph);
    for lane in 0..2 {
        // S_r · H · W_r of all relations; those that no pair has would give zeros.
        let messages = |h: &Tensor, name: &str, width: usize| {
            let weight = built.weight(name).get(lane).unwrap();
            let part = |at: usize| weight.narrow(1, at * width, width).unwrap().contiguous().unwrap();
            let of = |(at, of): (usize, &u8)| dense(&relations, *of).matmul(&h.matmul(&part(at)).unwrap()).unwrap();
            used.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        let h = Tensor::cat(&messages(&x, "layer1.weight", 5), 1).unwrap().relu().unwrap();
        let sum = messages(&h, "layer2.weight", graph.classes).into_iter().reduce(|a, b| (a + b).unwrap()).unwrap();
        assert!(testing::distance(&logits.get(lane).unwrap(), &(sum / 9.0).unwrap()) < 1e-12);
    }
}

/// With one relation that is A + I, nine times the mean is a graph convolution: in-degrees are D + I then.
#[test]
fn one_relation_of_the_whole_graph_is_a_convolution_without_biases() {
    let matrix = testing::artifacts().0.matrix;
    let pairs = Csr::new(matrix.n(), matrix.indptr, matrix.indices.clone(), vec![0; matrix.indices.len()]).unwrap();
    let graph = view(&Relations { pairs });
    let ours = testing::build::<GeomGcn>(&params(), &graph, 2);
    let other = testing::build::<GcnKipf>(&serde_json::from_str(r#"{"hidden": 5}"#).unwrap(), &graph, 2);
    for (from, to) in [("layer1.weight", "conv1.weight"), ("layer2.weight", "conv2.weight")] {
        let weight = other.weights.iter().find(|weight| weight.name == to).unwrap();
        weight.param.set(&ours.weight(from)).unwrap();
    }
    let scaled = (ours.eval(&graph) * 9.0).unwrap();
    assert!(testing::distance(&scaled, &other.eval(&graph)) < 1e-12);
}

/// Node 1 hears node 0, and node 0 nobody but itself.
#[test]
fn a_node_hears_and_is_not_heard() {
    let pairs = Csr::new(2, vec![0, 1, 3], vec![0, 0, 1], vec![8, 2, 8]).unwrap();
    let operator = Operator { matrix: Csr::new(2, vec![0, 1, 2], vec![0, 1], vec![1.0; 2]).unwrap() };
    let logits = |of_0: f32, of_1: f32| {
        let features = Features::Dense(Matrix { rows: 2, cols: 1, data: vec![of_0, of_1] });
        let nodes = Nodes { features, labels: vec![0, 1], classes: 2 };
        let relations = Some(&Relations { pairs: pairs.clone() });
        let parts = GraphParts { relations, ..GraphParts::of(&operator, &nodes) };
        let graph = GraphView::new(parts, DType::F64, Device::Cpu).unwrap();
        let built = testing::build::<GeomGcn>(&params(), &graph, 1);
        testing::flat(&built.eval(&graph))
    };
    let (one, heard, hears) = (logits(1.0, 1.0), logits(3.0, 1.0), logits(1.0, 3.0));
    assert_eq!(one[..2], hears[..2]);
    assert!(one[..2] != heard[..2] && one[2..] != heard[2..] && one[2..] != hears[2..]);
}

/// Every node hears itself and the next one. A feature that is dropped is missing in both.
#[test]
fn one_mask_serves_all_relations() {
    let n = testing::NODES;
    let entry = |i: usize| {
        let mut heard = [(i, 8), ((i + 1) % n, 0)];
        heard.sort_unstable();
        heard
    };
    let (indices, values): (Vec<u32>, Vec<u8>) = (0..n).flat_map(entry).map(|(j, r)| (j as u32, r)).unzip();
    let pairs = Csr::new(n, (0..=n as u64).map(|i| 2 * i).collect(), indices, values).unwrap();
    let mut graph = TestGraph::of(testing::artifacts());
    graph.nodes.features = Features::Dense(Matrix { rows: n, cols: 1, data: vec![1.0; n] });
    let parts = GraphParts { relations: Some(&Relations { pairs }), ..graph.parts() };
    let view = GraphView::new(parts, DType::F64, Device::Cpu).unwrap();
    let mut built = testing::build::<GeomGcn>(&Params { hidden: 64, ..Params::default() }, &view, 1);
    let output = testing::forward(&*built.model, &view, Sides::Train, &mut built.streams);
    let hidden = testing::flat(output.hidden[0].1.main());
    // Part 0 is that of the next node, part 1 that of the node itself.
    let silent = |node: usize, part: usize| hidden[(2 * node + part) * 64..][..64].iter().all(|unit| *unit == 0.0);
    assert!((0..n).all(|node| silent(node, 0) == silent((node + 1) % n, 1)));
    let dropped = (0..n).filter(|node| silent(*node, 1)).count();
    assert!(0 < dropped && dropped < n, "{dropped}");
}

#[test]
fn weights_are_drawn_for_the_size_of_one_relation_and_decayed_by_layer() {
    let graph = testing::view(DType::F64);
    let built = testing::build::<GeomGcn>(&Params { weight_decay_2: Some(0.3), ..params() }, &graph, 1);
    let shapes: Vec<_> = built.weights.iter().map(|weight| weight.param.tensor().dims().to_vec()).collect();
    assert_eq!(shapes, [vec![1, 5, 7 * 5], vec![1, 7 * 5, 7 * 2]]);
    let decays: Vec<_> = built.weights.iter().map(|weight| weight.rule.unwrap().decay).collect();
    assert_eq!(decays, [Decay::Shared, Decay::Own(0.3)]);
    for (name, bound) in [("layer1.weight", (6.0f64 / 10.0).sqrt()), ("layer2.weight", (6.0f64 / 37.0).sqrt())] {
        let largest = testing::flat(&built.weight(name)).into_iter().map(f64::abs).fold(0.0, f64::max);
        assert!(0.95 * bound < largest && largest < bound, "{name}: {largest} below {bound}");
    }
}

#[test]
fn relations_are_needed() {
    let (operator, nodes, _) = testing::artifacts();
    let graph = GraphView::new(GraphParts::of(&operator, &nodes), DType::F32, Device::Cpu).unwrap();
    let (mut streams, none) = (testing::streams(1), Device::Cpu);
    let mut weights = Weights::new(&mut streams, DType::F32, none);
    let error = GeomGcn::build(&params(), &graph, &mut weights).err().unwrap();
    assert!(matches!(error, StageError::MissingInput { slot: "relations" }));
}
