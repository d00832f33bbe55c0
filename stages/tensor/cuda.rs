//! Kernels of our own on a GPU: thin, checked calls of what is in `stages/tensor/cuda/kernels.cu`.
//!
//! Tensors are f32, contiguous and lanes first: lanes × nodes × columns, where a lane is one data split of a batch. What
//! does not change during a training (sparse matrices, features, labels, keys of masks) is uploaded once into a type of
//! this module, which checks it: kernels check nothing. A call waits for nothing; only reading a result back does.
//!
//! Each sum has a fixed order, so the same inputs give the same bytes on the same GPU.
//!
//! Nothing here knows the driver but `driver.rs`, behind the layer of `launch.rs`; tests replace it by an emulation.

mod adam;
mod attention;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(test)]
pub mod emulated;
mod entries;
mod judged;
mod launch;
mod masks;
mod matrices;
#[cfg(feature = "cuda")]
mod opened;
mod pairs;
mod sums;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod together;

use std::fmt::Display;
use std::sync::OnceLock;

use candle_core::{DType, Error, Result, Tensor, bail};
use launch::{Arg, Call};

pub use adam::{Step, adam};
pub use attention::{Attended, Attention};
pub use entries::{Entries, Gates, Weighted};
pub use judged::Judged;
pub use launch::{Counts, is_gpu, on_cpu, product, read};
pub use masks::{Keys, Masks, dropout, rectify, rectify_backward};
pub use matrices::{Sparse, Terms, UploadedFeatures};
#[cfg(feature = "cuda")]
pub use opened::{Facts, open, try_out};
pub use pairs::{Pairs, pairs_backward};
pub use sums::{Dots, column_sums, combine, elu, elu_backward, keep_lanes, plus_bias};
pub use together::{apart, pair_dots, scaled_pairs, side_by_side};

/// Threads of a block; `TEAM` in the kernels.
const TEAM: u32 = 256;
/// Blocks of a lane at most: more than any GPU runs at a time. Tests go beyond it with small tensors.
const MOST_BLOCKS: usize = if cfg!(test) { 3 } else { 1 << 12 };

/// Returns what is made, or uploaded, when it is first asked for.
///
/// # Errors
/// Those of `make`.
pub fn once<T>(place: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match place.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(place.get_or_init(|| made))
        }
    }
}

/// Returns lanes, nodes and columns.
fn dims(tensor: &Tensor) -> Result<(usize, usize, usize)> {
    tensor.shape().dims3()
}

/// Returns a tensor whose values stand one after the other, after checking that it is of this type and has so many of them.
fn sized(tensor: &Tensor, dtype: DType, size: usize, what: &str) -> Result<Tensor> {
    if tensor.dtype() != dtype || tensor.elem_count() != size {
        let (found, count) = (tensor.dtype(), tensor.elem_count());
        bail!("`{what}` has {count} values of {found:?}, expected {size} of {dtype:?}");
    }
    tensor.contiguous()
}

/// The same for numbers in single precision.
fn floats(tensor: &Tensor, size: usize, what: &str) -> Result<Tensor> {
    sized(tensor, DType::F32, size, what)
}

/// Calls a kernel that makes one tensor, on as many blocks for each lane as `size` values need.
fn make(kernel: &'static str, (size, lanes): (usize, usize), args: &[Arg], out: &[usize]) -> Result<Tensor> {
    change(kernel, (size, lanes), args, &[], out)
}

/// The same for a kernel that changes some tensors besides.
fn change(
    kernel: &'static str,
    (size, lanes): (usize, usize),
    args: &[Arg],
    changes: &[&Tensor],
    out: &[usize],
) -> Result<Tensor> {
    let (blocks, lanes) = (blocks(size)?, small(lanes)?);
    let call = Call { kernel, blocks, lanes, args, changes, makes: &[(out, DType::F32)] };
    call.start()?.pop().ok_or_else(|| Error::msg("a kernel has made nothing"))
}

/// Blocks for `size` values of a lane.
fn blocks(size: usize) -> Result<u32> {
    small(size.div_ceil(TEAM as usize).min(MOST_BLOCKS))
}

/// Returns a size or a place as kernels count them.
fn small(size: impl Copy + Display + TryInto<u32>) -> Result<u32> {
    size.try_into().map_err(|_| Error::msg(format!("{size} is more than a kernel takes")))
}
