//! The products that training spends its time in, each with an order of summation that depends on the data alone.
//!
//! [`tall`]: a fixed dense matrix times a few vectors (eigenvectors, layers). [`gather`]: a sparse matrix times rows
//! (features). [`hops`]: powers of a symmetric sparse matrix times a few vectors (propagation). [`gates`]: trained weights of
//! its entries. [`heads`]: rows of several heads, and [`attention`] on them. [`units`]: ReLU and ELU. [`columns`]: sums and
//! normalisation of columns. Kernels take slices and know nothing of tensors, graphs or models.

pub mod attention;
pub mod columns;
pub mod gates;
pub mod gather;
pub mod heads;
pub mod hops;
pub mod simd;
pub mod tall;
pub mod units;

pub use simd::{
    BLOCK, Vector, copy_strided, pad_rows, pad_transposed, padded, unpad_rows, with_padding, without_padding,
};
