//! Compressed sparse rows of a square matrix.

/// A square sparse matrix with sorted, distinct column indices in every row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csr {
    /// Start of every row in `indices`, and the end of the last.
    pub indptr: Vec<u64>,
    /// Column of every entry.
    pub indices: Vec<u32>,
    /// Value of every entry.
    pub values: Vec<f64>,
}

impl Csr {
    /// Assembles a matrix of `n` rows, or `None` if the parts do not fit together.
    pub fn new(n: usize, indptr: Vec<u64>, indices: Vec<u32>, values: Vec<f64>) -> Option<Self> {
        let nnz = indices.len() as u64;
        let rows_ascend = indptr.len() == n + 1
            && indptr.first() == Some(&0)
            && indptr.last() == Some(&nnz)
            && indptr.windows(2).all(|w| w[0] <= w[1]);
        if !rows_ascend || values.len() != indices.len() {
            return None;
        }
        let csr = Self { indptr, indices, values };
        let sorted = (0..n).all(|i| {
            let (columns, _) = csr.row(i);
            columns.windows(2).all(|w| w[0] < w[1]) && columns.last().is_none_or(|c| (*c as usize) < n)
        });
        sorted.then_some(csr)
    }

    /// Returns the number of rows.
    pub fn n(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Returns columns and values of a row.
    #[expect(clippy::cast_possible_truncation, reason = "row starts index a vector in memory")]
    pub fn row(&self, i: usize) -> (&[u32], &[f64]) {
        let range = self.indptr[i] as usize..self.indptr[i + 1] as usize;
        (&self.indices[range.clone()], &self.values[range])
    }
}
