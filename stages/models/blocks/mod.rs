//! What models are built from: layers and filters, one small file each.

mod batch_norm;
mod bernstein;
mod bins;
mod boundary;
mod cap;
mod coefficients;
mod convolution;
mod linear;
mod perceptron;

pub use batch_norm::BatchNorm;
pub use bernstein::{bernstein, to_chebyshev};
pub use bins::Partition;
pub use boundary::Boundary;
pub use cap::within_cap;
pub use coefficients::{Init, Scheme};
pub use convolution::Convolution;
pub use linear::{Linear, Names};
pub use perceptron::{Perceptron, Rates};
