//! Plain slices of tensors in main memory, for the operations that candle does not have.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, WithDType, bail};

/// Borrows the values of a contiguous tensor's storage.
pub(super) fn slice<'s, T: WithDType>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [T]> {
    let values = T::cpu_storage_as_slice(storage)?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&values[start..end]),
        None => bail!("a contiguous tensor is needed here"),
    }
}

/// Lends the storage of a tensor in main memory, with its layout.
pub(super) fn lend<R>(tensor: &Tensor, f: impl FnOnce(&CpuStorage, &Layout) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(storage, layout),
        _ => bail!("a tensor in main memory is needed here"),
    }
}

/// Lends the values of a tensor in main memory, row-major.
pub(super) fn values<T: WithDType, R>(tensor: &Tensor, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    lend(&tensor, |storage, layout| f(slice(storage, layout)?))
}
