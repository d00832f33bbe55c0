//! Related nodes as models see them: products that keep relations apart, and products that bring them together again.
//!
//! Of every relation r, (S_r)_ij = d_i^{−1/2} d_j^{−1/2} where node i hears node j in relation r, and 0 elsewhere; d_i is how many nodes
//! i hears in any relation, itself included. A node has a part for every relation. Parts stand side by side, nodes × (parts · columns), which
//! is the same memory as (nodes · parts) × columns: there, all S_r together are one sparse matrix, with row i · parts + r for part r of node i.
//! A relation that no pair has would give zeros, and has no part.

use std::sync::Arc;

use super::ops::Propagator;
use crate::contract::StageError;
use crate::kinds::Relations;
use crate::math::csr::Csr;

/// The relations of a graph, ready for products.
pub struct Related {
    /// Relations that some pair has.
    pub parts: usize,
    /// Part r of every node becomes S_r times it: (nodes · parts) × (nodes · parts).
    pub apart: Arc<Propagator>,
    /// The mean over all relations, those without a part included, of S_r times part r: nodes × (nodes · parts).
    pub mean: Arc<Propagator>,
}

impl Related {
    /// Prepares relations.
    ///
    /// # Errors
    /// [`StageError::Unusable`] if there are too many nodes.
    pub fn new(relations: &Relations) -> Result<Self, StageError> {
        let used = relations.sizes_of_all().map(|size| size > 0);
        let parts = used.iter().filter(|used| **used).count();
        let part_of = |relation: u8| used[..usize::from(relation)].iter().filter(|used| **used).count();
        let pairs = &relations.pairs;
        let parts_of: Vec<usize> = pairs.values.iter().map(|relation| part_of(*relation)).collect();
        let scale: Vec<f64> = (0..pairs.n()).map(|i| 1.0 / (pairs.range(i).len().max(1) as f64).sqrt()).collect();
        let entries = |i: usize| {
            let heard = pairs.row(i).0.iter().zip(&parts_of[pairs.range(i)]);
            let (scale, of_i) = (&scale, scale[i]);
            heard.map(move |(j, part)| (*j as usize * parts + part, *part, of_i * scale[*j as usize]))
        };
        let columns = pairs.n() * parts;
        let share = 1.0 / Relations::COUNT as f64;
        let mean = (0..pairs.n()).map(|i| entries(i).map(|(at, _, value)| (at, value * share)).collect());
        let apart = (0..columns).map(|row| {
            let of_part = entries(row / parts).filter(|(_, part, _)| *part == row % parts);
            of_part.map(|(at, _, value)| (at, value)).collect()
        });
        let [apart, mean] = [directed(apart, columns), directed(mean, columns)];
        match (apart, mean) {
            (Some(apart), Some(mean)) => Ok(Self { parts, apart, mean }),
            _ => Err(StageError::unusable(
                format!("`{}` nodes with `{parts}` relations are too many", pairs.n()),
                "use a smaller graph",
            )),
        }
    }
}

/// A matrix of rows of columns and values; `None` if a column is beyond what a matrix can have.
fn directed(rows: impl Iterator<Item = Vec<(usize, f64)>>, columns: usize) -> Option<Arc<Propagator>> {
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for (column, value) in row {
            indices.push(u32::try_from(column).ok()?);
            values.push(value);
        }
        indptr.push(indices.len() as u64);
    }
    let matrix = Csr::rectangular(indptr.len() - 1, columns, indptr, indices, values)?;
    Some(Arc::new(Propagator::directed(matrix)))
}
