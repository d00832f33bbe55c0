//! Where a [`candle_nn::VarBuilder`] gets tensors from: initial values are drawn from named streams of one split.

use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor, Var, bail};
use candle_nn::Init;
use candle_nn::init::NormalOrUniform;
use candle_nn::var_builder::SimpleBackend;

use crate::math::random::Stream;
use crate::models::Streams;

/// The tensors that a model has asked for, in that order.
pub(super) struct Drawn<'s> {
    streams: &'s mut Streams,
    dtype: DType,
    device: Device,
    pub(super) tensors: Vec<(String, Var)>,
}

impl<'s> Drawn<'s> {
    pub fn new(streams: &'s mut Streams, dtype: DType, device: Device) -> Self {
        Self { streams, dtype, device, tensors: Vec::new() }
    }

    /// Returns the tensor of a name: a new one, or that which was drawn before, so that layers can share it.
    fn tensor(&mut self, name: &str, shape: &Shape, init: Init) -> Result<Tensor> {
        if let Some((_, there)) = self.tensors.iter().find(|(there, _)| there == name) {
            if there.shape() != shape {
                bail!("`{name}` is asked for with the shape {shape:?}, and is there with {:?}", there.shape());
            }
            return Ok(there.as_tensor().clone());
        }
        let values = draw(init, shape, self.streams.open(format!("init/{name}")));
        let values = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(&self.device)?;
        let var = Var::from_tensor(&values)?;
        self.tensors.push((name.to_owned(), var.clone()));
        Ok(var.into_inner())
    }
}

/// Draws initial values as candle-nn declares them.
fn draw(init: Init, shape: &Shape, stream: &mut Stream) -> Vec<f64> {
    let count = shape.elem_count();
    let normal = |stream: &mut Stream, mean: f64, deviation: f64| {
        (0..count).map(|_| mean + deviation * stream.normal()).collect::<Vec<f64>>()
    };
    match init {
        Init::Const(value) => vec![value; count],
        Init::Randn { mean, stdev } => normal(stream, mean, stdev),
        Init::Uniform { lo, up } => (0..count).map(|_| lo + (up - lo) * stream.uniform()).collect(),
        Init::Kaiming { dist, fan, non_linearity } => {
            let deviation = non_linearity.gain() / (fan.for_shape(shape).max(1) as f64).sqrt();
            match dist {
                NormalOrUniform::Normal => normal(stream, 0.0, deviation),
                NormalOrUniform::Uniform => (0..count).map(|_| stream.symmetric(3f64.sqrt() * deviation)).collect(),
            }
        }
    }
}

/// What a builder asks; candle-nn wants it to be shared by threads.
pub(super) struct BackEnd<'d, 's>(pub &'d Mutex<Drawn<'s>>);

impl<'s> BackEnd<'_, 's> {
    fn drawn(&self) -> MutexGuard<'_, Drawn<'s>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimpleBackend for BackEnd<'_, '_> {
    fn get(&self, shape: Shape, name: &str, init: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let mut drawn = self.drawn();
        if dtype != drawn.dtype || !device.same_device(&drawn.device) {
            bail!(
                "`{name}` is asked for as {dtype:?} on {device:?}, but the run computes with {:?} on {:?}",
                drawn.dtype,
                drawn.device
            );
        }
        drawn.tensor(name, &shape, init)
    }

    fn get_unchecked(&self, name: &str, _dtype: DType, _device: &Device) -> Result<Tensor> {
        match self.drawn().tensors.iter().find(|(there, _)| there == name) {
            Some((_, there)) => Ok(there.as_tensor().clone()),
            None => bail!("`{name}` is asked for without a shape, and was not made before"),
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.drawn().tensors.iter().any(|(there, _)| there == name)
    }
}
