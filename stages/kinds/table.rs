//! A finished table: every cell with its values and the keys of the runs behind it.
//!
//! `table.json` is the table; `table.md`, `table.tex` and `table.csv` are made from it. Markdown and LaTeX show shares in
//! percent, `mean ± std`; JSON and CSV hold the plain numbers. In every column with at least two cells the best and the
//! second best are marked. Marks compare the means as they are shown: cells that look equal share a mark, and where two are
//! the best, the next is the third and has none.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{read_json, write_json, write_text};
use crate::kinds::metric::Metric;
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

/// The mark of a cell in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// No other cell is better.
    Best,
    /// One cell is better.
    Second,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Its mark.
    pub rank: Option<Rank>,
    /// How it was chosen, if there was a choice.
    pub picked: Option<Picked>,
    /// The value published elsewhere, if there is one.
    pub reference: Option<Reference>,
    /// What a reader of the number must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// For every run that it lacks, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl Cell {
    /// Returns whether the value is further than two published standard deviations from the published one.
    pub fn is_far(&self) -> bool {
        let Some(Reference { mean: Some(mean), std: Some(std), .. }) = &self.reference else { return false };
        (self.mean - mean).abs() > 2.0 * std
    }
}

/// A value published elsewhere, shown next to ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reference {
    /// The mean, in the unit of [`Cell::mean`]; none if the source gives a word instead.
    pub mean: Option<f64>,
    /// The standard deviation, if it is given.
    pub std: Option<f64>,
    /// A mark or a word of the source, such as `*` or `OOM`.
    pub note: String,
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

/// A table of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Its title.
    pub title: String,
    /// What it shows.
    pub metric: Metric,
    /// How an added score is shown and compared; that of a built-in one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Which standard deviation it shows.
    pub std: Spread,
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
}

impl Table {
    /// Sets every cell's mark.
    pub fn rank(&mut self) {
        for column in 0..self.columns.len() {
            let (scale, digits) = (self.scale(), self.digits);
            let in_column = || self.cells.iter().filter(move |c| c.column == column);
            // As shown, and better when larger.
            let worth = |c: &Cell| {
                let shown: f64 = Self::number(scale, digits, c.mean).parse().unwrap_or(f64::NAN);
                scale.worth(shown)
            };
            let best = in_column().map(worth).fold(f64::NEG_INFINITY, f64::max);
            let second = in_column().map(worth).filter(|w| *w < best).fold(f64::NEG_INFINITY, f64::max);
            let marked = in_column().count() > 1;
            // Two that are equally good are both the best, and what follows is the third.
            let alone = in_column().filter(|c| worth(c) >= best).count() == 1;
            for cell in self.cells.iter_mut().filter(|c| c.column == column) {
                let worth = worth(cell);
                cell.rank = match () {
                    () if !marked => None,
                    () if worth >= best => Some(Rank::Best),
                    () if alone && worth >= second => Some(Rank::Second),
                    () => None,
                };
            }
        }
    }

    /// Returns how its numbers are shown and compared.
    pub fn scale(&self) -> Scale {
        self.scale.unwrap_or_else(|| self.metric.scale(&[]))
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
        Cell {
            row,
            column,
            mean,
            std: Some(0.0125),
            n: 2,
            values,
            runs,
            rank: None,
            picked: None,
            reference: None,
            notes: vec![],
            missing: vec![],
        }
    }

    pub(in crate::kinds) fn table(means: &[(usize, usize, f64)]) -> Table {
        let mut table = Table {
            title: "Main | results".into(),
            digits: 1,
            row_title: "model".into(),
            column_title: "data".into(),
            rows: vec!["gcn_a".into(), "50 % & more".into(), "say \"hi\",\nyou".into()],
            columns: vec!["texas".into(), "a|b".into()],
            cells: means.iter().map(|&(r, c, m)| cell(r, c, m)).collect(),
            ..Table::default()
        };
        table.rank();
        table
    }

    fn ranks(table: &Table, column: usize) -> Vec<Option<Rank>> {
        table.cells.iter().filter(|c| c.column == column).map(|c| c.rank).collect()
    }

    #[test]
    fn cells_that_look_equal_share_a_mark_and_take_two_places() {
        let best = table(&[(0, 0, 0.75001), (1, 0, 0.75), (2, 0, 0.5)]);
        assert_eq!(ranks(&best, 0), [Some(Rank::Best), Some(Rank::Best), None]);
        let second = table(&[(0, 0, 0.75001), (1, 0, 0.8), (2, 0, 0.75)]);
        assert_eq!(ranks(&second, 0), [Some(Rank::Second), Some(Rank::Best), Some(Rank::Second)]);
        let all = table(&[(0, 0, 0.75), (1, 0, 0.75), (2, 0, 0.75)]);
        assert_eq!(ranks(&all, 0), [Some(Rank::Best); 3]);
    }

    #[test]
    fn a_smaller_loss_is_better_and_a_single_cell_is_not_marked() {
        let mut table = table(&[(0, 0, 0.7), (1, 0, 0.2), (2, 0, 0.9), (1, 1, 0.1)]);
        table.metric = "test-loss".parse().unwrap();
        table.rank();
        assert_eq!(ranks(&table, 0), [Some(Rank::Second), Some(Rank::Best), None]);
        assert_eq!(ranks(&table, 1), [None]);
        assert!(table.markdown().contains("| <ins>0.7 ± 0.0</ins> |"));
    }

    #[test]
    fn a_saved_table_is_read_back_whole() {
        let mut table = table(&[(0, 0, 0.1 + 0.2), (1, 1, 1.0 / 3.0)]);
        let candidates = vec![Candidate { label: "lr=0.1".into(), runs: vec!["k".into()], pick: 0.5 }];
        table.cells[0].picked =
            Some(Picked { metric: "val-loss".parse().unwrap(), chosen: 0, candidates, left_out: vec![] });
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
