//! Dropout on a GPU. Nothing is drawn, copied or stored: whether an entry survives follows from the key of its lane, the
//! number of the pass and its place, so the backward pass finds the same masks again.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Result, Tensor, bail};

use super::launch::{Arg, upload};
use super::{dims, floats, make, once, small};

/// A key for every lane, uploaded when it is first used and kept.
pub struct Keys {
    keys: Vec<u64>,
    uploaded: OnceLock<Tensor>,
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

/// What the kernels get of masks.
pub(super) struct Lent(Option<(Tensor, u64, u32, f32)>);

impl Lent {
    pub(super) fn args(&self) -> [Arg<'_>; 4] {
        match &self.0 {
            Some((keys, pass, threshold, scale)) => {
                [Arg::Read(keys), Arg::U64(*pass), Arg::U32(*threshold), Arg::F32(*scale)]
            }
            None => [Arg::Null, Arg::U64(0), Arg::U32(0), Arg::F32(1.0)],
        }
    }
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

    /// Returns the masks of some lanes.
    #[cfg(test)]
    pub fn of_lanes(&self, lanes: std::ops::Range<usize>) -> Self {
        Self { keys: Arc::new(Keys::new(self.keys.keys[lanes].to_vec())), ..*self }
    }

    /// Returns how many lanes there are masks for.
    pub fn lanes(&self) -> usize {
        self.keys.keys.len()
    }

    /// Returns X with the masks of one lane on top, for X that has no lanes.
    ///
    /// # Errors
    /// When there is no such lane.
    pub fn of_lane(&self, lane: usize, x: &Tensor) -> Result<Tensor> {
        let (keys, size) = (self.uploaded(x.device())?, x.elem_count());
        let (x_, key) = (floats(x, size, "x")?, keys.narrow(0, lane, 1)?);
        let lent = Lent(Some((key, self.pass, self.threshold, self.scale)));
        let args = [&[Arg::Read(&x_)], &lent.args()[..], &[Arg::U64(size as u64)]].concat();
        make("dropout", (size, 1), &args, x.dims())
    }

    fn uploaded(&self, device: &Device) -> Result<&Tensor> {
        once(&self.keys.uploaded, || {
            let keys: Vec<i64> = self.keys.keys.iter().map(|key| key.cast_signed()).collect();
            upload(&keys, device)
        })
    }
}

/// Returns what a kernel gets of the masks of `lanes` lanes.
pub(super) fn lend(masks: Option<&Masks>, lanes: usize, device: &Device) -> Result<Lent> {
    Ok(Lent(match masks {
        Some(Masks { keys, .. }) if keys.keys.len() != lanes => bail!("{} masks for {lanes} lanes", keys.keys.len()),
        Some(masks) => Some((masks.uploaded(device)?.clone(), masks.pass, masks.threshold, masks.scale)),
        None => None,
    }))
}

/// Returns X with masks on top.
///
/// # Errors
/// When X is not lanes × nodes × columns.
pub fn dropout(x: &Tensor, masks: &Masks) -> Result<Tensor> {
    let (lanes, nodes, columns) = dims(x)?;
    let size = nodes * columns;
    let (x, lent) = (floats(x, lanes * size, "x")?, lend(Some(masks), lanes, x.device())?);
    let args = [&[Arg::Read(&x)], &lent.args()[..], &[Arg::U64(size as u64)]].concat();
    make("dropout", (size, lanes), &args, &[lanes, nodes, columns])
}

/// Returns ReLU(X + b), with masks on top if there are any; b: lanes × columns, if there is one.
///
/// # Errors
/// When the shapes do not fit.
pub fn rectify(x: &Tensor, bias: Option<&Tensor>, masks: Option<&Masks>) -> Result<Tensor> {
    let (lanes, nodes, columns) = dims(x)?;
    let size = nodes * columns;
    let (x, lent) = (floats(x, lanes * size, "x")?, lend(masks, lanes, x.device())?);
    let bias = bias.map(|bias| floats(bias, lanes * columns, "bias")).transpose()?;
    let inputs = [Arg::Read(&x), Arg::read(bias.as_ref())];
    let args = [&inputs[..], &lent.args(), &[Arg::U64(size as u64), Arg::U32(small(columns)?)]].concat();
    make("rectify", (size, lanes), &args, &[lanes, nodes, columns])
}

/// Returns the gradient of [`rectify`] at its input, from its result and the gradient there; `scale` is that of the masks.
///
/// # Errors
/// When the shapes do not fit.
pub fn rectify_backward(result: &Tensor, gradient: &Tensor, scale: f64) -> Result<Tensor> {
    let (lanes, nodes, columns) = dims(result)?;
    let size = nodes * columns;
    let result = floats(result, lanes * size, "result")?;
    let gradient = floats(gradient, lanes * size, "gradient")?;
    let args = [Arg::Read(&result), Arg::Read(&gradient), Arg::F32(scale as f32), Arg::U64(size as u64)];
    make("rectify_backward", (size, lanes), &args, &[lanes, nodes, columns])
}
