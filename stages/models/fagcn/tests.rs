//! FAGCN against dense computation, with masks too, and what it must not do.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::models::Streams;
use crate::models::ops::{Mask, Sides};
use crate::models::testing::{self, Built, distance, flat, forward, in_pass};
use crate::models::work;

const LANES: usize = 2;

fn graph() -> GraphView {
    testing::view_for("fagcn", DType::F64)
}

fn build(params: &Params, graph: &GraphView) -> Built<Fagcn> {
    testing::build::<Fagcn>(params, graph, LANES)
}

/// A mask of the next entries of a stream, as factors.
fn factors(streams: &mut Streams, purpose: &'static str, shape: &[usize], p: f64) -> Tensor {
    let mask = Mask::draw(streams.open(purpose), shape.iter().product(), p);
    let factors: Vec<f64> = (0..shape.iter().product()).map(|at| mask.factor(at)).collect();
    Tensor::from_vec(factors, shape, &Device::Cpu).unwrap()
}

/// The formula of one lane with matrices nodes × nodes; dropped with the masks of these streams, if there are any.
fn by_hand(
    params: &Params,
    built: &Built<Fagcn>,
    graph: &GraphView,
    lane: usize,
    mut masks: Option<Streams>,
) -> Tensor {
    let (n, d, p) = (graph.nodes, params.hidden, params.dropout);
    let (matrix, s) = (graph.operator.matrix(), testing::dense_operator(graph));
    let weight = |name: &str| built.weight(name).get(lane).unwrap();
    let linear = |x: &Tensor, name: &str| {
        let z = x.matmul(&weight(&format!("{name}.weight"))).unwrap();
        z.broadcast_add(&weight(&format!("{name}.bias"))).unwrap()
    };
    let mut drop = |x: Tensor, purpose: &'static str| match &mut masks {
        Some(streams) if purpose == "dropout/edges" => {
            let stored = flat(&factors(streams, purpose, &[matrix.indices.len()], p));
            let mut full = vec![0.0; n * n];
            for i in 0..n {
                matrix.range(i).for_each(|at| full[i * n + matrix.indices[at] as usize] = stored[at]);
            }
            (x * Tensor::from_vec(full, (n, n), &Device::Cpu).unwrap()).unwrap()
        }
        Some(streams) => (&x * factors(streams, purpose, x.dims(), p)).unwrap(),
        None => x,
    };
    let x = drop(graph.features.to_dense().unwrap(), "dropout/features");
    let start = drop(linear(&x, "t1").relu().unwrap(), "dropout/hidden");
    let mut h = start.clone();
    for l in 1..=params.layers {
        // Row i · n + j is [h_i ; h_j].
        let targets = h.unsqueeze(1).unwrap().broadcast_as((n, n, d)).unwrap();
        let sources = h.unsqueeze(0).unwrap().broadcast_as((n, n, d)).unwrap();
        let pairs = Tensor::cat(&[&targets, &sources], 2).unwrap().reshape((n * n, 2 * d)).unwrap();
        let gates = linear(&pairs, &format!("gate{l}")).tanh().unwrap().reshape((n, n)).unwrap();
        let weights = drop((gates * &s).unwrap(), "dropout/edges");
        h = ((&start * params.epsilon).unwrap() + weights.matmul(&h).unwrap()).unwrap();
    }
    linear(&h, "t2")
}

#[test]
fn logits_are_those_of_dense_products() {
    let graph = graph();
    for (hidden, layers, epsilon) in [(32, 2, 0.3), (1, 1, 1.0), (5, 8, 0.1), (16, 3, 0.0)] {
        let params = Params { hidden, layers, epsilon, ..Params::default() };
        let built = build(&params, &graph);
        let logits = built.eval(&graph);
        for lane in 0..LANES {
            let expected = by_hand(&params, &built, &graph, lane, None);
            assert!(distance(&logits.get(lane).unwrap(), &expected) < 1e-12, "{params:?}");
        }
    }
}

#[test]
fn training_drops_features_units_and_edges_and_every_layer_starts_from_the_units_that_are_left() {
    let graph = graph();
    for (dropout, layers) in [(0.5, 1), (0.5, 2), (0.3, 4)] {
        let params = Params { hidden: 6, layers, dropout, ..Params::default() };
        let mut built = build(&params, &graph);
        built.streams = testing::streams(LANES);
        let logits = built.train(&graph);
        for (lane, streams) in testing::streams(LANES).into_iter().enumerate() {
            let expected = by_hand(&params, &built, &graph, lane, Some(streams));
            assert!(distance(&logits.get(lane).unwrap(), &expected) < 1e-12, "{params:?}");
        }
        assert!(distance(&logits, &built.eval(&graph)) > 1e-3);
    }
}

#[test]
fn gradients_go_through_several_layers_with_masks() {
    let graph = graph();
    let built = build(&Params { hidden: 5, layers: 3, epsilon: 0.5, dropout: 0.4 }, &graph);
    let (weight, vars) = (testing::normal(&[LANES, graph.nodes, graph.classes], 5), built.vars());
    let pass = || testing::weighted_pass(&*built.model, &graph, &weight);
    testing::assert_tape_gradients(&vars.iter().collect::<Vec<_>>(), pass, 1e-6);
}

/// H⁰, and H of one layer with gates that are tanh(c) everywhere, lanes × nodes × hidden.
fn with_gates(c: f64, graph: &GraphView) -> [Tensor; 2] {
    let mut built = build(&Params { layers: 1, hidden: 6, ..Params::default() }, graph);
    let gate = &built.model.gates[0];
    gate.weight.set(&gate.weight.tensor().zeros_like().unwrap()).unwrap();
    gate.bias.set(&Tensor::full(c, (LANES, 1), &Device::Cpu).unwrap()).unwrap();
    let output = forward(&*built.model, graph, Sides::Eval, &mut built.streams);
    let start = in_pass(Sides::Eval, graph, &mut testing::streams(LANES), |x, pass| {
        x.layer(&built.model.first, pass.dropout(0.0, "dropout/features"))?.relu()
    });
    [start.main().clone(), output.hidden[0].1.main().clone()]
}

#[test]
fn open_gates_are_a_sum_over_neighbours_and_negative_ones_subtract_it() {
    // Invariant: g = 0 and a large bias make α = 1, and h¹ = ε h⁰ + Â₀ h⁰. A softmax would give α > 0 with a sum of 1.
    let graph = graph();
    let s = testing::dense_operator(&graph).broadcast_left(LANES).unwrap().contiguous().unwrap();
    for (c, gate) in [(40.0, 1.0), (-40.0, -1.0), (0.0, 0.0), (0.5, 0.5f64.tanh())] {
        let [start, h] = with_gates(c, &graph);
        let sum = (s.matmul(&start).unwrap() * gate).unwrap();
        let expected = ((&start * 0.3).unwrap() + sum).unwrap();
        assert!(distance(&h, &expected) < 1e-12, "{c}");
    }
}

#[test]
fn gates_of_one_edge_differ_by_its_direction_and_have_either_sign() {
    let graph = graph();
    let built = build(&Params::default(), &graph);
    let h = in_pass(Sides::Eval, &graph, &mut testing::streams(LANES), |x, pass| {
        x.layer(&built.model.first, pass.dropout(0.0, "dropout/features"))?
            .relu()?
            .times(&halves(&built.model.gates[0])?)
    });
    let (scores, c) = (flat(&h.main().get(0).unwrap()), flat(&built.weight("gate1.bias"))[0]);
    let matrix = graph.operator.matrix();
    let edges = (0..graph.nodes).flat_map(|i| matrix.row(i).0.iter().map(move |j| (i, *j as usize)));
    let gate = |i: usize, j: usize| (scores[2 * i] + scores[2 * j + 1] + c).tanh();
    let gates: Vec<[f64; 2]> = edges.map(|(i, j)| [gate(i, j), gate(j, i)]).collect();
    assert!(gates.iter().any(|[g, _]| *g < -0.01) && gates.iter().any(|[g, _]| *g > 0.01));
    assert!(gates.iter().any(|[g, back]| (g - back).abs() > 0.01));
}

#[test]
fn a_node_without_neighbours_keeps_its_own_signal_alone() {
    let (operator, nodes, spectrum) = testing::artifacts_with(false);
    let n = operator.nodes();
    let alone =
        crate::kinds::Operator { matrix: crate::math::csr::Csr::new(n, vec![0; n + 1], vec![], vec![]).unwrap() };
    let graph = testing::view_of((alone, nodes, spectrum), DType::F64);
    let params = Params { hidden: 6, layers: 3, ..Params::default() };
    let built = build(&params, &graph);
    let logits = built.eval(&graph);
    for lane in 0..LANES {
        assert!(distance(&logits.get(lane).unwrap(), &by_hand(&params, &built, &graph, lane, None)) < 1e-12);
    }
}

#[test]
fn weights_are_drawn_as_published_and_all_are_decayed() {
    let graph = graph();
    let hidden = 1000;
    let built = testing::build::<Fagcn>(&Params { hidden, ..Params::default() }, &graph, 1);
    assert!(built.weights.iter().all(|weight| weight.rule == Some(Rule::decayed())));
    let names: Vec<&str> = built.weights.iter().map(|weight| &*weight.name).collect();
    let expected =
        ["t1.weight", "t1.bias", "gate1.weight", "gate1.bias", "gate2.weight", "gate2.bias", "t2.weight", "t2.bias"];
    assert_eq!(names, expected);
    for (name, inputs, outputs) in
        [("t1", 5, hidden), ("gate1", 2 * hidden, 1), ("gate2", 2 * hidden, 1), ("t2", hidden, 2)]
    {
        let weights = flat(&built.weight(&format!("{name}.weight")));
        assert_eq!(weights.len(), inputs * outputs);
        // The mean square of 2000 normal draws or more is within 15 % of the variance, 1.414² · 2/(in + out).
        let variance = weights.iter().map(|w| w * w).sum::<f64>() / weights.len() as f64;
        assert!((variance / (1.414 * 1.414 * 2.0 / (inputs + outputs) as f64) - 1.0).abs() < 0.15, "{name}");
        let (r, bias) = (1.0 / (inputs as f64).sqrt(), flat(&built.weight(&format!("{name}.bias"))));
        assert!(bias.len() == outputs && bias.iter().all(|b| b.abs() <= r && *b != 0.0), "{name}");
        assert!(outputs < 1000 || bias.iter().any(|b| b.abs() > 0.95 * r), "{name}");
    }
}

#[test]
fn an_operator_with_self_loops_is_refused_with_a_hint() {
    let graph = testing::view(DType::F32);
    let mut streams = testing::streams(1);
    let mut weights = Weights::new(&mut streams, DType::F32, Device::Cpu);
    let error = Fagcn::build(&Params::default(), &graph, &mut weights).err().unwrap();
    assert!(matches!(&error, StageError::Unusable { what, .. } if what.contains("node `0`")), "{error}");
    assert!(error.hint().unwrap().contains("`self-loops: false`"));
    let sizes = work::tests::graph();
    assert!(Fagcn::fits(&Params::default(), &sizes).is_err());
    for loops in [Some(0), None] {
        assert!(Fagcn::fits(&Params::default(), &GraphSizes { loops, ..sizes.clone() }).is_ok());
    }
}
