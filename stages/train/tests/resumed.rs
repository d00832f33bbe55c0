//! Runs that were interrupted and go on, against runs that were not: the same bytes, of all models.

use std::path::Path;
use std::time::Duration;

use super::batched::{SPLITS, graphs, restless};
use super::failures::Notes;
use super::*;
use crate::models::plain::tests::ROW as PLAIN;
use crate::models::testing::zoo;
use crate::models::tests::seams::ROW;
use crate::train::point::{decode, encode};

/// A run with a scratch folder, as it would be after any earlier attempts.
struct Attempt<'a> {
    params: &'a Params,
    variant: &'a Value,
    graph: &'a TestGraph,
    scratch: &'a Path,
}

impl Attempt<'_> {
    /// Runs something with the job of this attempt.
    fn with<R: Send>(&self, threads: usize, every: Duration, notes: &Notes, f: impl FnOnce(&Run) -> R + Send) -> R {
        let (own, params): ([&'static dyn Row; 2], _) = ([&ROW, &PLAIN], self.variant);
        let own = own.into_iter().find(|row| row.variant().name == self.params.model);
        let row = chosen(&self.params.model, params).or(own.map(|row| Chosen { row, params }));
        let used: Vec<&'static dyn Row> = SCORES.iter().map(|row| row as &dyn Row).collect();
        let job = Job { threads, chosen: row, used: &used, progress: notes, ..Job::alone(&notes.cancel) };
        let job = Job { scratch: Some(self.scratch), checkpoint_every: every, ..job };
        testing::with_threads(threads, || f(&Run::new(self.params, self.graph.parts(), &splits(SPLITS), &job).unwrap()))
    }

    /// Trains groups of splits for some epochs each, and is killed.
    fn killed(&self, groups: &[(&[usize], usize)]) {
        self.with(1, Duration::ZERO, &Notes::default(), |run| {
            let (cancel, mut due) = (AtomicBool::new(false), run.points.clock());
            let mut never = Points::new(&Job::alone(&cancel)).clock();
            for (splits, epochs) in groups {
                let mut batch = Batch::resumed(run, splits).unwrap();
                for epoch in 1..=*epochs {
                    // Points that the last one would replace are not written: every one is flushed to disk.
                    if !batch.next_epoch(if epoch == *epochs { &mut due } else { &mut never }).unwrap() {
                        break;
                    }
                }
            }
            run.leave_finished();
        });
    }

    /// Trains to the end. Returns the bytes of every split, and what was reported.
    fn finished(&self, threads: usize) -> (Vec<Vec<u8>>, Vec<Progress>) {
        let notes = Notes::default();
        let trained = self.with(threads, Duration::from_secs(3600), &notes, |run| run.all_splits().unwrap());
        (bytes(&trained), notes.seen.into_inner().unwrap())
    }
}

/// `==` would take −0 for 0.
fn bytes(splits: &[TrainedSplit]) -> Vec<Vec<u8>> {
    splits.iter().map(|split| encode(0, 0.0, split, None)).collect()
}

fn calm(params: &Params, variant: &Value, graph: &TestGraph) -> Vec<Vec<u8>> {
    let scratch = tempfile::tempdir().unwrap();
    let bytes = Attempt { params, variant, graph, scratch: &scratch.path().join("absent") }.finished(1).0;
    assert!(!scratch.path().join("absent").exists());
    bytes
}

const ALL: &[usize] = &[0, 1, 2, 3, 4];

#[test]
fn every_model_goes_on_with_the_bytes_of_an_undisturbed_run() {
    for (model, variant) in zoo() {
        let params = &restless(model, 20);
        for graph in &graphs(model) {
            let expected = calm(params, &variant, graph);
            for (epochs, threads) in [(1, 1), (2, 1), (3, 3), (8, 2), (14, 9), (21, 1)] {
                let scratch = tempfile::tempdir().unwrap();
                let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
                attempt.killed(&[(ALL, epochs)]);
                assert!(attempt.finished(threads).0 == expected, "{model} {variant}: killed in epoch {epochs}");
            }
            // One kill after the other, in other batches every time; what is left is at three epochs then.
            let scratch = tempfile::tempdir().unwrap();
            let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
            attempt.killed(&[(&[0, 2, 4], 4), (&[1], 7)]);
            attempt.killed(&[(&[0, 4], 3), (&[1], 2), (&[3], 2)]);
            assert!(attempt.finished(2).0 == expected, "{model} {variant}: killed twice");
            attempt.killed(&[(ALL, 30)]);
            assert!(attempt.finished(2).0 == expected, "{model} {variant}: killed after the last epoch");
        }
    }
}

#[test]
fn activations_that_are_kept_and_states_of_a_model_go_on_as_well() {
    for (model, variant, graph) in
        [("gcn", json!({"hidden": 6}), &graphs("gcn")[0]), ("centred", json!({}), &TestGraph::of(testing::artifacts()))]
    {
        let params = &Params { keep_hidden: true, ..restless(model, 25) };
        let expected = calm(params, &variant, graph);
        for epochs in [3, 9, 17] {
            let scratch = tempfile::tempdir().unwrap();
            let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
            attempt.killed(&[(ALL, epochs)]);
            assert!(attempt.finished(2).0 == expected, "{model}: killed in epoch {epochs}");
        }
    }
}

#[test]
fn a_model_in_plain_form_goes_on_with_the_same_bytes() {
    let (params, variant, graph) = (&restless("everything", 25), json!({}), &TestGraph::of(testing::artifacts()));
    let expected = calm(params, &variant, graph);
    for (epochs, threads) in [(3, 1), (9, 3), (17, 2)] {
        let scratch = tempfile::tempdir().unwrap();
        let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
        // Five splits as one batch, then alone.
        attempt.killed(&[(ALL, epochs)]);
        assert!(attempt.finished(threads).0 == expected, "killed in epoch {epochs}");
    }
}

/// A run that was killed after some epochs: its files, by split.
fn left(params: &Params, variant: &Value, epochs: usize, scratch: &Path) -> Vec<std::path::PathBuf> {
    let graph = &graphs("mlp")[0];
    Attempt { params, variant, graph, scratch }.killed(&[(ALL, epochs)]);
    ALL.iter().map(|split| scratch.join(format!("split-{split}.point"))).filter(|path| path.exists()).collect()
}

#[test]
fn a_split_that_has_stopped_is_not_trained_again_and_progress_says_where_a_run_goes_on() {
    let (params, variant, graph) = (&restless("mlp", 60), json!({"hidden": 5}), &graphs("mlp")[0]);
    let scratch = tempfile::tempdir().unwrap();
    let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
    let lengths: Vec<usize> = {
        let whole = run_with_graph(params, &variant, graph);
        whole.iter().map(|split| split.history.len()).collect()
    };
    let epochs = *lengths.iter().min().unwrap() + 3;
    assert!(lengths.iter().any(|length| *length > epochs), "{lengths:?}");
    attempt.killed(&[(ALL, epochs)]);
    let done: Vec<usize> = ALL.iter().copied().filter(|split| lengths[*split] < epochs).collect();
    let (_, seen) = attempt.finished(1);
    assert_eq!(seen[0].note, format!("continues from epoch {}, {} of 5 splits are done", epochs - 1, done.len()));
    let before: usize = ALL.iter().map(|s| if done.contains(s) { 60 } else { epochs - 2 }).sum();
    assert_eq!((seen[0].done, seen[0].total), (before as u64, 300));
    for split in ALL {
        let ends = seen.iter().filter(|p| p.note.starts_with(&format!("split {}/5 done", split + 1))).count();
        assert_eq!(ends, usize::from(!done.contains(split)), "split {split} of {done:?}");
    }
    assert_eq!(seen.iter().map(|p| p.done).max(), Some(300));
}

fn run_with_graph(params: &Params, variant: &Value, graph: &TestGraph) -> Vec<TrainedSplit> {
    train_on(graph, params, variant, &splits(SPLITS), 1).unwrap().splits
}

#[test]
fn damaged_exchanged_and_foreign_points_count_as_absent() {
    let (params, variant, graph) = (&restless("mlp", 20), json!({"hidden": 5}), &graphs("mlp")[0]);
    let expected = calm(params, &variant, graph);
    let foreign = |params: &Params, variant: Value| {
        let scratch = tempfile::tempdir().unwrap();
        let files = left(params, &variant, 5, scratch.path());
        files.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    let own = foreign(params, variant.clone());
    let cut = |bytes: &Vec<u8>| bytes[..bytes.len() - 40].to_vec();
    let flipped =
        |bytes: &Vec<u8>| bytes.iter().enumerate().map(|(at, b)| if at == 200 { b ^ 4 } else { *b }).collect();
    let exchanged: Vec<Vec<u8>> = own.iter().rev().cloned().collect();
    for (what, files) in [
        ("cut short", own.iter().map(cut).collect::<Vec<Vec<u8>>>()),
        ("flipped", own.iter().map(flipped).collect()),
        ("empty", vec![Vec::new(); 5]),
        ("of other splits", exchanged),
        ("of other shapes", foreign(params, json!({"hidden": 6}))),
        ("of another model", foreign(&restless("lr", 20), json!({}))),
        (
            "with another metric",
            foreign(&Params { select: ValMetric::of("macro-f1"), ..restless("mlp", 20) }, variant.clone()),
        ),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        for (split, bytes) in files.iter().enumerate() {
            std::fs::write(scratch.path().join(format!("split-{split}.point")), bytes).unwrap();
        }
        let (found, seen) = Attempt { params, variant: &variant, graph, scratch: scratch.path() }.finished(2);
        assert!(found == expected, "{what}");
        // The middle split stands where it was.
        let continues = seen[0].note.starts_with("continues");
        assert_eq!(continues, what == "of other splits", "{what}: {}", seen[0].note);
    }
    // A run of fewer epochs than a point has seen starts over.
    let scratch = tempfile::tempdir().unwrap();
    left(params, &variant, 9, scratch.path());
    let shorter = &restless("mlp", 6);
    let (found, _) = Attempt { params: shorter, variant: &variant, graph, scratch: scratch.path() }.finished(1);
    assert!(found == calm(shorter, &variant, graph));
}

#[test]
fn points_know_the_time_that_earlier_attempts_took() {
    let (params, variant) = (&restless("mlp", 20), json!({"hidden": 5}));
    let scratch = tempfile::tempdir().unwrap();
    let files = left(params, &variant, 5, scratch.path());
    let seconds = || {
        let points = files.iter().map(|path| crate::contract::checkpoint::read(path).unwrap());
        points.map(|bytes| decode(&bytes).unwrap().seconds).fold(0.0, f64::max)
    };
    let first = seconds();
    assert!(first > 0.0);
    let graph = &graphs("mlp")[0];
    let attempt = Attempt { params, variant: &variant, graph, scratch: scratch.path() };
    attempt.with(1, Duration::ZERO, &Notes::default(), |run| {
        let groups = run.go_on(vec![ALL.to_vec()]).unwrap();
        let mut batch = Batch::resumed(run, &groups[0]).unwrap();
        batch.next_epoch(&mut run.points.clock()).unwrap();
    });
    assert!(seconds() > first, "the time of both attempts");
}

#[test]
fn a_short_run_leaves_nothing() {
    let (scratch, cancel, variant) = (tempfile::tempdir().unwrap(), AtomicBool::new(false), json!({}));
    let job = Job { chosen: chosen("mlp", &variant), scratch: Some(scratch.path()), ..Job::alone(&cancel) };
    let (graph, splits) = (TestGraph::of(testing::artifacts()), splits(2));
    train(&params("mlp"), graph.parts(), None, &splits, &job).unwrap();
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}
