//! The layer in front of the driver: every kernel of ours starts here, and every number goes to a GPU or comes back here.
//!
//! It knows tensors, not cudarc. `driver.rs` does what it says on a GPU; in tests, `emulated.rs` does it on the CPU, so that
//! everything above this file is the same in both. What it does is counted, see [`Counts`].

use std::cell::Cell;

use candle_core::{DType, Device, Result, Tensor, WithDType, bail};

#[cfg(feature = "cuda")]
use super::driver;
#[cfg(test)]
use super::emulated;

/// What a kernel gets.
#[derive(Clone, Copy)]
pub(super) enum Arg<'a> {
    /// Values that it reads.
    Read(&'a Tensor),
    /// A pointer to nothing.
    Null,
    U32(u32),
    U64(u64),
    F32(f32),
}

impl<'a> Arg<'a> {
    /// A tensor, or a pointer to nothing.
    pub(super) fn read(tensor: Option<&'a Tensor>) -> Self {
        tensor.map_or(Self::Null, Self::Read)
    }
}

/// A kernel with its arguments, in the order in which it declares them: what it reads, what it changes, what it makes.
pub(super) struct Call<'a> {
    pub(super) kernel: &'static str,
    /// Blocks of a lane.
    pub(super) blocks: u32,
    pub(super) lanes: u32,
    pub(super) args: &'a [Arg<'a>],
    /// Tensors that are changed in place: whole ones that nobody else reads meanwhile.
    pub(super) changes: &'a [&'a Tensor],
    /// Shape and type of every result. The kernel writes all of it.
    pub(super) makes: &'a [(&'a [usize], DType)],
}

impl Call<'_> {
    /// Every tensor that is lent to the kernel.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let read = self.args.iter().filter_map(|arg| if let Arg::Read(tensor) = arg { Some(*tensor) } else { None });
        read.chain(self.changes.iter().copied())
    }

    /// Starts the kernel, and waits for nothing.
    ///
    /// # Errors
    /// When there is nothing to do, a tensor is not contiguous, or the GPU refuses.
    pub(super) fn start(&self) -> Result<Vec<Tensor>> {
        let Self { kernel, blocks, lanes, .. } = self;
        let empty = self.makes.iter().any(|(dims, _)| dims.contains(&0));
        if *blocks == 0 || *lanes == 0 || empty {
            bail!("kernel `{kernel}` has nothing to do: {blocks} blocks of {lanes} lanes");
        }
        if self.tensors().any(|tensor| !tensor.is_contiguous()) {
            bail!("kernel `{kernel}` needs contiguous tensors");
        }
        COUNTS.with(|counts| {
            let made = self.makes.len() as u64;
            let now = counts.get();
            counts.set(Counts { launches: now.launches + 1, allocations: now.allocations + made, ..now });
        });
        #[cfg(test)]
        if let Some(emulator) = emulated::here() {
            return emulator.call(self);
        }
        #[cfg(feature = "cuda")]
        let made = driver::call(self);
        #[cfg(not(feature = "cuda"))]
        let made = Err(candle_core::Error::msg(format!("kernel `{kernel}` needs a GPU")));
        made
    }
}

/// What this thread has asked of GPUs. An epoch takes a fixed number of each, which a test knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels of ours.
    pub launches: u64,
    /// Products that cuBLAS makes.
    pub products: u64,
    /// Pieces of memory for results.
    pub allocations: u64,
    /// Copies to the GPU.
    pub uploads: u64,
    /// Copies from the GPU, each of which waits.
    pub reads: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { launches: 0, products: 0, allocations: 0, uploads: 0, reads: 0 }) };
}

impl Counts {
    /// Returns what this thread has asked for so far.
    pub fn so_far() -> Self {
        COUNTS.get()
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            launches: self.launches - before.launches,
            products: self.products - before.products,
            allocations: self.allocations - before.allocations,
            uploads: self.uploads - before.uploads,
            reads: self.reads - before.reads,
        }
    }
}

fn count(change: impl FnOnce(&mut Counts)) {
    let mut now = COUNTS.get();
    change(&mut now);
    COUNTS.set(now);
}

/// Returns whether a device is a GPU, or stands for one in a test.
pub fn is_gpu(device: &Device) -> bool {
    #[cfg(test)]
    if emulated::here().is_some() {
        return true;
    }
    device.is_cuda()
}

/// Copies values to a GPU. An empty list becomes one value that nobody reads: there is no memory of no bytes there.
///
/// # Errors
/// When the GPU has no room.
pub(super) fn upload<T: WithDType>(values: &[T], device: &Device) -> Result<Tensor> {
    count(|counts| counts.uploads += 1);
    let nothing = [T::from_f64(0.0)];
    let values = if values.is_empty() { &nothing } else { values };
    Tensor::from_slice(values, values.len(), device)
}

/// Copies the values of a tensor from a GPU, and waits for them: whether a copy to memory that can be paged out is complete when it
/// returns is up to the driver.
///
/// # Errors
/// When a kernel before it has failed.
pub fn read(tensor: &Tensor) -> Result<Vec<f32>> {
    count(|counts| counts.reads += 1);
    let values = tensor.flatten_all()?.to_vec1();
    tensor.device().synchronize()?;
    values
}

/// Copies a tensor from a GPU and lends it to what computes on the CPU.
///
/// # Errors
/// When a kernel before it has failed, and those of `work`.
pub fn on_cpu<R>(tensor: &Tensor, work: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
    count(|counts| counts.reads += 1);
    let copied = tensor.to_device(&Device::Cpu)?;
    tensor.device().synchronize()?;
    #[cfg(test)]
    let _paused = emulated::pause();
    work(&copied)
}

/// A·B, by cuBLAS.
///
/// # Errors
/// When the shapes do not fit.
pub fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    count(|counts| (counts.products, counts.allocations) = (counts.products + 1, counts.allocations + 1));
    a.matmul(b)
}
