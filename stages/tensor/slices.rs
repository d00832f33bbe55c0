//! Tensors in main memory as plain slices: what operations of our own compute on.

use std::cell::RefCell;

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Storage, Tensor, WithDType, bail};

use super::is_gpu;
use crate::math::kernels::Vector;

/// A type that both candle and our own kernels compute in.
pub trait Element: Vector + WithDType {}

impl<T: Vector + WithDType> Element for T {}

/// Lends the values of some tensors, row-major.
pub(crate) fn lend<T: WithDType, R, const N: usize>(
    tensors: [&Tensor; N],
    f: impl FnOnce([&[T]; N]) -> Result<R>,
) -> Result<R> {
    lend_all(&tensors, |slices| f(std::array::from_fn(|i| slices[i])))
}

/// Lends the values of any number of tensors, row-major.
pub(crate) fn lend_all<T: WithDType, R>(tensors: &[&Tensor], f: impl FnOnce(&[&[T]]) -> Result<R>) -> Result<R> {
    let whole: Vec<Tensor> = tensors.iter().map(|tensor| tensor.contiguous()).collect::<Result<_>>()?;
    let held: Vec<_> = whole.iter().map(Tensor::storage_and_layout).collect();
    // A test's GPU is in main memory.
    let elsewhere = tensors.iter().any(|tensor| is_gpu(tensor.device()));
    let slices = held.iter().map(|(storage, layout)| match &**storage {
        Storage::Cpu(storage) if !elsewhere => slice(storage, layout),
        _ => bail!("a tensor in main memory is needed here"),
    });
    f(&slices.collect::<Result<Vec<&[T]>>>()?)
}

/// Borrows the values of a contiguous tensor's storage.
pub(crate) fn slice<'s, T: WithDType>(storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [T]> {
    let values = T::cpu_storage_as_slice(storage)?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&values[start..end]),
        None => bail!("a contiguous tensor is needed here"),
    }
}

/// Lends the values of a contiguous tensor to a function that changes them.
pub(crate) fn change<T: Element>(tensor: &Tensor, f: impl FnMut(&mut [T]) -> Result<()>) -> Result<()> {
    tensor.inplace_op1(&Change(RefCell::new(f), std::marker::PhantomData))
}

/// candle lends a storage to be changed to operations alone.
struct Change<T, F>(RefCell<F>, std::marker::PhantomData<T>);

impl<T: Element, F: FnMut(&mut [T]) -> Result<()>> InplaceOp1 for Change<T, F> {
    fn name(&self) -> &'static str {
        "change"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("a contiguous tensor is needed here") };
        let values: &mut [T] = match storage {
            CpuStorage::F32(values) if T::DTYPE == DType::F32 => bytemuck::cast_slice_mut(values),
            CpuStorage::F64(values) if T::DTYPE == DType::F64 => bytemuck::cast_slice_mut(values),
            _ => return float_only("a change in place"),
        };
        self.0.borrow_mut()(&mut values[start..end])
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

/// Runs an expression for the float type that a tensor has: `by_float!(dtype, "what", T => expression)`.
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
