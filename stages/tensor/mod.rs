//! Tensors under our own operations: their slices in main memory, and kernels on a GPU.

#[cfg(any(feature = "cuda", test))]
pub mod cuda;
pub(crate) mod slices;
pub mod threads;

pub use slices::Element;

/// Returns whether kernels compute with tensors on a device: whether it is a GPU.
pub(crate) fn is_gpu(device: &candle_core::Device) -> bool {
    #[cfg(any(feature = "cuda", test))]
    let is = cuda::is_gpu(device);
    #[cfg(not(any(feature = "cuda", test)))]
    let is = device.is_cuda();
    is
}
