//! Principal components of the rows of a matrix X (n × F): T = X_c·V, with X_c = X − 1·μᵀ and μ the means of the columns.
//!
//! The columns of V (F × d) are the eigenvectors of X_cᵀ·X_c = V Λ Vᵀ of the d largest eigenvalues, and λ/(n − 1) is the
//! variance of a component. With more columns than rows the smaller X_c·X_cᵀ = U Λ Uᵀ is decomposed instead: T = U √Λ and
//! V = X_cᵀ·U/√Λ. Everything is exact, dense where it is squared, and in f64; sparse X is never filled up. Three rules
//! make the result canonical:
//!
//! - Components are sorted by descending variance.
//! - Sign: the first entry of a column of V whose magnitude is within 1e-6 (relative) of the largest is positive.
//! - An eigenvalue below max(n, F) · ε · s is rounding and its direction arbitrary: its scores and variance are 0. s is
//!   the largest eigenvalue, or n·|μ|² if that is larger and X is sparse, since there the means are subtracted last.

use faer::MatRef;

use crate::math::csr::Csr;
use crate::math::dense;
use crate::math::eigen::{EigenError, is_negative, symmetric};
use crate::math::sparse_product::TwoSided;

/// A matrix to analyse.
#[derive(Clone, Copy)]
pub enum Table<'a> {
    /// All values by rows, and the number of columns.
    Dense(&'a [f32], usize),
    /// Non-zero values.
    Sparse(&'a Csr<f32>),
}

/// Principal components.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// T by rows: n × d.
    pub scores: Vec<f64>,
    /// The variance of every component, descending.
    pub variances: Vec<f64>,
    /// The variance of all columns of X together.
    pub total: f64,
}

/// Returns the `d` first components, or all of them where there are fewer.
///
/// # Errors
/// [`EigenError::Dense`], also if a value is not finite, and [`EigenError::Memory`].
pub fn components(table: Table, d: usize) -> Result<Components, EigenError> {
    let x = Centred::new(table);
    let (n, features) = (x.n, x.mean.len());
    let by_rows = features > n;
    let m = n.min(features);
    // The solver cannot do without a row.
    if m == 0 || d == 0 {
        return Ok(Components { scores: Vec::new(), variances: Vec::new(), total: 0.0 });
    }
    let square = if by_rows { x.outer() } else { x.inner() };
    let trace: f64 = square.iter().step_by(m + 1).sum();
    let (values, vectors) = symmetric(&square, m)?;
    drop(square);
    let d = d.min(m);
    // The solver sorts ascending.
    let mut values: Vec<f64> = values.into_iter().rev().take(d).collect();
    let vectors: Vec<f64> = vectors.chunks_exact(m.max(1)).rev().take(d).flatten().copied().collect();
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 rows or columns")]
    let (size, freedom) = (n.max(features) as f64, n.saturating_sub(1).max(1) as f64);
    let noise = size * f64::EPSILON * values.first().map_or(0.0, |largest| largest.max(x.subtracted()));
    values.iter_mut().filter(|lambda| **lambda <= noise).for_each(|lambda| *lambda = 0.0);

    let (mut scores, loadings) = if by_rows {
        let loadings = x.transposed_times(&vectors, d);
        (transposed(&vectors, d, n), loadings)
    } else {
        let scores = x.times(&vectors, d);
        (scores, transposed(&vectors, d, features))
    };
    let loadings = transposed(&loadings, features, d);
    let scale: Vec<f64> = values
        .iter()
        .zip(loadings.chunks_exact(features.max(1)))
        .map(|(lambda, loading)| {
            let sign = if is_negative(loading) { -1.0 } else { 1.0 };
            match *lambda {
                0.0 => 0.0,
                lambda if by_rows => sign * lambda.sqrt(),
                _ => sign,
            }
        })
        .collect();
    // The scale decides and not the product, which would leave −0 where a component is nothing.
    let scaled = |(x, s): (&mut f64, &f64)| *x = if *s == 0.0 { 0.0 } else { *x * s };
    scores.chunks_exact_mut(d.max(1)).for_each(|row| row.iter_mut().zip(&scale).for_each(scaled));
    Ok(Components { scores, variances: values.iter().map(|lambda| lambda / freedom).collect(), total: trace / freedom })
}

/// X − 1·μᵀ: filled up and centred, or sparse with the means apart.
struct Centred {
    n: usize,
    mean: Vec<f64>,
    x: Values,
}

enum Values {
    /// X_c by rows.
    Dense(Vec<f64>),
    /// X itself.
    Sparse(TwoSided, Vec<f64>),
}

impl Centred {
    fn new(table: Table) -> Self {
        let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 rows")]
        let over = |sums: Vec<f64>, n: usize| sums.into_iter().map(|sum| sum / n.max(1) as f64).collect::<Vec<_>>();
        match table {
            Table::Dense(values, columns) => {
                let (n, mut x) = (values.len().checked_div(columns).unwrap_or(0), wide(values));
                let mean = over(dense::column_sums(&x, columns), n);
                for row in x.chunks_exact_mut(columns.max(1)) {
                    row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
                }
                Self { n, mean, x: Values::Dense(x) }
            }
            Table::Sparse(csr) => {
                let (two, x) = (TwoSided::new(csr), wide(&csr.values));
                let mean = over(two.transposed_product(&x, &vec![1.0; csr.n()], 1), csr.n());
                Self { n: csr.n(), mean, x: Values::Sparse(two, x) }
            }
        }
    }

    /// n·|μ|², the part that is subtracted after squaring.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 rows")]
    fn subtracted(&self) -> f64 {
        match self.x {
            Values::Dense(_) => 0.0,
            Values::Sparse(..) => self.n as f64 * self.mean.iter().map(|m| m * m).sum::<f64>(),
        }
    }

    fn matrix<'x>(&self, x: &'x [f64]) -> MatRef<'x, f64> {
        MatRef::from_row_major_slice(x, self.n, self.mean.len())
    }

    /// X_cᵀ·X_c = Xᵀ·X − n μ·μᵀ.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 rows")]
    fn inner(&self) -> Vec<f64> {
        match &self.x {
            Values::Dense(x) => dense::product(self.matrix(x).transpose(), self.matrix(x)),
            Values::Sparse(two, x) => {
                let mut square = two.inner(x);
                for (row, mean) in square.chunks_exact_mut(self.mean.len().max(1)).zip(&self.mean) {
                    row.iter_mut().zip(&self.mean).for_each(|(entry, other)| *entry -= self.n as f64 * (mean * other));
                }
                square
            }
        }
    }

    /// X_c·X_cᵀ = X·Xᵀ − (Xμ)·1ᵀ − 1·(Xμ)ᵀ + |μ|².
    fn outer(&self) -> Vec<f64> {
        match &self.x {
            Values::Dense(x) => dense::product(self.matrix(x), self.matrix(x).transpose()),
            Values::Sparse(two, x) => {
                let mut square = two.outer(x);
                let (along, length) = (two.product(x, &self.mean, 1), self.mean.iter().map(|m| m * m).sum::<f64>());
                for (row, a) in square.chunks_exact_mut(self.n.max(1)).zip(&along) {
                    row.iter_mut().zip(&along).for_each(|(entry, b)| *entry += length - (a + b));
                }
                square
            }
        }
    }

    /// X_c·V by rows, where `v` are the `d` columns of V one after the other.
    fn times(&self, v: &[f64], d: usize) -> Vec<f64> {
        match &self.x {
            Values::Dense(x) => dense::product(self.matrix(x), MatRef::from_column_major_slice(v, self.mean.len(), d)),
            Values::Sparse(two, x) => {
                let v = transposed(v, d, self.mean.len());
                let mut out = two.product(x, &v, d);
                let middle = weighted_rows(&self.mean, &v, d);
                for row in out.chunks_exact_mut(d.max(1)) {
                    row.iter_mut().zip(&middle).for_each(|(entry, m)| *entry -= m);
                }
                out
            }
        }
    }

    /// X_cᵀ·U by rows, where `u` are the `d` columns of U one after the other.
    fn transposed_times(&self, u: &[f64], d: usize) -> Vec<f64> {
        match &self.x {
            Values::Dense(x) => {
                dense::product(self.matrix(x).transpose(), MatRef::from_column_major_slice(u, self.n, d))
            }
            Values::Sparse(two, x) => {
                let u = transposed(u, d, self.n);
                let mut out = two.transposed_product(x, &u, d);
                let sums = dense::column_sums(&u, d);
                for (row, mean) in out.chunks_exact_mut(d.max(1)).zip(&self.mean) {
                    row.iter_mut().zip(&sums).for_each(|(entry, sum)| *entry -= mean * sum);
                }
                out
            }
        }
    }
}

/// Σ_i w_i · row i.
fn weighted_rows(weights: &[f64], rows: &[f64], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    for (w, row) in weights.iter().zip(rows.chunks_exact(columns.max(1))) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += w * x);
    }
    sums
}

/// The transpose, by rows, of `rows` × `columns` by rows.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(values.len());
    for j in 0..columns {
        out.extend((0..rows).map(|i| values[i * columns + j]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;
    use crate::math::sparse_product::tests::random;

    fn filled(x: &Csr<f32>) -> Vec<f32> {
        let mut full = vec![0.0; x.n() * x.cols()];
        for i in 0..x.n() {
            let (columns, values) = x.row(i);
            columns.iter().zip(values).for_each(|(c, v)| full[i * x.cols() + *c as usize] = *v);
        }
        full
    }

    fn normal(n: usize, columns: usize) -> Vec<f32> {
        let mut stream = Stream::new(2, &["test"]);
        // Columns of different size, so that variances are apart.
        (0..n * columns).map(|at| (stream.normal() * (1.0 + (at % columns) as f64)) as f32).collect()
    }

    fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
        assert_eq!(a.len(), b.len());
        let worst = a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(worst < tolerance, "differs by {worst}");
    }

    #[test]
    fn a_small_example_is_as_by_hand() {
        // Points (1,1), (2,2), (3,3), (2,1), (2,3) around the mean (2,2): the centred square is [[2,2],[2,4]], whose
        // eigenvalues are 3 ± √5. With φ = (1 + √5)/2 the larger has the direction (1, φ), normalised by √(1 + φ²).
        let x = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 1.0, 2.0, 3.0];
        let found = components(Table::Dense(&x, 2), 2).unwrap();
        let root = 5f64.sqrt();
        assert_close(&found.variances, &[(3.0 + root) / 4.0, (3.0 - root) / 4.0], 1e-14);
        assert!((found.total - 1.5).abs() < 1e-14);
        let phi = (1.0 + root) / 2.0;
        let length = (1.0 + phi * phi).sqrt();
        // The second direction is (φ, −1): its largest entry is positive.
        let score = |a: f64, b: f64| [(a + phi * b) / length, (phi * a - b) / length];
        let expected =
            [score(-1.0, -1.0), score(0.0, 0.0), score(1.0, 1.0), score(0.0, -1.0), score(0.0, 1.0)].concat();
        assert_close(&found.scores, &expected, 1e-14);
    }

    #[test]
    fn scores_are_uncorrelated_and_their_variances_descend() {
        for (n, columns, d) in [(40, 7, 5), (9, 30, 8), (20, 20, 12)] {
            let found = components(Table::Dense(&normal(n, columns), columns), d).unwrap();
            assert!(found.variances.windows(2).all(|w| w[0] >= w[1]) && found.variances[d - 1] > 0.0);
            for i in 0..d {
                for j in 0..d {
                    let sum: f64 = found.scores.chunks(d).map(|row| row[i] * row[j]).sum();
                    let expected = if i == j { found.variances[i] } else { 0.0 };
                    assert!((sum / (n - 1) as f64 - expected).abs() < 1e-10, "{n} × {columns}: {i}, {j}");
                }
                let mean: f64 = found.scores.chunks(d).map(|row| row[i]).sum();
                assert!(mean.abs() < 1e-10);
            }
        }
    }

    #[test]
    fn what_is_lost_is_the_variance_of_the_components_left_out() {
        // Distances between centred rows, which all components keep: Σ|x_c|² − Σ|t|² is what the dropped ones have.
        for (n, columns, d) in [(30, 10, 4), (10, 30, 4)] {
            let x = normal(n, columns);
            let all = components(Table::Dense(&x, columns), n.min(columns)).unwrap();
            let some = components(Table::Dense(&x, columns), d).unwrap();
            let kept: f64 = some.scores.iter().map(|t| t * t).sum::<f64>() / (n - 1) as f64;
            assert!((all.total - kept - all.variances[d..].iter().sum::<f64>()).abs() < 1e-10);
            let first: Vec<f64> = all.scores.chunks(n.min(columns)).flat_map(|row| &row[..d]).copied().collect();
            assert_close(&some.scores, &first, 1e-10);
            // All components together are a rotation: inner products of rows stay.
            let centred = Centred::new(Table::Dense(&x, columns));
            let gram = centred.outer();
            for i in 0..n {
                for j in 0..n {
                    let d = n.min(columns);
                    let product: f64 = (0..d).map(|c| all.scores[i * d + c] * all.scores[j * d + c]).sum();
                    assert!((gram[i * n + j] - product).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn the_largest_loading_is_positive() {
        for (n, columns) in [(30, 8), (8, 30)] {
            let x = normal(n, columns);
            let found = components(Table::Dense(&x, columns), 6).unwrap();
            let centred = Centred::new(Table::Dense(&x, columns));
            // V = X_cᵀ T Λ⁻¹.
            let columns_of_t = transposed(&found.scores, n, 6);
            let loadings = transposed(&centred.transposed_times(&columns_of_t, 6), columns, 6);
            for loading in loadings.chunks(columns) {
                let largest =
                    loading.iter().copied().fold(0.0, |most: f64, x| if x.abs() > most.abs() { x } else { most });
                assert!(largest > 0.0, "{loading:?}");
            }
        }
    }

    #[test]
    fn sparse_and_dense_matrices_and_both_squares_agree() {
        for (n, columns) in [(60, 25), (25, 60)] {
            let sparse = random(n, columns, 0.2, 7);
            let columns = columns as usize;
            let full = filled(&sparse);
            let (a, b) = (
                components(Table::Sparse(&sparse), 10).unwrap(),
                components(Table::Dense(&full, columns), 10).unwrap(),
            );
            assert_close(&a.scores, &b.scores, 1e-9);
            assert_close(&a.variances, &b.variances, 1e-9);
            assert!((a.total - b.total).abs() < 1e-9);
            // Columns of zeros change nothing but the square that is decomposed.
            let wide = 100;
            let padded: Vec<f32> =
                full.chunks(columns).flat_map(|row| [row, &vec![0.0; wide - columns]].concat()).collect();
            assert_close(&components(Table::Dense(&padded, wide), 10).unwrap().scores, &a.scores, 1e-9);
        }
    }

    #[test]
    fn components_without_variance_are_zero() {
        // Rank one: every column is a multiple of the first. Dense and sparse, high and wide.
        for (n, columns) in [(12usize, 4usize), (4, 12)] {
            let x: Vec<f32> = (0..n * columns).map(|at| ((1 + at / columns) * (1 + at % columns)) as f32).collect();
            let indices = (0..n).flat_map(|_| 0..u32::try_from(columns).unwrap()).collect();
            let indptr = (0..=n).map(|i| (i * columns) as u64).collect();
            let sparse = Csr::rectangular(n, columns, indptr, indices, x.clone()).unwrap();
            for table in [Table::Dense(&x, columns), Table::Sparse(&sparse)] {
                let found = components(table, 3).unwrap();
                assert!(found.variances[0] > 1.0 && found.variances[1..] == [0.0, 0.0]);
                assert!(found.scores.chunks(3).all(|row| row[1].to_bits() == 0 && row[2].to_bits() == 0));
            }
        }
        let constant = components(Table::Dense(&[0.1; 30], 3), 2).unwrap();
        assert!(constant.scores.iter().all(|t| *t == 0.0) && constant.variances == [0.0; 2]);
    }

    #[test]
    fn a_value_that_is_not_finite_is_an_error_and_an_empty_matrix_is_none() {
        let x = [1.0, f32::NAN, 2.0, 3.0];
        let found = components(Table::Dense(&x, 2), 1);
        assert!(found.is_err() || found.is_ok_and(|c| c.scores.iter().any(|t| t.is_nan())));
        assert!(components(Table::Dense(&[], 0), 1).unwrap().scores.is_empty());
    }

    /// Not a check but a measurement: the features of Cora-Full in size and density.
    #[test]
    #[ignore = "measures time: minutes"]
    fn time_of_500_components_of_a_large_matrix() {
        let x = random(19_793, 8_710, 0.0066, 1);
        let start = std::time::Instant::now();
        let found = components(Table::Sparse(&x), 500).unwrap();
        let share = found.variances.iter().sum::<f64>() / found.total;
        eprintln!("19793 × 8710: {:?}, {share:.3} of the variance", start.elapsed());
    }

    #[test]
    fn threads_do_not_change_a_byte() {
        let sparse = random(500, 300, 0.1, 3);
        let dense = normal(700, 150);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let tables = [Table::Sparse(&sparse), Table::Dense(&dense, 150), Table::Dense(&dense, 1000)];
                tables.map(|table| components(table, 20).unwrap())
            })
        };
        let one = with(1);
        assert!(one == with(2) && one == with(3));
    }
}
