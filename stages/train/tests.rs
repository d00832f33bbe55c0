//! Tests of `train` on a graph of 14 nodes and on a separable problem.

mod batched;
mod by_hand;
mod failures;
mod hidden;
mod on_gpu;
mod resumed;

use std::sync::atomic::AtomicBool;

use candle_core::{Device, Tensor};
use serde_json::{Value, json};

use super::*;
use crate::contract::{Artifact, InputDir, Row, StageDef};
use crate::kinds::{Epoch, Features, Matrix, Nodes, Operator, Part, SCORES};
use crate::math::random::Stream;
use crate::models::MODELS;
use crate::models::ops::Targets;
use crate::models::testing::{self, TestGraph};

fn params(model: &str) -> Params {
    let written = json!({"model": model, "epochs": 30, "lr": 0.05});
    serde_json::from_value(written).unwrap()
}

/// Splits of the 14 nodes, the `i`-th shifted by `i`.
fn splits(count: usize) -> Splits {
    let row = |shift: usize| {
        let part = |i: usize| match (i + shift) % 7 {
            0..=2 => Part::Train,
            3..=4 => Part::Val,
            _ => Part::Test,
        };
        (0..testing::NODES).map(part).collect()
    };
    Splits { parts: (0..count).map(row).collect() }
}

fn chosen<'a>(model: &str, params: &'a Value) -> Option<Chosen<'a, dyn Row>> {
    let row = MODELS.iter().find(|row| row.variant.name == model)?;
    Some(Chosen { row, params })
}

/// Trains in a pool of that many threads, as the engine does.
fn train_on(
    graph: &TestGraph,
    params: &Params,
    variant: &Value,
    splits: &Splits,
    threads: usize,
) -> Result<Trained, StageError> {
    let cancel = AtomicBool::new(false);
    let used: Vec<&'static dyn Row> = SCORES.iter().map(|row| row as &dyn Row).collect();
    let job = Job { threads, chosen: chosen(&params.model, variant), used: &used, ..Job::alone(&cancel) };
    testing::with_threads(threads, || train(params, graph.parts(), None, splits, &job))
}

fn run_with(params: &Params, variant: &Value, splits: &Splits, threads: usize) -> Result<Trained, StageError> {
    train_on(&TestGraph::of(testing::artifacts()), params, variant, splits, threads)
}

/// The accuracy of a trained split on some nodes.
fn accuracy(of: &TrainedSplit, nodes: &[u32], graph: &Nodes) -> f64 {
    let logits = Tensor::from_slice(&of.logits, (1, graph.len(), graph.classes), &Device::Cpu).unwrap();
    Targets::new(graph.labels.as_slice().into(), vec![nodes.to_vec()]).scores(&logits).unwrap()[0].accuracy
}

fn run(params: &Params, variant: Value, count: usize) -> Trained {
    run_with(params, &variant, &splits(count), 1).unwrap()
}

/// Two classes of 30 nodes. A node's features say its class with much noise; its edges, three in four, lead to its own
/// class, or with `opposite` to the other one. With or without self-loops, and with all eigenpairs.
fn noisy(opposite: bool, loops: bool) -> (TestGraph, Splits) {
    let (n, mut stream) = (60usize, Stream::new(1, &["test"]));
    let class = |i: usize| i % 2;
    let mut adjacency = vec![vec![0.0; n]; n];
    (0..n).for_each(|i| adjacency[i][i] = if loops { 1.0 } else { 0.0 });
    for i in (0..6 * n).map(|at| at / 6) {
        let j = (stream.bits() as usize) % n;
        let alike = class(i) == class(j);
        if i != j && (alike != opposite) == (stream.uniform() < 0.75) {
            (adjacency[i][j], adjacency[j][i]) = (1.0, 1.0);
        }
    }
    let data = (0..n).flat_map(|i| [class(i) as f64 - 0.5, 0.0].map(|x| (x + 0.7 * stream.normal()) as f32)).collect();
    let nodes = Nodes {
        features: Features::Dense(Matrix { rows: n, cols: 2, data }),
        labels: (0..n).map(|i| class(i) as u32).collect(),
        classes: 2,
    };
    let part = |i: usize| [Part::Train, Part::Val, Part::Test][i / 2 % 3];
    let (operator, spectrum) = testing::normalised(&adjacency);
    (TestGraph::of((operator, nodes, spectrum)), Splits { parts: vec![(0..n).map(part).collect()] })
}

#[test]
fn graphs_help_the_models_that_see_them() {
    let accuracy_of = |model: &str, variant: &Value, opposite: bool| {
        let (graph, splits) = noisy(opposite, testing::has_loops(model));
        let params = Params { epochs: 200, select: ValMetric::of("loss"), ..params(model) };
        let trained = train_on(&graph, &params, variant, &splits, 1).unwrap();
        let history = &trained.splits[0].history;
        let best = trained.splits[0].best_epoch.unwrap();
        assert!(history[best].val_loss < history[0].val_loss, "{model}");
        accuracy(&trained.splits[0], &splits.nodes(0, Part::Test), &graph.nodes)
    };
    let features_alone = accuracy_of("lr", &json!({"dropout": 0.0}), false);
    assert!((0.6..0.85).contains(&features_alone), "the features say something: {features_alone}");
    for model in ["gcn", "supergat", "fagcn", "appnp", "gpr-gnn", "h2gcn", "bernnet", "pp-gnn"] {
        let plain = ["gcn", "supergat", "fagcn", "h2gcn"].contains(&model);
        let small = if plain { json!({"hidden": 8}) } else { json!({"hidden": 8, "order": 4}) };
        for opposite in [false, true] {
            // These average over neighbours, whose classes are the others in the second graph.
            if opposite && ["gcn", "supergat", "appnp"].contains(&model) {
                continue;
            }
            let found = accuracy_of(model, &small, opposite);
            assert!(
                found > features_alone,
                "{model} with opposite = {opposite}: {found}, {features_alone} without edges"
            );
        }
    }
}

#[test]
fn threads_change_no_byte_where_kernels_are_cut_into_tasks() {
    // One split, so that all threads work inside it, and sizes beyond every threshold: 600 nodes of 91 neighbours,
    // 400 features, 128 hidden units, 5 classes.
    let (n, reach, mut stream) = (600u32, 45, Stream::new(2, &["test"]));
    let neighbours = |i: u32| {
        let mut js: Vec<u32> = (0..=2 * reach).map(|d| (i + n + d - reach) % n).collect();
        js.sort_unstable();
        js
    };
    let degree = u64::from(2 * reach + 1);
    let indptr = (0..=u64::from(n)).map(|i| i * degree).collect();
    let values = vec![1.0 / degree as f64; n as usize * degree as usize];
    let matrix = crate::math::csr::Csr::new(n as usize, indptr, (0..n).flat_map(neighbours).collect(), values).unwrap();
    let data = (0..n * 400).map(|_| stream.normal() as f32).collect();
    let features = Features::Dense(Matrix { rows: n as usize, cols: 400, data });
    let (operator, nodes) =
        (Operator { matrix }, Nodes { features, labels: (0..n).map(|i| i % 5).collect(), classes: 5 });
    let splits = Splits { parts: vec![(0..n).map(|i| if i % 2 == 0 { Part::Train } else { Part::Val }).collect()] };
    for (model, variant) in [("gpr-gnn", json!({"hidden": 128, "order": 2})), ("gcn", json!({"hidden": 40}))] {
        let with = |threads| {
            let cancel = AtomicBool::new(false);
            let job = Job { threads, chosen: chosen(model, &variant), ..Job::alone(&cancel) };
            let parts = GraphParts::of(&operator, &nodes);
            let params = Params { epochs: 3, ..params(model) };
            testing::with_threads(threads, || train(&params, parts, None, &splits, &job)).unwrap()
        };
        let one = with(1);
        assert!(one == with(2) && one == with(3), "{model}");
    }
}

/// 300 nodes of three classes, each with words of its own among 200, stored sparse.
fn words() -> (Operator, Nodes, Splits) {
    let (n, mut stream) = (300u32, Stream::new(3, &["test"]));
    let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
    for i in 0..n {
        for word in 0..200 {
            let share = if word % 3 == i % 3 { 0.08 } else { 0.03 };
            if stream.uniform() < share {
                indices.push(word);
                values.push(1.0);
            }
        }
        indptr.push(indices.len() as u64);
    }
    let features = crate::math::csr::Csr::rectangular(300, 200, indptr, indices, values).unwrap();
    let nodes = Nodes { features: Features::Sparse(features), labels: (0..n).map(|i| i % 3).collect(), classes: 3 };
    let matrix = crate::math::csr::Csr::new(300, (0..=300).collect(), (0..300).collect(), vec![1.0; 300]).unwrap();
    let part = |i: u32| [Part::Train, Part::Val, Part::Test][i as usize / 3 % 3];
    (Operator { matrix }, nodes, Splits { parts: vec![(0..n).map(part).collect(); 2] })
}

fn train_words(nodes: &Nodes, dropout: f64, threads: usize) -> Trained {
    let (operator, _, splits) = words();
    let (cancel, variant) = (AtomicBool::new(false), json!({"hidden": 16, "dropout": dropout}));
    let job = Job { threads, chosen: chosen("mlp", &variant), ..Job::alone(&cancel) };
    let parts = GraphParts::of(&operator, nodes);
    let params = Params { epochs: 40, lr: 0.01, ..params("mlp") };
    testing::with_threads(threads, || train(&params, parts, None, &splits, &job)).unwrap()
}

#[test]
fn sparse_features_train_like_their_dense_copy() {
    let (_, sparse, splits) = words();
    let dense = Nodes { features: Features::Dense(sparse.features.to_dense()), ..sparse.clone() };
    let test = splits.nodes(0, Part::Test);
    let score = |trained: &Trained| accuracy(&trained.splits[0], &test, &sparse);
    let (on_sparse, on_dense) = (train_words(&sparse, 0.0, 1), train_words(&dense, 0.0, 1));
    let accuracies = |t: &Trained| t.splits[0].history.iter().map(|e| e.val_accuracy).collect::<Vec<_>>();
    assert_eq!(accuracies(&on_sparse), accuracies(&on_dense));
    assert_eq!(score(&on_sparse), score(&on_dense));
    let losses = on_sparse.splits[0].history.iter().zip(&on_dense.splits[0].history);
    losses.for_each(|(s, d)| assert!((s.train_loss - d.train_loss).abs() < 1e-4, "{s:?} {d:?}"));
    // With dropout the masks differ, not what is learnt: a third would be chance.
    let (on_sparse, on_dense) = (score(&train_words(&sparse, 0.5, 1)), score(&train_words(&dense, 0.5, 1)));
    assert!(on_sparse > 0.6 && (on_sparse - on_dense).abs() < 0.1, "{on_sparse} {on_dense}");
}

#[test]
fn threads_change_no_byte_of_training_on_sparse_features() {
    let nodes = words().1;
    let one = train_words(&nodes, 0.5, 1);
    assert!([2, 3].into_iter().all(|threads| train_words(&nodes, 0.5, threads) == one));
}

#[test]
fn seeds_and_splits_have_streams_of_their_own() {
    let first = |p: &Params, count, split: usize| run(p, json!({}), count).splits.swap_remove(split).history[0].clone();
    let base = first(&params("mlp"), 1, 0);
    assert_ne!(base, first(&Params { seed: 1, ..params("mlp") }, 1, 0));
    // Split 7 has the same nodes as split 0 here, so only the streams differ.
    assert_ne!(base, first(&params("mlp"), 8, 7));
    assert_eq!(base, first(&params("mlp"), 8, 0), "more splits do not shift the first");
}

#[test]
fn the_first_best_epoch_is_kept_with_its_weights_and_logits() {
    type Value = fn(&Epoch) -> f64;
    let values: [(&str, Value); 4] = [
        ("accuracy", |e| e.val_accuracy),
        ("loss", |e| -e.val_loss),
        ("macro-f1", |e| e.further[0]),
        ("calibration-error", |e| -e.further[0]),
    ];
    for (select, value) in values {
        let params = Params { select: ValMetric::of(select), ..params("gpr-gnn") };
        let trained = run(&params, json!({"order": 2}), 3);
        for split in &trained.splits {
            let best = split.history.iter().map(value).fold(f64::MIN, f64::max);
            assert_eq!(split.history.iter().position(|e| value(e) == best), split.best_epoch);
        }
        // Stopping right after the best epoch of split 0 leaves the same weights and logits.
        let shorter = Params { epochs: trained.splits[0].best_epoch.unwrap() + 1, ..params };
        let again = run(&shorter, json!({"order": 2}), 1);
        assert_eq!(again.splits[0].weights, trained.splits[0].weights);
        assert_eq!(again.splits[0].logits, trained.splits[0].logits);
    }
}

#[test]
fn the_window_watches_the_metric_it_is_given() {
    let stop_on = ValMetric::of("calibration-error");
    let params = Params { epochs: 300, window: 5, lr: 0.05, stop_on, ..params("mlp") };
    let by_error: Vec<f64> = run(&params, json!({}), 1).splits[0].history.iter().map(|e| e.further[0]).collect();
    assert!(by_error.len() < 300);
    let worse = |e: usize| by_error[e] > by_error[e - 5..e].iter().sum::<f64>() / 5.0;
    assert!(worse(by_error.len() - 1) && (6..by_error.len() - 1).all(|e| !worse(e)));
}

#[test]
fn a_metric_that_validation_nodes_do_not_define_is_an_error_and_no_number() {
    // Four validation nodes of one class.
    let (operator, mut nodes, spectrum) = testing::artifacts();
    let splits = splits(1);
    splits.nodes(0, Part::Val).iter().for_each(|node| nodes.labels[*node as usize] = 1);
    let params = Params { select: ValMetric::of("roc-auc"), ..params("mlp") };
    let error = train_on(&TestGraph::of((operator, nodes, spectrum)), &params, &json!({}), &splits, 1).unwrap_err();
    assert_eq!(error.to_string(), "`val-roc-auc` of split `0` is undefined: no node is of class 0");
}

#[test]
fn only_the_metrics_that_decide_are_used_and_only_when_they_are_not_the_default_in_the_key() {
    let stage = StageDef::of::<Train>();
    let checked = |written: Value| stage.check(&crate::built_in(), written.as_object().unwrap());
    let used = |written: Value| -> Vec<&str> {
        checked(written).unwrap().used().iter().map(|row| row.variant().name).collect()
    };
    assert_eq!(used(json!({"model": "mlp"})), ["accuracy"]);
    assert_eq!(
        used(json!({"model": "mlp", "select": "val-roc-auc", "stop-on": "val-macro-f1"})),
        ["macro-f1", "roc-auc"]
    );
    assert!(checked(json!({"model": "mlp", "stop-on": "val-loss"})).unwrap().all().get("stop-on").is_none());
    for (param, metric) in [("select", "test-accuracy"), ("stop-on", "test-loss"), ("select", "train-accuracy")] {
        let problems = checked(json!({"model": "mlp", param: metric})).err().unwrap();
        assert_eq!(problems[0].param, param);
        assert!(problems[0].message.contains("val-accuracy"), "{}", problems[0].message);
    }
}

#[test]
fn the_window_stops_early_and_zero_never_does() {
    let stopped = run(&Params { epochs: 300, window: 5, lr: 0.5, ..params("mlp") }, json!({}), 1);
    let ran = stopped.splits[0].history.len();
    assert!((7..300).contains(&ran), "{ran} epochs");
    let losses: Vec<f64> = stopped.splits[0].history.iter().map(|e| e.val_loss).collect();
    let mean = |e: usize| losses[e - 5..e].iter().sum::<f64>() / 5.0;
    let first = (6..ran).find(|e| losses[*e] > mean(*e));
    assert_eq!(first, Some(ran - 1), "the run ends at the first epoch that the rule names");
    let endless = run(&Params { epochs: 300, window: 0, lr: 0.5, ..params("mlp") }, json!({}), 1);
    assert_eq!(endless.splits[0].history.len(), 300);
}

#[test]
fn unused_coefficients_are_left_as_they_started() {
    // With η = 0 the bins never reach the loss: no gradient, no step, no decay.
    let trained = run(&Params { weight_decay: 0.1, ..params("pp-gnn") }, json!({"eta": 0.0, "bins": 1, "order": 1}), 1);
    let (shape, values) = &trained.splits[0].weights["gamma-low"];
    assert_eq!(shape, &[1, 2]);
    assert!(values.iter().zip([0.1, 0.9]).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(trained.splits[0].weights["gamma"].1[0] != 0.1);
}

#[test]
fn splits_that_cannot_be_trained_on_are_refused_with_a_hint() {
    let refused = |change: &dyn Fn(&mut Splits)| {
        let mut splits = splits(2);
        change(&mut splits);
        let error = run_with(&params("mlp"), &json!({}), &splits, 1).unwrap_err();
        assert!(matches!(error, StageError::Unusable { .. }) && error.hint().is_some());
        error.to_string()
    };
    let without =
        |part: Part| move |s: &mut Splits| s.parts[1].iter_mut().filter(|p| **p == part).for_each(|p| *p = Part::None);
    assert!(refused(&without(Part::Train)).contains("split `1` has no training node"));
    assert!(refused(&without(Part::Val)).contains("split `1` has no validation node"));
    assert!(refused(&|s| s.parts[0].truncate(5)).contains("`5` nodes"));
    assert!(refused(&|s| s.parts.clear()).contains("no split"));
}

#[test]
fn a_class_without_training_nodes_and_a_split_without_test_nodes_are_allowed() {
    let mut graph = TestGraph::of(testing::artifacts());
    (graph.nodes.classes, graph.nodes.labels[testing::NODES - 1]) = (3, 2);
    let parts = (0..testing::NODES).map(|i| if i < 9 { Part::Train } else { Part::Val }).collect();
    let trained = train_on(&graph, &params("mlp"), &json!({}), &Splits { parts: vec![parts] }, 1).unwrap();
    assert_eq!(trained.splits[0].history.len(), 30);
}

#[test]
fn parameters_of_stage_and_model_stand_side_by_side() {
    let stage = StageDef::of::<Train>();
    let check = |written: Value| stage.check(&crate::built_in(), written.as_object().unwrap());
    let checked = check(json!({"model": "pp-gnn", "bins": 3})).unwrap();
    assert_eq!(checked.needs(), ["spectrum"]);
    let all = checked.all();
    for (name, value) in [
        ("seed", json!(0)),
        ("epochs", json!(1000)),
        ("lr", json!(0.01)),
        ("weight-decay", json!(5e-4)),
        ("lr-decay", json!(0.99)),
        ("lr-decay-every", json!(50)),
        ("window", json!(200)),
        ("select", json!("val-accuracy")),
        ("bins", json!(3)),
        ("order", json!(4)),
        ("eta", json!(0.5)),
        ("hidden", json!(64)),
        ("masks", json!("independent")),
    ] {
        assert_eq!(all.get(name), Some(&value), "{name}");
    }
    assert!(check(json!({"model": "mlp", "bins": 3})).is_err(), "`bins` is no parameter of `mlp`");
    assert!(check(json!({"model": "mlp", "dropout": 1.0})).is_err(), "nothing would be left");
    assert!(check(json!({"model": "mlp", "lr": 0.0})).is_err());
    assert!(check(json!({"model": "gpr-gnn", "init": "null"})).is_err());
    assert!(check(json!({"model": "gpr-gnn", "init": "sgc", "alpha": 0.5})).is_err());
    assert!(check(json!({})).is_err(), "a model must be named");
}

#[test]
fn the_stage_loads_its_inputs_and_saves_what_training_gives() {
    let root = std::env::temp_dir().join(format!("ppgnn-train-test-{}", std::process::id()));
    let (operator, nodes, spectrum) = testing::artifacts();
    let dir = |name: &str| {
        let dir = root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    };
    operator.save(&dir("operator")).unwrap();
    nodes.save(&dir("nodes")).unwrap();
    spectrum.save(&dir("spectrum")).unwrap();
    splits(2).save(&dir("splits")).unwrap();
    let inputs = ["operator", "nodes", "splits", "spectrum"].map(|slot| InputDir {
        slot,
        key: String::new(),
        dir: dir(slot),
        remarks: Vec::new(),
    });
    let stage = StageDef::of::<Train>();
    let written = json!({"model": "pp-gnn", "epochs": 30, "lr": 0.05, "bins": 2});
    let checked = stage.check(&crate::built_in(), written.as_object().unwrap()).unwrap();
    let cancel = AtomicBool::new(false);
    let job = Job { inputs: &inputs, ..Job::alone(&cancel) };
    stage.run(&checked, &job, &dir("out")).unwrap();
    let saved = Trained::load(&dir("out")).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let expected = run(&params("pp-gnn"), json!({"bins": 2}), 2);
    assert_eq!(saved.splits[1].logits, expected.splits[1].logits);
    assert_eq!(saved.splits[0].weights, expected.splits[0].weights);
}
