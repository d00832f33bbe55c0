//! Operations that candle does not have, or has slower, each with its own backward pass.
//!
//! All of them take *lanes*: a tensor is lanes × nodes × columns, a lane is one split (and seed) of a batch, and no lane
//! sees another. A lane's numbers have the same bytes in any batch. [`Sided`] carries the training side and the
//! evaluation side, which an operation computes in one pass. Operations are methods: of [`Sided`], or of the features
//! ([`Input`](super::Input)) where a model starts.
//!
//! An operation is a function over slices with a function for the way back, see `sided.rs`. Where its tensors are on a
//! GPU it leaves on its first line for the function of the same name in `cuda.rs`; there is no other dispatch. Products
//! are cuBLAS's there, which chooses by shape: a lane's numbers are then the same up to rounding in any batch, and of the
//! same bytes in the same batch.

/// Computes on the GPU if a tensor is on one: `on_gpu!(tensor => the operation's result)`.
macro_rules! on_gpu {
    ($tensor:expr => $result:expr) => {
        #[cfg(any(feature = "cuda", test))]
        if $crate::tensor::is_gpu($tensor.device()) {
            return $result;
        }
    };
}

mod attention;
mod batch_norm;
pub(super) mod candle_graph;
mod columns;
#[cfg(any(feature = "cuda", test))]
mod cuda;
mod dropout;
mod elu;
mod filter;
mod gated_sum;
mod hop_sum;
mod kept;
mod layers;
mod link_loss;
mod loss;
mod masks;
mod product;
mod propagate;
mod regroup;
mod response;
mod side_by_side;
mod sided;
mod sizes;
mod stacks;
mod sum;
mod tape;
#[cfg(test)]
mod tests;
mod units;

pub use attention::Merge;
pub use batch_norm::{Moments, Norm};
pub use filter::Eigenvectors;
pub use kept::{keep_lanes, lane_values};
pub(crate) use layers::{LayerWeights, PassMasks};
pub use link_loss::Links;
pub use loss::{LaneScore, PassScores, Targets, score_pass};
pub use masks::{LaneMasks, Mask, Masks};
pub use propagate::{Basis, Propagator};
pub use response::Response;
pub use sided::{AsTensor, Back, Gradient, Sided, operation};
pub use stacks::Stacks;
pub use tape::{Gradients, Sides, Tape};
