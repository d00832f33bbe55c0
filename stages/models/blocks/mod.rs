//! What models are built from: layers and filters, one small file each.

mod bernstein;
mod bins;
mod boundary;
mod coefficients;
mod linear;
mod perceptron;

pub use bernstein::{bernstein, to_chebyshev};
pub use bins::Partition;
pub use boundary::Boundary;
pub use coefficients::{Init, Scheme};
pub use linear::{Linear, Names};
pub use perceptron::Perceptron;
