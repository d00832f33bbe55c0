//! What a table is made of: what a person writes, and which run stands in which cell, which the planner fills in.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::Lost;
use crate::contract::params::{self, Problem, TextPath, nearest_help};
use crate::kinds::{Interval, Metric, Spread, ValMetric};

/// Parameters of `tabulate`. A person writes some of them in a table of the pipeline; the planner fills in those that are
/// marked as planned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the table.
    pub title: String,
    /// What the cells show.
    pub metric: Metric,
    /// What the cells show instead of a metric: facts by name, each with a label of your own if you like (`[nodes, {pairs: links}]`).
    /// Each is a column; a table with columns shows one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactSpec>,
    /// The row whose facts the others are divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<String>,
    /// Whether a last column shows the mean of every row, over the columns in which all rows with any value have one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub average: bool,
    /// What decides between candidates: a validation metric.
    pub pick: Option<ValMetric>,
    /// Which standard deviation the cells show.
    pub std: Spread,
    /// Whether the cells show an interval of the mean instead: `bootstrap`, 95 % by percentiles of samples of the splits.
    pub interval: Interval,
    /// Whether a last column shows the average rank of every row, tested after Friedman and Nemenyi.
    pub ranks: bool,
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
    /// The axes whose runs are averaged in a cell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-planned" = true))]
    pub pooled: Vec<String>,
    /// The axes that `pick` chooses from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-planned" = true))]
    pub picked_from: Vec<String>,
    /// The cells and the runs behind them.
    #[schemars(extend("x-planned" = true))]
    pub cells: Vec<CellSpec>,
    /// The cells that cannot be computed.
    #[schemars(extend("x-planned" = true))]
    pub absent: Vec<AbsentSpec>,
    /// A CSV file of published values (row, column, mean, std, note), shown next to ours.
    pub reference: Option<TextPath>,
    /// What the published values are called.
    pub reference_title: String,
    /// What readers must know besides, such as where the protocol differs from that of the published values: the end of the caption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What that file calls rows that have another label here, such as `PP-GNN (features): PP-GNN`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reference_rows: BTreeMap<String, String>,
}

/// The label of the column with the means of rows.
const AVERAGE: &str = "average";

/// A fact to show, as written: its name, or with a label of one's own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FactSpec {
    /// Its name, which is the label as well.
    Name(String),
    /// The label, and the name.
    Labelled(BTreeMap<String, String>),
}

impl FactSpec {
    /// Returns labels and names.
    pub(super) fn labelled(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Name(name) => vec![(name, name)],
            Self::Labelled(of) => of.iter().map(|(label, name)| (label.as_str(), name.as_str())).collect(),
        }
    }
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
    /// The runs that it should have, and has not.
    #[serde(default)]
    pub missing: Vec<MissingSpec>,
    /// What a reader must know of its settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A run that a cell lacks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MissingSpec {
    /// Place of its candidate in `candidates`, from 0.
    pub candidate: usize,
    /// Why it is not there, and what to do about it.
    pub why: String,
}

impl CellSpec {
    /// Why a candidate lacks runs, once for each.
    pub(super) fn whys(&self, candidate: usize) -> impl Iterator<Item = &str> {
        self.missing.iter().filter(move |run| run.candidate == candidate).map(|run| run.why.as_str())
    }

    /// The candidates that may be shown: those with all of their runs, else those with any.
    pub(super) fn able(&self) -> Vec<usize> {
        let there = |most_lacking: usize| {
            let fits = |i: &usize| !self.candidates[*i].is_empty() && self.whys(*i).count() <= most_lacking;
            (0..self.candidates.len()).filter(fits).collect::<Vec<_>>()
        };
        let whole = there(0);
        if whole.is_empty() { there(usize::MAX) } else { whole }
    }
}

impl Default for Params {
    fn default() -> Self {
        Self {
            title: String::new(),
            metric: Metric::default(),
            facts: Vec::new(),
            relative_to: None,
            average: false,
            pick: None,
            std: Spread::default(),
            interval: Interval::default(),
            ranks: false,
            digits: 2,
            row_title: String::new(),
            column_title: String::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            pooled: Vec::new(),
            picked_from: Vec::new(),
            cells: Vec::new(),
            absent: Vec::new(),
            reference: None,
            reference_title: "reference".into(),
            notes: Vec::new(),
            reference_rows: BTreeMap::new(),
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
        problems.extend(self.check_facts());
        let mut places = std::collections::HashSet::new();
        for cell in &self.cells {
            let is_new = places.insert((cell.row, cell.column));
            let fault = if cell.row >= self.rows.len() || cell.column >= self.columns.len() {
                Some("is outside of `rows` and `columns`")
            } else if cell.able().is_empty() {
                Some("has no runs")
            } else if cell.missing.iter().any(|run| run.candidate >= cell.candidates.len()) {
                Some("lacks a run of no candidate")
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
        for label in self.reference_rows.keys().filter(|label| !self.rows.contains(label)) {
            let message = format!("the table has no row `{label}`");
            let help = nearest_help(label, self.rows.iter().map(String::as_str));
            problems.push(Problem::value("reference-rows", message).with_help(help));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

impl Params {
    /// Whether the sweep gives the columns, and not the facts.
    pub(super) fn has_columns(&self) -> bool {
        self.columns.iter().any(|label| !label.is_empty())
    }

    /// The label and the fact of every column, in a table of facts.
    pub(super) fn fact_columns(&self) -> Vec<(&str, &str)> {
        let facts = self.facts.iter().flat_map(FactSpec::labelled);
        match self.has_columns() {
            true => {
                let labels = || self.columns.iter().map(String::as_str).chain(self.average.then_some(AVERAGE));
                facts.take(1).flat_map(|(_, name)| labels().map(move |label| (label, name))).collect()
            }
            false => facts.collect(),
        }
    }

    /// Whether what is said of facts goes together.
    fn check_facts(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let of_metrics =
            [("pick", self.pick.is_some()), ("ranks", self.ranks), ("interval", self.interval != Interval::None)];
        for (param, _) in of_metrics.into_iter().filter(|(_, given)| *given && !self.facts.is_empty()) {
            problems.push(Problem::value(param, "is for metrics, and the table shows facts").with_help("leave it out"));
        }
        if let Some(row) = &self.relative_to {
            if self.facts.is_empty() {
                let message = "is for facts, and the table shows a metric";
                problems.push(Problem::value("relative-to", message).with_help("name `facts`, or leave it out"));
            } else if !self.rows.contains(row) {
                let help = nearest_help(row, self.rows.iter().map(String::as_str));
                problems.push(Problem::value("relative-to", format!("the table has no row `{row}`")).with_help(help));
            }
        }
        if self.average && (self.facts.is_empty() || !self.has_columns()) {
            let message = "is for a table that shows one fact in several columns";
            problems.push(Problem::value("average", message).with_help("name `facts` and `columns`, or leave it out"));
        }
        if self.facts.len() > 1 && self.has_columns() {
            let message = format!("a table with columns shows one fact, not {}", self.facts.len());
            problems.push(Problem::value("facts", message).with_help("leave out `columns`, or make a table for each"));
        }
        problems
    }

    /// What the table is made of without some runs: cells say which they lack, and those without any are absent.
    #[must_use]
    pub(super) fn without(mut self, lost: &[Lost]) -> Self {
        let whys: BTreeMap<usize, &str> = lost.iter().map(|run| (run.place, run.why.as_str())).collect();
        for CellSpec { candidates, missing, .. } in &mut self.cells {
            for (i, runs) in candidates.iter_mut().enumerate() {
                let gone = runs.iter().filter_map(|run| whys.get(run));
                missing.extend(gone.map(|why| MissingSpec { candidate: i, why: (*why).to_owned() }));
                runs.retain(|run| !whys.contains_key(run));
                // Those that are left move up.
                runs.iter_mut().for_each(|run| *run -= whys.range(..*run).count());
            }
        }
        let (cells, empty) = self.cells.into_iter().partition(|spec: &CellSpec| !spec.able().is_empty());
        self.cells = cells;
        self.absent.extend(empty.into_iter().map(|spec| {
            let why = reasons(spec.missing.iter().map(|run| run.why.as_str()));
            AbsentSpec { row: spec.row, column: spec.column, why }
        }));
        self
    }
}

/// How many reasons a note gives.
const MOST_REASONS: usize = 3;

/// Joins reasons, each once; of many, the first ones and how many more there are.
pub(super) fn reasons<'w>(whys: impl Iterator<Item = &'w str>) -> String {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> = whys.filter(|why| seen.insert(*why)).collect();
    let shown = distinct[..distinct.len().min(MOST_REASONS)].join("; ");
    match distinct.len().saturating_sub(MOST_REASONS) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
