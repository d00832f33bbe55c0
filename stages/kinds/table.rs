//! A finished table: every cell with its values and the keys of the runs behind it.
//!
//! `table.json` is the table; `table.md`, `table.tex` and `table.csv` are made from it. Markdown and LaTeX show shares in
//! percent, `mean ± std` or `mean [interval]`; JSON and CSV hold the plain numbers. How cells were compared and marked is said by
//! whoever makes the table.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::comparison::{Comparison, Mark, Ranking, Test};
use crate::kinds::files::{read_json, write_json, write_text};
use crate::kinds::metric::Metric;
use crate::kinds::reference::{Reference, Verdict};
use crate::kinds::score::Scale;

/// Which standard deviation a table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Divides by n.
    #[default]
    Population,
    /// Divides by n − 1.
    Sample,
}

/// Whether a table shows an interval of every mean instead of its standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// No.
    #[default]
    None,
    /// The middle 95 % of the means of samples that are drawn from the splits, with replacement.
    Bootstrap,
}

/// One configuration that a cell could have shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Candidate {
    /// What it is called: the values of the axes that it was picked from.
    pub label: String,
    /// Keys of its runs.
    pub runs: Vec<String>,
    /// Mean of the metric that decides.
    pub pick: f64,
}

/// How a cell was chosen among several configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Picked {
    /// The metric that decides.
    pub metric: Metric,
    /// Place of the chosen one in `candidates`.
    pub chosen: usize,
    /// All that it was chosen from.
    pub candidates: Vec<Candidate>,
    /// Those that could not be chosen, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A configuration that could not be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeftOut {
    /// What it is called.
    pub label: String,
    /// Why not.
    pub why: String,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// Place of its label in the rows.
    pub row: usize,
    /// Place of its label in the columns.
    pub column: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Their standard deviation; none of a single value.
    pub std: Option<f64>,
    /// How many values there are.
    pub n: usize,
    /// The values: one per split, run after run.
    pub values: Vec<f64>,
    /// Keys of the runs.
    pub runs: Vec<String>,
    /// The interval of the mean, if the table shows intervals and there is more than one split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Its mark.
    pub mark: Option<Mark>,
    /// Its test against the best of its column, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// How it was chosen, if there was a choice.
    pub picked: Option<Picked>,
    /// The value published elsewhere, if there is one.
    pub reference: Option<Reference>,
    /// How near it comes to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What a reader of the number must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// For every run that it lacks, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A cell that could not be computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Absent {
    /// Place of its label in the rows.
    pub row: usize,
    /// Place of its label in the columns.
    pub column: usize,
    /// Why it is absent, and what to do about it.
    pub why: String,
    /// The value published elsewhere, if there is one.
    pub reference: Option<Reference>,
}

/// A fact that a table shows, see [`Facts`](super::Facts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShownFact {
    /// Its name.
    pub name: String,
    /// Digits after the point.
    pub digits: usize,
}

/// A table of one metric, or of facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Its title.
    pub title: String,
    /// The metric that it shows; none in a table of facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The facts that it shows, one for every column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<ShownFact>,
    /// The row that the others are shown relative to, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to: Option<String>,
    /// How an added score is shown and compared; that of a built-in one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Which standard deviation it shows.
    pub std: Spread,
    /// Whether it shows intervals instead.
    #[serde(default)]
    pub interval: Interval,
    /// Digits after the point.
    pub digits: usize,
    /// What the rows are.
    pub row_title: String,
    /// What the columns are.
    pub column_title: String,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// What the values beside ours are called; empty if there are none.
    pub reference_title: String,
    /// What readers must know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The axes whose runs are averaged in a cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pooled: Vec<String>,
    /// The axes whose configurations were chosen from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub picked_from: Vec<String>,
    /// The cells there are, by row and column.
    pub cells: Vec<Cell>,
    /// The cells that could not be computed, by row and column.
    pub absent: Vec<Absent>,
    /// How the cells of every column with several were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Average ranks of the rows, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
}

impl Table {
    /// Sets the published value of every cell, and judges ours by it.
    pub fn set_references(&mut self, of: impl Fn(usize, usize) -> Option<Reference>) {
        for cell in &mut self.cells {
            cell.reference = of(cell.row, cell.column);
            cell.verdict = cell.reference.as_ref().map(|reference| reference.verdict(cell.mean));
        }
        self.absent.iter_mut().for_each(|absent| absent.reference = of(absent.row, absent.column));
    }

    /// Returns how its numbers are shown and compared.
    pub fn scale(&self) -> Scale {
        let of_facts = Scale { percent: false, larger_is_better: false };
        self.scale.unwrap_or_else(|| self.metric.as_ref().map_or(of_facts, |metric| metric.scale(&[])))
    }

    /// Returns the digits after the point in a column.
    pub fn digits(&self, column: usize) -> usize {
        self.facts.get(column).map_or(self.digits, |fact| fact.digits)
    }

    /// Returns what a column shows.
    pub fn shows(&self, column: usize) -> String {
        let metric = || self.metric.as_ref().map(ToString::to_string);
        self.facts.get(column).map(|fact| fact.name.clone()).or_else(metric).unwrap_or_default()
    }

    /// Returns why the cell at a place could not be computed, if so.
    pub fn absent(&self, row: usize, column: usize) -> Option<&Absent> {
        self.absent.iter().find(|a| a.row == row && a.column == column)
    }

    /// Returns the cell at a place, if there is one.
    pub fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.cells.iter().find(|c| c.row == row && c.column == column)
    }
}

impl Artifact for Table {
    const KIND: Kind = Kind("table");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        write_json(&dir.join("table.json"), self)?;
        write_text(&dir.join("table.md"), &self.markdown())?;
        write_text(&dir.join("table.tex"), &self.latex())?;
        write_text(&dir.join("table.csv"), &self.csv())
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        read_json(&dir.join("table.json"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn cell(row: usize, column: usize, mean: f64) -> Cell {
        let (values, runs) = (vec![mean; 2], vec![format!("key-{row}-{column}")]);
        Cell { row, column, mean, std: Some(0.0125), n: 2, values, runs, ..Cell::default() }
    }

    /// A table with these means. In every column with several, the largest is the best and the second not worse.
    pub(in crate::kinds) fn table(means: &[(usize, usize, f64)]) -> Table {
        let mut table = Table {
            title: "Main | results".into(),
            metric: Some(Metric::default()),
            digits: 1,
            row_title: "model".into(),
            column_title: "data".into(),
            rows: vec!["gcn_a".into(), "50 % & more".into(), "say \"hi\",\nyou".into()],
            columns: vec!["texas".into(), "a|b".into()],
            cells: means.iter().map(|&(r, c, m)| cell(r, c, m)).collect(),
            ..Table::default()
        };
        for column in 0..2 {
            let mut cells: Vec<&mut Cell> = table.cells.iter_mut().filter(|c| c.column == column).collect();
            cells.sort_by(|a, b| b.mean.total_cmp(&a.mean));
            if cells.len() < 2 {
                continue;
            }
            let tested = cells.len() - 1;
            table.comparisons.push(Comparison {
                column,
                best: cells[0].row,
                splits: 2,
                tested,
                ..Comparison::default()
            });
            for (cell, mark) in cells.into_iter().zip([Mark::Best, Mark::NotWorse]) {
                cell.mark = Some(mark);
            }
        }
        table
    }

    #[test]
    fn a_saved_table_is_read_back_whole() {
        let mut table = table(&[(0, 0, 0.1 + 0.2), (1, 1, 1.0 / 3.0)]);
        let candidates = vec![Candidate { label: "lr=0.1".into(), runs: vec!["k".into()], pick: 0.5 }];
        table.cells[0].picked =
            Some(Picked { metric: "val-loss".parse().unwrap(), chosen: 0, candidates, left_out: vec![] });
        table.cells[0].test = Some(Test { difference: 0.1, t: None, p: 0.25, corrected: 0.5 });
        table.cells[1].interval = Some([0.1, 0.2]);
        table.set_references(|row, _| (row == 1).then(|| Reference { mean: Some(0.3), ..Reference::default() }));
        assert_eq!(table.cells[1].verdict, Some(Verdict::NoPrintedSpread));
        table.ranking = Some(Ranking { columns: vec![0], averages: vec![None, Some(1.5), None], tests: None });
        let folder = tempfile::tempdir().unwrap();
        table.save(folder.path()).unwrap();
        assert_eq!(Table::load(folder.path()).unwrap(), table);
        for (name, text) in
            [("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv()), ("json", table.json())]
        {
            assert_eq!(std::fs::read_to_string(folder.path().join(format!("table.{name}"))).unwrap(), text);
        }
    }
}
