//! Eigenpairs of a symmetric sparse matrix A (n × n) from both ends of its spectrum, A uⱼ = λⱼ uⱼ.
//!
//! The solvers are dense and in f64. Three rules make their output canonical:
//!
//! - Pairs are sorted by descending eigenvalue.
//! - Sign: the first entry whose magnitude is within 1e-6 (relative) of its vector's largest is positive.
//! - Eigenvalue 1 of a normalised adjacency has one dimension a connected component, and any basis of that space is
//!   right. We store u_S(i) = √rᵢ / √(Σ_{j∈S} rⱼ) for i in component S and 0 elsewhere, where rᵢ counts the entries of
//!   row i (degree, plus one with self-loops); larger components come first, ties by the smallest node. A matrix whose
//!   components do not have these eigenvectors is left as the solver has it.
//!
//! Any other repeated eigenvalue keeps the basis of the solver.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::csr::Csr;

/// Entries this near to a vector's largest may decide its sign.
const SIGN_TOLERANCE: f64 = 1e-6;
/// How far an eigenvalue may be from 1, and a residual from 0, to be that of a component.
const UNIT_TOLERANCE: f64 = 1e-9;
/// How far two mirrored entries may differ.
const SYMMETRY_TOLERANCE: f64 = 1e-12;

/// A dense solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// Pure Rust.
    Faer,
    /// LAPACK's `syev`, with the feature `lapack`.
    Lapack,
}

/// Eigenpairs, sorted by descending eigenvalue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Eigenvalues.
    pub values: Vec<f64>,
    /// Eigenvectors, one after the other: pairs × n.
    pub vectors: Vec<f64>,
}

/// Why there are no eigenpairs.
#[derive(Debug, thiserror::Error)]
pub enum EigenError {
    /// An entry is NaN or infinite.
    #[error("entry ({row}, {column}) of the operator is not finite")]
    NotFinite {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// An entry differs from its mirror image.
    #[error("the operator is not symmetric at ({row}, {column})")]
    NotSymmetric {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// The solver gave up.
    #[error("the eigen-solver did not converge")]
    NoConvergence,
    /// The dense matrices do not fit.
    #[error("not enough memory for a dense eigenproblem of {n} nodes")]
    Memory {
        /// Rows of the matrix.
        n: usize,
    },
    /// This build has no such solver.
    #[error("this build has no LAPACK solver")]
    Unavailable,
}

/// Returns the `k` pairs of the largest and the `k` of the smallest eigenvalues; `k` is clipped at ⌊n/2⌋.
///
/// # Errors
/// Any [`EigenError`].
pub fn ends(a: &Csr, k: usize, solver: Solver) -> Result<(Pairs, Pairs), EigenError> {
    check(a)?;
    let n = a.n();
    let k = k.min(n / 2);
    let (mut values, mut vectors) = match solver {
        Solver::Faer => with_faer(a)?,
        Solver::Lapack => with_lapack(a)?,
    };
    // Before the ends are cut off: with many components both ends may lie in the space of eigenvalue 1.
    separate_components(a, &mut values, &mut vectors);
    // The solvers sort ascending, so both sides are read backwards.
    let side = |columns: std::ops::Range<usize>| {
        let mut pairs = Pairs::default();
        for j in columns.rev() {
            pairs.values.push(values[j]);
            pairs.vectors.extend_from_slice(&vectors[j * n..(j + 1) * n]);
        }
        pairs
    };
    let (mut low, mut high) = (side(n - k..n), side(0..k));
    for side in [&mut low, &mut high] {
        side.vectors.chunks_exact_mut(n.max(1)).for_each(fix_sign);
    }
    Ok((low, high))
}

/// Returns the largest ‖Au − λu‖₂ over all pairs and the largest entry of |UᵀU − I| over both sides together.
pub fn quality(a: &Csr, low: &Pairs, high: &Pairs) -> (f64, f64) {
    let n = a.n();
    let mut residual = 0f64;
    for side in [low, high] {
        for (lambda, u) in side.values.iter().zip(side.vectors.chunks_exact(n.max(1))) {
            residual = worst(residual, distance(a, *lambda, u));
        }
    }
    let u = [&low.vectors[..], &high.vectors[..]].concat();
    let pairs = low.values.len() + high.values.len();
    let mut gram = vec![0f64; pairs * pairs];
    // u: n × pairs, column-major.
    let u = MatRef::from_column_major_slice(&u, n, pairs);
    let into = MatMut::from_column_major_slice_mut(&mut gram, pairs, pairs);
    matmul(into, Accum::Replace, u.transpose(), u, 1.0, Par::Seq);
    let overlap = gram.iter().enumerate().fold(0f64, |most, (at, product)| {
        let identity = if at / pairs == at % pairs { 1.0 } else { 0.0 };
        worst(most, (product - identity).abs())
    });
    (residual, overlap)
}

/// The larger of two errors; unlike `max`, NaN is the largest of all.
fn worst(a: f64, b: f64) -> f64 {
    if b.is_nan() || b > a { b } else { a }
}

fn check(a: &Csr) -> Result<(), EigenError> {
    for row in 0..a.n() {
        let (columns, values) = a.row(row);
        for (column, value) in columns.iter().map(|c| *c as usize).zip(values) {
            if !value.is_finite() {
                return Err(EigenError::NotFinite { row, column });
            }
            let (mirrored, mirror_values) = a.row(column);
            let mirror = mirrored.binary_search_by_key(&row, |c| *c as usize).map_or(0.0, |at| mirror_values[at]);
            if (value - mirror).abs() > SYMMETRY_TOLERANCE {
                return Err(EigenError::NotSymmetric { row, column });
            }
        }
    }
    Ok(())
}

fn zeros(n: usize, length: usize) -> Result<Vec<f64>, EigenError> {
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| EigenError::Memory { n })?;
    values.resize(length, 0.0);
    Ok(values)
}

/// Column-major (equally row-major: it is symmetric).
fn dense(a: &Csr) -> Result<Vec<f64>, EigenError> {
    let n = a.n();
    let mut full = zeros(n, n * n)?;
    for i in 0..n {
        let (columns, values) = a.row(i);
        columns.iter().zip(values).for_each(|(c, v)| full[i * n + *c as usize] = *v);
    }
    Ok(full)
}

/// Ascending eigenvalues, and eigenvectors one after the other.
pub(super) type Full = (Vec<f64>, Vec<f64>);

fn with_faer(a: &Csr) -> Result<Full, EigenError> {
    symmetric(&dense(a)?, a.n())
}

/// Decomposes a symmetric matrix of `n` rows, of which all entries are given.
///
/// Always sequential: the order of additions, and with it the bytes, must not depend on the number of threads.
pub(super) fn symmetric(full: &[f64], n: usize) -> Result<Full, EigenError> {
    let (mut values, mut vectors) = (vec![0f64; n], zeros(n, n * n)?);
    let need = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let mut scratch = MemBuffer::try_new(need).map_err(|_| EigenError::Memory { n })?;
    self_adjoint_evd(
        MatRef::from_column_major_slice(full, n, n),
        faer::diag::DiagMut::from_slice_mut(&mut values),
        Some(MatMut::from_column_major_slice_mut(&mut vectors, n, n)),
        Par::Seq,
        MemStack::new(&mut scratch),
        Default::default(),
    )
    .map_err(|_| EigenError::NoConvergence)?;
    Ok((values, vectors))
}

#[cfg(feature = "lapack")]
fn with_lapack(a: &Csr) -> Result<Full, EigenError> {
    use ndarray_linalg::{Eigh, UPLO};
    let n = a.n();
    let full = ndarray::Array2::from_shape_vec((n, n), dense(a)?).map_err(|_| EigenError::Memory { n })?;
    let (values, vectors) = full.eigh(UPLO::Lower).map_err(|_| EigenError::NoConvergence)?;
    Ok((values.to_vec(), vectors.columns().into_iter().flatten().copied().collect()))
}

#[cfg(not(feature = "lapack"))]
fn with_lapack(_: &Csr) -> Result<Full, EigenError> {
    Err(EigenError::Unavailable)
}

fn fix_sign(vector: &mut [f64]) {
    if is_negative(vector) {
        vector.iter_mut().for_each(|x| *x = -*x);
    }
}

/// Returns whether the entry that decides the sign of a vector is negative.
pub(super) fn is_negative(vector: &[f64]) -> bool {
    let largest = vector.iter().fold(0f64, |m, x| m.max(x.abs()));
    let decides = vector.iter().find(|x| x.abs() >= largest * (1.0 - SIGN_TOLERANCE));
    decides.is_some_and(|x| *x < 0.0)
}

/// ‖Au − λu‖₂.
fn distance(a: &Csr, lambda: f64, u: &[f64]) -> f64 {
    let squares = (0..a.n()).map(|i| {
        let (columns, values) = a.row(i);
        let product: f64 = columns.iter().zip(values).map(|(c, v)| v * u[*c as usize]).sum();
        (product - lambda * u[i]).powi(2)
    });
    squares.sum::<f64>().sqrt()
}

/// Replaces the vectors of eigenvalue 1, the last of an ascending spectrum, by those of the connected components (see
/// the module documentation).
fn separate_components(a: &Csr, values: &mut [f64], vectors: &mut [f64]) {
    let n = a.n();
    let components = components(a);
    let first = n - components.len();
    if values[first..].iter().any(|lambda| (lambda - 1.0).abs() > UNIT_TOLERANCE) {
        return;
    }
    let mut canonical = vec![0f64; components.len() * n];
    // The largest component is the last in ascending order, and the first of the low end.
    for (component, vector) in components.iter().rev().zip(canonical.chunks_exact_mut(n.max(1))) {
        #[expect(clippy::cast_precision_loss, reason = "a row has far fewer than 2^53 entries")]
        let entries = |i: &u32| a.row(*i as usize).0.len() as f64;
        let total: f64 = component.iter().map(entries).sum();
        component.iter().for_each(|i| vector[*i as usize] = (entries(i) / total).sqrt());
        if distance(a, 1.0, vector) > UNIT_TOLERANCE {
            return;
        }
    }
    values[first..].fill(1.0);
    vectors[first * n..].copy_from_slice(&canonical);
}

/// Connected components that have an entry, largest first, ties by the smallest node; nodes ascending.
fn components(a: &Csr) -> Vec<Vec<u32>> {
    let mut seen = vec![false; a.n()];
    let mut found = Vec::new();
    for start in (0u32..).take(a.n()) {
        if seen[start as usize] || a.row(start as usize).0.is_empty() {
            continue;
        }
        seen[start as usize] = true;
        let mut component = vec![start];
        let mut next = 0;
        while let Some(&node) = component.get(next) {
            next += 1;
            for &neighbour in a.row(node as usize).0 {
                if !std::mem::replace(&mut seen[neighbour as usize], true) {
                    component.push(neighbour);
                }
            }
        }
        component.sort_unstable();
        found.push(component);
    }
    // Stable: components were found by their smallest node.
    found.sort_by_key(|c| std::cmp::Reverse(c.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::random::Stream;

    fn csr(n: usize, entries: impl Iterator<Item = (usize, usize, f64)>) -> Csr {
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|e| (e.0, e.1));
        let indptr = (0..=n).map(|i| entries.iter().filter(|e| e.0 < i).count() as u64).collect();
        let columns = entries.iter().map(|e| u32::try_from(e.1).unwrap()).collect();
        Csr::new(n, indptr, columns, entries.iter().map(|e| e.2).collect()).unwrap()
    }

    /// Adjacency of undirected edges, unnormalised.
    fn adjacency(n: usize, edges: &[(usize, usize)]) -> Csr {
        csr(n, edges.iter().flat_map(|&(a, b)| [(a, b, 1.0), (b, a, 1.0)]))
    }

    fn assert_values(low: &Pairs, high: &Pairs, mut expected: Vec<f64>) {
        expected.sort_by(|a, b| b.total_cmp(a));
        let k = low.values.len();
        let ends = expected[..k].iter().chain(&expected[expected.len() - k..]);
        for (found, wanted) in low.values.iter().chain(&high.values).zip(ends) {
            assert!((found - wanted).abs() < 1e-10, "{found} is not {wanted}");
        }
    }

    #[test]
    fn spectra_of_path_cycle_complete_graph_and_star_are_those_of_the_textbook() {
        use std::f64::consts::PI;
        let n = 8usize;
        let path: Vec<_> = (1..n).map(|i| (i - 1, i)).collect();
        let mut cycle = path.clone();
        cycle.push((0, n - 1));
        let complete: Vec<_> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
        let star: Vec<_> = (1..n).map(|i| (0, i)).collect();
        // Eigenvalues of adjacency matrices: Brouwer & Haemers, Spectra of Graphs, section 1.4.
        let wave = |i: usize, over: usize| 2.0 * (PI * i as f64 / over as f64).cos();
        let expected = [
            (path, (1..=n).map(|i| wave(i, n + 1)).collect::<Vec<_>>()),
            (cycle, (0..n).map(|i| wave(2 * i, n)).collect()),
            (complete, [vec![(n - 1) as f64], vec![-1.0; n - 1]].concat()),
            (star, [vec![7f64.sqrt(), -7f64.sqrt()], vec![0.0; n - 2]].concat()),
        ];
        for (edges, values) in expected {
            let (low, high) = ends(&adjacency(n, &edges), n, Solver::Faer).unwrap();
            assert_values(&low, &high, values);
        }
    }

    #[test]
    fn both_ends_may_lie_in_the_space_of_eigenvalue_one() {
        // Six lone nodes with self-loops: every eigenvalue is 1, and no vector may stand at both ends.
        let a = csr(6, (0..6).map(|i| (i, i, 1.0)));
        let (low, high) = ends(&a, 3, Solver::Faer).unwrap();
        let (residual, overlap) = quality(&a, &low, &high);
        assert!(residual < 1e-12 && overlap < 1e-12, "{residual} {overlap}");
    }

    /// D^{-1/2} A D^{-1/2} of a triangle {1, 3, 5}, an edge {0, 4} and a lone node 2.
    fn pieces() -> Csr {
        let triangle = [(1, 3), (1, 5), (3, 5)].map(|(a, b)| (a, b, 0.5));
        let all: Vec<_> = triangle.into_iter().chain([(0, 4, 1.0)]).collect();
        csr(6, all.into_iter().flat_map(|(a, b, v)| [(a, b, v), (b, a, v)]))
    }

    #[test]
    fn eigenvalue_one_has_a_vector_a_component_largest_first() {
        let (low, high) = ends(&pieces(), 3, Solver::Faer).unwrap();
        // Triangle: 1, −½, −½; edge: 1, −1; lone node: 0.
        assert_values(&low, &high, vec![1.0, 1.0, 0.0, -0.5, -0.5, -1.0]);
        let (third, half) = (1.0 / 3f64.sqrt(), 0.5f64.sqrt());
        let expected = [[0.0, third, 0.0, third, 0.0, third], [half, 0.0, 0.0, 0.0, half, 0.0]].concat();
        for (found, wanted) in low.vectors.iter().zip(expected) {
            assert!((found - wanted).abs() < 1e-15);
        }
        let (residual, overlap) = quality(&pieces(), &low, &high);
        assert!(residual < 1e-12 && overlap < 1e-12);
    }

    fn random_symmetric(n: usize, seed: u64) -> Csr {
        let mut stream = Stream::new(seed, &["test", "symmetric"]);
        let mut upper: Vec<_> = (0..n).flat_map(|i| (i..n).map(move |j| (i, j))).collect();
        upper.retain(|_| stream.uniform() < 0.4);
        let valued: Vec<_> = upper.into_iter().map(|(i, j)| (i, j, stream.normal())).collect();
        let mirrored = valued.clone().into_iter().filter(|(i, j, _)| i != j).map(|(i, j, v)| (j, i, v));
        csr(n, valued.into_iter().chain(mirrored))
    }

    #[test]
    fn all_pairs_rebuild_the_matrix_and_are_orthonormal() {
        for seed in 0..20 {
            let n = 2 * (1 + seed as usize);
            let a = random_symmetric(n, seed);
            let (low, high) = ends(&a, n / 2, Solver::Faer).unwrap();
            let (residual, overlap) = quality(&a, &low, &high);
            assert!(residual < 1e-12 && overlap < 1e-12, "{residual} {overlap}");
            let full = dense(&a).unwrap();
            let pairs = || [&low, &high].into_iter().flat_map(|s| s.values.iter().zip(s.vectors.chunks(n)));
            for (at, wanted) in full.iter().enumerate() {
                let found: f64 = pairs().map(|(lambda, u)| lambda * u[at / n] * u[at % n]).sum();
                assert!((found - wanted).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn an_entry_of_largest_magnitude_is_positive() {
        let (low, high) = ends(&random_symmetric(31, 5), 15, Solver::Faer).unwrap();
        for u in low.vectors.chunks(31).chain(high.vectors.chunks(31)) {
            let largest = u.iter().fold(0f64, |m, x| m.max(x.abs()));
            let first = u.iter().find(|x| x.abs() >= largest * (1.0 - 1e-6)).unwrap();
            assert!(*first > 0.0);
        }
    }

    #[test]
    fn an_asymmetric_or_infinite_matrix_is_refused() {
        let lopsided = csr(2, [(0, 1, 1.0)].into_iter());
        assert!(matches!(ends(&lopsided, 1, Solver::Faer), Err(EigenError::NotSymmetric { row: 0, column: 1 })));
        let infinite = csr(2, [(1, 1, f64::INFINITY)].into_iter());
        assert!(matches!(ends(&infinite, 1, Solver::Faer), Err(EigenError::NotFinite { row: 1, column: 1 })));
    }

    #[cfg(feature = "lapack")]
    #[test]
    fn both_solvers_span_the_same_spaces() {
        let a = random_symmetric(40, 3);
        let (low, _) = ends(&a, 10, Solver::Faer).unwrap();
        let (other, _) = ends(&a, 10, Solver::Lapack).unwrap();
        for (x, y) in low.values.iter().zip(&other.values) {
            assert!((x - y).abs() < 1e-10);
        }
        // ‖UᵀV‖²_F is the dimension exactly when the spaces agree.
        let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(x, y)| x * y).sum::<f64>();
        let shared: f64 =
            low.vectors.chunks(40).flat_map(|u| other.vectors.chunks(40).map(move |v| dot(u, v).powi(2))).sum();
        assert!((shared - 10.0).abs() < 1e-10, "{shared}");
    }
}
