//! `tabulate`: a table of one metric from many runs.
//!
//! A cell pools the splits of its runs into one mean. Where a cell has several candidates (one list of runs each), the
//! one with the best mean of the metric `pick` is shown; ties go to the first. `pick` must be a validation metric:
//! choosing on test nodes would report a biased number. The table says which
//! candidate was chosen and what every candidate had.
//!
//! `reference` is a CSV file of values published elsewhere, shown next to ours: `row`, `column` (labels of the table),
//! `mean`, `std` (in the unit of the table: shares in percent) and `note` (a mark, or a word instead of a value). Lines
//! that start with `#` are comments; rows that the table does not have are ignored.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{self, FilePath, Problem};
use crate::contract::{Artifact, Job, Slot, Stage, StageError, Uses};
use crate::kinds::{
    Absent, Candidate, Cell, Metric, Metrics, Picked, Reference, ScoreDef, SplitScores, Spread, Table, Undefined,
    ValMetric, in_splits, suspicions,
};
use crate::math::stats::{self, Divisor};

/// Parameters of `tabulate`. A person writes some of them in a table of the pipeline; the planner fills in those that are
/// marked as planned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the table.
    pub title: String,
    /// What the cells show.
    pub metric: Metric,
    /// What decides between candidates: a validation metric.
    pub pick: Option<ValMetric>,
    /// Which standard deviation the cells show.
    pub std: Spread,
    /// Digits after the point.
    #[schemars(range(max = 10))]
    pub digits: usize,
    /// What the rows are.
    #[schemars(extend("x-planned" = true))]
    pub row_title: String,
    /// What the columns are.
    #[schemars(extend("x-planned" = true))]
    pub column_title: String,
    /// Labels of the rows.
    #[schemars(extend("x-planned" = true))]
    pub rows: Vec<String>,
    /// Labels of the columns.
    #[schemars(extend("x-planned" = true))]
    pub columns: Vec<String>,
    /// The cells and the runs behind them.
    #[schemars(extend("x-planned" = true))]
    pub cells: Vec<CellSpec>,
    /// The cells that cannot be computed.
    #[schemars(extend("x-planned" = true))]
    pub absent: Vec<AbsentSpec>,
    /// A CSV file of published values (row, column, mean, std, note), shown next to ours.
    pub reference: Option<FilePath>,
    /// What the published values are called.
    pub reference_title: String,
}

/// A cell that cannot be computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AbsentSpec {
    /// Place of its label in `rows`, from 0.
    pub row: usize,
    /// Place of its label in `columns`, from 0.
    pub column: usize,
    /// Why, and what to do about it.
    pub why: String,
}

/// The runs behind one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CellSpec {
    /// Place of its label in `rows`, from 0.
    pub row: usize,
    /// Place of its label in `columns`, from 0.
    pub column: usize,
    /// Configurations it may show, each as the places of its runs in the slot `metrics`, from 0.
    pub candidates: Vec<Vec<usize>>,
    /// What each candidate is called, where there are several.
    #[serde(default)]
    pub labels: Vec<String>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            title: String::new(),
            metric: Metric::default(),
            pick: None,
            std: Spread::default(),
            digits: 2,
            row_title: String::new(),
            column_title: String::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            cells: Vec::new(),
            absent: Vec::new(),
            reference: None,
            reference_title: "reference".into(),
        }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if self.pick.is_none() && self.cells.iter().any(|c| c.candidates.len() > 1) {
            let message = "a cell has several candidates, but nothing says how to pick one";
            problems
                .push(Problem::value("pick", message).with_help("name a validation metric, such as `val-accuracy`"));
        }
        let mut places = std::collections::HashSet::new();
        for cell in &self.cells {
            let is_new = places.insert((cell.row, cell.column));
            let fault = if cell.row >= self.rows.len() || cell.column >= self.columns.len() {
                Some("is outside of `rows` and `columns`")
            } else if cell.candidates.is_empty() || cell.candidates.iter().any(Vec::is_empty) {
                Some("has no runs")
            } else if !is_new {
                Some("is given twice")
            } else {
                None
            };
            if let Some(fault) = fault {
                let message = format!("the cell of row {} and column {} {fault}", cell.row, cell.column);
                problems.push(Problem::value("cells", message));
            }
        }
        for cell in &self.absent {
            if cell.row >= self.rows.len() || cell.column >= self.columns.len() {
                let message =
                    format!("the cell of row {} and column {} is outside of the table", cell.row, cell.column);
                problems.push(Problem::value("absent", message));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The stage.
pub struct Tabulate;

impl Stage for Tabulate {
    const NAME: &'static str = "tabulate";
    const ABOUT: &'static str = "Makes a table of one metric from many runs";
    const VERSION: u32 = 3;
    const INPUTS: &'static [Slot] = &[Slot::many("metrics", Metrics::KIND)];
    const PUBLISHES: &'static [&'static str] = &["table.md", "table.tex", "table.csv", "table.json"];
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(Metric::complete_schema_of));
    type Params = Params;
    type Output = Table;

    fn run(params: &Params, job: &Job) -> Result<Table, StageError> {
        let mut runs = Vec::new();
        for input in job.all("metrics") {
            runs.push((input.key.clone(), Metrics::load(&input.dir)?));
            job.check_cancelled()?;
        }
        let scores = job.used();
        table(params, &runs, &references(params, &scores)?, &scores)
    }

    fn precheck(params: &Params, job: &Job) -> Result<(), StageError> {
        references(params, &job.used()).map(drop)
    }
}

/// The scores there are.
type Scores<'a> = &'a [&'static ScoreDef];

/// A run: its key and its scores.
type Run = (String, Metrics);

/// Published values by the places of their row and column.
type Published = BTreeMap<(usize, usize), Reference>;

fn table(params: &Params, runs: &[Run], published: &Published, scores: Scores) -> Result<Table, StageError> {
    let (mut cells, mut absent) = (Vec::new(), Vec::new());
    for spec in &params.cells {
        match cell(params, spec, runs, scores)? {
            Ok(cell) => cells.push(cell),
            Err(none) => absent.push(none),
        }
    }
    absent.extend(params.absent.iter().map(|a| Absent {
        row: a.row,
        column: a.column,
        why: a.why.clone(),
        reference: None,
    }));
    cells.sort_by_key(|c| (c.row, c.column));
    absent.sort_by_key(|a| (a.row, a.column));
    let reference = |row, column| published.get(&(row, column)).cloned();
    cells.iter_mut().for_each(|c| c.reference = reference(c.row, c.column));
    absent.iter_mut().for_each(|a| a.reference = reference(a.row, a.column));
    let mut table = Table {
        title: params.title.clone(),
        metric: params.metric.clone(),
        scale: scores
            .iter()
            .find(|row| row.variant.name == params.metric.score && row.variant.from.added().is_some())
            .map(|row| row.scale),
        std: params.std,
        digits: params.digits,
        row_title: params.row_title.clone(),
        column_title: params.column_title.clone(),
        rows: params.rows.clone(),
        columns: params.columns.clone(),
        reference_title: params.reference_title.clone(),
        absent,
        cells,
    };
    table.rank();
    Ok(table)
}

/// The published values to show next to ours; none if the parameters name no file.
fn references(params: &Params, scores: Scores) -> Result<Published, StageError> {
    params.reference.as_ref().map_or_else(|| Ok(Published::new()), |file| published(&file.0, params, scores))
}

/// Reads the published values of the rows and columns that the table has.
fn published(path: &Path, params: &Params, scores: Scores) -> Result<Published, StageError> {
    const COLUMNS: [&str; 5] = ["row", "column", "mean", "std", "note"];
    let place = |line: Option<u64>| match line {
        Some(line) => format!("{}, line {line}", path.display()),
        None => path.display().to_string(),
    };
    let bad = |e: csv::Error| StageError::data(place(e.position().map(csv::Position::line)), e.to_string());
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_path(path).map_err(bad)?;
    let headers = reader.headers().map_err(bad)?.clone();
    if headers.iter().ne(COLUMNS) {
        let found: Vec<_> = headers.iter().collect();
        let what = format!("has the columns `{}`, expected `{}`", found.join(","), COLUMNS.join(","));
        return Err(StageError::data(place(None), what));
    }
    let (scale, most) = if params.metric.scale(scores).percent { (100.0, 100.0) } else { (1.0, f64::MAX) };
    let mut published = Published::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let line = record.position().map(csv::Position::line);
        let field = |at: usize| record.get(at).unwrap_or_default();
        let number = |at: usize| match field(at) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(x) if (0.0..=most).contains(&x) => Ok(Some(x / scale)),
                Ok(x) if x.is_finite() => {
                    let what = format!("{} is `{text}`, expected 0 to {most} (shares are in percent)", COLUMNS[at]);
                    Err(StageError::data(place(line), what))
                }
                _ => Err(StageError::data(place(line), format!("{} is `{text}`, expected a number", COLUMNS[at]))),
            },
        };
        let reference = Reference { mean: number(2)?, std: number(3)?, note: field(4).to_owned() };
        let find = |labels: &[String], at: usize| labels.iter().position(|l| l == field(at));
        if let (Some(row), Some(column)) = (find(&params.rows, 0), find(&params.columns, 1))
            && published.insert((row, column), reference).is_some()
        {
            let what = format!("row `{}` and column `{}` have a value already", field(0), field(1));
            return Err(StageError::data(place(line), what));
        }
    }
    Ok(published)
}

/// Makes a cell, or says why there is none.
fn cell(params: &Params, spec: &CellSpec, runs: &[Run], scores: Scores) -> Result<Result<Cell, Absent>, StageError> {
    let picked = match &params.pick {
        Some(pick) if spec.candidates.len() > 1 => Some(picked(pick.metric(), spec, runs, scores)?),
        _ => None,
    };
    let chosen = picked.as_ref().map_or(0, |p| p.chosen);
    let candidate = spec.candidates.get(chosen).map_or(&[][..], Vec::as_slice);
    let pool = Pool::new(&params.metric, spec, candidate, runs)?;
    let divisor = match params.std {
        Spread::Population => Divisor::Population,
        Spread::Sample => Divisor::Sample,
    };
    let (row, column) = (spec.row, spec.column);
    let Some(mean) = stats::mean(&pool.values) else {
        let whys: Vec<String> = pool.undefined.iter().map(|why| why.to_string()).collect();
        let why = format!("{} is undefined: {}", params.metric, whys.first().map_or("there are no splits", |why| why));
        return Ok(Err(Absent { row, column, why, reference: None }));
    };
    let notes = pool.notes(params, mean, scores);
    Ok(Ok(Cell {
        row,
        column,
        mean,
        std: stats::std(&pool.values, divisor),
        n: pool.values.len(),
        values: pool.values,
        runs: pool.keys,
        rank: None,
        picked,
        reference: None,
        notes,
    }))
}

fn picked(metric: &Metric, spec: &CellSpec, runs: &[Run], scores: Scores) -> Result<Picked, StageError> {
    let mut candidates = Vec::new();
    let mut best: Option<(usize, f64)> = None;
    for (i, candidate) in spec.candidates.iter().enumerate() {
        let pool = Pool::new(metric, spec, candidate, runs)?;
        let label = spec.labels.get(i).cloned().unwrap_or_default();
        let Some(mean) = stats::mean(&pool.values) else {
            let why = pool.undefined.first().map_or_else(String::new, |why| format!(" ({why})"));
            return Err(StageError::unusable(
                format!("`{metric}` cannot pick: it is undefined for `{label}`{why}"),
                "pick by another metric, or give every class validation nodes",
            ));
        };
        let worth = metric.scale(scores).worth(mean);
        if best.is_none_or(|(_, most)| worth > most) {
            best = Some((i, worth));
        }
        candidates.push(Candidate { label, runs: pool.keys, pick: mean });
    }
    Ok(Picked { metric: metric.clone(), chosen: best.map_or(0, |(i, _)| i), candidates })
}

/// The splits of a candidate's runs.
struct Pool<'r> {
    /// Keys of the runs.
    keys: Vec<String>,
    splits: Vec<&'r SplitScores>,
    /// The metric, where it is defined.
    values: Vec<f64>,
    /// Why it is not, elsewhere.
    undefined: Vec<&'r Undefined>,
}

impl<'r> Pool<'r> {
    fn new(metric: &Metric, spec: &CellSpec, candidate: &[usize], runs: &'r [Run]) -> Result<Self, StageError> {
        let mut pool = Pool { keys: Vec::new(), splits: Vec::new(), values: Vec::new(), undefined: Vec::new() };
        for at in candidate {
            let (key, metrics) = runs.get(*at).ok_or_else(|| {
                let what = format!("the cell of row {} and column {} wants run {at}", spec.row, spec.column);
                StageError::unusable(what, format!("`metrics` has {} runs, counted from 0", runs.len()))
            })?;
            pool.keys.push(key.clone());
            for split in &metrics.splits {
                pool.splits.push(split);
                match metric.of(split) {
                    Some(Ok(value)) => pool.values.push(*value),
                    Some(Err(why)) => pool.undefined.push(why),
                    None => {
                        let hint = "a stage that produces metrics must score with every metric of the program";
                        return Err(StageError::unusable(format!("run {at} has no `{metric}`"), hint));
                    }
                }
            }
        }
        Ok(pool)
    }

    /// What a reader of the number must know.
    fn notes(&self, params: &Params, mean: f64, scores: Scores) -> Vec<String> {
        let mut notes = suspicions(&self.splits);
        if let Some(why) = self.undefined.first() {
            notes.push(format!(
                "undefined in {}, which do not count: {why}",
                in_splits(self.undefined.len(), self.splits.len())
            ));
        }
        let constant: Option<Vec<f64>> = self.splits.iter().map(|split| split.constant_accuracy()).collect();
        if params.metric == Metric::default()
            && let Some(constant) = constant.and_then(|shares| stats::mean(&shares))
            && mean <= constant
        {
            let shown = Table::number(params.metric.scale(scores), params.digits, constant);
            notes.push(format!("not above {shown}, the share of the largest class among the test nodes"));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use serde_json::json;

    use super::*;
    use crate::contract::params::Params as _;
    use crate::contract::{InputDir, StageDef};
    use crate::kinds::{PartScore, Rank};

    /// A run whose splits have these test and validation accuracies; losses are one minus those.
    fn run(key: &str, splits: &[(f64, f64)]) -> Run {
        let part = |accuracy: f64| PartScore {
            scores: vec![("accuracy".into(), Ok(accuracy)), ("loss".into(), Ok(1.0 - accuracy))],
            nodes: 4,
        };
        let scores = |&(test, val): &(f64, f64)| SplitScores {
            best_epoch: 7,
            train: part(1.0),
            val: part(val),
            test: part(test),
            confusion: vec![],
        };
        (key.to_owned(), Metrics { splits: splits.iter().map(scores).collect() })
    }

    fn table(params: &Params, runs: &[Run]) -> Result<Table, StageError> {
        super::table(params, runs, &Published::new(), &[])
    }

    fn params(cells: Vec<CellSpec>) -> Params {
        let labels = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        Params { rows: labels(["gcn", "mlp"]), columns: labels(["texas", "cora"]), cells, ..Params::default() }
    }

    fn spec(row: usize, column: usize, candidates: &[&[usize]]) -> CellSpec {
        CellSpec { row, column, candidates: candidates.iter().map(|c| c.to_vec()).collect(), labels: vec![] }
    }

    #[test]
    fn the_splits_of_all_runs_of_a_cell_are_pooled() {
        let runs = [run("a", &[(0.5, 0.0), (0.7, 0.0)]), run("b", &[(0.9, 0.0)]), run("c", &[(0.1, 0.0)])];
        let table = table(&params(vec![spec(1, 0, &[&[2]]), spec(0, 0, &[&[0, 1]])]), &runs).unwrap();
        let cell = table.cell(0, 0).unwrap();
        assert_eq!(
            (cell.n, &cell.values[..], &cell.runs[..]),
            (3, &[0.5, 0.7, 0.9][..], &["a".into(), "b".into()][..])
        );
        // Mean 0.7; squares 0.04 + 0 + 0.04 over 3.
        assert!((cell.mean - 0.7).abs() < 1e-15 && (cell.std.unwrap() - (0.08f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!((cell.rank, table.cell(1, 0).unwrap().rank), (Some(Rank::Best), Some(Rank::Second)));
        assert_eq!(table.cell(1, 0).unwrap().std, None);
        assert_eq!((table.cells[0].row, table.cells[1].row), (0, 1));
    }

    #[test]
    fn a_split_without_a_defined_score_does_not_count_and_is_noted() {
        let undefined = || PartScore { scores: vec![("accuracy".into(), Err("there are no nodes".into()))], nodes: 0 };
        let mut half = run("a", &[(0.5, 0.0), (0.7, 0.0)]);
        half.1.splits[0].test = undefined();
        let params = params(vec![spec(0, 0, &[&[0]])]);
        let cell = table(&params, std::slice::from_ref(&half)).unwrap().cells.remove(0);
        assert_eq!(cell.values, [0.7]);
        assert_eq!(cell.notes, ["undefined in 1 of 2 splits, which do not count: there are no nodes"]);
        half.1.splits[1].test = undefined();
        let table = table(&params, &[half]).unwrap();
        assert_eq!(table.cells, []);
        assert_eq!(table.absent[0].why, "test-accuracy is undefined: there are no nodes");
    }

    #[test]
    fn a_model_that_has_learned_nothing_is_noted() {
        let mut runs = [run("a", &[(0.8, 0.0), (0.8, 0.0), (0.85, 0.0)])];
        // Two splits answer class 0 always; the third does not. 8 of 10 nodes are of class 0.
        for (split, confusion) in
            runs[0].1.splits.iter_mut().zip([[[8, 0], [2, 0]], [[8, 0], [2, 0]], [[7, 1], [1, 1]]])
        {
            split.confusion = confusion.map(|row| row.to_vec()).to_vec();
        }
        runs[0].1.splits[1].best_epoch = 0;
        let params = params(vec![spec(0, 0, &[&[0]])]);
        let notes = table(&params, &runs).unwrap().cells.remove(0).notes;
        assert_eq!(notes, ["predicts one class only in 2 of 3 splits", "keeps the first epoch in 1 of 3 splits"]);
        runs[0].1.splits.truncate(2);
        let table = table(&params, &runs).unwrap();
        assert_eq!(table.cells[0].notes[0], "predicts one class only in all 2 splits");
        assert_eq!(table.cells[0].notes[2], "not above 80.00, the share of the largest class among the test nodes");
        assert!(table.markdown().contains("| gcn | 80.00 ± 0.00<sup>1,2,3</sup> |"), "{}", table.markdown());
    }

    #[test]
    fn the_candidate_with_the_best_validation_is_shown_even_if_another_tests_better() {
        let runs = [run("a", &[(0.9, 0.3)]), run("b", &[(0.5, 0.8)]), run("c", &[(0.6, 0.8)])];
        for (metric, values) in [("val-accuracy", [0.3, 0.8, 0.8]), ("val-loss", [0.7, 0.2, 0.2])] {
            let params =
                Params { pick: Some(metric.parse().unwrap()), ..params(vec![spec(0, 0, &[&[0], &[1], &[2]])]) };
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
    fn a_run_that_is_not_wired_is_named() {
        let error = table(&params(vec![spec(0, 0, &[&[3]])]), &[run("a", &[(0.1, 0.1)])]).unwrap_err();
        assert_eq!(error.to_string(), "the cell of row 0 and column 0 wants run 3");
    }

    #[test]
    fn the_stage_takes_its_parameters_as_the_planner_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let inputs: Vec<_> = [run("a", &[(0.25, 0.0)]), run("b", &[(0.5, 0.0)])]
            .into_iter()
            .map(|(key, metrics)| {
                let dir = folder.path().join(&key);
                std::fs::create_dir(&dir).unwrap();
                metrics.save(&dir).unwrap();
                InputDir { slot: "metrics", key, dir }
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
        super::published(&path, &params(vec![]), &[])
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
    fn a_broken_file_of_published_values_is_named_with_its_line() {
        let message = |text: &str| reference(text).unwrap_err().to_string();
        assert!(message("row,column,mean\n").ends_with("expected `row,column,mean,std,note`"));
        let number = message("row,column,mean,std,note\ngcn,cora,best,,\n");
        assert!(number.ends_with("paper.csv, line 2: mean is `best`, expected a number"), "{number}");
        let twice = message("row,column,mean,std,note\ngcn,cora,1,,\ngcn,cora,2,,\n");
        assert!(twice.ends_with("line 3: row `gcn` and column `cora` have a value already"), "{twice}");
        assert!(message("row,column,mean,std,note\ngcn,cora,1\n").contains("line 2"));
    }
}
