//! The files `ind.<name>.*` of Planetoid: Cora, Citeseer and Pubmed as most papers use them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `allx`, `tx` | sparse features, one row per node: first all nodes that are not test nodes, then the test nodes |
//! | `ally`, `ty` | one-hot labels of the same rows; a row of zeros is a node without a label |
//! | `test.index` | text: line i is the node that row i of `tx` and `ty` is about |
//! | `graph` | `{node: [neighbour, …]}` with an entry for every node |
//! | `x`, `y` | the training rows, which `allx` and `ally` hold as well |
//!
//! [`pickle`] reads all of them but `test.index`. Nodes 0 to |`allx`| − 1 are the rows of `allx`, and node
//! `test.index[i]` is row i of `tx`. Numbers between the smallest and the largest test node that are missing (Citeseer
//! has 15) are nodes without features and label. Edges are every (node, neighbour) as stored, by ascending node, loops
//! and repetitions included.
//!
//! `splits` names the masks of Geom-GCN: `.npz` files with `train_mask`, `val_mask` and `test_mask`, one flag per node.

mod pickle;
#[cfg(test)]
mod tests;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Format;
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph};
use crate::math::csr::Csr;
use crate::reading::number::{BadValue, Number};
use crate::reading::text::shown;
use crate::reading::{source, split_masks, watched};

/// The most bytes of a `test.index`.
const INDEX_LIMIT: u64 = 1 << 28;
/// The most classes; more columns are refused as a mistake.
const MOST_CLASSES: usize = watched::MOST_CLASSES as usize;

const ONE_DATA_SET: &str = "all files must belong to the same data set";

/// Parameters of `planetoid`. Files count by their content, not by their paths.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Features of the training nodes; they stand in `allx` as well, so this file is only compared with it.
    #[serde(default)]
    pub x: Option<FilePath>,
    /// Features of the test nodes.
    pub tx: FilePath,
    /// Features of all other nodes.
    pub allx: FilePath,
    /// Labels of the training nodes; they stand in `ally` as well, so this file is only compared with it.
    #[serde(default)]
    pub y: Option<FilePath>,
    /// Labels of the test nodes.
    pub ty: FilePath,
    /// Labels of all other nodes.
    pub ally: FilePath,
    /// The neighbours of every node.
    pub graph: FilePath,
    /// The numbers of the test nodes.
    pub test_index: FilePath,
    /// Masks in the layout of Geom-GCN, one file per split.
    #[serde(default)]
    pub splits: Vec<FilePath>,
}

impl params::Params for Params {}

/// The format.
pub struct Planetoid;

impl Format for Planetoid {
    const NAME: &'static str = "planetoid";
    const ABOUT: &'static str =
        "The pickled files ind.*.{allx,tx,ally,ty,graph,test.index} of Cora, Citeseer and Pubmed";
    const VERSION: u32 = 1;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let known = Rows::read(&params.allx.0, &params.ally.0)?;
        job.check_cancelled()?;
        let tested = Rows::read(&params.tx.0, &params.ty.0)?;
        let (cols, classes) = (known.features.cols(), known.classes);
        same("columns", (&params.allx.0, cols), (&params.tx.0, tested.features.cols()))?;
        same("columns", (&params.ally.0, classes), (&params.ty.0, tested.classes))?;
        if let Some(x) = &params.x {
            same("columns", (&params.allx.0, cols), (&x.0, pickle::sparse(&x.0)?.cols()))?;
        }
        if let Some(y) = &params.y {
            same("columns", (&params.ally.0, classes), (&y.0, labels(&y.0)?.1))?;
        }
        job.check_cancelled()?;
        let tests = test_index(&params.test_index.0, known.labels.len())?;
        same("rows", (&params.tx.0, tested.labels.len()), (&params.test_index.0, tests.len()))?;
        let nodes = tests.iter().max().map_or(known.labels.len(), |most| most + 1);
        let edges = edges(&params.graph.0, nodes)?;
        job.check_cancelled()?;
        let masks = split_masks::of_files(&params.splits, nodes, job)?;
        let (features, labels) = assemble(&known, &tested, &tests, nodes);
        let unlabelled = (0u32..).zip(&labels).filter(|(_, label)| label.is_none()).map(|(node, _)| node).collect();
        let features = features.ok_or_else(|| StageError::data(params.allx.0.display(), "rows do not fit together"))?;
        let labels = labels.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Graph {
            edges,
            features: Features::Sparse(features),
            labels,
            classes,
            unlabelled,
            masks,
            ..Graph::default()
        })
    }
}

/// Features and labels of the same nodes.
struct Rows {
    features: Csr<f32>,
    labels: Vec<Option<u32>>,
    classes: usize,
}

impl Rows {
    fn read(features_path: &Path, labels_path: &Path) -> Result<Self, StageError> {
        let features = pickle::sparse(features_path)?;
        if features.cols() == 0 {
            return Err(StageError::data(features_path.display(), "has no columns, expected at least one feature"));
        }
        let (labels, classes) = labels(labels_path)?;
        same("rows", (features_path, features.n()), (labels_path, labels.len()))?;
        Ok(Self { features, labels, classes })
    }
}

/// Compares a count of one file with that of another.
fn same(what: &str, (path, expected): (&Path, usize), (other, found): (&Path, usize)) -> Result<(), StageError> {
    if found == expected {
        return Ok(());
    }
    let what = format!("has {found} {what}, expected {expected} as in `{}`", path.display());
    Err(StageError::data(other.display(), what).with_hint(ONE_DATA_SET))
}

/// Reads one-hot rows; returns the class of every row, and the number of classes.
fn labels(path: &Path) -> Result<(Vec<Option<u32>>, usize), StageError> {
    let flags = pickle::array(path, |row, column, number| match number {
        Number::Whole(0) => Ok(false),
        Number::Whole(1) => Ok(true),
        Number::Float(x) if x == 0.0 || x == 1.0 => Ok(x == 1.0),
        _ => {
            let what = format!("`{number}` is not part of a one-hot label, expected 0 or 1");
            Err(BadValue::new(format_args!("row {row}, column {column}"), what))
        }
    })?;
    let classes = match flags.shape[..] {
        [_, classes] if (1..=MOST_CLASSES).contains(&classes) => classes,
        _ => {
            let what = format!("has shape {:?}, expected nodes × classes (1 to {MOST_CLASSES})", flags.shape);
            return Err(StageError::data(path.display(), what));
        }
    };
    let label = |(row, flags): (usize, &[bool])| {
        let mut ones = (0u32..).zip(flags).filter(|(_, flag)| **flag).map(|(class, _)| class);
        match (ones.next(), ones.next()) {
            (Some(_), Some(_)) => {
                Err(StageError::data(format!("{}, row {row}", path.display()), "has more than one class, expected one"))
            }
            (label, _) => Ok(label),
        }
    };
    let labels = flags.values.chunks_exact(classes).enumerate().map(label).collect::<Result<_, _>>()?;
    Ok((labels, classes))
}

/// Reads the numbers of the test nodes; they begin after the `known` nodes.
fn test_index(path: &Path, known: usize) -> Result<Vec<usize>, StageError> {
    let bytes = source::read(path, INDEX_LIMIT)?;
    if let Some(foreign) = source::foreign(path, "one test node a line") {
        return Err(foreign);
    }
    let mut tests = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (line, text) in (1..).zip(bytes.split(|b| *b == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let wrong = |what: String| Err(StageError::data(format!("{}, line {line}", path.display()), what));
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok());
        let Some(node) = number.map(|node| node as usize) else {
            return wrong(format!("`{}` is not a node, expected a whole number", shown(text)));
        };
        if node < known {
            return wrong(format!("node {node} is one of the {known} nodes of `allx`, expected a larger number"));
        }
        if let Some(earlier) = seen.insert(node, line) {
            return wrong(format!("node {node} stands in line {earlier} as well"));
        }
        tests.push(node);
    }
    if tests.is_empty() {
        return Err(StageError::data(path.display(), "names no node, expected at least one"));
    }
    Ok(tests)
}

/// Reads the neighbours of every node. An entry for each of them backs up how many nodes there are.
fn edges(path: &Path, nodes: usize) -> Result<Vec<(u32, u32)>, StageError> {
    let lists = pickle::lists(path)?;
    let found = lists.len();
    if found != nodes {
        let what = format!("has entries for {found} nodes, but `allx` and `test-index` tell of {nodes}");
        return Err(StageError::data(path.display(), what).with_hint(ONE_DATA_SET));
    }
    let node = |number: i32| u32::try_from(number).ok().filter(|n| (*n as usize) < nodes);
    let mut edges = Vec::new();
    for (key, list) in lists {
        let expected = || format!("expected 0 to {}", nodes.saturating_sub(1));
        let place = || format!("{}, node {key}", path.display());
        let source = node(key).ok_or_else(|| StageError::data(place(), format!("is not a node, {}", expected())))?;
        for neighbour in list {
            let what = || format!("neighbour {neighbour} is not a node, {}", expected());
            edges.push((source, node(neighbour).ok_or_else(|| StageError::data(place(), what()))?));
        }
    }
    Ok(edges)
}

/// Puts the test rows at their nodes. A node without a row has no features and no label.
fn assemble(known: &Rows, tested: &Rows, tests: &[usize], nodes: usize) -> (Option<Csr<f32>>, Vec<Option<u32>>) {
    let mut rows: Vec<Option<(&Rows, usize)>> = (0..known.labels.len()).map(|i| Some((known, i))).collect();
    rows.resize(nodes, None);
    for (i, node) in tests.iter().enumerate() {
        rows[*node] = Some((tested, i));
    }
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut labels = Vec::with_capacity(nodes);
    for row in rows {
        if let Some((rows, i)) = row {
            let (columns, entries) = rows.features.row(i);
            indices.extend_from_slice(columns);
            values.extend_from_slice(entries);
        }
        indptr.push(indices.len() as u64);
        labels.push(row.and_then(|(rows, i)| rows.labels[i]));
    }
    (Csr::rectangular(nodes, known.features.cols(), indptr, indices, values), labels)
}
