//! Products of a dense matrix A (rows × columns, by rows) with a few vectors at once: A·Z and Aᵀ·Y.
//!
//! Both read A where it stands, so one copy of the eigenvectors serves both. The vectors stand side by side in a matrix
//! with [`padded`] rows; an entry of the result is summed in the order of the summed index.
//!
//! General kernels are made for large matrices on both sides. Here a tile of some rows by all vectors stays in
//! registers, entries of A are spread over a register each, and a block of the vectors stays in the nearest cache. A
//! matrix that is used often and larger than the caches is brought into [`Panels`], where either product reads from the
//! first value to the last.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::simd::{Vector, padded};
use crate::math::real::Real;

/// Rows of a result that one task computes, a multiple of the height of every tile; and entries that a tile sums before
/// the next has its turn, so that as many rows of vectors stay in cache.
const ROWS: usize = 96;
const DEPTH: usize = ROWS;

/// A dense matrix by rows.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    values: &'a [T],
    columns: usize,
}

/// A dense matrix in panels of 96 columns, each by rows; the last is filled up with zeros.
pub struct Panels<T> {
    values: Vec<T>,
    rows: usize,
}

impl<T: Vector> Panels<T> {
    /// Brings rows of `columns` values into panels; `row(i)` lends row i.
    pub fn new<'r, F: Real + 'r>(rows: usize, columns: usize, row: impl Fn(usize) -> &'r [F] + Sync) -> Self {
        let mut values = vec![T::default(); columns.div_ceil(ROWS) * rows * ROWS];
        values.par_chunks_mut((rows * ROWS).max(1)).enumerate().for_each(|(panel, values)| {
            let first = panel * ROWS;
            for (i, values) in values.chunks_exact_mut(ROWS).enumerate() {
                let row = &row(i)[first..columns.min(first + ROWS)];
                values.iter_mut().zip(row).for_each(|(value, x)| *value = T::narrow(x.widen()));
            }
        });
        Self { values, rows }
    }

    /// out ← A·Z for some rows of A, with Z: columns × width and out: rows × width, both padded; with all threads.
    pub fn par_times(&self, rows: &Range<usize>, z: &[T], width: usize, out: &mut [T]) {
        let (width, arch) = (padded(width), Arch::new());
        out.par_chunks_mut((ROWS * width).max(1)).enumerate().for_each(|(task, out)| {
            let first = rows.start + task * ROWS;
            for (panel, z) in z.chunks(ROWS * width).enumerate() {
                let a = &self.values[(panel * self.rows + first) * ROWS..];
                let onto = if panel == 0 { Onto::Nothing } else { Onto::Sums };
                arch.dispatch(Tiles { product: Product { a, strides: (ROWS, 1), x: z, width, onto }, out });
            }
        });
    }

    /// out ← Aᵀ·Y for some rows of A, with Y: rows × width and out: columns × width, both padded; with all threads.
    pub fn par_transposed_times(&self, rows: &Range<usize>, y: &[T], width: usize, out: &mut [T]) {
        let (width, arch) = (padded(width), Arch::new());
        out.par_chunks_mut((ROWS * width).max(1)).enumerate().for_each(|(panel, out)| {
            let a = &self.values[(panel * self.rows + rows.start) * ROWS..];
            let product = Product { a, strides: (1, ROWS), x: y, width, onto: Onto::Nothing };
            arch.dispatch(Tiles { product, out });
        });
    }
}

/// What a product does with the result that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Onto {
    /// Overwrites it.
    Nothing,
    /// Adds to it.
    Sums,
}

impl<'a, T: Vector> Matrix<'a, T> {
    /// Takes values by rows.
    pub fn new(values: &'a [T], columns: usize) -> Self {
        Self { values, columns }
    }

    /// out ← A·Z, with Z: columns × width and out: rows × width, both padded.
    pub fn times(self, z: &[T], width: usize, onto: Onto, out: &mut [T]) {
        debug_assert_eq!(z.len(), self.columns * padded(width), "a row of Z for every column of A");
        Product { a: self.values, strides: (self.columns, 1), x: z, width: padded(width), onto }.write(out);
    }

    /// out ← Aᵀ·Y, with Y: rows × width and out: columns × width, both padded.
    pub fn transposed_times(self, y: &[T], width: usize, onto: Onto, out: &mut [T]) {
        debug_assert_eq!(y.len() * self.columns, self.values.len() * padded(width), "a row of Y for every row of A");
        Product { a: self.values, strides: (1, self.columns), x: y, width: padded(width), onto }.write(out);
    }
}

/// A product that is still to be computed.
#[derive(Clone, Copy)]
struct Product<'a, T> {
    a: &'a [T],
    /// Steps in A from a row of the result to the next, and from a summed entry to the next.
    strides: (usize, usize),
    x: &'a [T],
    width: usize,
    onto: Onto,
}

impl<T: Vector> Product<'_, T> {
    fn write(self, out: &mut [T]) {
        let arch = Arch::new();
        out.chunks_mut((ROWS * self.width).max(1)).enumerate().for_each(|(task, out)| {
            let first = (task * ROWS * self.strides.0).min(self.a.len());
            arch.dispatch(Tiles { product: Product { a: &self.a[first..], ..self }, out });
        });
    }
}

/// Some rows of a product.
struct Tiles<'a, T> {
    product: Product<'a, T>,
    out: &'a mut [T],
}

impl<T: Vector> WithSimd for Tiles<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let registers = T::cut::<S>(&self.out[..self.product.width]).len();
        let many = S::REGISTER_COUNT >= 32;
        let most = if many { 4 } else { 3 };
        // As even as possible: eight are four and four rather than seven and one.
        let share = registers.div_ceil(registers.div_ceil(most));
        for first in (0..registers).step_by(share) {
            // The sums of a tile, a row of vectors and an entry of A together fill the registers.
            match (share.min(registers - first), many) {
                (1, true) => self.pass::<S, 12, 1>(simd, first),
                (2, true) => self.pass::<S, 12, 2>(simd, first),
                (3, true) => self.pass::<S, 8, 3>(simd, first),
                (4, _) => self.pass::<S, 6, 4>(simd, first),
                (1, false) => self.pass::<S, 8, 1>(simd, first),
                (2, false) => self.pass::<S, 6, 2>(simd, first),
                _ => self.pass::<S, 4, 3>(simd, first),
            }
        }
    }
}

impl<T: Vector> Tiles<'_, T> {
    /// Computes `N` registers of every row, from register `first` on, `M` rows at a time.
    #[inline(always)]
    fn pass<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, first: usize) {
        let Product { a, strides: strides @ (down, along), x, width, onto } = self.product;
        let (rows, depth) = (self.out.len() / width, x.len() / width);
        let parts = (0..depth).step_by(DEPTH).map(|start| start..(start + DEPTH).min(depth));
        let sums = |summed: &Range<usize>| if summed.start == 0 { onto } else { Onto::Sums };
        if down == 1 && along > ROWS {
            // Down a column of A, neighbours in memory belong to neighbouring rows: fetched together ahead of their use.
            let mut fetched = [T::default(); DEPTH * ROWS];
            for summed in parts {
                for (k, fetched) in summed.clone().zip(fetched.chunks_exact_mut(ROWS)) {
                    fetched[..rows].copy_from_slice(&a[k * along..][..rows]);
                }
                let (a, strides, sums) = (&fetched[..], (1, ROWS), sums(&summed));
                Tile { a, strides, x, width, out: self.out, first, summed, sums }.all_rows::<S, M, N>(simd);
            }
        } else {
            for summed in parts {
                let (a, sums) = (&a[summed.start * along..], sums(&summed));
                Tile { a, strides, x, width, out: self.out, first, summed, sums }.all_rows::<S, M, N>(simd);
            }
        }
    }
}

/// A part of the sum of some rows.
struct Tile<'a, T> {
    a: &'a [T],
    strides: (usize, usize),
    x: &'a [T],
    width: usize,
    out: &'a mut [T],
    first: usize,
    summed: Range<usize>,
    sums: Onto,
}

impl<T: Vector> Tile<'_, T> {
    /// All rows of the result, `M` at a time.
    #[inline(always)]
    fn all_rows<S: Simd, const M: usize, const N: usize>(&mut self, simd: S) {
        let rows = self.out.len() / self.width;
        let whole = rows - rows % M;
        for row in (0..whole).step_by(M) {
            self.compute::<S, M, N>(simd, row);
        }
        for row in whole..rows {
            self.compute::<S, 1, N>(simd, row);
        }
    }

    #[inline(always)]
    fn compute<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, row: usize) {
        let columns = self.first..self.first + N;
        let mut sums = [[T::splat(simd, T::default()); N]; M];
        if self.sums == Onto::Sums {
            for (m, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(&T::cut::<S>(&self.out[(row + m) * self.width..])[columns.clone()]);
            }
        }
        let (down, along) = self.strides;
        let x = T::cut::<S>(&self.x[self.summed.start * self.width..self.summed.end * self.width]);
        let lines = x.chunks_exact(x.len() / self.summed.len()).map(|x| &x[columns.clone()]);
        // Two loops with entries of A that are known to be there, so that nothing is checked inside them.
        if along == 1 {
            let rows: [&[T]; M] = std::array::from_fn(|m| &self.a[(row + m) * down..][..self.summed.len()]);
            for (k, x) in lines.enumerate().take(self.summed.len()) {
                for m in 0..M {
                    let a = T::splat(simd, rows[m][k]);
                    for n in 0..N {
                        sums[m][n] = T::fused(simd, a, x[n], sums[m][n]);
                    }
                }
            }
        } else {
            for (a, x) in self.a[row * down..].chunks(along).zip(lines) {
                let Some(a) = a.first_chunk::<M>() else { return };
                for m in 0..M {
                    let a = T::splat(simd, a[m]);
                    for n in 0..N {
                        sums[m][n] = T::fused(simd, a, x[n], sums[m][n]);
                    }
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            T::cut_mut::<S>(&mut self.out[(row + m) * self.width..])[columns.clone()].copy_from_slice(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernels::{with_padding, without_padding};
    use crate::math::random::Stream;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut stream = Stream::new(seed, &["tall"]);
        (0..count).map(|_| stream.symmetric(1.0)).collect()
    }

    /// A·Z and Aᵀ·Y of an m × k matrix by the kernels, without padding.
    fn both<T: Vector>(a: &[T], k: usize, z: &[T], y: &[T], width: usize) -> [Vec<T>; 2] {
        let m = a.len() / k;
        let (mut az, mut aty) = (vec![T::default(); m * padded(width)], vec![T::default(); k * padded(width)]);
        Matrix::new(a, k).times(&with_padding(z, width), width, Onto::Nothing, &mut az);
        Matrix::new(a, k).transposed_times(&with_padding(y, width), width, Onto::Nothing, &mut aty);
        let panels = Panels::new(m, k, |i| &a[i * k..(i + 1) * k]);
        let (mut by_panels, mut transposed) = (az.clone(), aty.clone());
        by_panels.fill(T::default());
        transposed.fill(T::default());
        panels.par_times(&(0..m), &with_padding(z, width), width, &mut by_panels);
        panels.par_transposed_times(&(0..m), &with_padding(y, width), width, &mut transposed);
        assert!(by_panels == az && transposed == aty, "panels and rows give the same bytes");
        [without_padding(&az, width, m), without_padding(&aty, width, k)]
    }

    #[test]
    fn products_equal_plain_sums_for_every_width_and_odd_sizes() {
        for (m, k) in [(1, 1), (7, 5), (97, 130), (200, 65)] {
            for width in [1, 5, 16, 17, 40, 50, 70, 90, 100, 112, 130, 250] {
                let (a, z, y) = (numbers(m * k, 1), numbers(k * width, 2), numbers(m * width, 3));
                let [az, aty] = both(&a, k, &z, &y, width);
                for i in 0..m {
                    for c in 0..width {
                        let sum: f64 = (0..k).map(|j| a[i * k + j] * z[j * width + c]).sum();
                        assert!((az[i * width + c] - sum).abs() < 1e-11, "{m} × {k}, {width}");
                    }
                }
                for j in 0..k {
                    for c in 0..width {
                        let sum: f64 = (0..m).map(|i| a[i * k + j] * y[i * width + c]).sum();
                        assert!((aty[j * width + c] - sum).abs() < 1e-11, "{m} × {k}, {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_vector_gets_the_same_bytes_alone_and_in_company_and_for_any_number_of_threads() {
        let single = |count, seed| numbers(count, seed).into_iter().map(|x| x as f32).collect::<Vec<_>>();
        let (m, k, width) = (230, 170, 70);
        let (a, z, y) = (single(m * k, 1), single(k * width, 2), single(m * width, 3));
        let together = both(&a, k, &z, &y, width);
        let three = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(three.install(|| both(&a, k, &z, &y, width)), together);
        for c in [0, 16, 69] {
            let column = |x: &[f32]| x.iter().skip(c).step_by(width).copied().collect::<Vec<_>>();
            let alone = both(&a, k, &column(&z), &column(&y), 1);
            assert_eq!(alone, together.each_ref().map(|x| column(x)));
        }
    }

    #[test]
    fn some_rows_of_panels_are_a_matrix_of_their_own() {
        let (m, k, width) = (210, 130, 5);
        let (a, z, rows) = (numbers(m * k, 1), with_padding(&numbers(k * width, 2), width), 70..190);
        let part = &a[rows.start * k..rows.end * k];
        let panels = Panels::new(m, k, |i| &a[i * k..(i + 1) * k]);
        let (mut ours, mut theirs) = (vec![0.0; rows.len() * 16], vec![0.0; rows.len() * 16]);
        panels.par_times(&rows, &z, width, &mut ours);
        Matrix::new(part, k).times(&z, width, Onto::Nothing, &mut theirs);
        assert_eq!(ours, theirs);
        let (mut back, mut theirs_back) = (vec![0.0; k * 16], vec![0.0; k * 16]);
        panels.par_transposed_times(&rows, &ours, width, &mut back);
        Matrix::new(part, k).transposed_times(&theirs, width, Onto::Nothing, &mut theirs_back);
        assert_eq!(back, theirs_back);
    }

    #[test]
    fn a_product_can_be_added_to_what_is_there() {
        let (a, z) = (numbers(12, 1), with_padding(&numbers(3 * 2, 2), 2));
        let (mut once, mut twice) = (vec![0.0; 4 * 16], vec![0.0; 4 * 16]);
        Matrix::new(&a, 3).times(&z, 2, Onto::Nothing, &mut once);
        Matrix::new(&a, 3).times(&z, 2, Onto::Nothing, &mut twice);
        Matrix::new(&a, 3).times(&z, 2, Onto::Sums, &mut twice);
        assert!(once.iter().zip(&twice).all(|(o, t)| (2.0 * o - t).abs() < 1e-15));
    }
}
