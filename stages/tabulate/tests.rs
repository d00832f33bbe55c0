use std::sync::atomic::AtomicBool;

use serde_json::json;

use super::*;
use crate::contract::params::{Params as _, TextPath};
use crate::contract::{InputDir, StageDef};
use crate::kinds::{Mark, PartScore, Verdict};

/// A run whose splits have these test and validation accuracies; losses are one minus those.
fn run<'k>(key: &'k str, splits: &[(f64, f64)]) -> Run<'k> {
    let part = |accuracy: f64| PartScore {
        scores: vec![("accuracy".into(), Ok(accuracy)), ("loss".into(), Ok(1.0 - accuracy))],
        nodes: 4,
    };
    let scores = |&(test, val): &(f64, f64)| SplitScores {
        best_epoch: Some(7),
        train: part(1.0),
        val: part(val),
        test: part(test),
        confusion: vec![],
    };
    Run { key, metrics: Metrics { splits: splits.iter().map(scores).collect() }, remarks: &[] }
}

fn table(params: &Params, runs: &[Run]) -> Result<Table, StageError> {
    super::table(params, runs, &Published::new(), &[])
}

fn params(cells: Vec<CellSpec>) -> Params {
    let labels = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    Params { rows: labels(["gcn", "mlp"]), columns: labels(["texas", "cora"]), cells, ..Params::default() }
}

fn spec(row: usize, column: usize, candidates: &[&[usize]]) -> CellSpec {
    CellSpec {
        row,
        column,
        candidates: candidates.iter().map(|c| c.to_vec()).collect(),
        labels: vec![],
        missing: vec![],
        notes: vec![],
    }
}

#[test]
fn what_a_reader_must_know_of_the_settings_of_a_cell_is_a_note_of_it() {
    let said = CellSpec { notes: vec!["no published settings".into()], ..spec(0, 0, &[&[0]]) };
    let table = table(&params(vec![said, spec(1, 0, &[&[0]])]), &[run("a", &[(0.5, 0.0)])]).unwrap();
    assert_eq!(table.cell(0, 0).unwrap().notes[0], "no published settings");
    assert!(!table.cell(1, 0).unwrap().notes.contains(&"no published settings".to_owned()));
}

#[test]
fn the_splits_of_all_runs_of_a_cell_are_pooled() {
    let runs = [run("a", &[(0.5, 0.0), (0.7, 0.0)]), run("b", &[(0.9, 0.0)]), run("c", &[(0.1, 0.0)])];
    let table = table(&params(vec![spec(1, 0, &[&[2]]), spec(0, 0, &[&[0, 1]])]), &runs).unwrap();
    let cell = table.cell(0, 0).unwrap();
    assert_eq!((cell.n, &cell.values[..], &cell.runs[..]), (3, &[0.5, 0.7, 0.9][..], &["a".into(), "b".into()][..]));
    // Mean 0.7; squares 0.04 + 0 + 0.04 over 3.
    assert!((cell.mean - 0.7).abs() < 1e-15 && (cell.std.unwrap() - (0.08f64 / 3.0).sqrt()).abs() < 1e-15);
    // Three splits against one: there is no test, so the best is marked and nothing is claimed.
    assert_eq!((cell.mark, table.cell(1, 0).unwrap().mark), (Some(Mark::NotWorse), None));
    assert_eq!(table.comparisons[0].untested[0].why, "another number of splits");
    assert_eq!(table.cell(1, 0).unwrap().std, None);
    assert_eq!((table.cells[0].row, table.cells[1].row), (0, 1));
}

#[test]
fn a_split_without_a_defined_score_does_not_count_and_is_noted() {
    let undefined = || PartScore { scores: vec![("accuracy".into(), Err("there are no nodes".into()))], nodes: 0 };
    let mut half = run("a", &[(0.5, 0.0), (0.7, 0.0)]);
    half.metrics.splits[0].test = undefined();
    let params = params(vec![spec(0, 0, &[&[0]])]);
    let cell = table(&params, std::slice::from_ref(&half)).unwrap().cells.remove(0);
    assert_eq!(cell.values, [0.7]);
    assert_eq!(cell.notes, ["undefined in 1 of 2 splits, which do not count: there are no nodes"]);
    half.metrics.splits[1].test = undefined();
    let table = table(&params, &[half]).unwrap();
    assert_eq!(table.cells, []);
    assert_eq!(table.absent[0].why, "test-accuracy is undefined: there are no nodes");
}

#[test]
fn a_model_that_has_learned_nothing_is_noted() {
    let mut runs = [run("a", &[(0.8, 0.0), (0.8, 0.0), (0.85, 0.0)])];
    // Two splits answer class 0 always; the third does not. 8 of 10 nodes are of class 0.
    for (split, confusion) in
        runs[0].metrics.splits.iter_mut().zip([[[8, 0], [2, 0]], [[8, 0], [2, 0]], [[7, 1], [1, 1]]])
    {
        split.confusion = confusion.map(|row| row.to_vec()).to_vec();
    }
    runs[0].metrics.splits[1].best_epoch = Some(0);
    let params = params(vec![spec(0, 0, &[&[0]])]);
    let notes = table(&params, &runs).unwrap().cells.remove(0).notes;
    assert_eq!(notes, ["predicts one class only in 2 of 3 splits", "keeps the first epoch in 1 of 3 splits"]);
    runs[0].metrics.splits.truncate(2);
    let table = table(&params, &runs).unwrap();
    assert_eq!(table.cells[0].notes[0], "predicts one class only in all 2 splits");
    assert_eq!(table.cells[0].notes[2], "not above 80.00, the share of the largest class among the test nodes");
    assert!(table.markdown().contains("| gcn | 80.00 ± 0.00<sup>1,2,3</sup> |"), "{}", table.markdown());
}

#[test]
fn the_candidate_with_the_best_validation_is_shown_even_if_another_tests_better() {
    let runs = [run("a", &[(0.9, 0.3)]), run("b", &[(0.5, 0.8)]), run("c", &[(0.6, 0.8)])];
    for (metric, values) in [("val-accuracy", [0.3, 0.8, 0.8]), ("val-loss", [0.7, 0.2, 0.2])] {
        let params = Params { pick: Some(metric.parse().unwrap()), ..params(vec![spec(0, 0, &[&[0], &[1], &[2]])]) };
        params.check().unwrap();
        let table = table(&params, &runs).unwrap();
        assert_eq!(table.cells[0].values, [0.5]);
        let picked = table.cells[0].picked.as_ref().unwrap();
        assert_eq!((picked.chosen, picked.candidates.len()), (1, 3));
        assert_eq!(picked.candidates[1].runs, ["b"]);
        for (candidate, value) in picked.candidates.iter().zip(values) {
            assert!((candidate.pick - value).abs() < 1e-15);
        }
    }
}

#[test]
fn picking_on_test_nodes_is_refused() {
    let stage = StageDef::of::<Tabulate>();
    for metric in ["test-accuracy", "train-loss", "test-roc-auc"] {
        let written = json!({"pick": metric});
        let problems = stage.check(&crate::built_in(), written.as_object().unwrap()).err().unwrap();
        assert_eq!(problems[0].param, "pick");
        assert!(problems[0].message.contains("val-"), "{}", problems[0].message);
    }
    let undecided = params(vec![spec(0, 0, &[&[0], &[1]])]);
    assert_eq!(undecided.check().unwrap_err()[0].param, "pick");
}

#[test]
fn cells_that_cannot_be_are_all_reported() {
    let cells =
        vec![spec(2, 0, &[&[0]]), spec(0, 0, &[]), spec(1, 1, &[&[]]), spec(0, 1, &[&[0]]), spec(0, 1, &[&[0]])];
    let messages: Vec<_> = params(cells).check().unwrap_err().into_iter().map(|p| p.message).collect();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[0], "the cell of row 2 and column 0 is outside of `rows` and `columns`");
    assert_eq!(messages[1], "the cell of row 0 and column 0 has no runs");
    assert_eq!(messages[3], "the cell of row 0 and column 1 is given twice");
}

#[test]
fn what_was_remarked_on_runs_is_a_note_once() {
    let said = ["evd: `k: 9` counts as 2".to_owned(), "split: class 3 has no training node".to_owned()];
    let runs = [
        Run { remarks: &said[..1], ..run("a", &[(0.5, 0.0)]) },
        Run { remarks: &said, ..run("b", &[(0.5, 0.0)]) },
        run("c", &[(0.5, 0.0)]),
    ];
    let table = table(&params(vec![spec(0, 0, &[&[0, 1]]), spec(1, 0, &[&[2]])]), &runs).unwrap();
    assert_eq!(table.cells[0].notes[..2], said);
    assert!(!table.cells[1].notes.iter().any(|note| note.contains("evd")), "{:?}", table.cells[1].notes);
}

#[test]
fn a_run_that_is_not_wired_is_named() {
    let error = table(&params(vec![spec(0, 0, &[&[3]])]), &[run("a", &[(0.1, 0.1)])]).unwrap_err();
    assert_eq!(error.to_string(), "the cell of row 0 and column 0 wants run 3");
}

#[test]
fn the_stage_takes_its_parameters_as_the_planner_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let inputs: Vec<_> = [run("a", &[(0.25, 0.0)]), run("b", &[(0.5, 0.0)])]
        .into_iter()
        .map(|Run { key, metrics, .. }| {
            let (key, dir) = (key.to_owned(), folder.path().join(key));
            std::fs::create_dir(&dir).unwrap();
            metrics.save(&dir).unwrap();
            InputDir { slot: "metrics", key, dir, remarks: Vec::new() }
        })
        .collect();
    let stage = StageDef::of::<Tabulate>();
    let written = json!({
        "rows": ["x"], "columns": ["y"], "metric": "test-accuracy", "digits": 1,
        "cells": [{"row": 0, "column": 0, "candidates": [[1, 0]]}],
    });
    let checked = stage.check(&crate::built_in(), written.as_object().unwrap()).unwrap();
    let cancel = AtomicBool::new(false);
    let job = Job { inputs: &inputs, ..Job::alone(&cancel) };
    let out = tempfile::tempdir().unwrap();
    stage.run(&checked, &job, out.path()).unwrap();
    let table = Table::load(out.path()).unwrap();
    assert_eq!(table.cells[0].runs, ["b", "a"]);
    assert!(table.markdown().contains("| x | 37.5 ± 12.5 |"), "{}", table.markdown());
}

fn reference(text: &str) -> Result<Published, StageError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    std::fs::write(&path, text).unwrap();
    references(&Params { reference: Some(TextPath(path)), ..params(vec![]) }, &[])
}

#[test]
fn published_values_find_their_cells() {
    let text =
        "# printed in percent\nrow,column,mean,std,note\ngcn,cora,81.5,1.25,\nmlp,texas,,,OOM\nother,cora,1,2,\n";
    let published = reference(text).unwrap();
    assert_eq!(published.len(), 2);
    assert_eq!((published[&(0, 1)].mean, published[&(0, 1)].std), (Some(0.815), Some(0.0125)));
    assert_eq!((published[&(1, 0)].mean, published[&(1, 0)].note.as_str()), (None, "OOM"));
    let absent = vec![AbsentSpec { row: 0, column: 1, why: "no data".into() }];
    let params = Params { absent, ..params(vec![spec(1, 0, &[&[0]])]) };
    let table = super::table(&params, &[run("a", &[(0.5, 0.5)])], &published, &[]).unwrap();
    assert_eq!(table.cells[0].reference.as_ref().unwrap().note, "OOM");
    assert_eq!(table.absent[0].reference.as_ref().unwrap().mean, Some(0.815));
}

#[test]
fn a_row_may_have_another_name_in_the_file_and_several_may_share_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    std::fs::write(&path, "row,column,mean,std,note\nGCN,cora,81.5,,\ngcn,texas,1,,\n").unwrap();
    let called = |label: &str| (label.to_owned(), "GCN".to_owned());
    let rows = [called("gcn"), called("mlp")].into();
    let params = Params { reference: Some(TextPath(path)), reference_rows: rows, ..params(vec![]) };
    let published = references(&params, &[]).unwrap();
    assert_eq!(published.keys().collect::<Vec<_>>(), [&(0, 1), &(1, 1)], "not by its own label any more");
    let odd = Params { reference_rows: [called("gnc")].into(), ..params };
    let problem = &crate::contract::params::Params::check(&odd).unwrap_err()[0];
    assert_eq!(problem.message, "the table has no row `gnc`");
    assert!(problem.help.as_ref().unwrap().contains("`gcn`"));
}

#[test]
fn a_broken_file_of_published_values_is_named_with_its_line() {
    let message = |text: &str| reference(text).unwrap_err().to_string();
    assert!(message("row,column,mean\n").ends_with("expected `row,column,mean,std,note`"));
    let number = message("row,column,mean,std,note\ngcn,cora,best,,\n");
    assert!(number.ends_with("paper.csv, line 2: mean is `best`, expected a number"), "{number}");
    let twice = message("row,column,mean,std,note\ngcn,cora,1,,\ngcn,cora,2,,\n");
    assert!(twice.ends_with("line 3: row `gcn` and column `cora` have a value already"), "{twice}");
    assert!(message("row,column,mean,std,note\ngcn,cora,1\n").contains("line 2"));
}

fn lost(place: usize, why: &str) -> Lost {
    Lost { place, why: why.to_owned() }
}

#[test]
fn a_cell_that_lacks_runs_is_made_of_the_others_and_says_so() {
    let runs = [run("a", &[(0.5, 0.0)]), run("b", &[(0.7, 0.0)]), run("c", &[(0.9, 0.0)]), run("d", &[(0.2, 0.0)])];
    let whole = params(vec![spec(0, 0, &[&[0, 1, 2]]), spec(1, 0, &[&[3]]), spec(1, 1, &[&[1]])]);
    let partial = Tabulate::without(whole, &[lost(1, "train/b failed: NaN"), lost(0, "train/a failed: NaN")]).unwrap();
    partial.check().unwrap();
    let table = table(&partial, &runs[2..]).unwrap();
    let cell = table.cell(0, 0).unwrap();
    assert_eq!((&cell.runs[..], cell.n, cell.mean), (&["c".to_owned()][..], 1, 0.9));
    assert_eq!(cell.notes, ["2 of 3 runs missing: train/a failed: NaN; train/b failed: NaN"]);
    assert_eq!(cell.missing, ["train/a failed: NaN", "train/b failed: NaN"]);
    assert_eq!(table.cell(1, 0).unwrap().runs, ["d"]);
    assert_eq!(table.absent(1, 1).unwrap().why, "train/b failed: NaN");
    let markdown = table.markdown();
    assert!(markdown.contains("| gcn | <ins>90.00</ins><sup>1</sup> | – |"), "{markdown}");
    assert!(markdown.contains("| mlp | 20.00 | absent<sup>2</sup> |"), "{markdown}");
    assert!(markdown.contains("<sup>2</sup> train/b failed: NaN."), "{markdown}");
}

#[test]
fn a_configuration_that_failed_is_not_picked_and_the_cell_says_so() {
    let runs = [run("a", &[(0.5, 0.9)]), run("b", &[(0.6, 0.3)]), run("c", &[(0.7, 0.5)]), run("d", &[(0.8, 0.4)])];
    let picking = |candidates: &[&[usize]]| Params {
        pick: Some("val-accuracy".parse().unwrap()),
        ..params(vec![spec(0, 0, candidates)])
    };
    let without = |candidates: &[&[usize]], gone: &[Lost], runs: &[Run]| {
        let partial = Tabulate::without(picking(candidates), gone).unwrap();
        partial.check().unwrap();
        table(&partial, runs).unwrap()
    };
    let cell = without(&[&[0], &[1], &[2]], &[lost(0, "train/a failed: NaN")], &runs[1..]).cells.remove(0);
    assert_eq!((cell.mean, cell.picked.as_ref().unwrap().candidates.len()), (0.7, 2));
    assert_eq!(cell.notes, ["1 of 3 configurations left out: train/a failed: NaN"]);
    assert_eq!(cell.picked.unwrap().left_out[0].why, "train/a failed: NaN");
    // The first configuration has the best validation, of half of its runs.
    let again = |at: usize| Run { metrics: runs[at].metrics.clone(), ..runs[at] };
    let cell = without(&[&[0, 1], &[2, 3]], &[lost(1, "x")], &[again(0), again(2), again(3)]);
    assert_eq!(cell.cells[0].runs, ["c", "d"]);
    // Where every configuration lacks some, the best of what there is.
    let cell = without(&[&[0, 1], &[2, 3]], &[lost(1, "x"), lost(3, "y")], &[again(0), again(2)]);
    assert_eq!(
        (&cell.cells[0].runs[..], &cell.cells[0].notes[..]),
        (&["a".to_owned()][..], &["1 of 2 runs missing: x".to_owned()][..])
    );
    let none = without(&[&[0], &[1]], &[lost(0, "x"), lost(1, "y")], &[]);
    assert_eq!((none.cells.len(), none.absent[0].why.as_str()), (0, "x; y"));
}

#[test]
fn of_many_reasons_a_note_gives_some_and_counts_the_rest() {
    assert_eq!(reasons(["a", "b", "a"].into_iter()), "a; b");
    assert_eq!(reasons(["a", "b", "c", "d", "e", "e"].into_iter()), "a; b; c; and 2 more");
}

#[test]
fn a_caption_says_what_the_values_of_a_cell_are() {
    let runs = [run("a", &[(0.5, 0.1), (0.6, 0.1)]), run("b", &[(0.7, 0.2), (0.8, 0.2)]), run("c", &[(0.4, 0.3)])];
    let caption = |params: &Params| table(params, &runs).unwrap().markdown().lines().last().unwrap().to_owned();
    let alone = params(vec![spec(0, 0, &[&[0]])]);
    assert!(caption(&alone).contains("standard deviation over splits, n = 2 per cell."), "{}", caption(&alone));
    let pooled = vec!["train.seed".to_owned()];
    let seeds = Params { pooled: pooled.clone(), ..params(vec![spec(0, 0, &[&[0, 1]]), spec(1, 0, &[&[0, 1]])]) };
    let expected = "over splits and train.seed, n = 4 per cell (2 splits × 2 runs).";
    assert!(caption(&seeds).contains(expected), "{}", caption(&seeds));
    let uneven = Params { pooled, ..params(vec![spec(0, 0, &[&[0, 1]]), spec(1, 0, &[&[2]])]) };
    assert!(caption(&uneven).contains("over splits and train.seed, n = 1 to 4 per cell."), "{}", caption(&uneven));
    let picked = Params {
        pick: Some("val-accuracy".parse().unwrap()),
        picked_from: vec!["train.lr".into(), "train.hidden".into()],
        ..params(vec![spec(0, 0, &[&[0], &[1]])])
    };
    let expected = "Configurations (train.lr, train.hidden) were chosen on validation nodes, by val-accuracy.";
    assert!(caption(&picked).contains(expected), "{}", caption(&picked));
    let latex = table(&seeds, &runs).unwrap().latex();
    assert!(latex.contains("n = 4 per cell (2 splits $\\times$ 2 runs)"), "{latex}");
}

#[test]
fn a_configuration_without_a_defined_metric_is_left_out() {
    let mut runs = [run("a", &[(0.5, 0.9)]), run("b", &[(0.6, 0.3)])];
    let undefined = PartScore { scores: vec![("accuracy".into(), Err("no node".into()))], nodes: 0 };
    runs[0].metrics.splits[0].val = undefined.clone();
    let params = Params { pick: Some("val-accuracy".parse().unwrap()), ..params(vec![spec(0, 0, &[&[0], &[1]])]) };
    let cell = table(&params, &runs).unwrap().cells.remove(0);
    assert_eq!((cell.mean, cell.notes.len()), (0.6, 1));
    runs[1].metrics.splits[0].val = undefined;
    let table = table(&params, &runs).unwrap();
    assert!(
        table.absent[0].why.starts_with("nothing can be picked: 2 of 2 configurations left out"),
        "{:?}",
        table.absent
    );
}

/// A run of these test accuracies, on splits that have twice as many training nodes as test nodes.
fn tested<'k>(key: &'k str, values: &[f64]) -> Run<'k> {
    let mut run = run(key, &values.iter().map(|value| (*value, 0.0)).collect::<Vec<_>>());
    run.metrics.splits.iter_mut().for_each(|split| split.train.nodes = 8);
    run
}

/// Three rows in one column, each of one run.
fn three_rows(runs: &[Run]) -> Table {
    let mut params = params(vec![spec(0, 0, &[&[0]]), spec(1, 0, &[&[1]]), spec(2, 0, &[&[2]])]);
    params.rows.push("lr".into());
    table(&params, runs).unwrap()
}

const STEADY: [f64; 6] = [0.80, 0.82, 0.81, 0.84, 0.83, 0.85];

fn shifted(by: [f64; 6]) -> Vec<f64> {
    STEADY.iter().zip(by).map(|(value, by)| value - by).collect()
}

#[test]
fn the_best_is_bold_only_if_it_is_better_than_every_other() {
    let worse = shifted([0.10, 0.11, 0.12, 0.10, 0.13, 0.11]);
    let alike = shifted([0.01, -0.02, 0.03, 0.01, -0.01, 0.02]);
    let clear = three_rows(&[tested("a", &STEADY), tested("b", &worse), tested("c", &worse)]);
    let marks = |table: &Table| table.cells.iter().map(|cell| cell.mark).collect::<Vec<_>>();
    assert_eq!(marks(&clear), [Some(Mark::Best), None, None]);
    let unclear = three_rows(&[tested("a", &STEADY), tested("b", &alike), tested("c", &worse)]);
    assert_eq!(marks(&unclear), [Some(Mark::NotWorse), Some(Mark::NotWorse), None]);
    let comparison = &unclear.comparisons[0];
    assert_eq!((comparison.splits, comparison.ratio, comparison.tested), (6, 0.5, 2));
    // Holm: the smaller p of two comparisons counts twice, the other once.
    let [second, third] = [1, 2].map(|at: usize| unclear.cells[at].test.unwrap());
    assert!((third.corrected - 2.0 * third.p).abs() < 1e-15 && second.corrected == second.p, "{second:?} {third:?}");
    assert!(unclear.cells[0].test.is_none());
    // The correction for overlap decides: the plain test of the same differences is surer.
    let plain = crate::math::inference::paired_test(&STEADY, &alike, 0.0).unwrap();
    assert!(plain.p < second.p);
}

#[test]
fn a_smaller_loss_is_better_and_a_single_cell_is_not_marked() {
    let worse = shifted([0.10, 0.11, 0.12, 0.10, 0.13, 0.11]);
    let cells = vec![spec(0, 0, &[&[0]]), spec(1, 0, &[&[1]]), spec(0, 1, &[&[0]])];
    let params = Params { metric: "test-loss".parse().unwrap(), ..params(cells) };
    let table = table(&params, &[tested("a", &worse), tested("b", &STEADY)]).unwrap();
    assert_eq!(table.cell(1, 0).unwrap().mark, Some(Mark::Best));
    assert_eq!((table.cell(0, 0).unwrap().mark, table.cell(0, 1).unwrap().mark), (None, None));
    assert_eq!(table.comparisons.len(), 1);
}

#[test]
fn cells_on_other_splits_are_not_tested_and_nothing_is_claimed() {
    let worse = shifted([0.10, 0.11, 0.12, 0.10, 0.13, 0.11]);
    let untested = |odd: &dyn Fn(&mut SplitScores), why: &str| {
        let mut other = tested("b", &worse);
        other.metrics.splits.iter_mut().for_each(odd);
        let table = three_rows(&[tested("a", &STEADY), other, tested("c", &worse)]);
        assert_eq!(table.cells[0].mark, Some(Mark::NotWorse), "{why}");
        assert_eq!((table.cells[1].mark, table.cells[2].mark, table.cells[1].test), (None, None, None), "{why}");
        assert_eq!((table.comparisons[0].tested, &*table.comparisons[0].untested[0].why), (1, why));
        assert!(table.markdown().contains(&format!("Not tested: mlp in texas ({why}).")), "{}", table.markdown());
    };
    untested(&|split| split.test.nodes = 5, "other splits");
    untested(&|split| split.train.nodes = 9, "other splits");
    untested(&|split| split.confusion = vec![vec![3, 0], vec![0, 1]], "other splits");
    // Without training nodes there is no ratio; all runs are alike in that.
    let mut runs = [tested("a", &STEADY), tested("b", &worse), tested("c", &worse)];
    runs.iter_mut().flat_map(|run| &mut run.metrics.splits).for_each(|split| split.train.nodes = 0);
    assert_eq!(three_rows(&runs).comparisons[0].untested[1].why, "splits without training nodes");
    let alone = three_rows(&["a", "b", "c"].map(|key| tested(key, &[0.5])));
    assert_eq!(alone.comparisons[0].untested[0].why, "a single split");
    // They look alike, so they share the mark.
    assert!(alone.cells.iter().all(|cell| cell.mark == Some(Mark::NotWorse)));
}

#[test]
fn seeds_on_the_same_splits_count_once_per_split() {
    let worse = shifted([0.10, 0.11, 0.12, 0.10, 0.13, 0.11]);
    let runs = [tested("a", &STEADY), tested("b", &STEADY), tested("c", &worse), tested("d", &worse)];
    let table = table(&params(vec![spec(0, 0, &[&[0, 1]]), spec(1, 0, &[&[2, 3]])]), &runs).unwrap();
    assert_eq!((table.cells[0].n, table.comparisons[0].splits), (12, 6));
    let once = crate::math::inference::paired_test(&STEADY, &worse, 0.5).unwrap();
    assert!((table.cells[1].test.unwrap().p - once.p).abs() < 1e-12);
    // Runs on splits of their own are further splits.
    let mut others = runs;
    for at in [1, 3] {
        others[at].metrics.splits.iter_mut().for_each(|split| split.confusion = vec![vec![4]]);
    }
    let table =
        super::table(&params(vec![spec(0, 0, &[&[0, 1]]), spec(1, 0, &[&[2, 3]])]), &others, &Published::new(), &[]);
    assert_eq!(table.unwrap().comparisons[0].splits, 12);
}

#[test]
fn an_interval_is_that_of_the_splits() {
    let params = Params { interval: Interval::Bootstrap, ..params(vec![spec(0, 0, &[&[0]]), spec(1, 0, &[&[1]])]) };
    let table = table(&params, &[tested("a", &STEADY), tested("b", &[0.5])]).unwrap();
    assert_eq!(table.cells[0].interval, mean_interval(&STEADY));
    assert_eq!(table.cells[1].interval, None, "a single split has none");
    assert!(table.markdown().contains("| mlp | 50.00 |"), "{}", table.markdown());
}

#[test]
fn ranks_are_over_the_columns_in_which_every_ranked_row_has_a_value() {
    let runs = [tested("a", &[0.9, 0.8]), tested("b", &[0.5, 0.6]), tested("c", &[0.7, 0.6])];
    let mut cells = vec![];
    for (column, order) in [[0, 1, 2], [0, 2, 1], [2, 1, 0]].iter().enumerate() {
        cells.extend((0..3).map(|row| spec(row, column, &[&order[row..=row]])));
    }
    // A column that lacks a row does not count; a row without any value has no rank.
    cells.push(spec(0, 3, &[&[1]]));
    let mut params = Params { ranks: true, ..params(cells) };
    params.rows.extend(["lr".into(), "none".into()]);
    params.columns.extend(["pubmed".into(), "flickr".into()]);
    let ranking = table(&params, &runs).unwrap().ranking.unwrap();
    assert_eq!(ranking.columns, [0, 1, 2]);
    // Worth of runs: a 0.85, c 0.65, b 0.55. Ranks by column: 1 3 2; 1 2 3; 2 3 1.
    let averages: Vec<_> = ranking.averages.iter().map(|rank| rank.map(|rank| (rank * 3.0).round())).collect();
    assert_eq!(averages, [Some(4.0), Some(8.0), Some(6.0), None]);
    // χ² = 12·3/(3·4) · ((4/3 − 2)² + (8/3 − 2)² + 0) = 8/3.
    assert!((ranking.tests.unwrap().chi_square - 8.0 / 3.0).abs() < 1e-12);
    let single = Params { cells: params.cells[..3].to_vec(), ..params };
    assert_eq!(table(&single, &runs).unwrap().ranking.unwrap().tests, None);
}

#[test]
fn every_cell_with_a_published_value_is_judged() {
    let published = reference("row,column,mean,std,note\ngcn,texas,50,10,*\nmlp,texas,50,,\n").unwrap();
    let params = params(vec![spec(0, 0, &[&[0]]), spec(1, 0, &[&[0]]), spec(0, 1, &[&[0]])]);
    let table = super::table(&params, &[run("a", &[(0.65, 0.0)])], &published, &[]).unwrap();
    let verdicts: Vec<_> = table.cells.iter().map(|cell| cell.verdict).collect();
    assert_eq!(verdicts, [Some(Verdict::WithinTwo), None, Some(Verdict::NoPrintedSpread)]);
}
