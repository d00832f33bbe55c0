//! Tests that every model must pass.

mod gradients;
mod lanes;
mod reference;
mod response;
pub(crate) mod seams;

use std::collections::BTreeSet;

use candle_core::DType;
use serde_json::{Value, json};

use super::ops::{AsTensor, Sides};
use super::testing::{self, bits, distance, flat, zoo};
use super::*;
use crate::kinds::{Features, Nodes};

#[test]
fn every_row_has_a_kebab_case_name_a_sentence_and_documented_parameters() {
    let mut names = BTreeSet::new();
    for row in MODELS {
        let v = row.variant;
        assert!(names.insert(v.name), "{} stands twice", v.name);
        assert!(v.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", v.name);
        assert!(!v.about.is_empty() && !v.about.ends_with('.'), "{}", v.name);
        for (name, schema) in v.schema()["properties"].as_object().into_iter().flatten() {
            assert!(schema.get("description").is_some(), "{}: `{name}` says nothing", v.name);
            assert!(schema.get("default").is_some(), "{}: `{name}` has no default", v.name);
        }
    }
    let in_zoo: BTreeSet<_> = zoo().into_iter().map(|(name, _)| name).collect();
    assert_eq!(in_zoo, names, "`zoo` in stages/models/testing.rs has every model");
}

#[test]
fn every_model_gives_finite_logits_and_unique_weight_names() {
    for dtype in [DType::F32, DType::F64] {
        for row in MODELS {
            let name = row.variant.name;
            let graph = testing::view_for(name, dtype);
            let mut built = testing::build_by_name(name, &json!({}), &graph, testing::streams(2));
            let output = testing::forward(&*built.model, &graph, Sides::Train, &mut built.streams);
            let logits = output.logits.main();
            assert_eq!(output.hidden.iter().map(|(name, _)| *name).collect::<Vec<_>>(), row.hidden, "{name}");
            assert_eq!((logits.dims(), logits.dtype()), ([2, graph.nodes, graph.classes].as_slice(), dtype));
            assert!(flat(logits).iter().all(|x| x.is_finite()), "{name}");
            let names: Vec<_> = built.weights.iter().map(|w| &*w.name).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{name}");
            assert!(built.weights.iter().all(|w| w.param.tensor().dim(0).unwrap() == 2), "{name}: lanes come first");
        }
    }
}

#[test]
fn evaluation_is_repeatable_and_equals_training_without_dropout() {
    for (name, params) in zoo() {
        let graph = testing::view_for(name, DType::F32);
        let build = |params: &Value| testing::build_by_name(name, params, &graph, testing::streams(2));
        let train = |built: &mut testing::Built<dyn Model>| {
            bits(testing::forward(&*built.model, &graph, Sides::Train, &mut built.streams).logits.main())
        };
        let mut undropped = build(&testing::undropped(name, &params));
        let first = bits(&testing::eval(&*undropped.model, &graph, 2));
        assert_eq!(first, bits(&testing::eval(&*undropped.model, &graph, 2)), "{name}");
        // Batch normalisation trains with moments of its own.
        if undropped.weights.iter().all(|weight| weight.rule.is_some()) {
            assert_eq!(first, train(&mut undropped), "{name}");
        }

        let mut built = build(&params);
        let dropped = train(&mut built);
        let drops = params != testing::undropped(name, &params);
        assert_eq!(dropped != train(&mut built), drops, "{name}: every pass has masks of its own, if it drops");
        // SGCN has another way to the same sums where it drops nothing.
        let far = distance(&testing::eval(&*undropped.model, &graph, 2), &testing::eval(&*built.model, &graph, 2));
        assert!(far < 1e-6, "{name}: dropout shifted the weights by {far}");
    }
}

/// The graph of the tests with sparse features, as it is and with a dense copy of them.
fn both_forms(model: &str, dtype: DType) -> [GraphView; 2] {
    let (operator, nodes, spectrum) = testing::artifacts_with(testing::has_loops(model));
    let sparse = Features::Sparse(crate::math::testing::random(testing::NODES, 20, 0.2, 8));
    let dense = Features::Dense(sparse.to_dense());
    [sparse, dense].map(|features| {
        testing::view_of((operator.clone(), Nodes { features, ..nodes.clone() }, spectrum.clone()), dtype)
    })
}

#[test]
fn sparse_and_dense_features_answer_alike() {
    for dtype in [DType::F32, DType::F64] {
        let [sparse, dense] = both_forms("lr", dtype).map(|view| view.features);
        assert_eq!((sparse.rows(), sparse.columns(), sparse.dtype()), (dense.rows(), dense.columns(), dense.dtype()));
        let stored = [&sparse, &dense].map(|features| Input::new(features, &ops::Tape::new(Sides::Eval)).stored());
        assert!(0 < stored[0] && stored[0] < stored[1]);
        assert_eq!(distance(&sparse.to_dense().unwrap(), &dense.to_dense().unwrap()), 0.0);
    }
    let features = Features::Dense(crate::kinds::Matrix { rows: 1, cols: 1, data: vec![1.0] });
    assert!(FeatureView::new(&features, DType::U8).is_err());
}

#[test]
fn every_model_gives_the_same_logits_for_sparse_and_dense_features() {
    for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-12)] {
        for (name, params) in zoo() {
            let [sparse, dense] = both_forms(name, dtype).map(|view| {
                let built = testing::build_by_name(name, &params, &view, testing::streams(2));
                testing::eval(&*built.model, &view, 2)
            });
            assert!(distance(&sparse, &dense) < tolerance, "{name}");
        }
    }
}

#[test]
fn a_purpose_is_not_shifted_by_another() {
    let mut alone = Streams::new(1, 2);
    let expected = [alone.open("a").bits(), alone.open("a").bits()];
    let mut mixed = Streams::new(1, 2);
    let first = mixed.open("a").bits();
    mixed.open("b").bits();
    assert_eq!([first, mixed.open("a").bits()], expected);
}

#[test]
fn seeds_splits_and_purposes_differ() {
    let draw = |seed, split, purpose| Streams::new(seed, split).open(purpose).uniform();
    let draws = [draw(0, 0, "a"), draw(1, 0, "a"), draw(0, 1, "a"), draw(0, 0, "b")];
    for (i, a) in draws.iter().enumerate() {
        assert!(draws[i + 1..].iter().all(|b| a != b));
    }
}
