//! What the live view shows, on pages of several sizes.

use super::*;
use crate::plan::{ArtifactKey, NodeName};
use crate::run::{Event, FailureKind, Holder, NodeFailure};
use ppgnn_stages::contract::Progress as Said;
use ppgnn_stages::contract::device::Device;
use ppgnn_stages::kinds::{PlainCell, PlainRow};

const PAGE: Page = Page { width: 80, height: 30, colour: false };

fn key(at: usize) -> ArtifactKey {
    format!("{at:064x}").parse().unwrap()
}

fn train(at: usize) -> NodeName {
    NodeName::new("train", ["heterophilic".to_owned(), format!("model number {at}")])
}

fn started(at: usize) -> Event {
    Event::NodeStarted { node: train(at), key: key(at), threads: 1, device: Device::Cpu }
}

/// A run of 20 nodes: 5 hits, one that ran, one that failed, one that runs, one that another process computes.
fn progress() -> Progress {
    let mut progress = Progress::default();
    let begun = Event::RunStarted {
        pipeline: "p".into(),
        profile: None,
        nodes: 30,
        targets: 1,
        cores: 2,
        misses: 15,
        hits: 5,
        expected_seconds: 100.0,
        least_seconds: 60.0,
        most_seconds: 300.0,
        guess: false,
    };
    progress.take(&begun);
    for at in 100..105 {
        progress.take(&Event::NodeCached { node: train(at), key: key(at), saved_seconds: 1.0 });
    }
    (0..3).for_each(|at| progress.take(&started(at)));
    progress.take(&Event::NodeFinished { node: train(0), key: key(0), seconds: 1.0, bytes: 1, bytes_same: None });
    let failure = NodeFailure { kind: FailureKind::Stage, errors: vec!["no".into()], hint: None };
    progress.take(&Event::NodeFailed { node: train(1), key: key(1), seconds: 1.0, failure });
    let said = Said { done: 12, total: 200, note: "loss 0.31".into() };
    progress.take(&Event::NodeProgress { node: train(2), key: key(2), progress: said });
    let holder = Holder { pid: 77, host: Some("box".into()), since: "2026-03-01T12:00:05Z".into() };
    progress.take(&Event::NodeWaiting { node: train(3), key: key(3), holder: Some(holder) });
    progress.take(&Event::TimeLeft { seconds: 90.0, least: 50.0, most: 200.0, share: 0.4 });
    progress
}

fn table(rows: usize, columns: usize) -> PlainTable {
    let cell = PlainCell { value: "73.20 ± 2.53".into(), beside: "n=10".into(), mark: None };
    let row = |at| PlainRow { label: format!("method {at}"), cells: vec![cell.clone(); columns] };
    PlainTable {
        title: "Accuracy".into(),
        corner: "method / dataset".into(),
        columns: (0..columns).map(|at| format!("data {at}")).collect(),
        rows: (0..rows).map(row).collect(),
        caption: String::new(),
        notes: vec![],
    }
}

#[test]
fn a_view_shows_the_table_how_far_the_run_is_and_what_runs() {
    let lines = frame(&progress(), &[table(2, 2)], PAGE);
    assert_eq!(lines[0], "Accuracy");
    assert_eq!(lines[2], "method 0          73.20 ± 2.53  n=10  73.20 ± 2.53  n=10");
    assert_eq!(lines[4], "");
    assert_eq!(lines[5], "7 of 20 nodes, 40 %, 50.0 s to 3 m 20 s left, 1 failed, 5 hits");
    assert_eq!(lines[6], "  train heterophilic/model number 2  0.0 s  12/200 loss 0.31");
    assert!(lines[7].starts_with("  waiting for train heterophilic/model number 3: process 77 on box"), "{}", lines[7]);
    assert_eq!(lines.len(), 8);
    let wide = frame(&progress(), &[], Page { width: 140, ..PAGE });
    assert_eq!(wide[0], "7 of 20 nodes, 40 % of the work, about 1 m 30 s left (50.0 s to 3 m 20 s), 1 failed, 5 hits");
    assert!(wide[2].ends_with(", since 2026-03-01 12:00:05 UTC"), "{}", wide[2]);
}

#[test]
fn a_view_fits_every_page() {
    let tables = [table(3, 2), table(200, 40), table(1, 1)];
    for width in [1, 7, 20, 44, 80, 300] {
        for height in [1, 2, 3, 8, 24, 100] {
            let lines = frame(&progress(), &tables, Page { width, height, colour: height % 2 == 0 });
            assert!(lines.len() < height.max(2) && lines.len() <= height, "{width}×{height}: {lines:?}");
            assert!(lines.iter().all(|line| width_of(line) <= width), "{width}×{height}: {lines:?}");
        }
    }
    let narrow = frame(&progress(), &[table(3, 2)], Page { width: 44, ..PAGE });
    assert_eq!(narrow[5], "… 1 more column than fit here");
    assert_eq!(narrow[7], "7/20 nodes, 40 %, 1 m 30 s left, 1 failed, …");
    let low = frame(&progress(), &tables, Page { height: 12, ..PAGE });
    assert!(low.iter().any(|line| line.contains("more tables than fit")), "{low:?}");
}

#[test]
fn many_running_nodes_are_a_few_names_and_a_number() {
    let mut progress = progress();
    (10..30).for_each(|at| progress.take(&started(at)));
    let lines = frame(&progress, &[], PAGE);
    assert_eq!(lines.iter().filter(|line| line.contains("train heterophilic") && !line.contains("waiting")).count(), 3);
    assert!(lines.contains(&"  and 18 more running".to_owned()), "{lines:?}");
    let before = progress.version;
    progress.take(&Event::NodeCached { node: train(3), key: key(3), saved_seconds: 1.0 });
    assert!(progress.waiting.is_empty() && progress.version > before, "what was waited for is there");
}
