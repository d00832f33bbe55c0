//! Tensors under our own operations: their slices in main memory, and kernels on a GPU.

#[cfg(feature = "cuda")]
pub mod cuda;
pub(crate) mod slices;
pub mod threads;

pub use slices::Element;
