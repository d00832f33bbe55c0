//! Compressed sparse rows.

/// A sparse matrix with sorted, distinct column indices in every row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csr<T = f64> {
    cols: usize,
    /// Start of every row in `indices`, and the end of the last.
    pub indptr: Vec<u64>,
    /// Column of every entry.
    pub indices: Vec<u32>,
    /// Value of every entry.
    pub values: Vec<T>,
}

impl<T> Csr<T> {
    /// Assembles a square matrix of `n` rows, or `None` if the parts do not fit together.
    pub fn new(n: usize, indptr: Vec<u64>, indices: Vec<u32>, values: Vec<T>) -> Option<Self> {
        Self::rectangular(n, n, indptr, indices, values)
    }

    /// Assembles a matrix of `rows` rows and `cols` columns, or `None` if the parts do not fit together.
    pub fn rectangular(rows: usize, cols: usize, indptr: Vec<u64>, indices: Vec<u32>, values: Vec<T>) -> Option<Self> {
        let nnz = indices.len() as u64;
        let rows_ascend = indptr.len() == rows + 1
            && indptr.first() == Some(&0)
            && indptr.last() == Some(&nnz)
            && indptr.windows(2).all(|w| w[0] <= w[1]);
        if !rows_ascend || values.len() != indices.len() {
            return None;
        }
        let csr = Self { cols, indptr, indices, values };
        let sorted = (0..rows).all(|i| {
            let (columns, _) = csr.row(i);
            columns.windows(2).all(|w| w[0] < w[1]) && columns.last().is_none_or(|c| (*c as usize) < cols)
        });
        sorted.then_some(csr)
    }

    /// Returns the number of rows.
    pub fn n(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns columns and values of a row.
    pub fn row(&self, i: usize) -> (&[u32], &[T]) {
        let range = self.range(i);
        (&self.indices[range.clone()], &self.values[range])
    }

    /// Returns an entry; the default where there is none.
    pub fn get(&self, row: usize, column: usize) -> T
    where
        T: Copy + Default,
    {
        let (columns, values) = self.row(row);
        columns.binary_search_by_key(&column, |c| *c as usize).map_or_else(|_| T::default(), |at| values[at])
    }

    /// Returns some rows, in the order given.
    #[must_use]
    pub fn select(&self, rows: impl Iterator<Item = usize>) -> Self
    where
        T: Copy,
    {
        let mut selected = Self { cols: self.cols, indptr: vec![0], indices: Vec::new(), values: Vec::new() };
        for row in rows {
            let (columns, values) = self.row(row);
            selected.indices.extend_from_slice(columns);
            selected.values.extend_from_slice(values);
            selected.indptr.push(selected.indices.len() as u64);
        }
        selected
    }

    /// Returns where the entries of a row stand in `indices` and `values`.
    #[expect(clippy::cast_possible_truncation, reason = "row starts index a vector in memory")]
    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.indptr[i] as usize..self.indptr[i + 1] as usize
    }
}
