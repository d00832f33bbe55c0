//! Operations that candle does not have, or has slower, each with its own backward pass.
//!
//! All of them take *lanes*: a tensor is lanes × nodes × columns, a lane is one split (and seed) of a batch, and no lane
//! sees another. A lane's numbers have the same bytes whoever rides along. [`Wide`] carries the training side and the
//! evaluation side, which an operation computes in one pass.
//!
//! On a CUDA card an operation that is one kernel has it beside the loop of the processor (`cuda_fwd`); the others leave on
//! their first line for a function of the same name in `cuda.rs`. Products are cuBLAS's there, which chooses by shape: a
//! lane's numbers then are the same up to rounding whoever rides along, and of the same bytes in the same batch.

/// Goes the way of a card if a tensor is on one: `on_card!(tensor => the operation's result)`.
macro_rules! on_card {
    ($tensor:expr => $result:expr) => {
        #[cfg(feature = "cuda")]
        if $tensor.device().is_cuda() {
            return $result;
        }
    };
}

mod affine;
#[cfg(feature = "cuda")]
mod cuda;
mod dropout;
mod entropy;
mod filter;
mod first;
mod propagate;
mod response;
mod shift;
mod side_by_side;
mod tape;
#[cfg(test)]
mod tests;
mod wide;

pub use affine::{affine, product};
pub use dropout::{LaneMasks, Mask, Masks};
pub(crate) use dropout::{drop, rectify};
pub use entropy::{Judgement, Score, Targets, judge};
pub use filter::{Eigenvectors, filter};
pub(crate) use first::{LayerWeights, PassMasks, layers};
pub use propagate::{Basis, Propagator, polynomial, propagate};
pub use response::Response;
pub use shift::{add, shift};
pub(crate) use tape::{Gradients, Tape};
pub(crate) use wide::Eval;
pub use wide::Wide;
