//! Polynomials of a symmetric sparse matrix S times a few vectors: Σ_k c_k p_k(S)·Z, with a coefficient for every column.
//!
//! The polynomials p_k follow a recurrence, p_{k+1}(S) = a·S·p_k(S) + b·p_{k−1}(S), so two hops are kept and no more:
//! plain powers (a = 1, b = 0) or Chebyshev polynomials (a = 2, b = −1 after the first step), which stay of the size of Z
//! whatever the degree. The columns stand side by side in a matrix with [padded](super::padded) rows.

use std::ops::Range;
use std::sync::OnceLock;

use pulp::Simd;
use rayon::prelude::*;

use super::simd::{ByRegisters, Vector, by_registers};
use crate::math::csr::{Csr, pieces};
use crate::math::real::Real;

/// Entries and rows of the matrix that make a task.
const TASK: usize = 1 << 12;

/// Which polynomials are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// S^k.
    Powers,
    /// T_k(S), the Chebyshev polynomials of the first kind.
    Chebyshev,
}

impl Basis {
    /// Returns a and b of the step to degree `k`.
    pub fn step(self, k: usize) -> (f64, f64) {
        match self {
            Self::Chebyshev if k > 1 => (2.0, -1.0),
            _ => (1.0, 0.0),
        }
    }
}

/// A symmetric sparse matrix made ready for products in both precisions.
pub struct Hops {
    matrix: Csr,
    single: Vec<f32>,
    /// Ranges of rows of about equal work. They depend on the matrix alone, and with them the order of summation.
    tasks: Vec<Range<usize>>,
    mirrors: OnceLock<Option<Vec<u32>>>,
}

impl Hops {
    /// Prepares a matrix.
    pub fn new(matrix: Csr) -> Self {
        let single = matrix.values.iter().map(|v| f32::narrow(*v)).collect();
        let tasks = matrix.tasks(1, TASK);
        Self { matrix, single, tasks, mirrors: OnceLock::new() }
    }

    /// Returns the number of rows.
    pub fn n(&self) -> usize {
        self.matrix.n()
    }

    /// Returns the matrix.
    pub fn matrix(&self) -> &Csr {
        &self.matrix
    }

    /// Returns the first row with an entry on the diagonal, if there is one.
    pub fn first_loop(&self) -> Option<usize> {
        (0..self.n()).find(|i| self.matrix.get(*i, *i) != 0.0)
    }

    /// Returns the first row without an entry on the diagonal, if there is one; an entry of value 0 is one.
    pub fn first_without_loop(&self) -> Option<usize> {
        let has_loop = |i: usize| self.matrix.row(i).0.iter().any(|j| *j as usize == i);
        (0..self.n()).find(|i| !has_loop(*i))
    }

    /// Returns the ranges of rows that make a task each.
    pub fn tasks(&self) -> &[Range<usize>] {
        &self.tasks
    }

    /// Returns where the entries of some rows stand.
    pub fn entries(&self, rows: Range<usize>) -> Range<usize> {
        if rows.is_empty() { 0..0 } else { self.matrix.range(rows.start).start..self.matrix.range(rows.end - 1).end }
    }

    /// Returns the place of entry (j, i) for every entry (i, j), found once; nothing where an entry has no mirror.
    pub fn mirrors(&self) -> Option<&[u32]> {
        self.mirrors.get_or_init(|| mirrors(&self.matrix)).as_deref()
    }

    /// out ← S·Z; rows hold `width` values, padded.
    pub fn product<T: Vector>(&self, z: &[T], width: usize, out: &mut [T]) {
        pieces(&self.tasks, out, width).into_par_iter().zip(&self.tasks).for_each(|(out, rows)| {
            self.product_rows(rows.clone(), z, width, out);
        });
    }

    /// out ← S·Z for some rows of S, on this thread.
    pub fn product_rows<T: Vector>(&self, rows: Range<usize>, z: &[T], width: usize, out: &mut [T]) {
        let first = self.entries(rows.clone()).start;
        self.weighted_rows(&self.values()[first..], rows, z, width, T::default(), out);
    }

    /// out ← W·Z + b·out for some rows, on this thread. W has the pattern of S, and `weights` are its entries from the first of
    /// these rows on.
    pub fn weighted_rows<T: Vector>(
        &self,
        weights: &[T],
        rows: Range<usize>,
        z: &[T],
        width: usize,
        b: T,
        out: &mut [T],
    ) {
        let (step, first) = (Some((T::narrow(1.0), b)), self.entries(rows.clone()).start);
        let weights = Weights { of: &self.matrix, values: weights, first };
        by_registers(Piece { weights, step, from: z, width, hop: out, sum: None, dots: None }, rows, width);
    }

    /// Returns Σ_k c_k p_k(S)·Z, and the inner products of the columns of p_k(S)·Z with those of `against`, if it is given: a
    /// row of `width` values for every degree. `coefficients` has such a row too, and `z` one for every row of S.
    pub fn polynomial<T: Vector>(
        &self,
        basis: Basis,
        coefficients: &[T],
        z: &[T],
        against: Option<&[T]>,
        width: usize,
    ) -> (Vec<T>, Vec<f64>) {
        let (mut sum, mut dots) = (vec![T::default(); z.len()], Vec::new());
        // The hop before becomes the one after: an entry is read before it is overwritten.
        let (mut now, mut other) = (z.to_vec(), vec![T::default(); z.len()]);
        let mut partial = vec![T::default(); self.tasks.len() * width];
        for (k, c) in coefficients.chunks_exact(width.max(1)).enumerate() {
            let (from, hop, step) = match k {
                0 => (&[][..], &mut now, None),
                _ => (&now[..], &mut other, Some(basis.step(k))),
            };
            let step = step.map(|(a, b)| (T::narrow(a), T::narrow(b)));
            partial.fill(T::default());
            let hops = pieces(&self.tasks, hop, width).into_par_iter().zip(pieces(&self.tasks, &mut sum, width));
            hops.zip(partial.par_chunks_mut(width).zip(&self.tasks)).for_each(|((hop, sum), (dots, rows))| {
                let dots = against.map(|against| (&against[rows.start * width..rows.end * width], dots));
                let weights = Weights { of: &self.matrix, values: self.values(), first: 0 };
                let piece = Piece { weights, step, from, width, hop, sum: Some((c, sum)), dots };
                by_registers(piece, rows.clone(), width);
            });
            if k > 0 {
                std::mem::swap(&mut now, &mut other);
            }
            if against.is_some() {
                let mut of_degree = vec![0.0; width];
                for part in partial.chunks_exact(width) {
                    of_degree.iter_mut().zip(part).for_each(|(dot, part)| *dot += part.widen());
                }
                dots.extend(of_degree);
            }
        }
        (sum, dots)
    }

    /// Returns the entries of S, in their order.
    pub fn values<T: Real>(&self) -> &[T] {
        T::pick(&self.single, &self.matrix.values)
    }
}

/// Rows are walked in order, so the mirrors in a row are met from its first entry to its last.
fn mirrors(matrix: &Csr) -> Option<Vec<u32>> {
    let mut next = matrix.indptr.clone();
    let mut found = Vec::with_capacity(matrix.indices.len());
    for i in 0..matrix.n() {
        for j in matrix.row(i).0 {
            let at = next.get(*j as usize).copied()?;
            let place = usize::try_from(at).ok()?;
            if place >= matrix.range(*j as usize).end || matrix.indices[place] as usize != i {
                return None;
            }
            next[*j as usize] += 1;
            found.push(u32::try_from(at).ok()?);
        }
    }
    Some(found)
}

/// Entries at the places of those of a matrix, from place `first` on.
struct Weights<'a, T> {
    of: &'a Csr,
    values: &'a [T],
    first: usize,
}

impl<T> Weights<'_, T> {
    #[inline(always)]
    fn row(&self, i: usize) -> (&[u32], &[T]) {
        let range = self.of.range(i);
        (&self.of.indices[range.clone()], &self.values[range.start - self.first..range.end - self.first])
    }
}

/// Some rows of a hop and of what it is used for.
struct Piece<'a, T> {
    weights: Weights<'a, T>,
    /// hop ← a·W·from + b·hop; none leaves the hop as it is.
    step: Option<(T, T)>,
    from: &'a [T],
    width: usize,
    hop: &'a mut [T],
    /// sum ← sum + coefficient ⊙ hop, for the rows of this piece.
    sum: Option<(&'a [T], &'a mut [T])>,
    /// dots ← dots + column sums of (these rows ⊙ hop).
    dots: Option<(&'a [T], &'a mut [T])>,
}

impl<T: Vector> ByRegisters for Piece<'_, T> {
    type Value = T;

    #[inline(always)]
    fn part<S: Simd, const N: usize>(&mut self, simd: S, i: usize, row: usize, first: usize) {
        let (columns, values) = (first..first + N, i * self.width..(i + 1) * self.width);
        let hop = &mut T::cut_mut::<S>(&mut self.hop[values.clone()])[columns.clone()];
        if let Some((a, b)) = self.step {
            let zero = T::splat(simd, T::default());
            let mut sums = [zero; N];
            let (indices, weights) = self.weights.row(row);
            for (j, weight) in indices.iter().zip(weights) {
                let from = *j as usize * self.width;
                let from = &T::cut::<S>(&self.from[from..from + self.width])[columns.clone()];
                let weight = T::splat(simd, *weight);
                for n in 0..N {
                    sums[n] = T::fused(simd, weight, from[n], sums[n]);
                }
            }
            let (a, b) = (T::splat(simd, a), T::splat(simd, b));
            for n in 0..N {
                hop[n] = T::fused(simd, a, sums[n], T::fused(simd, b, hop[n], zero));
            }
        }
        if let Some((coefficients, sum)) = &mut self.sum {
            let coefficients = &T::cut::<S>(coefficients)[columns.clone()];
            let sum = &mut T::cut_mut::<S>(&mut sum[values.clone()])[columns.clone()];
            for n in 0..N {
                sum[n] = T::fused(simd, coefficients[n], hop[n], sum[n]);
            }
        }
        if let Some((against, dots)) = &mut self.dots {
            let against = &T::cut::<S>(&against[values])[columns.clone()];
            let dots = &mut T::cut_mut::<S>(dots)[columns];
            for n in 0..N {
                dots[n] = T::fused(simd, against[n], hop[n], dots[n]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
