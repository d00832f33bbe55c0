//! Attention along the entries of a symmetric pattern: α_ij = softmax over the entries j of row i of LeakyReLU(e_ij), by head.
//!
//! With q the rows of all heads and s_ij = ⟨q_i, q_j⟩, scores are mixed, e_ij = (l_i + r_j)·σ(s_ij) with two numbers per row and head,
//! l_i = ⟨a, q_i⟩ and r_j = ⟨a', q_j⟩, or scaled, e_ij = c·s_ij. Numbers are made for some rows at a time, entries × side, where they
//! are used; the way back makes them anew. Rows stand as in [`heads`](super::heads).
//!
//! A maximum is taken off the scores of a row first: the sum of a softmax is at least 1, and nothing is added to it.

use std::array;
use std::ops::Range;

use pulp::Arch;

use super::heads::{Heads, Pattern, by_side, dot, dots, over_block};
use super::simd::{BLOCK, Vector};

/// The slope of LeakyReLU below 0.
const LEAK: f64 = 0.2;

/// What scores are made of besides q.
#[derive(Clone, Copy)]
pub enum Scores<'a, T> {
    /// l and r of every row, rows × 2 · side.
    Mixed(&'a [T]),
    /// c.
    Scaled(T),
}

/// Attention of one group of heads.
#[derive(Clone, Copy)]
pub struct Attention<'a, T> {
    /// The entries.
    pub of: Pattern<'a>,
    /// The heads.
    pub heads: Heads,
    /// Packed rows.
    pub q: &'a [T],
    /// What scores are made of.
    pub scores: Scores<'a, T>,
}

/// Gradients that one pass along the rows makes: by entry, and by row.
pub struct Slopes<'a, T> {
    /// Of α_ij before, of s_ij after: entries × side.
    pub of_inner: &'a mut [T],
    /// Of l_i and of r_j through the entry: entries × side; for mixed scores.
    pub of_pair: &'a mut [T],
    /// Of l_i: rows × side; for mixed scores.
    pub of_own: &'a mut [T],
}

impl<T: Vector> Attention<'_, T> {
    /// Writes α_ij of all entries of `rows`, and σ(s_ij), or s_ij where scores are scaled, which the way back needs.
    pub fn weights(&self, rows: Range<usize>, inner: &mut [T], weights: &mut [T]) {
        dots(self.of, rows.clone(), self.heads, self.q, self.q, inner);
        by_side!(self.heads.side(), H => Arch::new().dispatch(
            #[inline(always)]
            || self.weights_by::<H>(rows, inner, weights),
        ));
    }

    #[inline(always)]
    fn weights_by<const H: usize>(&self, rows: Range<usize>, inner: &mut [T], weights: &mut [T]) {
        let first = self.of.entries(rows.clone()).start;
        match self.scores {
            Scores::Scaled(c) => weights.iter_mut().zip(&*inner).for_each(|(w, s)| *w = leaky(*s * c)),
            Scores::Mixed(both) => {
                inner.iter_mut().for_each(|s| *s = s.sigmoid());
                let (both, inner) = (both.as_chunks::<H>().0, inner.as_chunks::<H>().0);
                let mut of_entries = weights.as_chunks_mut::<H>().0.iter_mut().zip(inner);
                for i in rows.clone() {
                    let own = both[2 * i];
                    let indices = &self.of.indices[self.of.entries(i..i + 1)];
                    for (j, (weight, gate)) in indices.iter().zip(of_entries.by_ref()) {
                        let other = both[2 * *j as usize + 1];
                        *weight = array::from_fn(|h| leaky((own[h] + other[h]) * gate[h]));
                    }
                }
            }
        }
        let row = |i: usize| {
            let row = self.of.entries(i..i + 1);
            row.start - first..row.end - first
        };
        let by_entry = weights.as_chunks_mut::<H>().0;
        for i in rows.clone() {
            let scores = &mut by_entry[row(i)];
            let mut top = [T::narrow(f64::NEG_INFINITY); H];
            for score in &*scores {
                top = array::from_fn(|h| if score[h] > top[h] { score[h] } else { top[h] });
            }
            scores.iter_mut().for_each(|score| *score = array::from_fn(|h| score[h] - top[h]));
        }
        weights.iter_mut().for_each(|score| *score = score.exp());
        let by_entry = weights.as_chunks_mut::<H>().0;
        for i in rows {
            let powers = &mut by_entry[row(i)];
            let mut sum = [T::default(); H];
            for power in &*powers {
                sum = array::from_fn(|h| sum[h] + power[h]);
            }
            let share: [T; H] = array::from_fn(|h| T::narrow(1.0) / sum[h]);
            powers.iter_mut().for_each(|power| *power = array::from_fn(|h| power[h] * share[h]));
        }
    }

    /// Turns gradients of α_ij into those of what scores are made of, for all entries of `rows`; `inner` and `weights` are those of
    /// [`Attention::weights`].
    pub fn back(&self, rows: Range<usize>, inner: &[T], weights: &[T], slopes: Slopes<T>) {
        by_side!(self.heads.side(), H => Arch::new().dispatch(
            #[inline(always)]
            || self.back_by::<H>(rows, inner, weights, slopes),
        ));
    }

    #[inline(always)]
    fn back_by<const H: usize>(&self, rows: Range<usize>, inner: &[T], weights: &[T], slopes: Slopes<T>) {
        let (one, leak, first) = (T::narrow(1.0), T::narrow(LEAK), self.of.entries(rows.clone()).start);
        let (inner, weights) = (inner.as_chunks::<H>().0, weights.as_chunks::<H>().0);
        let of_inner = slopes.of_inner.as_chunks_mut::<H>().0;
        let of_pair = slopes.of_pair.as_chunks_mut::<H>().0;
        let of_own = slopes.of_own.as_chunks_mut::<H>().0;
        for (at, i) in rows.enumerate() {
            let row = self.of.entries(i..i + 1);
            let (indices, row) = (&self.of.indices[row.clone()], row.start - first..row.end - first);
            let mut mean = [T::default(); H];
            for (weight, slope) in weights[row.clone()].iter().zip(&of_inner[row.clone()]) {
                mean = array::from_fn(|h| mean[h] + weight[h] * slope[h]);
            }
            match self.scores {
                Scores::Scaled(c) => {
                    for e in row {
                        let (weight, s, slope) = (&weights[e], &inner[e], &of_inner[e]);
                        of_inner[e] = array::from_fn(|h| {
                            let leaks = if s[h] * c > T::default() { one } else { leak };
                            weight[h] * (slope[h] - mean[h]) * leaks * c
                        });
                    }
                }
                Scores::Mixed(both) => {
                    let both = both.as_chunks::<H>().0;
                    let (own, mut sum) = (both[2 * i], [T::default(); H]);
                    for (e, j) in row.zip(indices) {
                        let (weight, gate, slope) = (&weights[e], &inner[e], &of_inner[e]);
                        let other = &both[2 * *j as usize + 1];
                        let scores: [T; H] = array::from_fn(|h| own[h] + other[h]);
                        let pair: [T; H] = array::from_fn(|h| {
                            let leaks = if scores[h] > T::default() { one } else { leak };
                            weight[h] * (slope[h] - mean[h]) * leaks * gate[h]
                        });
                        of_inner[e] = array::from_fn(|h| pair[h] * scores[h] * (one - gate[h]));
                        sum = array::from_fn(|h| sum[h] + pair[h]);
                        of_pair[e] = pair;
                    }
                    of_own[at] = sum;
                }
            }
        }
    }
}

#[inline(always)]
fn leaky<T: Vector>(x: T) -> T {
    if x > T::default() { x } else { x * T::narrow(LEAK) }
}

/// Writes l and r of rows, rows × 2 · side: inner products with the first and the second of two packed rows.
pub fn both_scores<T: Vector>(heads: Heads, q: &[T], vectors: &[T], out: &mut [T]) {
    let width = heads.width().max(1);
    let (own, other) = vectors.split_at(width);
    by_side!(heads.side(), H => Arch::new().dispatch(
        #[inline(always)]
        || {
            let both = out.as_chunks_mut::<H>().0.as_chunks_mut::<2>().0;
            for (q, [l, r]) in q.chunks_exact(width).zip(both) {
                (*l, *r) = (dot::<T, H>(q, own), dot::<T, H>(q, other));
            }
        },
    ));
}

/// The way back of [`both_scores`]: adds to the gradients of rows, and to those of both vectors; `slopes`: of l and r.
pub fn scores_back<T: Vector>(
    heads: Heads,
    q: &[T],
    vectors: &[T],
    slopes: &[T],
    (of_q, of_vectors): (&mut [T], &mut [T]),
) {
    let width = heads.width().max(1);
    by_side!(heads.side(), H => Arch::new().dispatch(
        #[inline(always)]
        || {
            let slopes = slopes.as_chunks::<H>().0.as_chunks::<2>().0;
            for ((q, of_q), both) in q.chunks_exact(width).zip(of_q.chunks_exact_mut(width)).zip(slopes) {
                let parts = vectors.chunks_exact(width).zip(of_vectors.chunks_exact_mut(width));
                for (slope, (vector, of_vector)) in both.iter().zip(parts) {
                    let slope = over_block(slope);
                    let (q, vector) = (q.as_chunks::<BLOCK>().0, vector.as_chunks::<BLOCK>().0);
                    let of = of_q.as_chunks_mut::<BLOCK>().0.iter_mut().zip(of_vector.as_chunks_mut::<BLOCK>().0);
                    for ((q, vector), (of_q, of_vector)) in q.iter().zip(vector).zip(of) {
                        *of_q = array::from_fn(|at| of_q[at] + slope[at] * vector[at]);
                        *of_vector = array::from_fn(|at| of_vector[at] + slope[at] * q[at]);
                    }
                }
            }
        },
    ));
}

/// Writes a_ij + a_ji for all entries of some rows if `both` is set, or a_ji: `mirrors` are the places of the entries (j, i).
pub fn mirrored<T: Vector>(side: usize, entries: Range<usize>, mirrors: &[u32], a: &[T], both: bool, out: &mut [T]) {
    by_side!(side, H => {
        let a = a.as_chunks::<H>().0;
        for ((e, mirror), out) in entries.clone().zip(&mirrors[entries]).zip(out.as_chunks_mut::<H>().0) {
            let other = &a[*mirror as usize];
            *out = if both { array::from_fn(|h| a[e][h] + other[h]) } else { *other };
        }
    });
}

/// Returns the sum of a_ji over the entries of a row, by head: `mirrors` are the places of the entries (j, i) of the row.
pub fn mirrored_sum<T: Vector>(side: usize, mirrors: &[u32], a: &[T], out: &mut [T]) {
    by_side!(side, H => {
        let a = a.as_chunks::<H>().0;
        let mut sum = [T::default(); H];
        for mirror in mirrors {
            let other = &a[*mirror as usize];
            sum = array::from_fn(|h| sum[h] + other[h]);
        }
        out.copy_from_slice(&sum);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::csr::Csr;
    use crate::math::random::Stream;
    use crate::math::testing::symmetric;

    fn numbers(count: usize, scale: f64, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["test", "attention"]);
        (0..count).map(|_| stream.symmetric(scale)).collect()
    }

    fn pattern(matrix: &Csr) -> Pattern<'_> {
        Pattern { indptr: &matrix.indptr, indices: &matrix.indices }
    }

    /// Weights of all rows, mixed and scaled, for rows of this size.
    fn weights(matrix: &Csr, heads: Heads, scale: f64) -> [Vec<f64>; 2] {
        let (n, side) = (matrix.n(), heads.side());
        let (q, vectors) = (numbers(n * heads.width(), scale, 1), numbers(2 * heads.width(), 1.0, 2));
        let mut both = vec![0.0; 2 * n * side];
        both_scores(heads, &q, &vectors, &mut both);
        [Scores::Mixed(&both), Scores::Scaled(0.5)].map(|scores| {
            let [mut inner, mut found] = [0, 1].map(|_| vec![9.0; matrix.indices.len() * side]);
            let attention = Attention { of: pattern(matrix), heads, q: &q, scores };
            attention.weights(0..n, &mut inner, &mut found);
            // Some rows at a time give the same.
            for rows in [0..3, 3..17, 17..n] {
                let part = pattern(matrix).entries(rows.clone());
                let [mut inner, mut some] = [0, 1].map(|_| vec![9.0; part.len() * side]);
                attention.weights(rows, &mut inner, &mut some);
                assert_eq!(some, found[part.start * side..part.end * side]);
            }
            found
        })
    }

    #[test]
    fn the_weights_of_a_row_are_shares_of_one_however_large_the_scores_are() {
        let matrix = symmetric(40, 3, 8);
        for (heads, scale) in [(8, 1.0), (4, 300.0), (1, 0.1), (16, 3.0)] {
            let heads = Heads { count: heads, features: 16 / heads };
            for found in weights(&matrix, heads, scale) {
                assert!(found.iter().all(|weight| (0.0..=1.0 + 1e-12).contains(weight)));
                for (i, head) in (0..40).flat_map(|i| (0..heads.count).map(move |head| (i, head))) {
                    let sum: f64 = matrix.range(i).map(|e| found[e * heads.side() + head]).sum();
                    assert!((sum - 1.0).abs() < 1e-12, "{sum}");
                }
            }
        }
    }

    #[test]
    fn rows_of_zeros_give_every_entry_the_same_weight() {
        let matrix = symmetric(40, 3, 8);
        let heads = Heads { count: 8, features: 2 };
        for found in weights(&matrix, heads, 0.0) {
            let even = |i: usize| {
                matrix.range(i).all(|e| {
                    found[e * 8..(e + 1) * 8]
                        .iter()
                        .all(|weight| (weight * matrix.range(i).len() as f64 - 1.0).abs() < 1e-12)
                })
            };
            assert!((0..40).all(even));
        }
    }
}
