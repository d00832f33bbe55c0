//! How the cells of a table compare: with the best of their column, and by ranks over the columns.

use serde::{Deserialize, Serialize};

/// The level of all tests of a table.
pub const ALPHA: f64 = 0.05;

/// The mark of a cell in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Better than every other cell, by a test against each.
    Best,
    /// The best mean that is not shown to be better than every other, or a cell that is not shown to be worse than it.
    NotWorse,
}

impl Mark {
    /// What CSV files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::NotWorse => "not-worse",
        }
    }
}

/// The paired test of a cell against the best of its column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Test {
    /// Mean of the best minus that of the cell.
    pub difference: f64,
    /// The statistic; none where the differences of all splits are alike.
    pub t: Option<f64>,
    /// The two-sided p value of this comparison alone.
    pub p: f64,
    /// The same, corrected for all comparisons of the column.
    pub corrected: f64,
}

/// How the cells of a column were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// Place of the column.
    pub column: usize,
    /// Row of its best mean.
    pub best: usize,
    /// How many splits the tests pair.
    pub splits: usize,
    /// Nodes of the scored part for each training node: the mean over the splits.
    pub ratio: f64,
    /// How many cells were tested against the best.
    pub tested: usize,
    /// Those that could not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untested: Vec<Untested>,
}

/// A cell that could not be tested against the best of its column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Untested {
    /// Its row.
    pub row: usize,
    /// Why not.
    pub why: String,
}

/// The average rank of every row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ranking {
    /// The columns in which every row with any value has one. Fewer than two have no ranks.
    pub columns: Vec<usize>,
    /// For every row its average rank over them, 1 for the best; none of a row without values.
    pub averages: Vec<Option<f64>>,
    /// What the ranks say.
    pub tests: Option<RankTests>,
}

/// Tests of average ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RankTests {
    /// Friedman's statistic.
    pub chi_square: f64,
    /// Its p value.
    pub p: f64,
    /// The statistic of Iman and Davenport; none where all columns agree on every rank.
    pub f: Option<f64>,
    /// Their p value.
    pub f_p: f64,
    /// The critical difference of Nemenyi: average ranks that are further apart differ.
    pub critical_difference: f64,
}
