//! Arrays and numbers: sparse matrices, eigen-solvers, statistics, seeded random streams. No candle, no files, no
//! artifact kinds.

pub mod csr;
pub mod dense;
pub mod eigen;
pub mod kernels;
pub mod pca;
pub mod python_random;
pub mod random;
pub mod real;
pub mod sparse_product;
pub mod stats;
