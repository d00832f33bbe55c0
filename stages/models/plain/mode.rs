//! Whether a pass trains, and the random numbers of one that does.

use std::borrow::Cow;

use candle_core::{Device, Result, Tensor};

use crate::math::random::Stream;
use crate::models::Streams;
use crate::models::ops::Mask;
use crate::models::pass::must_be_rate;

/// Training, with the random streams of the split, or evaluation.
pub struct Mode<'s>(Option<&'s mut Streams>);

impl<'s> Mode<'s> {
    /// A pass that trains.
    pub fn train(streams: &'s mut Streams) -> Self {
        Self(Some(streams))
    }

    /// A pass that evaluates: nothing is drawn.
    pub fn eval() -> Self {
        Self(None)
    }

    /// Returns whether the pass trains: the `train` of candle-nn's `ModuleT`.
    pub fn trains(&self) -> bool {
        self.0.is_some()
    }

    /// Sets entries to 0 with probability `p` in training and scales the others by 1/(1 − p). Masks are drawn from the
    /// stream of a purpose, such as `dropout/hidden`.
    ///
    /// # Errors
    /// When p is no rate: below 0, or so large that nothing would be left.
    pub fn dropout(&mut self, x: &Tensor, p: f64, purpose: impl Into<Cow<'static, str>>) -> Result<Tensor> {
        self.mask(x.elem_count(), p, purpose)?.map_or(Ok(x.clone()), |mask| masked(x, &mask))
    }

    /// Returns the random stream of a purpose, such as `noise/edges`, in training.
    pub fn stream(&mut self, purpose: impl Into<Cow<'static, str>>) -> Option<&mut Stream> {
        Some(self.0.as_mut()?.open(purpose))
    }

    /// Draws a mask of `entries` entries in training, if anything is to be dropped.
    pub(super) fn mask(
        &mut self,
        entries: usize,
        p: f64,
        purpose: impl Into<Cow<'static, str>>,
    ) -> Result<Option<Mask>> {
        let purpose = purpose.into();
        must_be_rate(p, &purpose)?;
        Ok(self.stream(purpose).filter(|_| p > 0.0).map(|stream| Mask::draw(stream, entries, p)))
    }
}

/// What a mask leaves of a tensor.
pub(super) fn masked(x: &Tensor, mask: &Mask) -> Result<Tensor> {
    let mut factors = vec![1.0f32; x.elem_count()];
    mask.apply(&mut factors);
    x * Tensor::from_vec(factors, x.dims(), &Device::Cpu)?.to_dtype(x.dtype())?.to_device(x.device())?
}
