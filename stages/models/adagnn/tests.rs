//! Tests of AdaGNN: the published form, the case that is GCN, and weights that start elsewhere.

use candle_core::{DType, Tensor};

use super::*;
use crate::models::testing::{self, Built};

fn params(layers: usize) -> Params {
    Params { layers, hidden: 5, ..Params::default() }
}

/// (E − L̃E ⊙ (1 + φ)) W + b of one lane, with dense products and the diagonal matrix of published code.
fn weighted(e: &Tensor, laplacian: &Tensor, built: &Built<AdaGnn>, name: &str, lane: usize) -> Tensor {
    let of = |part: &str| built.weight(&format!("{name}.{part}")).get(lane).unwrap();
    let shifted = (of("phi") + 1.0).unwrap();
    let e = (e - laplacian.matmul(e).unwrap().broadcast_mul(&shifted).unwrap()).unwrap();
    e.matmul(&of("weight")).unwrap().broadcast_add(&of("bias")).unwrap()
}

#[test]
fn logits_are_the_published_formula() {
    let graph = testing::view(DType::F64);
    let x = graph.features.to_dense().unwrap();
    let laplacian =
        (Tensor::eye(graph.nodes, DType::F64, x.device()).unwrap() - testing::dense_operator(&graph)).unwrap();
    for layers in [2, 3, 6] {
        let built = testing::build::<AdaGnn>(&params(layers), &graph, 2);
        if let Some(inner) = &built.model.inner {
            inner.set(&testing::normal(inner.tensor().dims(), 3)).unwrap();
        }
        let logits = built.eval(&graph);
        for lane in 0..2 {
            let mut e = weighted(&x, &laplacian, &built, "first", lane).relu().unwrap();
            for layer in 0..layers - 2 {
                let phi = built.weight("inner.phi").get(lane).unwrap().get(layer).unwrap();
                e = (&e - laplacian.matmul(&e).unwrap().broadcast_mul(&phi).unwrap()).unwrap();
            }
            let expected = weighted(&e, &laplacian, &built, "last", lane);
            assert!(testing::distance(&logits.get(lane).unwrap(), &expected) < 1e-10, "{layers} layers");
        }
    }
}

#[test]
fn without_phi_two_layers_are_gcn() {
    // Invariant: the plain model, with a bias per layer and dropout after the first.
    let graph = testing::view(DType::F64);
    let built = testing::build::<AdaGnn>(&params(2), &graph, 2);
    for phi in [&built.model.first.phi, &built.model.last.phi] {
        phi.set(&phi.tensor().zeros_like().unwrap()).unwrap();
    }
    let plain = testing::build_by_name("gcn", &serde_json::json!({"hidden": 5}), &graph, testing::streams(2));
    for (ours, theirs) in [("first", "conv1"), ("last", "conv2")] {
        for part in ["weight", "bias"] {
            let to = plain.weights.iter().find(|w| w.name == format!("{theirs}.{part}")).unwrap();
            to.param.set(&built.weight(&format!("{ours}.{part}"))).unwrap();
        }
    }
    assert!(testing::distance(&built.eval(&graph), &testing::eval(&*plain.model, &graph, 2)) < 1e-12);
}

#[test]
fn inner_layers_start_as_identities_and_nothing_is_dropped_at_the_input() {
    let graph = testing::view(DType::F64);
    let [two, many] = [2, 9].map(|layers| testing::build::<AdaGnn>(&params(layers), &graph, 2));
    for weight in &two.weights {
        many.weights.iter().find(|w| w.name == weight.name).unwrap().param.set(&weight.param.tensor()).unwrap();
    }
    assert!(testing::distance(&two.eval(&graph), &many.eval(&graph)) < 1e-12);
    let mut built = testing::build::<AdaGnn>(&Params { dropout: 0.5, ..params(2) }, &graph, 2);
    assert!(built.drops_hidden_units_alone(&graph));
}

#[test]
fn the_term_is_the_sum_of_sizes_of_all_filters() {
    let graph = testing::view(DType::F64);
    let built = testing::build::<AdaGnn>(&Params { l1: 0.5, ..params(4) }, &graph, 2);
    let inner = built.model.inner.as_ref().unwrap();
    inner.set(&testing::normal(inner.tensor().dims(), 3)).unwrap();
    let terms = built.model.term().unwrap().unwrap().to_vec1::<f64>().unwrap();
    for (lane, term) in terms.into_iter().enumerate() {
        let size =
            |name: &str| testing::flat(&built.weight(name).get(lane).unwrap()).iter().map(|p| p.abs()).sum::<f64>();
        let expected = 0.5 * (size("first.phi") + size("inner.phi") + size("last.phi"));
        assert!((term - expected).abs() < 1e-12);
    }
    assert!(built.weights.iter().all(|w| w.rule == Some(Rule::decayed())));
    let none = testing::build::<AdaGnn>(&Params { l1: 0.0, ..params(2) }, &graph, 1);
    assert!(none.model.term().unwrap().is_none());
}
