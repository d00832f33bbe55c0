//! Plain slices of tensors in main memory, for the operations that candle does not have.

use candle_core::{CpuStorage, DType, Layout, Result, Storage, Tensor, WithDType, bail};

use crate::math::kernels::Vector;

/// A type that both candle and our own kernels compute in.
pub(crate) trait Element: Vector + WithDType {
    /// Borrows the values of a storage of this type.
    fn of_storage(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

impl Element for f32 {
    fn of_storage(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        if let CpuStorage::F32(values) = storage { Some(values) } else { None }
    }
}

impl Element for f64 {
    fn of_storage(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        if let CpuStorage::F64(values) = storage { Some(values) } else { None }
    }
}

/// Borrows the values of a contiguous tensor's storage.
pub(crate) fn slice<'s, T: WithDType>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [T]> {
    let values = T::cpu_storage_as_slice(storage)?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&values[start..end]),
        None => bail!("a contiguous tensor is needed here"),
    }
}

/// Borrows the values of a contiguous tensor's storage to change them.
pub(crate) fn slice_mut<'s, T: Element>(storage: &'s mut CpuStorage, layout: &Layout) -> Result<&'s mut [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => T::of_storage(storage)
            .and_then(|values| values.get_mut(start..end))
            .map_or_else(|| float_only("a change in place"), Ok),
        None => bail!("a contiguous tensor is needed here"),
    }
}

/// Lends the values of a tensor in main memory, row-major.
pub(crate) fn values<T: WithDType, R>(tensor: &Tensor, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(slice(storage, layout)?),
        _ => bail!("a tensor in main memory is needed here"),
    }
}

/// Makes a tensor in main memory.
pub(crate) fn tensor<T: WithDType>(values: Vec<T>, shape: &[usize]) -> Result<Tensor> {
    Tensor::from_vec(values, shape, &candle_core::Device::Cpu)
}

/// Refuses a type that is neither of the two float types.
pub(crate) fn float_only<R>(operation: &str) -> Result<R> {
    bail!("{operation} is for {:?} and {:?} only", DType::F32, DType::F64)
}

/// Runs an expression for the float type that a tensor or storage has: `by_float!(dtype, "what", T => expression)`.
macro_rules! by_float {
    ($dtype:expr, $what:expr, $float:ident => $body:expr) => {
        match $dtype {
            candle_core::DType::F32 => {
                type $float = f32;
                #[allow(unused_imports, reason = "not every body needs the methods of its type")]
                use {candle_core::WithDType as _, $crate::math::real::Real as _};
                $body
            }
            candle_core::DType::F64 => {
                type $float = f64;
                #[allow(unused_imports, reason = "not every body needs the methods of its type")]
                use {candle_core::WithDType as _, $crate::math::real::Real as _};
                $body
            }
            _ => $crate::tensor::slices::float_only($what),
        }
    };
}
pub(crate) use by_float;
