//! Opening a GPU: one stream, what the driver need not do for it, and what is worth knowing of it.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::cublas::sys as cublas;
use candle_core::cuda_backend::cudarc::driver::sys::{self, CUdevice_attribute, CUmemPool_attribute};
use candle_core::cuda_backend::cudarc::driver::{CudaContext, result};
use candle_core::{CudaDevice, Device, Result, Tensor, bail};

use super::{combine, read};

/// What is known of an opened GPU.
pub struct Facts {
    /// Bytes of its memory, and how many of them were free.
    pub total: usize,
    /// See `total`.
    pub free: usize,
    /// What the bytes of results depend on, by name.
    pub notes: Vec<(&'static str, String)>,
}

/// Opens a GPU.
///
/// # Errors
/// What the driver says.
pub fn open(number: usize) -> Result<(Device, Facts)> {
    // A stream of its own: the default is one stream per thread, and tensors may move between threads.
    let device = CudaDevice::new_with_stream(number)?;
    let stream = device.cuda_stream();
    let context = stream.context();
    without_events(&device);
    if context.has_async_alloc() {
        keep_memory(context).w()?;
    }
    let (free, total) = context.mem_get_info().w()?;
    let (major, minor) = context.compute_capability().w()?;
    let processors = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).w()?;
    let name = context.name().w()?;
    let [driver, blas] = versions(&device)?;
    let mut notes = vec![
        ("card", format!("{name}, compute capability {major}.{minor}, {processors} multiprocessors")),
        ("cuda", format!("driver for CUDA {}.{}, cuBLAS {blas}", driver / 1000, driver % 1000 / 10)),
    ];
    if let Ok(text) = std::env::var("NVIDIA_TF32_OVERRIDE") {
        notes.push(("NVIDIA_TF32_OVERRIDE", text));
    }
    Ok((Device::Cuda(device), Facts { total, free, notes }))
}

/// Starts a kernel of candle and one of ours, and looks at what they make.
///
/// # Errors
/// What the driver says, or that the results are wrong.
pub fn try_out(device: &Device) -> Result<()> {
    let x = Tensor::from_slice(&[1f32, 2.0, 3.0], 3, device)?;
    let (candle, ours) = (read(&x.affine(2.0, 1.0)?)?, read(&combine(&x, 2.0, &x, -1.0)?)?);
    if candle != [3.0, 5.0, 7.0] || ours != [1.0, 2.0, 3.0] {
        bail!("kernels on the GPU compute wrongly: {candle:?} and {ours:?}");
    }
    Ok(())
}

/// Every tensor of a card is used in one stream: what the driver would record to order several costs a dozen calls for each operation.
#[expect(unsafe_code, reason = "there is no other way to say so")]
fn without_events(device: &CudaDevice) {
    // SAFETY: all work on tensors of this device goes to its one stream, which keeps the order.
    unsafe { device.disable_event_tracking() };
}

/// Keeps memory that tensors have given back; by default the driver takes it from the program whenever that waits.
#[expect(unsafe_code, reason = "cudarc has no safe form")]
fn keep_memory(
    context: &CudaContext,
) -> std::result::Result<(), candle_core::cuda_backend::cudarc::driver::DriverError> {
    let mut all = u64::MAX;
    let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device is that of an open context, and the attribute is a number of 64 bits.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        result::mem_pool::set_attribute(pool, threshold, (&raw mut all).cast())
    }
}

/// Returns the versions of the driver and of cuBLAS.
#[expect(unsafe_code, reason = "cudarc has no safe form")]
fn versions(device: &CudaDevice) -> Result<[i32; 2]> {
    let (mut driver, mut blas) = (0, 0);
    let handle = *device.cublas_handle().handle();
    // SAFETY: both write one number, and the handle belongs to the open device.
    unsafe {
        sys::cuDriverGetVersion(&raw mut driver).result().w()?;
        cublas::cublasGetVersion_v2(handle, &raw mut blas).result().map_err(candle_core::Error::wrap)?;
        Ok([driver, blas])
    }
}
