//! Dropout on a GPU. Nothing is drawn, copied or stored: whether an entry survives follows from the key of its lane, the
//! number of the pass and its place, so the backward pass finds the same masks again.

use std::sync::{Arc, OnceLock};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, LaunchArgs, PushKernelArg};
use candle_core::{CudaDevice, CudaStorage, Result};

use super::{Input, NULL, blocks, dims, done, kernel, launch, once, room, small, values};

/// A key for every lane, uploaded when it is first used and kept.
pub struct Keys {
    keys: Vec<u64>,
    lanes: u32,
    uploaded: OnceLock<CudaSlice<u64>>,
}

impl Keys {
    /// Names the keys.
    pub fn new(keys: Vec<u64>) -> Self {
        // A launch refuses more lanes than that.
        Self { lanes: u32::try_from(keys.len()).unwrap_or(u32::MAX), keys, uploaded: OnceLock::new() }
    }
}

/// Inverted dropout of the first lanes of a batch in one pass.
pub struct Masks {
    keys: Arc<Keys>,
    /// The number of the pass, so that each has masks of its own.
    pass: u64,
    threshold: u32,
    scale: f32,
}

impl Masks {
    /// Drops with probability `p`, 0 ≤ p < 1, in the lanes that there are keys for; the lanes after them keep everything.
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

/// Pushes the arguments of a kernel that are about masks.
pub(super) fn push<'a>(masks: Option<&'a Masks>, args: &mut LaunchArgs<'a>, device: &CudaDevice) -> Result<()> {
    match masks {
        Some(masks) => {
            let keys = once(&masks.keys.uploaded, || device.clone_htod(&masks.keys.keys))?;
            args.arg(keys).arg(&masks.keys.lanes).arg(&masks.pass).arg(&masks.threshold).arg(&masks.scale);
        }
        None => {
            args.arg(&NULL).arg(&0u32).arg(&0u64).arg(&0u32).arg(&1f32);
        }
    }
    Ok(())
}

/// Returns x with masks on top.
///
/// # Errors
/// When the tensor is not contiguous.
pub fn dropout(x: Input, masks: &Masks) -> Result<CudaStorage> {
    masked("dropout", x, Some(masks))
}

/// Returns ReLU(x), with masks on top if there are any.
///
/// # Errors
/// When the tensor is not contiguous.
pub fn rectify(x: Input, masks: Option<&Masks>) -> Result<CudaStorage> {
    masked("rectify", x, masks)
}

fn masked(name: &str, x: Input, masks: Option<&Masks>) -> Result<CudaStorage> {
    let (lanes, nodes, columns) = dims(x.1)?;
    let size = nodes * columns;
    let device = x.0.device();
    let x = values::<f32>(x, lanes * size, "x")?;
    let mut out = room::<f32>(device, lanes * size)?;
    let length = size as u64;
    let func = kernel(device, name)?;
    let mut args = func.builder();
    args.arg(&x);
    push(masks, &mut args, device)?;
    args.arg(&length).arg(&mut out);
    launch(args, blocks(size)?, lanes)?;
    Ok(done(out, device))
}

/// Returns the gradient of [`rectify`] at its input, from its result and the gradient there; `scale` is that of the masks.
///
/// # Errors
/// When the shapes do not fit.
pub fn rectify_backward(result: Input, gradient: Input, scale: f64) -> Result<CudaStorage> {
    let (lanes, nodes, columns) = dims(result.1)?;
    let size = nodes * columns;
    let device = result.0.device();
    let result = values::<f32>(result, lanes * size, "result")?;
    let gradient = values::<f32>(gradient, lanes * size, "gradient")?;
    let mut out = room::<f32>(device, lanes * size)?;
    let (masked, scale, length) = (small(lanes)?, scale as f32, size as u64);
    let func = kernel(device, "rectify_backward")?;
    let mut args = func.builder();
    args.arg(&result).arg(&gradient).arg(&masked).arg(&scale).arg(&length).arg(&mut out);
    launch(args, blocks(size)?, lanes)?;
    Ok(done(out, device))
}
