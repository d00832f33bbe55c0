//! Plain slices and matrices of tensors in main memory, for the operations that candle does not have.

use candle_core::{CpuStorage, DType, Layout, Result, Storage, Tensor, WithDType, bail};
use faer::MatRef;

use crate::math::real::Real;

/// A type that both candle and our own kernels compute in.
pub(super) trait Element: Real + WithDType {}
impl Element for f32 {}
impl Element for f64 {}

/// Borrows the values of a contiguous tensor's storage.
pub(super) fn slice<'s, T: WithDType>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [T]> {
    let values = T::cpu_storage_as_slice(storage)?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&values[start..end]),
        None => bail!("a contiguous tensor is needed here"),
    }
}

/// Borrows a matrix that is stored by rows, or by columns as a transposed one is.
pub(super) fn matrix<'s, T: Element>(storage: &'s CpuStorage, layout: &Layout) -> Result<MatRef<'s, T>> {
    let (rows, columns) = layout.shape().dims2()?;
    if layout.is_contiguous() {
        return Ok(MatRef::from_row_major_slice(slice(storage, layout)?, rows, columns));
    }
    let transposed = layout.transpose(0, 1)?;
    Ok(MatRef::from_column_major_slice(slice(storage, &transposed)?, rows, columns))
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

/// Refuses a type that is neither of the two float types.
pub(super) fn float_only<R>(operation: &str) -> Result<R> {
    bail!("{operation} is for {:?} and {:?} only", DType::F32, DType::F64)
}
