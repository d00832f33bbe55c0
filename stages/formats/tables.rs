//! A graph of one's own as two tables: one row per node, one row per edge.
//!
//! A table is text with a header line (`.csv`, `.tsv`, `.txt`, each also as `.gz`) or Parquet (`.parquet`, `.pq`); the
//! extension says which. Text is UTF-8 (other ids and labels are refused); fields may be in double quotes, blank lines are skipped, and spaces around a
//! field do not count.
//!
//! | column | holds |
//! | --- | --- |
//! | `id` of the nodes | a name of any type, different in every row; compared as text |
//! | `source`, `target` of the edges | ids |
//! | `weight` of the edges, if it is named | finite numbers |
//! | `label` | a class of any type; empty where it is not known |
//! | `features` | finite numbers, or `true` and `false` for 1 and 0; in Parquet also lists of them, all equally long |
//! | `splits`, one column per split | `train`, `val` (`valid`, `validation`, `dev`), `test`, or nothing |
//!
//! Nodes are numbered in the order of their rows. Classes are numbered in the order of their labels: by number if all
//! are whole numbers (`2` before `10`; `2` and `2.0` are the same class), else as text. A node without a label counts
//! as unlabelled and may not be in a part of a split. Edges stay as they are, duplicates and loops included.
//!
//! Ids and labels keep their text: `007` stays `007`. Where two labels are one class (`2` and `2.0`), it is called
//! what the first row calls it.
//!
//! Features are stored as [`Features::compact`] says.

mod pages;
mod parquet;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::table::{Row, Table, Wanted};
use super::Format;
use crate::contract::params::{self, FilePath, Problem};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Names, Part, Splits};
use crate::reading::text::shown;
use crate::reading::watched;

/// The most classes; more are refused as a column of measurements.
const MOST_CLASSES: usize = watched::MOST_CLASSES as usize;

/// Parameters of `tables`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The table of edges. It counts by its content, not by its path.
    pub edges: FilePath,
    /// The table of nodes. It counts by its content, not by its path.
    pub nodes: FilePath,
    /// Column of the edges: where an edge starts.
    #[serde(default = "source")]
    pub source: String,
    /// Column of the edges: where an edge ends.
    #[serde(default = "target")]
    pub target: String,
    /// Column of the edges: the weight. Without it edges have none, whatever columns there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// Column of the nodes: the name that edges use.
    #[serde(default = "id")]
    pub id: String,
    /// Column of the nodes: the class.
    #[serde(default = "label")]
    pub label: String,
    /// Columns of the nodes: the features. Otherwise every column that is nothing else.
    #[serde(default)]
    pub features: Option<Vec<String>>,
    /// Columns of the nodes: the part that a node plays (`train`, `val`, `test` or nothing), one column per split.
    #[serde(default)]
    pub splits: Vec<String>,
    /// The character between fields. Otherwise a tab in `.tsv`, and in `.txt` with a tab in its header; else a comma.
    #[serde(default)]
    pub separator: Option<String>,
}

fn source() -> String {
    "source".into()
}
fn target() -> String {
    "target".into()
}
fn id() -> String {
    "id".into()
}
fn label() -> String {
    "label".into()
}

impl Params {
    fn separator(&self) -> Option<u8> {
        match self.separator.as_deref().map(str::as_bytes) {
            Some([byte]) if byte.is_ascii() && !b"\"\n\r".contains(byte) => Some(*byte),
            _ => None,
        }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if let (Some(written), None) = (&self.separator, self.separator()) {
            let message = format!("`separator`: expected one ASCII character that is no quote, found `{written}`");
            problems.push(Problem::value("separator", message).with_help("a tab is \"\\t\", in double quotes"));
        }
        // A class or a part among the features would give the answer away.
        let used = || [&self.id, &self.label].into_iter().chain(&self.splits);
        for (at, name) in self.features.iter().flatten().enumerate() {
            if used().any(|other| other == name) {
                let message = format!("`features`: column `{name}` is an id, label or split already");
                problems.push(Problem::value("features", message));
            }
            if self.features.iter().flatten().take(at).any(|other| other == name) {
                problems.push(Problem::value("features", format!("`features`: column `{name}` is listed twice")));
            }
        }
        if self.source == self.target {
            let message = format!("`target`: column `{}` is the source already", self.target);
            problems.push(Problem::value("target", message));
        }
        if let Some(weight) = self.weight.as_ref().filter(|weight| [&self.source, &self.target].contains(weight)) {
            let message = format!("`weight`: column `{weight}` is the source or target already");
            problems.push(Problem::value("weight", message));
        }
        let mut columns: Vec<&String> = used().collect();
        columns.sort();
        for pair in columns.windows(2).filter(|pair| pair[0] == pair[1]) {
            let message = format!("column `{}` is used twice among `id`, `label` and `splits`", pair[0]);
            problems.push(Problem::value("splits", message));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The format.
pub struct Tables;

impl Format for Tables {
    const NAME: &'static str = "tables";
    const ABOUT: &'static str = "Your own graph: a table of nodes and a table of edges, CSV or Parquet";
    const VERSION: u32 = 2;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let nodes = Table::open(&params.nodes.0, params.separator())?;
        let edges = Table::open(&params.edges.0, params.separator())?;
        assemble(params, nodes, edges, job)
    }
}

fn assemble(params: &Params, nodes: Table, edges: Table, job: &Job) -> Result<Graph, StageError> {
    // Both headers come first, so that a wrong name is known before a large table has been read.
    let ends = [edges.column("source", &params.source)?, edges.column("target", &params.target)?];
    let weight = params.weight.as_ref().map(|name| edges.column("weight", name)).transpose()?;
    let nodes_path = nodes.path.display().to_string();
    let nodes = Nodes::read(params, nodes, job)?;
    let (mut pairs, mut weights) = (Vec::new(), Vec::new());
    let wanted = Wanted { texts: ends.to_vec(), numbers: weight.into_iter().collect(), hint: None };
    edges.read(&wanted, job, |row| {
        let end = |at: usize, column: &str| {
            let name = row.text(at);
            nodes.ids.get(name).map(|(node, _)| *node).ok_or_else(|| {
                let hint = format!("an edge names two entries of column `{}` of {nodes_path}", params.id);
                row.error(column, format!("`{}` is not the id of a node", shown(name))).with_hint(hint)
            })
        };
        pairs.push((end(0, &params.source)?, end(1, &params.target)?));
        weights.extend_from_slice(&row.numbers);
        Ok(())
    })?;
    Ok(Graph { weights: weight.map(|_| weights), ..nodes.into_graph(pairs) })
}

/// What the rows of the nodes say, in their order.
#[derive(Default)]
struct Nodes {
    /// Number and line of every id.
    ids: HashMap<Box<[u8]>, (u32, u64)>,
    /// Labels in the order in which they were met first.
    names: HashMap<Box<[u8]>, u32>,
    /// Which of `names` every node has, if any.
    labels: Vec<Option<u32>>,
    /// Equally many for every node.
    features: Vec<f32>,
    parts: Vec<Vec<Part>>,
}

impl Nodes {
    fn read(params: &Params, table: Table, job: &Job) -> Result<Self, StageError> {
        let mut texts = vec![table.column("id", &params.id)?, table.column("label", &params.label)?];
        for name in &params.splits {
            texts.push(table.column("splits", name)?);
        }
        let numbers = feature_columns(params, &table, &texts)?;
        let mut nodes = Self { parts: vec![Vec::new(); params.splits.len()], ..Self::default() };
        let hint = params.features.is_none().then_some(
            "every column that is not the id, the label or a split counts as a feature: list the feature columns in \
             `features`, or take this column out",
        );
        let place = table.path.display().to_string();
        table.read(&Wanted { texts, numbers, hint }, job, |row| nodes.add(params, row))?;
        if nodes.labels.is_empty() {
            return Err(StageError::data(place, "has no rows, expected at least one node"));
        }
        if nodes.names.is_empty() {
            let what = "is empty in every row, expected the class of at least one node";
            return Err(StageError::data(format!("{place}, column `{}`", params.label), what));
        }
        Ok(nodes)
    }

    fn add(&mut self, params: &Params, row: &Row) -> Result<(), StageError> {
        let (id, label) = (row.text(0), row.text(1));
        if id.is_empty() {
            return Err(row.error(&params.id, "is empty, expected the id of a node"));
        }
        for (text, column) in [(id, &params.id), (label, &params.label)] {
            if std::str::from_utf8(text).is_err() {
                let error = row.error(column, format!("`{}` is not UTF-8 text", shown(text)));
                return Err(error.with_hint("save the table with the encoding UTF-8"));
            }
        }
        let node = u32::try_from(self.labels.len())
            .ok()
            .filter(|n| *n < u32::MAX)
            .ok_or_else(|| row.error(&params.id, "is one node too many, expected fewer than 2^32 - 1"))?;
        if let Some((_, earlier)) = self.ids.insert(id.into(), (node, row.at)) {
            let what = format!("`{}` is in {} already, expected every id once", shown(id), row.other(earlier));
            return Err(row.error(&params.id, what));
        }
        let class = match self.names.get(label) {
            Some(class) => Some(*class),
            None if label.is_empty() => None,
            None => {
                let class = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                self.names.insert(label.into(), class);
                Some(class)
            }
        };
        if self.names.len() > MOST_CLASSES {
            let what = format!("is the label of class number {}, expected at most {MOST_CLASSES}", self.names.len());
            return Err(row.error(&params.label, what).with_hint("a label is a class, not a measurement or a name"));
        }
        for ((name, parts), at) in params.splits.iter().zip(&mut self.parts).zip(2..) {
            let word = row.text(at);
            let part = part(word).ok_or_else(|| {
                let what = format!("`{}` is not a part, expected `train`, `val`, `test` or nothing", shown(word));
                row.error(name, what)
            })?;
            if part != Part::None && class.is_none() {
                let what = format!("puts a node without a label into `{}`", shown(word));
                let hint = format!("give the node a label in column `{}`, or leave it out of the split", params.label);
                return Err(row.error(name, what).with_hint(hint));
            }
            parts.push(part);
        }
        self.labels.push(class);
        self.features.extend_from_slice(&row.numbers);
        Ok(())
    }

    fn into_graph(self, edges: Vec<(u32, u32)>) -> Graph {
        let mut labels = vec![&[][..]; self.names.len()];
        for (label, class) in &self.names {
            labels[*class as usize] = label;
        }
        let (ranks, classes) = numbered(&labels);
        let mut names = Names { ids: vec![String::new(); self.labels.len()], classes: vec![String::new(); classes] };
        // From the last to the first, so that the label that was met first stays.
        for (label, rank) in labels.iter().zip(&ranks).rev() {
            names.classes[*rank as usize] = text(label);
        }
        for (id, (node, _)) in self.ids {
            names.ids[node as usize] = text(&id);
        }
        let labels = self.labels.iter().map(|class| class.map_or(0, |class| ranks[class as usize])).collect();
        let unlabelled =
            (0u32..).zip(&self.labels).filter(|(_, class)| class.is_none()).map(|(node, _)| node).collect();
        let masks = (!self.parts.is_empty()).then_some(Splits { parts: self.parts });
        let rows = self.labels.len();
        let cols = self.features.len() / rows.max(1);
        let features = Features::compact(Matrix { rows, cols, data: self.features });
        Graph { edges, weights: None, features, labels, classes, unlabelled, masks, names }
    }
}

/// The columns of the features: those that were asked for, or all that are nothing else.
fn feature_columns(params: &Params, table: &Table, others: &[usize]) -> Result<Vec<usize>, StageError> {
    let columns: Vec<usize> = match &params.features {
        Some(names) => names.iter().map(|name| table.column("features", name)).collect::<Result<_, _>>()?,
        None => (0..table.columns.len()).filter(|at| !others.contains(at)).collect(),
    };
    if columns.is_empty() {
        return Err(StageError::data(table.path.display(), "has no columns of features, expected at least one")
            .with_hint("add columns of numbers, and name them in `features` to use only some"));
    }
    // Row numbers that a data frame library wrote beside the columns look like a feature and are none.
    let index = |name: &str| name.is_empty() || name.starts_with("__index_level_");
    let index = columns.iter().find(|at| params.features.is_none() && index(&table.columns[**at]));
    if let Some(at) = index {
        let what = format!("column {} is a row index without a name of its own, expected a feature", at + 1);
        let hint = "list the feature columns in `features`, or write the table without its index";
        return Err(StageError::data(table.path.display(), what).with_hint(hint));
    }
    Ok(columns)
}

fn part(word: &[u8]) -> Option<Part> {
    let words: [(Part, &[&str]); 4] = [
        (Part::None, &[""]),
        (Part::Train, &["train"]),
        (Part::Val, &["val", "valid", "validation", "dev"]),
        (Part::Test, &["test"]),
    ];
    let found = words.into_iter().find(|(_, words)| words.iter().any(|w| w.as_bytes().eq_ignore_ascii_case(word)));
    found.map(|(part, _)| part)
}

/// Numbers the labels in their order, and counts the classes.
fn numbered(names: &[&[u8]]) -> (Vec<u32>, usize) {
    let whole: Option<Vec<i128>> = names.iter().map(|name| whole(name)).collect();
    whole.map_or_else(|| ranks(names), |numbers| ranks(&numbers))
}

fn ranks<T: Ord>(values: &[T]) -> (Vec<u32>, usize) {
    let mut order: Vec<&T> = values.iter().collect();
    order.sort_unstable();
    order.dedup();
    let rank = |value| u32::try_from(order.partition_point(|other| *other < value)).unwrap_or(u32::MAX);
    (values.iter().map(rank).collect(), order.len())
}

/// Reads a whole number, also one with zeros after the point, as whole numbers beside empty fields are often written.
fn whole(name: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(name).ok()?;
    let (digits, zeros) = text.split_once('.').unwrap_or((text, ""));
    zeros.bytes().all(|b| b == b'0').then(|| digits.parse().ok())?
}

/// Text that was checked when its row was read.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
