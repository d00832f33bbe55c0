//! Principal components of the rows of a matrix X (n × F): T = X_c·V, with X_c = X − 1·μᵀ and μ the means of the columns,
//! or μ = 0: then T = X·V are the columns of a singular value decomposition, scaled by their singular values.
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

/// What is subtracted from the columns first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Centre {
    /// Their means.
    Means,
    /// Nothing.
    Origin,
}

/// Returns the `d` first components, or all of them where there are fewer.
///
/// # Errors
/// [`EigenError::Dense`], also if a value is not finite, and [`EigenError::Memory`].
pub fn components(table: Table, centre: Centre, d: usize) -> Result<Components, EigenError> {
    let x = Centred::new(table, centre);
    let (n, features) = (x.n, x.mean.len());
    let by_rows = features > n;
    let m = n.min(features);
    // The solver needs at least one row.
    if m == 0 || d == 0 {
        return Ok(Components { scores: Vec::new(), variances: Vec::new(), total: 0.0 });
    }
    let square = if by_rows { x.outer() } else { x.inner() };
    let trace: f64 = square.iter().step_by(m + 1).sum();
    // Not every solver notices, and no score of such a matrix means anything.
    if !trace.is_finite() {
        return Err(EigenError::Dense { nodes: m });
    }
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
    // Not the plain product: it would leave −0 where a component has no variance.
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
    fn new(table: Table, centre: Centre) -> Self {
        let weight = if centre == Centre::Means { 1.0 } else { 0.0 };
        let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 rows")]
        let over =
            |sums: Vec<f64>, n: usize| sums.into_iter().map(|sum| weight * sum / n.max(1) as f64).collect::<Vec<_>>();
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
mod tests;
