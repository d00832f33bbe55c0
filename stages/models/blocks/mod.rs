//! What models are built from: layers, filters and the operations under them, one small file each.

mod bins;
mod boundary;
mod coefficients;
mod dropout;
mod fixed_product;
mod host;
mod linear;
mod perceptron;
mod propagate;
mod spectral;

pub use bins::{Bins, Partition};
pub use boundary::Boundary;
pub use coefficients::{Init, Scheme};
pub use dropout::{Mask, drop};
pub use fixed_product::fixed_product;
pub use linear::Linear;
pub use perceptron::{Pass, Perceptron};
pub use propagate::{polynomial, propagate};
pub use spectral::{filter, vandermonde};
