//! Compressed sparse rows.

use std::ops::Range;

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

    /// Returns the transpose.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "columns are 32 bits wide, and row starts index a vector in memory"
    )]
    pub fn transposed(&self) -> Self
    where
        T: Copy + Default,
    {
        let mut indptr = vec![0; self.cols + 1];
        self.indices.iter().for_each(|column| indptr[*column as usize + 1] += 1);
        (0..self.cols).for_each(|column| indptr[column + 1] += indptr[column]);
        let mut next = indptr.clone();
        let (mut indices, mut values) = (vec![0; self.indices.len()], vec![T::default(); self.values.len()]);
        // Rows are walked in order, so the new columns ascend.
        for row in 0..self.n() {
            let (columns, of_row) = self.row(row);
            for (column, value) in columns.iter().zip(of_row) {
                let at = next[*column as usize];
                (indices[at as usize], values[at as usize]) = (row as u32, *value);
                next[*column as usize] = at + 1;
            }
        }
        Self { cols: self.n(), indptr, indices, values }
    }

    /// Returns where the entries of a row stand in `indices` and `values`.
    #[expect(clippy::cast_possible_truncation, reason = "row starts index a vector in memory")]
    pub fn range(&self, i: usize) -> Range<usize> {
        self.indptr[i] as usize..self.indptr[i + 1] as usize
    }

    /// Cuts the rows into ranges of about equal work: a row counts its entries and `each`, a range at least `work`.
    pub fn tasks(&self, each: usize, work: usize) -> Vec<Range<usize>> {
        let (mut tasks, mut first, mut sum) = (Vec::new(), 0, 0);
        for i in 0..self.n() {
            sum += self.range(i).len() + each;
            if sum >= work || i + 1 == self.n() {
                tasks.push(first..i + 1);
                (first, sum) = (i + 1, 0);
            }
        }
        tasks
    }
}

/// Cuts rows of `width` values at the borders of tasks.
pub fn pieces<'v, T>(tasks: &[Range<usize>], mut rows: &'v mut [T], width: usize) -> Vec<&'v mut [T]> {
    tasks.iter().map(|task| rows.split_off_mut(..task.len() * width).unwrap_or_default()).collect()
}

/// A sparse matrix whose rows are added one after the other, in any order of columns.
#[derive(Default)]
pub struct RowBuilder {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl RowBuilder {
    /// Adds a row of columns and values; zeros are left out.
    ///
    /// # Errors
    /// A column that occurs twice.
    pub fn add(&mut self, entries: &mut [(u32, f32)]) -> Result<(), u32> {
        entries.sort_unstable_by_key(|(column, _)| *column);
        if let Some(twice) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(twice[0].0);
        }
        self.indptr.push(self.indices.len() as u64);
        for (column, value) in entries.iter().filter(|(_, value)| *value != 0.0) {
            self.indices.push(*column);
            self.values.push(*value);
        }
        Ok(())
    }

    /// Returns the matrix of `cols` columns, or `None` if an entry is outside of it.
    pub fn finish(mut self, cols: usize) -> Option<Csr<f32>> {
        let rows = self.indptr.len();
        self.indptr.push(self.indices.len() as u64);
        Csr::rectangular(rows, cols, self.indptr, self.indices, self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns_and_come_back() {
        let matrix = crate::math::testing::random(7, 4, 0.4, 3);
        let transposed = matrix.transposed();
        assert_eq!((transposed.n(), transposed.cols()), (4, 7));
        assert!((0..28).all(|at| matrix.get(at / 4, at % 4) == transposed.get(at % 4, at / 4)));
        assert_eq!(transposed.transposed(), matrix);
    }

    #[test]
    fn rows_are_sorted_without_zeros_and_a_column_stands_in_a_row_once() {
        let mut rows = RowBuilder::default();
        assert_eq!(rows.add(&mut [(3, 1.0), (0, 2.0), (1, 0.0)]), Ok(()));
        assert_eq!(rows.add(&mut []), Ok(()));
        assert_eq!(rows.add(&mut [(2, 1.0), (2, 0.0)]), Err(2));
        assert_eq!(rows.add(&mut [(2, 5.0)]), Ok(()));
        let csr = rows.finish(4).unwrap();
        assert_eq!((csr.n(), csr.cols(), &csr.indptr[..]), (3, 4, &[0, 2, 2, 3][..]));
        assert_eq!((&csr.indices[..], &csr.values[..]), (&[0, 3, 2][..], &[2.0, 1.0, 5.0][..]));
        let mut outside = RowBuilder::default();
        outside.add(&mut [(4, 1.0)]).unwrap();
        assert!(outside.finish(4).is_none());
        assert_eq!(RowBuilder::default().finish(2).unwrap().n(), 0);
    }
}
