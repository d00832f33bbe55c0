//! The frequency response that a model declares is what it does to eigenvectors.

use std::collections::BTreeMap;

use candle_core::DType;

use crate::kinds::{Spectrum, Weight};
use crate::models::ops::{AsTensor, Sides};
use crate::models::testing::{self, flat, zoo};
use crate::models::{At, Learned, MODELS, Named};

/// The weights of lane 1, as they are stored.
fn stored(weights: &[Named]) -> BTreeMap<String, Weight> {
    let of_lane = |w: &Named| w.param.tensor().get(1).unwrap();
    let single = |x: f64| x as f32;
    let weight = |w: &Named| (of_lane(w).dims().to_vec(), flat(&of_lane(w)).into_iter().map(single).collect());
    weights.iter().map(|w| (w.name.to_string(), weight(w))).collect()
}

fn eigenpairs(spectrum: &Spectrum) -> impl Iterator<Item = (At, &[f32])> {
    let sides = [&spectrum.low, &spectrum.high];
    let pairs = sides.into_iter().flat_map(|side| side.values.iter().zip(side.vectors.chunks_exact(spectrum.nodes)));
    pairs.enumerate().map(|(pair, (lambda, vector))| (At { lambda: *lambda, pair: Some(pair) }, vector))
}

#[test]
fn an_eigenvector_is_multiplied_by_what_the_model_declares() {
    let mut tried = 0;
    for (name, params) in zoo() {
        let row = MODELS.iter().find(|row| row.variant.name == name).unwrap();
        // Between the convolutions of a GCN there is a ReLU, filtered features have a network of their own, and what SGCN
        // propagates it does not keep.
        if !row.filters || name.starts_with("gcn") || row.hidden.is_empty() || params.get("filters").is_some() {
            continue;
        }
        let (operator, nodes, spectrum) = testing::artifacts_with(testing::has_loops(name));
        let graph = testing::view_of((operator, nodes, spectrum.clone()), DType::F64);
        let mut built = testing::build_by_name(name, &params, &graph, testing::streams(2));
        for filter in built.weights.iter().filter(|w| !w.name.starts_with("lin")) {
            filter.param.set(&testing::normal(filter.param.tensor().dims(), 5)).unwrap();
        }
        let output = testing::forward(&*built.model, &graph, Sides::Eval, &mut built.streams);
        let of_lane = |tensor: &candle_core::Tensor| flat(&tensor.get(1).unwrap());
        let (logits, z) = (of_lane(output.logits.main()), of_lane(output.hidden[0].1.main()));
        let along = |vector: &[f32], of: &[f64], class: usize| -> f64 {
            vector.iter().zip(of.chunks_exact(2)).map(|(u, row)| f64::from(*u) * row[class]).sum()
        };
        let weights = stored(&built.weights);
        let (low, high) = (&spectrum.low.values[..], &spectrum.high.values[..]);
        let learned = Learned { nodes: testing::NODES, weights: &weights, low, high };
        for (at, vector) in eigenpairs(&spectrum) {
            let level = row.response(&params, &learned, &[at]).unwrap().unwrap()[0];
            for class in 0..2 {
                let (before, after) = (along(vector, &z, class), along(vector, &logits, class));
                assert!((after - level.total() * before).abs() < 1e-5, "{name} {params} at {at:?}: {level:?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn points_that_are_no_eigenvalues_belong_to_the_bins_around_them() {
    let row = MODELS.iter().find(|row| row.variant.name == "pp-gnn").unwrap();
    let params = serde_json::json!({"bins": 2, "order": 0, "eta": 0.5});
    let one = |value: &[f32]| (vec![value.len(), 1], value.to_vec());
    let weights = [("gamma", one(&[8.0])), ("gamma-low", one(&[2.0, 4.0])), ("gamma-high", one(&[6.0, 10.0]))];
    let weights: BTreeMap<String, Weight> = weights.into_iter().map(|(name, w)| (name.to_owned(), w)).collect();
    let learned = Learned { nodes: 8, weights: &weights, low: &[1.0, 0.8, 0.4, 0.2], high: &[-0.2, -0.3, -0.5, -0.9] };
    let totals = |points: &[f64]| -> Vec<f64> {
        let points: Vec<At> = points.iter().map(|lambda| At { lambda: *lambda, pair: None }).collect();
        row.response(&params, &learned, &points).unwrap().unwrap().iter().map(|level| level.total()).collect()
    };
    // Half of 8 everywhere, and half of what the bin has: its bins meet at 0.6 and at −0.4.
    assert_eq!(totals(&[1.0, 0.7, 0.5, 0.2]), [5.0, 5.0, 6.0, 6.0]);
    assert_eq!(totals(&[0.1, 0.0, -0.95, -1.0]), [4.0; 4]);
    assert_eq!(totals(&[-0.2, -0.35, -0.45, -0.9]), [7.0, 7.0, 9.0, 9.0]);
}

#[test]
fn bins_over_both_sides_may_span_the_gap_and_filtered_features_have_the_local_response_alone() {
    let row = MODELS.iter().find(|row| row.variant.name == "pp-gnn").unwrap();
    let one = |value: &[f32]| (vec![value.len(), 1], value.to_vec());
    let weights = [("gamma", one(&[8.0])), ("gamma-joint", one(&[2.0, 4.0, 6.0]))];
    let weights: BTreeMap<String, Weight> = weights.into_iter().map(|(name, w)| (name.to_owned(), w)).collect();
    let learned = Learned { nodes: 6, weights: &weights, low: &[1.0, 0.8, 0.4], high: &[-0.2, -0.3, -0.5] };
    let totals = |params: serde_json::Value| -> Vec<f64> {
        let points = [(1.0, Some(0)), (0.4, Some(2)), (-0.2, Some(3)), (-0.5, Some(5)), (0.9, None), (0.0, None)];
        let points = points.map(|(lambda, pair)| At { lambda, pair });
        row.response(&params, &learned, &points).unwrap().unwrap().iter().map(|level| level.total()).collect()
    };
    let joint = serde_json::json!({"binning": "joint", "bins": 3, "order": 0, "eta": 0.5});
    assert_eq!(totals(joint.clone()), [5.0, 6.0, 6.0, 7.0, 5.0, 4.0]);
    let mut features = joint;
    features["filters"] = "features".into();
    assert_eq!(totals(features), [2.0, 4.0, 4.0, 6.0, 2.0, 0.0]);
}
