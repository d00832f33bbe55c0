//! Dense products C = A·B for tall and skinny matrices, with bytes that do not depend on the number of threads.
//!
//! A: m × k, B: k × n, both stored by rows or by columns; C is returned by rows. Large products are cut into blocks of
//! rows of C, whose size follows from the shape alone; every entry is computed by one thread. The kernels are faer's: up
//! to five times as fast as candle's for these shapes, partly because candle counts the cores anew in every product.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::Arch;
use rayon::prelude::*;

use crate::math::real::Real;

/// Multiplications that make a block worth a task.
const BLOCK: usize = 1 << 22;
/// Rows below which a block would spend its time on packing B.
const LEAST_ROWS: usize = 128;
/// Columns of C below which the kernels want C by columns.
const SKINNY: usize = 16;

/// Returns A·B by rows.
pub fn product<T: Real>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Vec<T> {
    let (m, k, n) = (a.nrows(), a.ncols(), b.ncols());
    let mut out = vec![T::default(); m * n];
    if n == 0 {
        return out;
    }
    let rows = (BLOCK / (k * n).max(1)).max(LEAST_ROWS);
    if m <= rows {
        block(a, b, &mut out);
    } else {
        out.par_chunks_mut(rows * n).enumerate().for_each(|(i, chunk)| {
            block(a.subrows(i * rows, chunk.len() / n), b, chunk);
        });
    }
    out
}

fn block<T: Real>(a: MatRef<'_, T>, b: MatRef<'_, T>, out: &mut [T]) {
    let (m, n) = (a.nrows(), b.ncols());
    let one = T::narrow(1.0);
    if n >= SKINNY {
        matmul(MatMut::from_row_major_slice_mut(out, m, n), Accum::Replace, a, b, one, Par::Seq);
        return;
    }
    let mut columns = vec![T::default(); m * n];
    matmul(MatMut::from_column_major_slice_mut(&mut columns, m, n), Accum::Replace, a, b, one, Par::Seq);
    for (j, column) in columns.chunks_exact(m).enumerate() {
        for (row, value) in out.chunks_exact_mut(n).zip(column) {
            row[j] = *value;
        }
    }
}

/// Returns the sum of every column of a matrix of `columns` columns, stored by rows.
pub fn column_sums<T: Real>(values: &[T], columns: usize) -> Vec<T> {
    let mut sums = vec![0.0; columns];
    for row in values.chunks_exact(columns.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x.widen());
    }
    sums.into_iter().map(T::narrow).collect()
}

/// Returns the sum of every column in double precision, for the large matrices of training: eight rows are summed in
/// their own type first, which is several times faster than [`column_sums`].
pub fn sums_of_columns<T: Real>(rows: &[T], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    let mut few = vec![T::default(); columns];
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for rows in rows.chunks(8 * columns.max(1)) {
                few.fill(T::default());
                for row in rows.chunks_exact(columns.max(1)) {
                    few.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
                }
                sums.iter_mut().zip(&few).for_each(|(sum, x)| *sum += x.widen());
            }
        },
    );
    sums
}

/// Returns the powers of some values from degree 0 to `order`: values × (order + 1).
pub fn powers(values: &[f64], order: usize) -> Vec<f64> {
    let of = |value| std::iter::successors(Some(1.0), move |power| Some(power * value)).take(order + 1);
    values.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;

    fn random(entries: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["test"]);
        (0..entries).map(|_| stream.normal()).collect()
    }

    #[test]
    fn products_equal_the_plain_sum_in_every_layout() {
        for (m, k, n) in [(1, 1, 1), (7, 3, 2), (40, 5, 20), (3, 50, 16)] {
            let (a, b) = (random(m * k, 1), random(k * n, 2));
            let by_rows = (MatRef::from_row_major_slice(&a, m, k), MatRef::from_row_major_slice(&b, k, n));
            let by_columns = (MatRef::from_column_major_slice(&a, m, k), MatRef::from_column_major_slice(&b, k, n));
            for (a, b) in [by_rows, by_columns, (by_rows.0, by_columns.1), (by_columns.0, by_rows.1)] {
                let c = product(a, b);
                for i in 0..m {
                    for j in 0..n {
                        let plain: f64 = (0..k).map(|l| a[(i, l)] * b[(l, j)]).sum();
                        assert!((c[i * n + j] - plain).abs() < 1e-12, "{m} × {k} × {n} at {i}, {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_byte() {
        // Cut into several blocks: 1000 rows, of which a block holds 128.
        for n in [5, 64] {
            let (a, b) = (random(1000 * 1200, 1), random(1200 * n, 2));
            let single = |v: &[f64]| v.iter().map(|x| *x as f32).collect::<Vec<_>>();
            let (a, b) = (single(&a), single(&b));
            let with = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let (a, b) = (MatRef::from_row_major_slice(&a, 1000, 1200), MatRef::from_row_major_slice(&b, 1200, n));
                pool.install(|| product(a, b))
            };
            let one = with(1);
            assert!(one == with(2) && one == with(3));
        }
    }

    #[test]
    fn columns_are_summed() {
        assert_eq!(column_sums(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2), [9.0, 12.0]);
    }

    #[test]
    fn powers_start_at_degree_zero() {
        assert_eq!(powers(&[2.0, -0.5], 3), [1.0, 2.0, 4.0, 8.0, 1.0, -0.5, 0.25, -0.125]);
    }
}
