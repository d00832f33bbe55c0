//! Operations that candle does not have, or has slower, each with its own backward pass.
//!
//! All of them take *lanes*: a tensor is lanes × nodes × columns, a lane is one split (and seed) of a batch, and no lane
//! sees another. A lane's numbers have the same bytes whoever rides along. [`Wide`] carries the training side and the
//! evaluation side, which an operation computes in one pass.

pub(crate) mod affine;
mod dropout;
mod entropy;
mod filter;
mod first;
mod propagate;
mod response;
mod shift;
mod side_by_side;
mod tape;
mod wide;

pub use affine::{affine, product};
pub use dropout::{Mask, Masks};
pub(crate) use dropout::{drop, rectify};
pub use entropy::{Score, Targets};
pub use filter::{Eigenvectors, filter};
pub(crate) use first::{LayerWeights, PassMasks, layers};
pub use propagate::{Basis, Propagator, polynomial, propagate};
pub use response::Response;
pub use shift::{add, shift};
pub(crate) use tape::{Gradients, Tape};
pub(crate) use wide::Eval;
pub use wide::Wide;
