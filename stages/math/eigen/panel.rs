//! Kernels for blocks of vectors whose bytes do not depend on the number of threads.
//!
//! Two layouts: a *panel* holds [`WIDTH`] vectors by rows, n × WIDTH, so that a product with a sparse matrix reads whole
//! cache lines; everything else holds vectors one after the other, "by columns". Every result is cut into pieces whose
//! size follows from its shape, and each piece is computed by one thread in a fixed order.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::super::csr::{Csr, pieces};

/// Vectors of a panel: two cache lines per row.
pub(super) const WIDTH: usize = 16;
/// Entries of the matrix that make a task.
const TASK: usize = 1 << 15;
/// Rows of a dense product that make a task.
const LEAST_ROWS: usize = 256;
const MOST_ROWS: usize = 4096;

/// A symmetric sparse matrix, cut into ranges of rows of about equal work.
pub(super) struct Operator<'a> {
    matrix: &'a Csr,
    tasks: Vec<Range<usize>>,
}

impl<'a> Operator<'a> {
    pub fn new(matrix: &'a Csr) -> Self {
        Self { matrix, tasks: matrix.tasks(4, TASK) }
    }

    pub fn n(&self) -> usize {
        self.matrix.n()
    }

    /// out ← α·A·x + β·x + γ·out, for panels.
    pub fn step(&self, x: &[f64], out: &mut [f64], scales: [f64; 3]) {
        let arch = Arch::new();
        pieces(&self.tasks, out, WIDTH).into_par_iter().zip(&self.tasks).for_each(|(out, rows)| {
            arch.dispatch(RowRange { matrix: self.matrix, first: rows.start, x, out, scales });
        });
    }

    /// Returns A·X for vectors by columns.
    pub fn product(&self, x: &[f64]) -> Vec<f64> {
        let n = self.n();
        let mut out = vec![0f64; x.len()];
        out.par_chunks_mut(n * WIDTH).zip(x.par_chunks(n * WIDTH)).for_each(|(out, x)| {
            let mut product = vec![0f64; n * WIDTH];
            self.step(&to_panel(x, n), &mut product, [1.0, 0.0, 0.0]);
            from_panel(&product, n, out);
        });
        out
    }
}

/// A range of rows of a product, compiled for the widest registers there are.
struct RowRange<'a> {
    matrix: &'a Csr,
    first: usize,
    x: &'a [f64],
    out: &'a mut [f64],
    scales: [f64; 3],
}

impl WithSimd for RowRange<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [alpha, beta, gamma] = self.scales;
        let (x, _) = self.x.as_chunks::<WIDTH>();
        let (out, _) = self.out.as_chunks_mut::<WIDTH>();
        for (i, out) in (self.first..).zip(out) {
            let (columns, values) = self.matrix.row(i);
            let mut sum = [0f64; WIDTH];
            for (column, value) in columns.iter().zip(values) {
                let from = &x[*column as usize];
                for l in 0..WIDTH {
                    // Without an instruction for it, `mul_add` is a call.
                    sum[l] = if S::IS_SCALAR { value * from[l] + sum[l] } else { value.mul_add(from[l], sum[l]) };
                }
            }
            let own = &x[i];
            for l in 0..WIDTH {
                out[l] = alpha * sum[l] + beta * own[l] + gamma * out[l];
            }
        }
    }
}

/// Copies up to [`WIDTH`] vectors by columns into a panel; missing ones are zero.
pub(super) fn to_panel(x: &[f64], n: usize) -> Vec<f64> {
    let mut panel = vec![0f64; n * WIDTH];
    for (l, column) in x.chunks_exact(n).enumerate() {
        panel.chunks_exact_mut(WIDTH).zip(column).for_each(|(row, value)| row[l] = *value);
    }
    panel
}

/// Copies a panel into vectors by columns.
pub(super) fn from_panel(panel: &[f64], n: usize, x: &mut [f64]) {
    for (l, column) in x.chunks_exact_mut(n).enumerate() {
        panel.chunks_exact(WIDTH).zip(column).for_each(|(row, value)| *value = row[l]);
    }
}

/// Returns QᵀX by rows; Q: n × q and X: n × b by columns.
pub(super) fn inner(q: &[f64], x: &[f64], n: usize) -> Vec<f64> {
    let (count, b) = (q.len() / n, x.len() / n);
    let mut out = vec![0f64; count * b];
    if out.is_empty() {
        return out;
    }
    let tile = count.div_ceil(4).clamp(16, 128);
    let x = MatRef::from_column_major_slice(x, n, b);
    out.par_chunks_mut(tile * b).zip(q.par_chunks(tile * n)).for_each(|(out, q)| {
        let vectors = q.len() / n;
        let q = MatRef::from_column_major_slice(q, n, vectors);
        // A row of the result is a column of its transpose.
        let out = MatMut::from_column_major_slice_mut(out, b, vectors);
        matmul(out, Accum::Replace, x.transpose(), q, 1.0, Par::Seq);
    });
    out
}

/// X ← X − Q·C; Q: n × q and X: n × b by columns, C: q × b by rows.
pub(super) fn subtract(q: &[f64], c: &[f64], x: &mut [f64], n: usize) {
    let (count, b) = (q.len() / n, x.len() / n);
    if count == 0 || b == 0 {
        return;
    }
    let c = MatRef::from_row_major_slice(c, count, b);
    add_product(MatMut::from_column_major_slice_mut(x, n, b), Accum::Add, q, c, -1.0);
}

/// Returns Q·Y by columns; Q: n × q by columns, Y: q × w.
pub(super) fn rotate(q: &[f64], y: MatRef<'_, f64>, n: usize) -> Vec<f64> {
    let mut out = vec![0f64; n * y.ncols()];
    add_product(MatMut::from_column_major_slice_mut(&mut out, n, y.ncols()), Accum::Replace, q, y, 1.0);
    out
}

fn add_product(out: MatMut<'_, f64>, how: Accum, q: &[f64], y: MatRef<'_, f64>, scale: f64) {
    let n = out.nrows();
    let q = MatRef::from_column_major_slice(q, n, y.nrows());
    let rows = n.div_ceil(8).clamp(LEAST_ROWS, MOST_ROWS);
    let pieces = out.par_row_chunks_mut(rows).zip(q.par_row_chunks(rows));
    pieces.for_each(|(out, q)| matmul(out, how, q, y, scale, Par::Seq));
}

/// ‖x‖₂ of every vector.
pub(super) fn norms(x: &[f64], n: usize) -> Vec<f64> {
    x.par_chunks(n).map(|x| x.iter().map(|v| v * v).sum::<f64>().sqrt()).collect()
}
