//! Gates on the entries of a symmetric sparse matrix S: w_ij = tanh(a_i + b_j + c)·S_ij, with two numbers per row, a and b.
//!
//! Gates are made for some rows at a time, where they are used, and take the place of S in a product with its pattern
//! ([`Hops::weighted_rows`]). S is symmetric, so a column of W is made along the row of S: w_ij stands where S_ji does.

use std::array;
use std::ops::Range;

use pulp::Arch;

use super::hops::Hops;
use super::simd::{BLOCK, Vector};

/// What the gates of a matrix are made of.
#[derive(Clone, Copy)]
pub struct Gates<'a, T> {
    /// S.
    pub of: &'a Hops,
    /// a_i and b_i of every row i, one after the other.
    pub scores: &'a [T],
    /// c.
    pub shift: T,
}

impl<T: Vector> Gates<'_, T> {
    /// Writes w_ij of all entries (i, j) of `rows`, in their order.
    pub fn of_rows(&self, rows: Range<usize>, out: &mut [T]) {
        let Self { of, scores, shift } = *self;
        let entries = of.entries(rows.clone());
        let values = &of.values::<T>()[entries.clone()];
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for i in rows {
                    let (row, a) = (of.entries(i..i + 1), scores[2 * i] + shift);
                    let out = &mut out[row.start - entries.start..row.end - entries.start];
                    let indices = &of.matrix().indices[row];
                    out.iter_mut().zip(indices).for_each(|(out, j)| *out = a + scores[2 * *j as usize + 1]);
                }
                out.iter_mut().zip(values).for_each(|(out, s)| *out = out.tanh() * *s);
            },
        );
    }

    /// Writes w_ij of all entries (i, j) with j in `columns`, and its slope by a_i, b_j or c, at the places of the entries (j, i).
    pub fn of_columns(&self, columns: Range<usize>, out: &mut [T], slopes: &mut [T]) {
        let Self { of, scores, shift } = *self;
        let (entries, one) = (of.entries(columns.clone()), T::narrow(1.0));
        let values = &of.values::<T>()[entries.clone()];
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for j in columns {
                    let (row, b) = (of.entries(j..j + 1), scores[2 * j + 1]);
                    let out = &mut out[row.start - entries.start..row.end - entries.start];
                    let indices = &of.matrix().indices[row];
                    // Added in the order of `of_rows`, so that both see the same gate.
                    out.iter_mut().zip(indices).for_each(|(out, i)| *out = (scores[2 * *i as usize] + shift) + b);
                }
                for ((out, slope), s) in out.iter_mut().zip(slopes).zip(values) {
                    let gate = out.tanh();
                    (*out, *slope) = (gate * *s, (one - gate * gate) * *s);
                }
            },
        );
    }
}

/// Writes ⟨row i of X, row j of Y⟩ for all entries (i, j) of `rows`, in their order; `width`: values of a row, padded.
///
/// A product is summed in 16 parts whatever the registers are, which are then added in pairs.
pub fn dots<T: Vector>(of: &Hops, rows: Range<usize>, x: &[T], y: &[T], width: usize, out: &mut [T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut out = out.iter_mut();
            for i in rows {
                let x = x[i * width..(i + 1) * width].as_chunks::<BLOCK>().0;
                for (j, out) in of.matrix().indices[of.entries(i..i + 1)].iter().zip(out.by_ref()) {
                    let first = *j as usize * width;
                    let y = y[first..first + width].as_chunks::<BLOCK>().0;
                    let mut sums = [T::default(); BLOCK];
                    for (x, y) in x.iter().zip(y) {
                        sums = array::from_fn(|at| sums[at] + x[at] * y[at]);
                    }
                    let sums: [T; 8] = array::from_fn(|at| sums[at] + sums[at + 8]);
                    let sums: [T; 4] = array::from_fn(|at| sums[at] + sums[at + 4]);
                    *out = (sums[0] + sums[2]) + (sums[1] + sums[3]);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;
    use crate::math::testing::symmetric;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["test", "gates"]);
        (0..count).map(|_| stream.symmetric(1.0)).collect()
    }

    #[test]
    fn gates_of_rows_and_of_columns_are_those_of_the_formula() {
        let (matrix, scores, c) = (symmetric(40, 3, 5), numbers(80, 1), 0.3);
        let of = Hops::new(matrix.clone());
        let gates = Gates { of: &of, scores: &scores, shift: c };
        let gate = |i: usize, j: usize| (scores[2 * i] + scores[2 * j + 1] + c).tanh();
        for range in [0..40, 0..1, 7..19, 39..40] {
            let entries = of.entries(range.clone());
            let [mut rows, mut columns, mut slopes] = [0; 3].map(|_| vec![9.0; entries.len()]);
            gates.of_rows(range.clone(), &mut rows);
            gates.of_columns(range.clone(), &mut columns, &mut slopes);
            let places = range.flat_map(|i| matrix.row(i).0.iter().map(move |j| (i, *j as usize)));
            for (at, (i, j)) in places.enumerate() {
                let s = matrix.get(i, j);
                assert!((rows[at] - gate(i, j) * s).abs() < 1e-15);
                assert!((columns[at] - gate(j, i) * s).abs() < 1e-15);
                assert!((slopes[at] - (1.0 - gate(j, i).powi(2)) * s).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn dots_are_inner_products_of_both_ends_of_an_entry() {
        let matrix = symmetric(30, 4, 6);
        let of = Hops::new(matrix.clone());
        for width in [16, 32, 80] {
            let (x, y) = (numbers(30 * width, 2), numbers(30 * width, 3));
            let mut out = vec![0.0; of.entries(3..30).len()];
            dots(&of, 3..30, &x, &y, width, &mut out);
            let places = (3..30).flat_map(|i| matrix.row(i).0.iter().map(move |j| (i, *j as usize)));
            for (dot, (i, j)) in out.iter().zip(places) {
                let expected: f64 = (0..width).map(|c| x[i * width + c] * y[j * width + c]).sum();
                assert!((dot - expected).abs() < 1e-13);
            }
        }
    }
}
