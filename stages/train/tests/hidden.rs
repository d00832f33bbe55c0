//! What is kept of a model beside weights and logits: activations, and what the model changes itself.

use super::batched::logits_of;
use super::*;
use crate::models::Weights;
use crate::models::testing::{Built, build_by_name};
use crate::models::tests::seams::ROW;

fn keeping(model: &str) -> Params {
    Params { keep_hidden: true, select: ValMetric::of("loss"), ..params(model) }
}

#[test]
fn activations_of_the_kept_epoch_are_stored_when_they_are_asked_for() {
    let graph = TestGraph::of(testing::artifacts());
    let view = GraphView::new(graph.parts(), DType::F32, Device::Cpu).unwrap();
    let (variant, splits) = (json!({"hidden": 6}), splits(3));
    let trained = train_on(&graph, &keeping("gcn"), &variant, &splits, 2).unwrap();
    let without = train_on(&graph, &Params { keep_hidden: false, ..keeping("gcn") }, &variant, &splits, 2).unwrap();
    for (split, plain) in trained.splits.iter().zip(&without.splits) {
        assert!(plain.hidden.is_empty());
        assert_eq!((&split.weights, &split.logits), (&plain.weights, &plain.logits), "keeping changes nothing else");
        let (shape, units) = &split.hidden["hidden"];
        assert_eq!(shape, &[testing::NODES, 6]);
        let built = build_by_name("gcn", &variant, &view, testing::streams(1));
        assert_eq!(logits_of(&built, split, &view), split.logits);
        let again = testing::forward(&*built.model, &view, crate::models::ops::Sides::Eval, &mut []).hidden;
        assert_eq!(&again[0].1.main().flatten_all().unwrap().to_vec1::<f32>().unwrap(), units);
    }
    let dir = std::env::temp_dir().join(format!("ppgnn-hidden-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    trained.save(&dir).unwrap();
    let saved = Trained::load(&dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(saved.splits[2].hidden, trained.splits[2].hidden);
}

#[test]
fn a_model_without_activations_to_keep_says_so() {
    let error = run_with(&keeping("mlp"), &json!({}), &splits(1), 1).unwrap_err();
    assert_eq!(error.to_string(), "`mlp` names no activations that `keep-hidden` could keep");
}

#[test]
fn asking_for_nothing_leaves_the_parameters_as_they_were() {
    let all = |written: Value| {
        let checked = StageDef::of::<Train>().check(&crate::built_in(), written.as_object().unwrap()).unwrap();
        checked.all().contains_key("keep-hidden")
    };
    assert!(!all(json!({"model": "gcn"})) && !all(json!({"model": "gcn", "keep-hidden": false})));
    assert!(all(json!({"model": "gcn", "keep-hidden": true})));
}

#[test]
fn what_a_model_changes_itself_is_stored_as_it_was_at_the_kept_epoch() {
    let (graph, cancel, variant, splits) =
        (TestGraph::of(testing::artifacts()), AtomicBool::new(false), json!({}), splits(4));
    let job = Job { chosen: Some(Chosen { row: &ROW, params: &variant }), ..Job::alone(&cancel) };
    let mut some_left = false;
    for lr in [0.01, 0.02, 0.03, 0.05, 0.1] {
        let params = Params { keep_hidden: true, window: 4, lr, ..keeping("centred") };
        let run = Run::new(&params, graph.parts(), &splits, &job).unwrap();
        Batch::new(&run, &[0, 1, 2, 3]).unwrap().train(&mut run.points.clock()).unwrap();
        let (mut means, mut lengths) = (Vec::new(), Vec::new());
        for finished in std::mem::take(&mut *lock(&run.finished)) {
            let split = finished.result.unwrap();
            let mut streams = testing::streams(1);
            let mut weights = Weights::new(&mut streams, DType::F32, Device::Cpu);
            let model = run.model.build(&run.data, &mut weights).unwrap();
            let weights = weights.into_named();
            let built = Built { model, weights, streams };
            assert_eq!(logits_of(&built, &split, &run.data), split.logits, "the mean belongs to the weights");
            assert!(split.hidden.contains_key("units"));
            means.push(split.weights["mean"].1.clone());
            lengths.push(split.history.len());
        }
        assert!(means.windows(2).any(|pair| pair[0] != pair[1]), "every lane has its own");
        some_left |= lengths.iter().any(|length| *length != lengths[0]);
    }
    assert!(some_left, "in some run a lane leaves before the others");
}
