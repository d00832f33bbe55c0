//! Products of a sparse square matrix with a dense one, Y = S·Z, and polynomials of it, Y = Σ_k c_k S^k Z.
//!
//! S: n × n in compressed rows, Z and Y: n × columns, row-major. Every row of a product is summed by one thread in the
//! order of its entries, so the number of threads cannot change a byte.

use rayon::prelude::*;

use crate::math::csr::Csr;
use crate::math::real::Real;

/// Rows that one task computes.
const ROWS: usize = 256;
/// Multiplications below which starting tasks costs more than it saves.
const WORTH_TASKS: usize = 1 << 18;

/// A sparse matrix made ready for products in both precisions.
pub struct Propagator {
    matrix: Csr,
    single: Vec<f32>,
}

impl Propagator {
    /// Prepares a matrix.
    pub fn new(matrix: Csr) -> Self {
        let single = matrix.values.iter().map(|v| f32::narrow(*v)).collect();
        Self { matrix, single }
    }

    /// Returns the number of rows.
    pub fn n(&self) -> usize {
        self.matrix.n()
    }

    /// Computes S·Z. `z` holds n rows of `columns` values.
    pub fn product<T: Real>(&self, z: &[T], columns: usize) -> Vec<T> {
        let mut out = vec![T::default(); z.len()];
        self.product_into(z, columns, &mut out);
        out
    }

    /// Calls `visit(k, S^k Z)` for k = 0..=order.
    pub fn hops<T: Real>(&self, z: &[T], columns: usize, order: usize, mut visit: impl FnMut(usize, &[T])) {
        visit(0, z);
        let mut current = z.to_vec();
        let mut next = vec![T::default(); z.len()];
        for k in 1..=order {
            self.product_into(&current, columns, &mut next);
            visit(k, &next);
            std::mem::swap(&mut current, &mut next);
        }
    }

    fn product_into<T: Real>(&self, z: &[T], columns: usize, out: &mut [T]) {
        if columns == 0 {
            return;
        }
        let work = |(chunk, rows): (usize, &mut [T])| {
            let first = chunk * ROWS;
            match columns {
                1 => self.narrow_rows::<T, 1>(first, z, rows),
                2 => self.narrow_rows::<T, 2>(first, z, rows),
                3 => self.narrow_rows::<T, 3>(first, z, rows),
                4 => self.narrow_rows::<T, 4>(first, z, rows),
                5 => self.narrow_rows::<T, 5>(first, z, rows),
                6 => self.narrow_rows::<T, 6>(first, z, rows),
                7 => self.narrow_rows::<T, 7>(first, z, rows),
                8 => self.narrow_rows::<T, 8>(first, z, rows),
                _ => self.wide_rows(first, z, columns, rows),
            }
        };
        if self.single.len() * columns < WORTH_TASKS {
            out.chunks_mut(ROWS * columns).enumerate().for_each(work);
        } else {
            out.par_chunks_mut(ROWS * columns).enumerate().for_each(work);
        }
    }

    /// Computes rows of `W` columns. The fixed width keeps the sums in registers.
    fn narrow_rows<T: Real, const W: usize>(&self, first: usize, z: &[T], out: &mut [T]) {
        let (z, _) = z.as_chunks::<W>();
        let (out, _) = out.as_chunks_mut::<W>();
        for (i, row) in out.iter_mut().enumerate() {
            let (indices, values) = self.row::<T>(first + i);
            let mut sums = [T::default(); W];
            for (j, v) in indices.iter().zip(values) {
                let from = &z[*j as usize];
                for c in 0..W {
                    sums[c] += *v * from[c];
                }
            }
            *row = sums;
        }
    }

    fn wide_rows<T: Real>(&self, first: usize, z: &[T], columns: usize, out: &mut [T]) {
        for (i, row) in out.chunks_exact_mut(columns).enumerate() {
            row.fill(T::default());
            let (indices, values) = self.row::<T>(first + i);
            for (j, v) in indices.iter().zip(values) {
                let from = &z[*j as usize * columns..(*j as usize + 1) * columns];
                row.iter_mut().zip(from).for_each(|(sum, x)| *sum += *v * *x);
            }
        }
    }

    fn row<T: Real>(&self, i: usize) -> (&[u32], &[T]) {
        let (start, end) = (self.matrix.indptr[i] as usize, self.matrix.indptr[i + 1] as usize);
        (&self.matrix.indices[start..end], &T::pick(&self.single, &self.matrix.values)[start..end])
    }
}

/// Computes Σ x_i y_i in double precision, in a fixed order.
pub fn dot<T: Real>(x: &[T], y: &[T]) -> f64 {
    let mut lanes = [0.0; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(a, b)| a.widen() * b.widen()).sum();
    for (a, b) in xs.zip(ys) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a.widen() * b.widen();
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;

    /// A random symmetric matrix with about `per_row` entries a row.
    fn random(n: usize, per_row: usize) -> Csr {
        let mut stream = Stream::new(7, &["test"]);
        let mut dense = vec![0.0; n * n];
        for i in 0..n {
            for _ in 0..per_row {
                let j = stream.below(n as u64) as usize;
                let v = stream.symmetric(1.0);
                dense[i * n + j] = v;
                dense[j * n + i] = v;
            }
        }
        let (mut indptr, mut indices, mut values) = (vec![0], vec![], vec![]);
        for i in 0..n {
            for j in (0..n).filter(|j| dense[i * n + j] != 0.0) {
                indices.push(j as u32);
                values.push(dense[i * n + j]);
            }
            indptr.push(indices.len() as u64);
        }
        Csr::new(n, indptr, indices, values).unwrap()
    }

    fn dense_product(matrix: &Csr, z: &[f64], columns: usize) -> Vec<f64> {
        let mut out = vec![0.0; z.len()];
        for i in 0..matrix.n() {
            let (js, vs) = matrix.row(i);
            for (j, v) in js.iter().zip(vs) {
                for c in 0..columns {
                    out[i * columns + c] += v * z[*j as usize * columns + c];
                }
            }
        }
        out
    }

    #[test]
    fn product_equals_the_plain_sum_for_every_width() {
        let matrix = random(37, 3);
        let propagator = Propagator::new(matrix.clone());
        let mut stream = Stream::new(1, &["test"]);
        for columns in [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 21] {
            let z: Vec<f64> = (0..37 * columns).map(|_| stream.normal()).collect();
            let (ours, plain) = (propagator.product(&z, columns), dense_product(&matrix, &z, columns));
            assert!(ours.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }

    #[test]
    fn threads_do_not_change_a_byte_of_a_product() {
        // 1500 rows of about 60 entries and 8 columns are enough work to be cut into tasks.
        let propagator = Propagator::new(random(1500, 30));
        assert!(propagator.single.len() * 8 > WORTH_TASKS);
        let mut stream = Stream::new(2, &["test"]);
        let z: Vec<f32> = (0..1500 * 8).map(|_| stream.normal() as f32).collect();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| propagator.product(&z, 8))
        };
        let one = with(1);
        assert!(one == with(2) && one == with(3));
    }

    #[test]
    fn hops_are_repeated_products() {
        let matrix = random(20, 2);
        let propagator = Propagator::new(matrix.clone());
        let z: Vec<f64> = (0..60).map(f64::from).collect();
        let mut seen = Vec::new();
        propagator.hops(&z, 3, 3, |k, hop| seen.push((k, hop.to_vec())));
        let mut expected = z;
        for (k, hop) in seen {
            assert!(hop.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9), "hop {k}");
            expected = dense_product(&matrix, &expected, 3);
        }
    }

    #[test]
    fn dot_sums_all_entries() {
        let x: Vec<f64> = (1..=19).map(f64::from).collect();
        // 1² + … + 19² = 19·20·39/6.
        assert!((dot(&x, &x) - 2470.0).abs() < 1e-12);
    }
}
