//! The operator that models propagate with, as a sparse matrix.

use super::{Arrays, Data, Frame, Values};
use crate::kinds::Operator;

/// Compressed sparse rows: `indptr` (nodes + 1), `indices` and `values` (f64), one per entry; `scipy.sparse.csr_array((values,
/// indices, indptr))`.
pub fn operator_arrays(operator: &Operator) -> Arrays {
    let matrix = &operator.matrix;
    let mut arrays = Arrays::default();
    arrays.add("indptr", &[matrix.indptr.len()], Data::I64(whole(&matrix.indptr)));
    arrays.add("indices", &[matrix.indices.len()], Data::I64(matrix.indices.iter().copied().map(i64::from).collect()));
    arrays.add("values", &[matrix.values.len()], Data::F64(matrix.values.clone()));
    arrays
}

/// A row for every entry: `row`, `column`, `value`. Nodes are numbers, from 0.
pub fn operator_entries(operator: &Operator) -> Frame {
    let matrix = &operator.matrix;
    let rows = (0..matrix.n()).flat_map(|row| matrix.range(row).map(move |_| row));
    Frame::of_rows(matrix.values.len())
        .with("row", Values::wholes(rows))
        .with("column", Values::wholes(matrix.indices.iter().map(|c| *c as usize)))
        .with("value", Values::numbers(matrix.values.iter().copied()))
}

/// Places in a list, as i64.
pub(super) fn whole(places: &[u64]) -> Vec<i64> {
    places.iter().map(|p| i64::try_from(*p).unwrap_or(i64::MAX)).collect()
}
