//! What models are built from: layers, filters and the operations under them, one small file each.

mod bins;
mod boundary;
mod coefficients;
mod dropout;
mod host;
mod linear;
mod perceptron;
mod product;
mod propagate;
mod sparse;
mod spectral;

pub use bins::{Bins, Partition};
pub use boundary::Boundary;
pub use coefficients::{Init, Scheme};
pub use dropout::{Mask, drop, rectify};
pub use linear::Linear;
pub use perceptron::{Pass, Perceptron};
pub use product::{affine, affine_fixed, fixed_product};
pub use propagate::{polynomial, propagate};
pub use sparse::{SparseView, affine_sparse};
pub use spectral::{filter, vandermonde};
