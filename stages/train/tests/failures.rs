//! Runs that fail, are cancelled, or report how far they are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::contract::ProgressSink;

/// Trains without dropout, after the features were changed.
fn run_changed(
    change: impl Fn(&mut [f32]),
    splits: &Splits,
    params: &Params,
    threads: usize,
) -> Result<Trained, StageError> {
    let (operator, mut nodes, spectrum) = testing::artifacts();
    let Features::Dense(features) = &mut nodes.features else { panic!("dense features") };
    change(&mut features.data);
    let (notes, variant) = (Notes::default(), json!({"dropout": 0.0}));
    let job = Job { threads, chosen: chosen(&params.model, &variant), progress: &notes, ..Job::alone(&notes.cancel) };
    let graph = TestGraph::of((operator, nodes, spectrum));
    let result = testing::with_threads(threads, || train(params, graph.parts(), None, splits, &job));
    assert!(notes.seen.into_inner().unwrap().iter().all(|p| p.done <= p.total), "no more is done than there is");
    result
}

fn numeric(result: Result<Trained, StageError>) -> String {
    let error = result.err().unwrap();
    assert!(error.hint().unwrap().contains("`lr`"));
    let StageError::Numeric { what, .. } = error else { panic!("{error:?}") };
    what
}

#[test]
fn divergence_names_the_first_split_that_fails_and_its_epoch() {
    for threads in [1, 2, 3, 9] {
        let params = Params { lr: 1e38, ..params("mlp") };
        let what = numeric(run_with(&params, &json!({}), &splits(5), threads));
        assert!(what.contains("split `0`") && what.contains("epoch"), "{what}");
        assert!(what.contains(" before; learning rate `1000000000000"), "{what}");
    }
}

#[test]
fn the_first_split_that_fails_is_named_even_if_others_fail_sooner() {
    // Node 0 has an infinite feature. Training on it fails at once. The others fail when the gradient has spread it, in
    // the evaluation after the first step.
    let mut splits = splits(5);
    for (i, row) in splits.parts.iter_mut().enumerate() {
        row[0] = if i >= 3 { Part::Train } else { Part::Test };
    }
    for threads in [1, 2, 3, 9] {
        let what = numeric(run_changed(|x| x[0] = f32::INFINITY, &splits, &params("mlp"), threads));
        assert!(what.contains("split `0`"), "{threads} threads: {what}");
    }
}

#[test]
fn splits_that_train_do_not_hide_one_that_fails() {
    // A finite feature that overflows once the weights have grown: only who trains or validates on node 0 notices.
    let mut splits = splits(5);
    let parts = [Part::Test, Part::Test, Part::Val, Part::Test, Part::Train];
    splits.parts.iter_mut().zip(parts).for_each(|(row, part)| row[0] = part);
    let (huge, params) = (|x: &mut [f32]| x[..5].fill(3e38), Params { lr: 1.0, window: 0, ..params("lr") });
    for threads in [1, 2, 3, 9] {
        let what = numeric(run_changed(huge, &splits, &params, threads));
        assert!(what.contains("validation") && what.contains("split `2`"), "{threads} threads: {what}");
    }
    splits.parts.truncate(2);
    let trained = run_changed(huge, &splits, &params, 1).unwrap();
    assert_eq!(trained.splits.iter().map(|s| s.history.len()).collect::<Vec<_>>(), [30, 30]);
}

/// Collects what is reported, and may cancel the run then.
#[derive(Default)]
pub(super) struct Notes {
    pub seen: Mutex<Vec<Progress>>,
    pub cancel: AtomicBool,
    cancels: bool,
}

impl ProgressSink for Notes {
    fn progress(&self, progress: &Progress) {
        self.seen.lock().unwrap().push(progress.clone());
        self.cancel.fetch_or(self.cancels, Ordering::Relaxed);
    }
}

fn run_noted(params: &Params, notes: &Notes, threads: usize) -> Result<Trained, StageError> {
    let (graph, splits, variant) = (TestGraph::of(testing::artifacts()), splits(3), json!({}));
    let job = Job { progress: notes, threads, chosen: chosen(&params.model, &variant), ..Job::alone(&notes.cancel) };
    testing::with_threads(threads, || train(params, graph.parts(), None, &splits, &job))
}

#[test]
fn a_run_that_was_cancelled_before_does_not_start() {
    let notes = Notes { cancel: AtomicBool::new(true), ..Notes::default() };
    assert!(matches!(run_noted(&params("mlp"), &notes, 2), Err(StageError::Cancelled)));
    assert!(notes.seen.into_inner().unwrap().is_empty());
}

#[test]
fn cancelling_ends_every_batch_within_an_epoch() {
    for threads in [1, 2, 3] {
        let notes = Notes { cancels: true, ..Notes::default() };
        let params = Params { epochs: 100_000, ..params("mlp") };
        assert!(matches!(run_noted(&params, &notes, threads), Err(StageError::Cancelled)));
        let seen = notes.seen.into_inner().unwrap();
        // A batch reports after its first epoch, and would again ten epochs later.
        assert!((1..=threads).contains(&seen.len()), "{seen:?}");
        assert!(seen.iter().all(|p| p.note.starts_with("epoch 0, ")), "{seen:?}");
    }
}

#[test]
fn progress_ends_at_the_total_even_after_an_early_stop() {
    for threads in [1, 2, 9] {
        let notes = Notes::default();
        let params = Params { epochs: 300, window: 5, lr: 0.5, ..params("mlp") };
        let trained = run_noted(&params, &notes, threads).unwrap();
        assert!(trained.splits.iter().all(|split| split.history.len() < 300));
        let seen = notes.seen.into_inner().unwrap();
        assert!(seen.iter().all(|p| p.total == 900 && p.done <= 900));
        assert_eq!(seen.iter().map(|p| p.done).max(), Some(900));
        assert_eq!(seen.iter().filter(|p| p.note.contains("done after")).count(), 3, "every split says that it ended");
        if threads == 1 {
            assert!(seen[0].note.starts_with("epoch 0, 3 splits: loss "), "{}", seen[0].note);
            assert!(seen.windows(2).all(|w| w[0].done < w[1].done));
        }
    }
}
