//! Dense decompositions of a whole symmetric matrix.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par};

use super::super::csr::Csr;
use super::EigenError;

/// Pieces that the work of a large decomposition is cut into.
const PIECES: usize = 4;
/// Rows up to which a decomposition is not worth several threads.
const SEQUENTIAL: usize = 300;

/// Ascending eigenvalues, and eigenvectors one after the other.
pub(in super::super) type Full = (Vec<f64>, Vec<f64>);

/// Bytes that a decomposition of `n` rows takes at a time: the matrix, its vectors, and the scratch of the solver.
pub(super) fn bytes(n: usize) -> u64 {
    4 * 8 * (n as u64).pow(2)
}

fn zeros(n: usize, length: usize) -> Result<Vec<f64>, EigenError> {
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| EigenError::Memory { nodes: n })?;
    values.resize(length, 0.0);
    Ok(values)
}

/// All entries of a matrix: column-major, and equally row-major, as it is symmetric.
pub(super) fn entries(a: &Csr) -> Result<Vec<f64>, EigenError> {
    let n = a.n();
    let mut full = zeros(n, n * n)?;
    for i in 0..n {
        let (columns, values) = a.row(i);
        columns.iter().zip(values).for_each(|(c, v)| full[i * n + *c as usize] = *v);
    }
    Ok(full)
}

/// Decomposes a symmetric matrix of `n` rows, of which all entries are given.
///
/// Sequential: the order of additions, and with it the bytes, must not depend on the number of threads.
pub(in super::super) fn symmetric(full: &[f64], n: usize) -> Result<Full, EigenError> {
    decompose(full, n, Par::Seq)
}

/// As [`symmetric`], for a large matrix: work is cut into [`PIECES`] however many threads there are, so that the bytes do
/// not depend on their number.
pub(super) fn in_pieces(full: &[f64], n: usize) -> Result<Full, EigenError> {
    decompose(full, n, if n > SEQUENTIAL { Par::rayon(PIECES) } else { Par::Seq })
}

fn decompose(full: &[f64], n: usize, par: Par) -> Result<Full, EigenError> {
    let (mut values, mut vectors) = (vec![0f64; n], zeros(n, n * n)?);
    let need = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, par, Default::default());
    let mut scratch = MemBuffer::try_new(need).map_err(|_| EigenError::Memory { nodes: n })?;
    self_adjoint_evd(
        MatRef::from_column_major_slice(full, n, n),
        faer::diag::DiagMut::from_slice_mut(&mut values),
        Some(MatMut::from_column_major_slice_mut(&mut vectors, n, n)),
        par,
        MemStack::new(&mut scratch),
        Default::default(),
    )
    .map_err(|_| EigenError::Dense { nodes: n })?;
    Ok((values, vectors))
}

/// As [`symmetric`], with LAPACK.
#[cfg(feature = "lapack")]
pub(super) fn with_lapack(full: Vec<f64>, n: usize) -> Result<Full, EigenError> {
    use ndarray_linalg::{Eigh, UPLO};
    let full = ndarray::Array2::from_shape_vec((n, n), full).map_err(|_| EigenError::Memory { nodes: n })?;
    let (values, vectors) = full.eigh(UPLO::Lower).map_err(|_| EigenError::Dense { nodes: n })?;
    Ok((values.to_vec(), vectors.columns().into_iter().flatten().copied().collect()))
}

/// This build has no LAPACK.
#[cfg(not(feature = "lapack"))]
pub(super) fn with_lapack(_: Vec<f64>, _: usize) -> Result<Full, EigenError> {
    Err(EigenError::Unavailable)
}
