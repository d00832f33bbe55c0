//! The sparse `.npz` layout of the gnn-benchmark collection: Amazon Computers, Amazon Photo, Cora-Full.
//!
//! | member | type | shape |
//! | --- | --- | --- |
//! | `adj_shape`, `attr_shape` | i8 (any whole-number type) | 2: rows and columns |
//! | `adj_indptr`, `attr_indptr` | i4 (any whole-number type) | nodes + 1 |
//! | `adj_indices`, `attr_indices` | i4 (any whole-number type) | stored entries |
//! | `adj_data`, `attr_data` | f4 (any number type) | stored entries; without it every entry is 1 |
//! | `labels` | i8 (any whole-number type) | nodes |
//!
//! Both matrices are compressed sparse rows. An entry (i, j) of `adj` is the edge i → j as stored, whatever its value,
//! unless that is zero. The columns of `attr` come in no order; they are sorted here, and zeros are dropped. Labels are
//! 0 to C − 1, where C is the largest label plus one. Other members, such as names of classes, are ignored.

use super::{Format, OneFile, labelled};
use crate::contract::{Job, StageError};
use crate::kinds::Graph;
use crate::reading::npz::csr::StoredRows;
use crate::reading::npz::{Expected, Npz, Numbers};
use crate::reading::watched::MOST_FEATURES;

/// The format.
pub struct SparseNpz;

impl Format for SparseNpz {
    const NAME: &'static str = "sparse-npz";
    const ABOUT: &'static str =
        "A NumPy archive with a sparse adjacency matrix, sparse features and labels, such as Amazon and Cora-Full";
    const VERSION: u32 = 1;
    type Params = OneFile;

    fn read(params: &OneFile, job: &Job) -> Result<Graph, StageError> {
        let mut file = Npz::open(&params.path.0)?;
        let adjacency = StoredRows::read(&mut file, "adj_", u32::MAX, job)?;
        let nodes = adjacency.rows;
        if adjacency.cols != nodes {
            return Err(file.error("adj_shape", format!("is {nodes} × {}, expected a square matrix", adjacency.cols)));
        }
        let edges = adjacency.edges();
        drop(adjacency);
        job.check_cancelled()?;
        let expected = Expected { member: "labels", dims: &[("nodes", Some(nodes))], numbers: Numbers::Whole };
        let labels = file.read(&expected, job, |node, _, label| label.class(node))?.values;
        let attributes = StoredRows::read(&mut file, "attr_", MOST_FEATURES, job)?;
        if attributes.rows != nodes {
            let what = format!("has {} rows, expected {nodes}, one per node", attributes.rows);
            return Err(file.error("attr_shape", what));
        }
        Ok(labelled(edges, attributes.features(&file)?, labels, None))
    }
}

#[cfg(test)]
mod tests;
