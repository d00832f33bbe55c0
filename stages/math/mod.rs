//! Arrays and numbers: sparse matrices, eigen-solvers, seeded random streams. No candle, no files, no artifact kinds.

pub mod csr;
pub mod random;
