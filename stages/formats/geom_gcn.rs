//! The text format of Geom-GCN: two files with a header line and fields between tabs, and one archive of masks per split.
//!
//! | file | a line | |
//! | --- | --- | --- |
//! | `edges` | `source<TAB>target` | stays as stored, duplicates and loops included |
//! | `nodes` | `id<TAB>features<TAB>label` | ids are 0 to n − 1, each once, in any order |
//! | `splits` | `.npz` with `train_mask`, `val_mask`, `test_mask` | truth values (bool or u1), one per node |
//!
//! Features are numbers between commas, one per feature (`layout: dense`), or the numbers of the features that a node
//! has (`layout: indices`; one that is listed twice counts once, and none at all is fine). Only what is not zero is
//! kept. Labels are 0 to C − 1, where C is the largest label plus one.
//!
//! Lines are read one at a time, so memory holds the graph and one line, never the text.

#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Format, labelled};
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph};
use crate::math::csr::{Csr, RowBuilder};
use crate::reading::text::{Lines, number, shown, whole};
use crate::reading::watched::{MOST_CLASSES, MOST_FEATURES};
use crate::reading::{source, split_masks};

/// Parameters of `geom-gcn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The edge list (`out1_graph_edges.txt`). It counts by its content, not by its path.
    pub edges: FilePath,
    /// Features and labels (`out1_node_feature_label.txt`). It counts by its content, not by its path.
    pub nodes: FilePath,
    /// The masks, one file per split. Without any, the graph has no splits of its own.
    #[serde(default)]
    pub splits: Vec<FilePath>,
    /// What the column of features holds.
    #[serde(default)]
    pub layout: Layout,
    /// How many features there are. Otherwise the first line says it (`dense`), or the largest index does (`indices`).
    #[serde(default)]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub features: Option<usize>,
}

/// What the column of features holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A number for every feature.
    #[default]
    Dense,
    /// The indices of the features that are 1.
    Indices,
}

impl params::Params for Params {}

/// The format.
pub struct GeomGcn;

impl Format for GeomGcn {
    const NAME: &'static str = "geom-gcn";
    const ABOUT: &'static str = "The text files of Geom-GCN: an edge list, a node list and masks";
    const VERSION: u32 = 1;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let mut lines = open(&params.nodes.0, "a list of nodes")?;
        let (features, labels) = nodes(&mut lines, params.layout, params.features, job)?;
        let edges = edges(&mut open(&params.edges.0, "a list of edges")?, labels.len(), job)?;
        let masks = split_masks::of_files(&params.splits, labels.len(), job)?;
        Ok(labelled(edges, Features::Sparse(features), labels, masks))
    }
}

fn open<'p>(path: &'p Path, expected: &str) -> Result<Lines<'p, impl BufRead + use<>>, StageError> {
    let file = source::open_as(path, expected)?;
    Ok(Lines::new(path, BufReader::with_capacity(1 << 16, file)))
}

/// Nodes in the order of their lines, which need not be that of their ids.
#[derive(Default)]
struct NodeLines {
    /// Whether entries are numbers or indices.
    layout: Layout,
    /// How many features there are, once it is known.
    width: Option<usize>,
    ids: Vec<u32>,
    labels: Vec<u32>,
    rows: RowBuilder,
    /// The features of the last line that are not zero.
    row: Vec<(u32, f32)>,
    /// One more than the largest of them all.
    beyond: u32,
}

/// Reads features and labels in the order of the ids.
fn nodes<R: BufRead>(
    lines: &mut Lines<R>,
    layout: Layout,
    width: Option<usize>,
    job: &Job,
) -> Result<(Csr<f32>, Vec<u32>), StageError> {
    lines.header("node_id<TAB>feature<TAB>label")?;
    let mut stored = NodeLines { layout, width, ..NodeLines::default() };
    lines.each(job, |line| stored.add(line))?;
    stored.sorted(lines)
}

impl NodeLines {
    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let [id, row, label] = fields(line, "id, features and label")?;
        let id = whole(id, u32::MAX).ok_or_else(|| format!("`{}` is not a node id, expected 0, 1, …", shown(id)))?;
        let label = whole(label, MOST_CLASSES)
            .ok_or_else(|| format!("label `{}` is not a class, expected 0 to {}", shown(label), MOST_CLASSES - 1))?;
        self.row.clear();
        match self.layout {
            Layout::Dense => self.dense(row)?,
            Layout::Indices => self.listed(row)?,
        }
        self.ids.push(id);
        self.labels.push(label);
        self.rows.add(&mut self.row).map_err(|feature| format!("has feature {feature} twice"))
    }

    /// Adds the non-zeros of a row that has every number. Nearly all numbers are one digit, and there are millions.
    fn dense(&mut self, row: &[u8]) -> Result<(), String> {
        let (mut rest, mut column) = (row, 0u32);
        loop {
            let (value, after) = match rest {
                [digit @ b'0'..=b'9'] => (f32::from(digit - b'0'), None),
                [digit @ b'0'..=b'9', b',', after @ ..] => (f32::from(digit - b'0'), Some(after)),
                _ => {
                    let mut parts = rest.splitn(2, |b| *b == b',');
                    let word = parts.next().unwrap_or_default();
                    let value = number(word).ok_or_else(|| {
                        format!("feature {column} is `{}`, expected a finite 32-bit number", shown(word))
                    })?;
                    (value, parts.next())
                }
            };
            if value != 0.0 {
                self.row.push((column, value));
            }
            column += 1;
            match after {
                Some(after) if column < MOST_FEATURES => rest = after,
                Some(_) => return Err(format!("has more than {MOST_FEATURES} features")),
                None => break,
            }
        }
        let width = *self.width.get_or_insert(column as usize);
        if column as usize == width {
            return Ok(());
        }
        // The parameter says it, or else the first line did.
        Err(format!("has {column} features, expected {width}"))
    }

    /// Adds a row that lists its features.
    fn listed(&mut self, row: &[u8]) -> Result<(), String> {
        let bound = self.width.and_then(|w| u32::try_from(w).ok()).map_or(MOST_FEATURES, |w| w.min(MOST_FEATURES));
        if !row.trim_ascii().is_empty() {
            for word in row.split(|b| *b == b',') {
                let index = whole(word, bound).ok_or_else(|| {
                    format!("`{}` is not the index of a feature, expected 0 to {}", shown(word), bound - 1)
                })?;
                self.row.push((index, 1.0));
                self.beyond = self.beyond.max(index + 1);
            }
        }
        self.row.sort_unstable_by_key(|(index, _)| *index);
        self.row.dedup();
        Ok(())
    }

    /// Checks that every id is there once and puts the nodes into the order of the ids.
    fn sorted<R: BufRead>(self, lines: &Lines<R>) -> Result<(Csr<f32>, Vec<u32>), StageError> {
        let n = self.ids.len();
        if n == 0 {
            return Err(lines.about_file("has no nodes, expected at least one"));
        }
        // Line 1 is the header, and no line between the nodes is blank.
        let line = |at: usize| at + 2;
        let mut rows: Vec<Option<usize>> = vec![None; n];
        let mut beyond = None;
        for (at, id) in self.ids.iter().enumerate() {
            match rows.get_mut(*id as usize) {
                Some(row @ None) => *row = Some(at),
                Some(Some(earlier)) => {
                    let what = format!("node {id} is in line {} already, expected every node once", line(*earlier));
                    return Err(lines.error_at(line(at), what));
                }
                None => beyond = beyond.or(Some((at, *id))),
            }
        }
        if let Some((at, id)) = beyond {
            let absent = rows.iter().position(Option::is_none).unwrap_or(0);
            let what = format!("node {id} is beyond the {n} nodes of the file, where node {absent} is missing");
            return Err(lines.error_at(line(at), format!("{what}; expected every id from 0 to {}", n - 1)));
        }
        let width = self.width.unwrap_or(self.beyond as usize);
        if width == 0 {
            return Err(lines.about_file("has no features, expected at least one"));
        }
        let rows: Vec<usize> = rows.into_iter().flatten().collect();
        let labels = rows.iter().map(|at| self.labels[*at]).collect();
        let stored = self.rows.finish(width);
        let stored = stored.ok_or_else(|| lines.about_file("has features that do not fit together"))?;
        Ok((if rows.is_sorted() { stored } else { stored.select(rows.into_iter()) }, labels))
    }
}

fn edges<R: BufRead>(lines: &mut Lines<R>, nodes: usize, job: &Job) -> Result<Vec<(u32, u32)>, StageError> {
    lines.header("node_id<TAB>node_id")?;
    let bound = u32::try_from(nodes).unwrap_or(u32::MAX);
    let end = |word: &[u8]| {
        whole(word, bound).ok_or_else(|| {
            format!("endpoint `{}` is not a node, expected 0 to {}", shown(word), bound.saturating_sub(1))
        })
    };
    let mut edges = Vec::new();
    lines.each(job, |line| {
        let [from, to] = fields(line, "source and target")?;
        edges.push((end(from)?, end(to)?));
        Ok(())
    })?;
    Ok(edges)
}

/// Splits a line at its tabs into exactly `N` fields.
fn fields<'l, const N: usize>(line: &'l [u8], names: &str) -> Result<[&'l [u8]; N], String> {
    let split = || line.split(|b| *b == b'\t');
    let count = split().count();
    if count == N {
        let mut fields = split();
        return Ok(std::array::from_fn(|_| fields.next().unwrap_or_default()));
    }
    let s = if count == 1 { "" } else { "s" };
    Err(format!("has {count} field{s}, expected {N} between tabs: {names}"))
}
