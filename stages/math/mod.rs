//! Arrays and numbers: sparse matrices, eigen-solvers, statistics, seeded random streams. No candle, no files, no
//! artifact kinds.
//!
//! A sparse matrix times a dense one stands here four times on purpose, since layout and rounding differ and with them the
//! bytes of results: `sparse_product` (plain sums, any width), `kernels::gather` (fused sums of padded rows, weights
//! apart), `kernels::hops` (the same with a recurrence) and `eigen::panel` (f64, eight columns).

pub mod csr;
pub mod dense;
pub mod eigen;
pub mod inference;
pub mod kernels;
pub mod least_squares;
pub mod pairs;
pub mod pca;
pub mod python_random;
pub mod random;
pub mod ranking;
pub mod real;
pub mod sparse_product;
pub mod sparse_times_sparse;
pub mod stats;
#[cfg(test)]
pub(crate) mod testing;
pub mod tsne;
pub mod two_hops;
