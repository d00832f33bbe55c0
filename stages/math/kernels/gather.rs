//! Sums of weighted rows: what a sparse matrix does to a dense one.
//!
//! A [`RowPattern`] lists for every row of the result which rows of a dense matrix it takes; the weights stand apart, because a
//! pass uses weights of its own (after dropout). RowPattern of the dense matrices are [padded](super::padded).

use std::ops::Range;

use pulp::Simd;

use super::simd::{ByRegisters, Vector, by_registers};

/// Which rows of a dense matrix make a row of the result.
#[derive(Clone, Copy)]
pub struct RowPattern<'a> {
    /// Where the entries of a row start; one more than rows.
    pub starts: &'a [usize],
    /// The row that an entry takes.
    pub indices: &'a [u32],
    /// Where the weight of an entry stands; in the order of the entries if there is no list.
    pub places: Option<&'a [usize]>,
}

impl RowPattern<'_> {
    /// Row r of out p ← Σ over its entries e of weight p of e · row of x that e takes, for `rows` and all `P` lists of weights
    /// in one pass over x. `width`: values of a row, padded.
    pub fn sums<T: Vector, const P: usize>(
        &self,
        rows: Range<usize>,
        weights: [&[T]; P],
        x: &[T],
        width: usize,
        outs: [&mut [T]; P],
    ) {
        by_registers(Sums { pattern: *self, weights, x, width, outs }, rows, width);
    }

    /// Row r of out ← Σ over sources (weights, x) and its entries e of weight of e · row of x that e takes, for `rows`.
    pub fn sum_of<T: Vector>(&self, rows: Range<usize>, sources: &[(&[T], &[T])], width: usize, out: &mut [T]) {
        by_registers(SumOf { pattern: *self, sources, width, out }, rows, width);
    }

    /// The row of out that e takes += weight of e · row r of x, over the entries e of `rows` in order: the transposed product,
    /// which reads every row of x once. Faster than [`RowPattern::sum_of`] where x is larger than the caches and out is not.
    pub fn scatter<T: Vector>(&self, rows: Range<usize>, weights: &[T], x: &[T], width: usize, out: &mut [T]) {
        by_registers(Scatter { pattern: *self, weights, x, width, out }, rows, width);
    }

    #[inline(always)]
    fn entries(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    #[inline(always)]
    fn place(&self, entry: usize) -> usize {
        self.places.map_or(entry, |places| places[entry])
    }
}

struct Sums<'a, T, const P: usize> {
    pattern: RowPattern<'a>,
    weights: [&'a [T]; P],
    x: &'a [T],
    width: usize,
    outs: [&'a mut [T]; P],
}

impl<T: Vector, const P: usize> ByRegisters for Sums<'_, T, P> {
    type Value = T;

    #[inline(always)]
    fn part<S: Simd, const N: usize>(&mut self, simd: S, i: usize, row: usize, first: usize) {
        let mut sums = [[T::splat(simd, T::default()); N]; P];
        for e in self.pattern.entries(row) {
            let from = self.pattern.indices[e] as usize * self.width;
            let x = &T::cut::<S>(&self.x[from..from + self.width])[first..first + N];
            let place = self.pattern.place(e);
            for (sums, weights) in sums.iter_mut().zip(self.weights) {
                let weight = T::splat(simd, weights[place]);
                for n in 0..N {
                    sums[n] = T::fused(simd, weight, x[n], sums[n]);
                }
            }
        }
        for (sums, out) in sums.iter().zip(&mut self.outs) {
            T::cut_mut::<S>(&mut out[i * self.width..(i + 1) * self.width])[first..first + N].copy_from_slice(sums);
        }
    }
}

struct SumOf<'a, T> {
    pattern: RowPattern<'a>,
    sources: &'a [(&'a [T], &'a [T])],
    width: usize,
    out: &'a mut [T],
}

impl<T: Vector> ByRegisters for SumOf<'_, T> {
    type Value = T;

    #[inline(always)]
    fn part<S: Simd, const N: usize>(&mut self, simd: S, i: usize, row: usize, first: usize) {
        let mut sums = [T::splat(simd, T::default()); N];
        for (weights, x) in self.sources {
            for e in self.pattern.entries(row) {
                let from = self.pattern.indices[e] as usize * self.width;
                let x = &T::cut::<S>(&x[from..from + self.width])[first..first + N];
                let weight = T::splat(simd, weights[self.pattern.place(e)]);
                for n in 0..N {
                    sums[n] = T::fused(simd, weight, x[n], sums[n]);
                }
            }
        }
        T::cut_mut::<S>(&mut self.out[i * self.width..(i + 1) * self.width])[first..first + N].copy_from_slice(&sums);
    }
}

struct Scatter<'a, T> {
    pattern: RowPattern<'a>,
    weights: &'a [T],
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<T: Vector> ByRegisters for Scatter<'_, T> {
    type Value = T;

    #[inline(always)]
    fn part<S: Simd, const N: usize>(&mut self, simd: S, _: usize, row: usize, first: usize) {
        let mut x = [T::splat(simd, T::default()); N];
        x.copy_from_slice(&T::cut::<S>(&self.x[row * self.width..(row + 1) * self.width])[first..first + N]);
        for e in self.pattern.entries(row) {
            let weight = T::splat(simd, self.weights[self.pattern.place(e)]);
            let to = self.pattern.indices[e] as usize * self.width;
            let out = &mut T::cut_mut::<S>(&mut self.out[to..to + self.width])[first..first + N];
            for n in 0..N {
                out[n] = T::fused(simd, weight, x[n], out[n]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernels::{padded, with_padding};
    use crate::math::random::Stream;
    use crate::math::sparse_product::TwoSided;
    use crate::math::testing::random;

    fn numbers<T: Vector>(count: usize, seed: u64) -> Vec<T> {
        let mut stream = Stream::new(seed, &["test", "gather"]);
        (0..count).map(|_| T::narrow(stream.symmetric(1.0))).collect()
    }

    /// Σ over the entries of some rows, in their order, by plain loops in double precision.
    fn plain<T: Vector>(of: &RowPattern, rows: Range<usize>, sources: &[(&[T], &[T])], width: usize) -> Vec<f64> {
        let mut out = vec![0.0; rows.len() * width];
        for (out, row) in out.chunks_exact_mut(width).zip(rows) {
            for (weights, x) in sources {
                for e in of.starts[row]..of.starts[row + 1] {
                    let weight = weights[of.places.map_or(e, |places| places[e])].widen();
                    let x = &x[of.indices[e] as usize * width..][..width];
                    out.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x.widen());
                }
            }
        }
        out
    }

    fn compare<T: Vector>(tolerance: f64) {
        let (m, k) = (23, 31);
        let matrix = random(m, 31, 0.2, 3);
        let two = TwoSided::new(&matrix);
        for columns in [1, 5, 7, 16, 17, 40, 64, 70] {
            let width = padded(columns);
            let weights: [Vec<T>; 3] = [1, 2, 3].map(|seed| numbers(matrix.values.len(), seed));
            let w = with_padding(&numbers::<T>(k * columns, 4), columns);
            let near = |ours: &[T], theirs: &[f64]| {
                assert!(ours.iter().zip(theirs).all(|(a, b)| (a.widen() - b).abs() < tolerance), "{columns} columns");
            };
            let (rows, of) = (5..m, two.by_rows());
            let mut outs = [(); 3].map(|()| vec![T::narrow(f64::NAN); rows.len() * width]);
            let [a, b, c] = &mut outs;
            of.sums(rows.clone(), weights.each_ref().map(Vec::as_slice), &w, width, [a, b, c]);
            for (out, weights) in outs.iter().zip(&weights) {
                near(out, &plain(&of, rows.clone(), &[(weights, &w)], width));
                let mut alone = vec![T::default(); out.len()];
                of.sums(rows.clone(), [weights], &w, width, [&mut alone]);
                assert!(alone == *out, "other passes change no byte");
            }
            let (rows, of) = (2..k, two.by_columns());
            let g = [5, 6].map(|seed| with_padding(&numbers::<T>(m * columns, seed), columns));
            let sources = [(&weights[0][..], &g[0][..]), (&weights[1][..], &g[1][..])];
            let mut out = vec![T::narrow(f64::NAN); rows.len() * width];
            of.sum_of(rows.clone(), &sources, width, &mut out);
            near(&out, &plain(&of, rows, &sources, width));
            // The transposed product of all rows, twice onto what is there.
            let (mut scattered, all) = (vec![T::narrow(1.0); k * width], [sources[0], sources[0]]);
            two.by_rows().scatter(0..9, all[0].0, all[0].1, width, &mut scattered);
            two.by_rows().scatter(9..m, all[0].0, all[0].1, width, &mut scattered);
            two.by_rows().scatter(0..m, all[0].0, all[0].1, width, &mut scattered);
            let expected = plain(&of, 0..k, &all, width);
            near(&scattered, &expected.iter().map(|x| x + 1.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sums_equal_plain_sums_for_every_width_in_both_precisions() {
        compare::<f64>(1e-13);
        compare::<f32>(1e-5);
    }
}
