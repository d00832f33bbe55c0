//! Node features: dense rows, or compressed sparse rows where the publisher's format is sparse.
//!
//! Real bags of words are 0.5 to 6 % dense, so what is sparse in a file stays sparse up to the products of training.

use crate::contract::ArtifactError;
use crate::kinds::files::{TensorFile, TensorsRead};
use crate::math::csr::{Csr, RowBuilder};

/// A dense row-major matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Row-major values, `rows × cols`.
    pub data: Vec<f32>,
}

impl Matrix {
    /// Returns a row.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }
}

/// nodes × features.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Every value is stored.
    Dense(Matrix),
    /// Only non-zero values are stored.
    Sparse(Csr<f32>),
}

impl Default for Features {
    fn default() -> Self {
        Self::Dense(Matrix::default())
    }
}

impl Features {
    /// Stores a matrix in the form that suits it: sparse if less than a quarter of its values is not zero, else dense.
    /// Both hold the same numbers.
    pub fn compact(matrix: Matrix) -> Self {
        let non_zeros = matrix.data.iter().filter(|x| **x != 0.0).count();
        if non_zeros.saturating_mul(4) >= matrix.data.len() {
            return Self::Dense(matrix);
        }
        let (mut rows, mut entries) = (RowBuilder::default(), Vec::new());
        let whole = matrix.data.chunks_exact(matrix.cols.max(1)).all(|row| {
            entries.clear();
            entries.extend((0u32..).zip(row.iter().copied()).filter(|(_, value)| *value != 0.0));
            rows.add(&mut entries).is_ok()
        });
        let sparse = if whole { rows.finish(matrix.cols) } else { None };
        sparse.map_or(Self::Dense(matrix), Self::Sparse)
    }

    /// Returns the number of rows: nodes.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(m) => m.rows,
            Self::Sparse(s) => s.n(),
        }
    }

    /// Returns the number of columns: features.
    pub fn cols(&self) -> usize {
        match self {
            Self::Dense(m) => m.cols,
            Self::Sparse(s) => s.cols(),
        }
    }

    /// Counts the values that are not zero.
    pub fn non_zeros(&self) -> usize {
        self.values().iter().filter(|x| **x != 0.0).count()
    }

    /// Returns the stored values, row by row.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Dense(m) => &m.data,
            Self::Sparse(s) => &s.values,
        }
    }

    /// Returns the stored values of a row, for changing.
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        match self {
            Self::Dense(m) => &mut m.data[i * m.cols..(i + 1) * m.cols],
            Self::Sparse(s) => {
                let range = s.range(i);
                &mut s.values[range]
            }
        }
    }

    /// Returns row and column of a stored value by its place in [`Features::values`].
    pub fn place(&self, at: usize) -> (usize, usize) {
        match self {
            Self::Dense(m) => (at / m.cols.max(1), at % m.cols.max(1)),
            Self::Sparse(s) => (s.indptr.partition_point(|p| *p <= at as u64) - 1, s.indices[at] as usize),
        }
    }

    /// Returns all values, zeros too.
    pub fn to_dense(&self) -> Matrix {
        match self {
            Self::Dense(m) => m.clone(),
            Self::Sparse(s) => {
                let (rows, cols) = (s.n(), s.cols());
                let mut data = vec![0.0; rows * cols];
                for (i, row) in data.chunks_exact_mut(cols.max(1)).enumerate() {
                    let (columns, values) = s.row(i);
                    columns.iter().zip(values).for_each(|(c, v)| row[*c as usize] = *v);
                }
                Matrix { rows, cols, data }
            }
        }
    }

    /// Returns the rows of some nodes, in their order.
    pub fn select(&self, nodes: &[u32]) -> Self {
        match self {
            Self::Dense(m) => {
                let data = nodes.iter().flat_map(|i| m.row(*i as usize)).copied().collect();
                Self::Dense(Matrix { rows: nodes.len(), cols: m.cols, data })
            }
            Self::Sparse(s) => Self::Sparse(s.select(nodes.iter().map(|i| *i as usize))),
        }
    }

    pub(crate) fn put<'a>(&'a self, file: &mut TensorFile<'a>) {
        match self {
            Self::Dense(m) => file.add("features", &[m.rows, m.cols], &m.data),
            Self::Sparse(s) => {
                file.add_copy("features.cols", &[1], &[s.cols() as u64]);
                file.add("features.indptr", &[s.indptr.len()], &s.indptr);
                file.add("features.indices", &[s.indices.len()], &s.indices);
                file.add("features.values", &[s.values.len()], &s.values);
            }
        }
    }

    pub(crate) fn take(file: &TensorsRead) -> Result<Self, ArtifactError> {
        if file.names()?.iter().any(|n| n == "features") {
            let ([rows, cols], data) = file.shaped::<f32, 2>("features")?;
            return Ok(Self::Dense(Matrix { rows, cols, data }));
        }
        let (_, cols) = file.shaped::<u64, 1>("features.cols")?;
        let (_, indptr) = file.shaped::<u64, 1>("features.indptr")?;
        let (_, indices) = file.shaped::<u32, 1>("features.indices")?;
        let (_, values) = file.shaped::<f32, 1>("features.values")?;
        let cols = cols.first().and_then(|c| usize::try_from(*c).ok()).unwrap_or(0);
        let sparse = Csr::rectangular(indptr.len().saturating_sub(1), cols, indptr, indices, values);
        sparse.map(Self::Sparse).ok_or_else(|| file.malformed("sorted sparse features"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse() -> Features {
        let csr = Csr::rectangular(3, 4, vec![0, 2, 2, 3], vec![0, 3, 1], vec![1.0, 2.0, 5.0]);
        Features::Sparse(csr.unwrap())
    }

    #[test]
    fn both_forms_answer_alike() {
        let dense = Features::Dense(sparse().to_dense());
        let rows = |f: &Features| f.to_dense().data;
        assert_eq!(rows(&sparse()), [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
        for f in [&sparse(), &dense] {
            assert_eq!((f.rows(), f.cols(), f.non_zeros()), (3, 4, 3));
            assert_eq!(rows(&f.select(&[2, 0])), [0.0, 5.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
        }
        assert_eq!((0..3).map(|at| sparse().place(at)).collect::<Vec<_>>(), [(0, 0), (0, 3), (2, 1)]);
        assert_eq!(dense.place(9), (2, 1));
    }

    #[test]
    fn less_than_a_quarter_is_sparse() {
        let matrix = |data: &[f32]| Matrix { rows: 2, cols: 4, data: data.to_vec() };
        let two = matrix(&[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
        assert_eq!(Features::compact(two.clone()), Features::Dense(two));
        let one = matrix(&[0.0, 0.0, 0.0, 0.0, 0.0, -0.0, 2.0, 0.0]);
        assert!(matches!(Features::compact(one.clone()), Features::Sparse(_)));
        assert_eq!(Features::compact(one.clone()).to_dense(), one);
    }

    #[test]
    fn both_forms_survive_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("features");
        for features in [sparse(), Features::Dense(sparse().to_dense())] {
            let mut file = TensorFile::default();
            features.put(&mut file);
            file.write(&path).unwrap();
            assert_eq!(Features::take(&TensorsRead::open(&path).unwrap()).unwrap(), features);
        }
    }
}
