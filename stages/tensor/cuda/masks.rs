//! Dropout on a GPU. Nothing is drawn, copied or stored: whether an entry survives follows from the key of its lane, the
//! number of the pass and its place, so the backward pass finds the same masks again.

use std::sync::{Arc, OnceLock};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, LaunchArgs, PushKernelArg};
use candle_core::{CudaDevice, Result, Tensor, bail};

use super::{GpuTensor, MODULE, NULL, PTX, blocks, dims, done, launch, once, room, values};

/// A key for every lane, uploaded when it is first used and kept.
pub struct Keys {
    keys: Vec<u64>,
    uploaded: OnceLock<CudaSlice<u64>>,
}

impl Keys {
    /// Names the keys.
    pub fn new(keys: Vec<u64>) -> Self {
        Self { keys, uploaded: OnceLock::new() }
    }
}

/// Inverted dropout of the lanes of a batch in one pass.
pub struct Masks {
    keys: Arc<Keys>,
    /// The number of the pass, so that each has masks of its own.
    pass: u64,
    threshold: u32,
    scale: f32,
}

impl Masks {
    /// Drops with probability `p`, 0 ≤ p < 1; there is a key for every lane.
    pub fn new(keys: Arc<Keys>, pass: u64, p: f64) -> Self {
        // p is met to 32 binary digits.
        let threshold = (p.clamp(0.0, 1.0) * 2f64.powi(32)) as u32;
        let scale = (1.0 / (1.0 - f64::from(threshold) * 2f64.powi(-32))) as f32;
        Self { keys, pass, threshold, scale }
    }

    /// Returns what survivors are multiplied by.
    pub fn scale(&self) -> f64 {
        f64::from(self.scale)
    }
}

/// Pushes the arguments of a kernel that are about the masks of `lanes` lanes.
pub(super) fn push<'a>(
    masks: Option<&'a Masks>,
    lanes: usize,
    args: &mut LaunchArgs<'a>,
    device: &CudaDevice,
) -> Result<()> {
    match masks {
        Some(Masks { keys, .. }) if keys.keys.len() != lanes => bail!("{} masks for {lanes} lanes", keys.keys.len()),
        Some(masks) => {
            let keys = once(&masks.keys.uploaded, || device.clone_htod(&masks.keys.keys))?;
            args.arg(keys).arg(&masks.pass).arg(&masks.threshold).arg(&masks.scale);
        }
        None => {
            args.arg(&NULL).arg(&0u64).arg(&0u32).arg(&1f32);
        }
    }
    Ok(())
}

/// Returns x with masks on top.
///
/// # Errors
/// When the tensor is not contiguous.
pub fn dropout(x: GpuTensor, masks: &Masks) -> Result<Tensor> {
    masked("dropout", x, Some(masks))
}

/// Returns ReLU(x), with masks on top if there are any.
///
/// # Errors
/// When the tensor is not contiguous.
pub fn rectify(x: GpuTensor, masks: Option<&Masks>) -> Result<Tensor> {
    masked("rectify", x, masks)
}

fn masked(name: &str, x: GpuTensor, masks: Option<&Masks>) -> Result<Tensor> {
    let ((lanes, nodes, columns), device, shape) = (dims(x.1)?, x.0.device(), x.1.shape());
    let size = nodes * columns;
    let x = values::<f32>(x, lanes * size, "x")?;
    let mut out = room::<f32>(device, lanes * size)?;
    let length = size as u64;
    let func = device.get_or_load_custom_func(name, MODULE, PTX)?;
    let mut args = func.builder();
    args.arg(&x);
    push(masks, lanes, &mut args, device)?;
    args.arg(&length).arg(&mut out);
    launch(args, blocks(size)?, lanes)?;
    Ok(done(out, device, shape))
}

/// Returns the gradient of [`rectify`] at its input, from its result and the gradient there; `scale` is that of the masks.
///
/// # Errors
/// When the shapes do not fit.
pub fn rectify_backward(result: GpuTensor, gradient: GpuTensor, scale: f64) -> Result<Tensor> {
    let ((lanes, nodes, columns), device, shape) = (dims(result.1)?, result.0.device(), result.1.shape());
    let size = nodes * columns;
    let result = values::<f32>(result, lanes * size, "result")?;
    let gradient = values::<f32>(gradient, lanes * size, "gradient")?;
    let mut out = room::<f32>(device, lanes * size)?;
    let (scale, length) = (scale as f32, size as u64);
    let func = device.get_or_load_custom_func("rectify_backward", MODULE, PTX)?;
    let mut args = func.builder();
    args.arg(&result).arg(&gradient).arg(&scale).arg(&length).arg(&mut out);
    launch(args, blocks(size)?, lanes)?;
    Ok(done(out, device, shape))
}
