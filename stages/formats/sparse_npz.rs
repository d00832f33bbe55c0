//! The sparse `.npz` layout of the gnn-benchmark collection: Amazon Computers, Amazon Photo, Cora-Full.
//!
//! | member | type | shape |
//! | --- | --- | --- |
//! | `adj_shape`, `attr_shape` | i8 (any whole-number type) | 2: rows and columns |
//! | `adj_indptr`, `attr_indptr` | i4 (any whole-number type) | nodes + 1 |
//! | `adj_indices`, `attr_indices` | i4 (any whole-number type) | stored entries |
//! | `adj_data`, `attr_data` | f4 (any number type, bool too) | stored entries; without it every entry is 1 |
//! | `labels` | i8 (any number type, bool too) | nodes |
//! | `node_names`, `class_names` | text | nodes; classes; each may be absent |
//!
//! Both matrices are compressed sparse rows. An entry (i, j) of `adj` that is not zero is the edge i → j as stored; its
//! value is the weight of the edge, unless all are 1. The columns of `attr` come in no order; they are sorted here, and zeros are dropped. Labels are
//! 0 to C − 1, where C is the largest label plus one; a node whose label is −1 or not a number is unlabelled. A class
//! beyond the names goes by its number, and names beyond the classes are left out. Names that are Python objects, and other
//! members, are ignored.

use super::{Format, OneFile, partly_labelled};
use crate::contract::{Job, StageError};
use crate::kinds::{Graph, Names};
use crate::reading::npz::csr::StoredRows;
use crate::reading::npz::{Expected, Npz, Numbers};
use crate::reading::watched::{MOST_CLASSES, MOST_FEATURES};

/// The format.
pub struct SparseNpz;

impl Format for SparseNpz {
    const NAME: &'static str = "sparse-npz";
    const ABOUT: &'static str =
        "A NumPy archive with a sparse adjacency matrix, sparse features and labels, such as Amazon and Cora-Full";
    const VERSION: u32 = 2;
    type Params = OneFile;

    fn read(params: &OneFile, job: &Job) -> Result<Graph, StageError> {
        let mut file = Npz::open(&params.path.0)?;
        let adjacency = StoredRows::read(&mut file, "adj_", u32::MAX, job)?;
        let nodes = adjacency.rows;
        if adjacency.cols != nodes {
            return Err(file.error("adj_shape", format!("is {nodes} × {}, expected a square matrix", adjacency.cols)));
        }
        let (edges, weights) = (adjacency.edges(), adjacency.weights());
        drop(adjacency);
        job.check_cancelled()?;
        let expected = Expected { member: "labels", dims: &[("nodes", Some(nodes))], numbers: Numbers::Real };
        let labels = file.read(&expected, job, |node, _, label| label.label(node))?.values;
        if labels.iter().all(Option::is_none) {
            return Err(file.error("labels", "labels no node, expected the class of at least one"));
        }
        let attributes = StoredRows::read(&mut file, "attr_", MOST_FEATURES, job)?;
        if attributes.rows != nodes {
            let what = format!("has {} rows, expected {nodes}, one per node", attributes.rows);
            return Err(file.error("attr_shape", what));
        }
        let graph = partly_labelled(edges, attributes.features(&file)?, &labels, None);
        let names = names(&mut file, nodes, graph.classes)?;
        Ok(Graph { weights, names, ..graph })
    }
}

fn names(file: &mut Npz, nodes: usize, classes: usize) -> Result<Names, StageError> {
    let ids = file.texts("node_names", nodes)?.unwrap_or_default();
    if !ids.is_empty() && ids.len() != nodes {
        return Err(file.error("node_names", format!("has {} names, expected {nodes}, one per node", ids.len())));
    }
    let mut names = file.texts("class_names", MOST_CLASSES as usize)?.unwrap_or_default();
    if !names.is_empty() {
        names.truncate(classes);
        names.extend((names.len()..classes).map(|class| class.to_string()));
    }
    Ok(Names { ids, classes: names })
}

#[cfg(test)]
mod tests;
