//! Training on the emulated GPU against training on the CPU: every model, and what an epoch asks of a card. Skipped where there
//! is no C++ compiler.

use std::collections::BTreeSet;

use super::batched::{graphs, restless};
use super::*;
use crate::models::testing::{undropped, zoo};
use crate::tensor::cuda::Counts;
use crate::tensor::cuda::testing::{job_device, with_gpu};

const SPLITS: usize = 3;

/// Trains in this thread.
fn train_here(graph: &TestGraph, params: &Params, variant: &Value) -> Result<Trained, StageError> {
    let cancel = AtomicBool::new(false);
    let used: Vec<&'static dyn Row> = SCORES.iter().map(|row| row as &dyn Row).collect();
    let device = job_device();
    let job = Job { device, chosen: chosen(&params.model, variant), used: &used, ..Job::alone(&cancel) };
    train(params, graph.parts(), None, &splits(SPLITS), &job)
}

fn short(model: &str, epochs: usize) -> Params {
    Params { window: 0, ..restless(model, epochs) }
}

#[test]
fn every_model_trains_on_a_gpu_as_on_the_cpu() {
    for (model, variant) in zoo() {
        let (variant, params) = (undropped(model, &variant), short(model, 3));
        // What is subtracted again has a gradient of nothing but roundings, of which Adam makes whole steps.
        let normalises = model == "gcn-ogb" || variant.get("batch-norm") == Some(&json!(true));
        let tolerance = if normalises { 0.1 } else { 1e-3 };
        for graph in graphs(model) {
            let cpu = train_on(&graph, &params, &variant, &splits(SPLITS), 1).unwrap();
            let Some(ours) = with_gpu(|| train_here(&graph, &params, &variant).unwrap()) else { return };
            for (ours, cpu) in ours.splits.iter().zip(&cpu.splits) {
                for (epoch, (ours, cpu)) in ours.history.iter().zip(&cpu.history).enumerate() {
                    let of_train = (ours.train_loss - cpu.train_loss).abs();
                    let far = of_train.max((ours.val_loss - cpu.val_loss).abs());
                    assert!(epoch > 0 || of_train < 1e-5, "{model} {variant}: the first loss differs by {of_train}");
                    assert!(far < tolerance, "{model} {variant}: the losses of epoch {epoch} differ by {far}");
                }
                assert_eq!(ours.logits.len(), cpu.logits.len());
            }
        }
    }
}

#[test]
fn every_model_with_dropout_gives_the_same_bytes_twice_on_a_gpu() {
    let mut seen = BTreeSet::new();
    for (model, variant) in zoo().into_iter().filter(|(model, _)| seen.insert(*model)) {
        let [graph, _] = graphs(model);
        let once = |_| with_gpu(|| train_here(&graph, &short(model, 3), &variant).unwrap().splits);
        let [first, second] = [0, 1].map(once);
        assert!(first == second, "{model} {variant}");
    }
}

/// What one epoch more asks for, once everything that is fixed has been uploaded.
fn of_an_epoch(model: &str, variant: &Value, graph: &TestGraph) -> Option<Counts> {
    let with = |epochs: usize| {
        with_gpu(|| {
            let before = Counts::so_far();
            // The first epoch is kept for good, so that none has more copies than another.
            let params = Params { select: ValMetric::of("accuracy"), lr: 1e-9, ..short(model, epochs) };
            train_here(graph, &params, variant).unwrap();
            Counts::so_far() - before
        })
    };
    Some(with(3)? - with(2)?)
}

#[test]
fn an_epoch_asks_a_card_for_no_more_than_it_needs() {
    let [_, sparse] = graphs("mlp");
    let Some(found) = of_an_epoch("mlp", &json!({}), &sparse) else { return };
    let expected = Counts { launches: 21, products: 4, allocations: 21, uploads: 0, reads: 1 };
    assert_eq!(found, expected);
}

#[test]
fn a_term_of_a_polynomial_is_a_kernel_for_each_side_and_two_on_the_way_back() {
    let [_, sparse] = graphs("gpr-gnn");
    let of = |order: usize| of_an_epoch("gpr-gnn", &json!({"order": order}), &sparse);
    let (Some(ten), Some(eleven)) = (of(10), of(11)) else { return };
    let expected = Counts { launches: 4, products: 0, allocations: 3, uploads: 0, reads: 0 };
    assert_eq!(eleven - ten, expected);
}

#[test]
fn an_epoch_copies_nothing_but_losses_and_drawn_pairs() {
    let mut seen = BTreeSet::from(["supergat"]);
    for (model, variant) in zoo().into_iter().filter(|(model, _)| seen.insert(*model)) {
        let [_, sparse] = graphs(model);
        let Some(found) = of_an_epoch(model, &variant, &sparse) else { return };
        assert_eq!((found.uploads, found.reads), (0, 1), "{model} {variant}");
    }
}
