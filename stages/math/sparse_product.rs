//! Products of a fixed sparse matrix X (m × k) from both sides: X·W, Xᵀ·G, X·Xᵀ and Xᵀ·X.
//!
//! W: k × columns and G: m × columns, row-major. The pattern of X is kept by rows and by columns, its values stand apart
//! in the order of the rows, so that a pass may use values of its own (after dropout). Every row of a result is
//! summed by one thread in the order of its entries, so the number of threads cannot change a byte.

use rayon::prelude::*;

use crate::math::csr::Csr;
use crate::math::kernels::gather::RowPattern;
use crate::math::real::Real;

/// RowPattern that one task computes: few, since frequent words make some columns of features much longer than others.
const ROWS: usize = 64;
/// Multiplications below which starting tasks costs more than it saves.
const WORTH_TASKS: usize = 1 << 18;

/// Where the entries of a sparse matrix stand, by rows and by columns.
pub struct TwoSided {
    by_rows: Pattern,
    by_columns: Pattern,
    /// Place in the order of the rows of every entry in the order of the columns.
    places: Vec<usize>,
}

/// Compressed rows without values.
struct Pattern {
    starts: Vec<usize>,
    indices: Vec<u32>,
}

impl TwoSided {
    /// Prepares the pattern of a matrix.
    pub fn new<T>(matrix: &Csr<T>) -> Self {
        let starts: Vec<usize> = (0..matrix.n()).map(|i| matrix.range(i).start).chain([matrix.indices.len()]).collect();
        let mut column_starts = vec![0; matrix.cols() + 1];
        matrix.indices.iter().for_each(|c| column_starts[*c as usize + 1] += 1);
        for c in 0..matrix.cols() {
            column_starts[c + 1] += column_starts[c];
        }
        let mut next = column_starts.clone();
        let (mut rows, mut places) = (vec![0u32; matrix.indices.len()], vec![0; matrix.indices.len()]);
        for (row, range) in (0u32..).zip((0..matrix.n()).map(|i| matrix.range(i))) {
            for place in range {
                let at = &mut next[matrix.indices[place] as usize];
                (rows[*at], places[*at]) = (row, place);
                *at += 1;
            }
        }
        Self {
            by_rows: Pattern { starts, indices: matrix.indices.clone() },
            by_columns: Pattern { starts: column_starts, indices: rows },
            places,
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.by_rows.len()
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.by_columns.len()
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.places.len()
    }

    /// Returns which rows of W make a row of X·W.
    pub fn by_rows(&self) -> RowPattern<'_> {
        RowPattern { starts: &self.by_rows.starts, indices: &self.by_rows.indices, places: None }
    }

    /// Returns which rows of G make a row of Xᵀ·G, with weights by rows.
    pub fn by_columns(&self) -> RowPattern<'_> {
        RowPattern { starts: &self.by_columns.starts, indices: &self.by_columns.indices, places: Some(&self.places) }
    }

    /// Computes X·W. `values` are those of X by rows, `w` holds a row of `columns` values for every column of X.
    pub fn product<T: Real>(&self, values: &[T], w: &[T], columns: usize) -> Vec<T> {
        self.by_rows.product(values, w, columns)
    }

    /// Computes Xᵀ·G. `values` are those of X by rows, `g` holds a row of `columns` values for every row of X.
    pub fn transposed_product<T: Real>(&self, values: &[T], g: &[T], columns: usize) -> Vec<T> {
        self.by_columns.product(&self.across(values), g, columns)
    }

    /// Computes X·Xᵀ.
    pub fn outer(&self, values: &[f64]) -> Vec<f64> {
        self.by_rows.square(values, &self.by_columns, &self.across(values))
    }

    /// Computes Xᵀ·X.
    pub fn inner(&self, values: &[f64]) -> Vec<f64> {
        self.by_columns.square(&self.across(values), &self.by_rows, values)
    }

    /// Brings values into the order of the columns.
    pub fn across<T: Real>(&self, values: &[T]) -> Vec<T> {
        self.places.iter().map(|place| values[*place]).collect()
    }

    /// Returns the matrix with some values by rows; `None` if there are not as many as entries.
    pub fn with_values<T>(&self, values: Vec<T>) -> Option<Csr<T>> {
        let indptr = self.by_rows.starts.iter().map(|start| *start as u64).collect();
        Csr::rectangular(self.rows(), self.cols(), indptr, self.by_rows.indices.clone(), values)
    }

    /// Returns row and column of every entry, row by row.
    pub fn positions(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.rows()).flat_map(|i| self.by_rows.indices[self.by_rows.range(i)].iter().map(move |c| (i, *c as usize)))
    }
}

impl Pattern {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    fn product<T: Real>(&self, values: &[T], dense: &[T], columns: usize) -> Vec<T> {
        self.rows(columns, values.len() * columns, |i, out: &mut [T]| {
            let (indices, values) = (&self.indices[self.range(i)], &values[self.range(i)]);
            let mut at = 0;
            while at < columns {
                at += match columns - at {
                    32.. => tile::<T, 32>(indices, values, dense, at, out),
                    16.. => tile::<T, 16>(indices, values, dense, at, out),
                    8.. => tile::<T, 8>(indices, values, dense, at, out),
                    7 => tile::<T, 7>(indices, values, dense, at, out),
                    6 => tile::<T, 6>(indices, values, dense, at, out),
                    5 => tile::<T, 5>(indices, values, dense, at, out),
                    4 => tile::<T, 4>(indices, values, dense, at, out),
                    3 => tile::<T, 3>(indices, values, dense, at, out),
                    2 => tile::<T, 2>(indices, values, dense, at, out),
                    _ => tile::<T, 1>(indices, values, dense, at, out),
                };
            }
        })
    }

    /// A·Aᵀ, where `self` is A with `values`, and `other` is Aᵀ with `across`.
    fn square(&self, values: &[f64], other: &Self, across: &[f64]) -> Vec<f64> {
        self.rows(self.len(), usize::MAX, |i, out: &mut [f64]| {
            for at in self.range(i) {
                let range = other.range(self.indices[at] as usize);
                for (j, x) in other.indices[range.clone()].iter().zip(&across[range]) {
                    out[*j as usize] += values[at] * x;
                }
            }
        })
    }

    /// Makes a row of `columns` values for every row, out of zeros.
    fn rows<T: Real>(&self, columns: usize, work: usize, make: impl Fn(usize, &mut [T]) + Sync) -> Vec<T> {
        let mut out = vec![T::default(); self.len() * columns];
        if columns == 0 {
            return out;
        }
        let task = |(chunk, rows): (usize, &mut [T])| {
            rows.chunks_exact_mut(columns).enumerate().for_each(|(i, row)| make(chunk * ROWS + i, row));
        };
        if work < WORTH_TASKS {
            out.chunks_mut(ROWS * columns).enumerate().for_each(task);
        } else {
            out.par_chunks_mut(ROWS * columns).enumerate().for_each(task);
        }
        out
    }
}

/// Computes `W` columns of a row from column `at` on, and returns `W`. The fixed width keeps the sums in registers.
fn tile<T: Real, const W: usize>(indices: &[u32], values: &[T], dense: &[T], at: usize, out: &mut [T]) -> usize {
    let mut sums = [T::default(); W];
    for (j, v) in indices.iter().zip(values) {
        let start = *j as usize * out.len() + at;
        sums.iter_mut().zip(&dense[start..start + W]).for_each(|(sum, x)| *sum += *v * *x);
    }
    out[at..at + W].copy_from_slice(&sums);
    W
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;
    use crate::math::testing::random;

    fn wide(x: &Csr<f32>) -> Vec<f64> {
        x.values.iter().map(|v| f64::from(*v)).collect()
    }

    fn dense(x: &Csr<f32>) -> Vec<Vec<f64>> {
        let mut full = vec![vec![0.0; x.cols()]; x.n()];
        for (i, row) in full.iter_mut().enumerate() {
            let (columns, values) = x.row(i);
            columns.iter().zip(values).for_each(|(c, v)| row[*c as usize] = f64::from(*v));
        }
        full
    }

    fn normal(entries: usize) -> Vec<f64> {
        let mut stream = Stream::new(1, &["test"]);
        (0..entries).map(|_| stream.normal()).collect()
    }

    #[test]
    fn products_from_both_sides_equal_the_plain_sum_for_every_width() {
        let (m, k) = (23, 31);
        let x = random(m, 31, 0.2, 3);
        let (full, two) = (dense(&x), TwoSided::new(&x));
        assert_eq!((two.rows(), two.cols(), two.entries()), (m, k, x.values.len()));
        for columns in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 21, 32, 63, 70] {
            let (w, g) = (normal(k * columns), normal(m * columns));
            let (forward, backward) =
                (two.product(&wide(&x), &w, columns), two.transposed_product(&wide(&x), &g, columns));
            assert_eq!((forward.len(), backward.len()), (m * columns, k * columns));
            for c in 0..columns {
                for (i, row) in full.iter().enumerate() {
                    let plain: f64 = (0..k).map(|j| row[j] * w[j * columns + c]).sum();
                    assert!((forward[i * columns + c] - plain).abs() < 1e-12);
                }
                for j in 0..k {
                    let plain: f64 = (0..m).map(|i| full[i][j] * g[i * columns + c]).sum();
                    assert!((backward[j * columns + c] - plain).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn squares_equal_the_plain_sum() {
        let x = random(9, 14, 0.3, 4);
        let (full, two) = (dense(&x), TwoSided::new(&x));
        let (outer, inner) = (two.outer(&wide(&x)), two.inner(&wide(&x)));
        for (at, found) in outer.iter().enumerate() {
            let plain: f64 = (0..14).map(|c| full[at / 9][c] * full[at % 9][c]).sum();
            assert!((found - plain).abs() < 1e-12);
        }
        for (at, found) in inner.iter().enumerate() {
            let plain: f64 = full.iter().map(|row| row[at / 14] * row[at % 14]).sum();
            assert!((found - plain).abs() < 1e-12);
        }
    }

    #[test]
    fn empty_matrices_have_empty_products() {
        let two = TwoSided::new(&Csr::<f32>::rectangular(3, 0, vec![0; 4], vec![], vec![]).unwrap());
        assert_eq!(two.product::<f64>(&[], &[], 2), [0.0; 6]);
        assert!(two.transposed_product(&[], &[1.0; 6], 2).is_empty());
    }

    #[test]
    fn threads_do_not_change_a_byte() {
        let x = random(1500, 900, 0.02, 5);
        let two = TwoSided::new(&x);
        for columns in [16, 37] {
            assert!(x.values.len() * columns > WORTH_TASKS, "enough work to be cut into tasks");
            let single: Vec<f32> = normal(1500 * columns).iter().map(|v| *v as f32).collect();
            let with = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let forward = two.product(&x.values, &single[..900 * columns], columns);
                    let squares = [two.outer(&wide(&x)), two.inner(&wide(&x))].concat();
                    (forward, two.transposed_product(&x.values, &single, columns), squares)
                })
            };
            let one = with(1);
            assert!(one == with(2) && one == with(3));
        }
    }
}
