//! Kernels of our own on a GPU: thin, checked launches of what is in `stages/tensor/cuda/kernels.cu`.
//!
//! Tensors are f32, contiguous and lanes first: lanes × nodes × columns, where a lane is one data split of a batch. What
//! does not change during a training (sparse matrices, features, labels, keys of masks) is uploaded once into a type of
//! this module, which checks it: kernels check nothing. A launch waits for nothing; only reading a result back does.
//!
//! Each sum has a fixed order, so the same inputs give the same bytes on the same GPU.

mod adam;
mod judged;
mod masks;
mod matrices;

use std::fmt::Display;
use std::sync::OnceLock;

use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaView, DeviceRepr, LaunchArgs, LaunchConfig};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, Error, Layout, Result, Shape, Storage, Tensor, bail};

pub use adam::adam;
pub use judged::Judged;
pub use masks::{Keys, Masks, dropout, rectify, rectify_backward};
pub use matrices::{Sparse, UploadedFeatures};

/// What candle calls the kernels, and the kernels themselves, compiled by `build.rs`.
const MODULE: &str = "ppgnn";
const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
/// Threads of a block; `TEAM` in the kernels.
const TEAM: u32 = 256;
/// Blocks of a lane at most: more than any GPU runs at a time.
const MOST_BLOCKS: usize = 1 << 12;
/// A pointer to nothing.
const NULL: u64 = 0;

/// A tensor that is lent to a kernel.
pub type GpuTensor<'a> = (&'a CudaStorage, &'a Layout);

/// Lends tensors on a GPU to a kernel, contiguous.
///
/// # Errors
/// When a tensor is elsewhere, or the kernel refuses it.
pub fn lend<R, const N: usize>(tensors: [&Tensor; N], kernel: impl FnOnce([GpuTensor; N]) -> Result<R>) -> Result<R> {
    let whole: Vec<Tensor> = tensors.iter().map(|tensor| tensor.contiguous()).collect::<Result<_>>()?;
    let held: Vec<_> = whole.iter().map(Tensor::storage_and_layout).collect();
    let lent = held.iter().map(|(storage, layout)| match &**storage {
        Storage::Cuda(storage) => Ok((storage, *layout)),
        _ => bail!("a tensor on a GPU is needed here"),
    });
    let lent: Vec<GpuTensor> = lent.collect::<Result<_>>()?;
    kernel(std::array::from_fn(|i| lent[i]))
}

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

/// Returns the values of a contiguous tensor, of which there must be `size`.
fn values<'a, T: CudaDType>((storage, layout): GpuTensor<'a>, size: usize, what: &str) -> Result<CudaView<'a, T>> {
    let Some((first, end)) = layout.contiguous_offsets() else { bail!("`{what}` is not contiguous") };
    if end - first != size {
        bail!("`{what}` has {} values, expected {size}", end - first);
    }
    match storage.as_cuda_slice::<T>()?.try_slice(first..end) {
        Some(view) => Ok(view),
        None => bail!("`{what}` ends before its layout does"),
    }
}

/// Returns lanes, nodes and columns.
fn dims(layout: &Layout) -> Result<(usize, usize, usize)> {
    layout.shape().dims3()
}

/// Memory for a result. Every kernel writes all of it.
#[expect(unsafe_code, reason = "clearing what is about to be overwritten would cost a pass over memory")]
fn room<T: DeviceRepr>(device: &CudaDevice, size: usize) -> Result<CudaSlice<T>> {
    // SAFETY: the callers are in this module and below it, and hand the memory to a kernel that writes `size` values before anybody reads.
    unsafe { device.alloc::<T>(size) }
}

/// Starts a kernel on `blocks` blocks for each of `lanes` lanes.
#[expect(unsafe_code, reason = "there is no other way to start a kernel")]
fn launch(mut args: LaunchArgs<'_>, blocks: u32, lanes: usize) -> Result<()> {
    let lanes = small(lanes)?;
    if blocks == 0 || lanes == 0 {
        return Ok(());
    }
    let config = LaunchConfig { grid_dim: (blocks, lanes, 1), block_dim: (TEAM, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the callers are in this module and below it. They push the arguments that the kernel declares, in order and of the same
    // types, and have compared every size with what the kernel reads and writes.
    unsafe { args.launch(config) }.w()?;
    Ok(())
}

/// Blocks for `size` values of a lane.
fn blocks(size: usize) -> Result<u32> {
    small(size.div_ceil(TEAM as usize).min(MOST_BLOCKS))
}

/// Returns a size or a place as kernels count them.
fn small(size: impl Copy + Display + TryInto<u32>) -> Result<u32> {
    size.try_into().map_err(|_| Error::msg(format!("{size} is more than a kernel takes")))
}

/// Makes a tensor of what a kernel has written.
fn done(out: CudaSlice<f32>, device: &CudaDevice, shape: impl Into<Shape>) -> Tensor {
    let storage = CudaStorage::wrap_cuda_slice(out, device.clone());
    Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false)
}
