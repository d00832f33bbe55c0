//! The weights of a model: one tensor for all lanes, drawn lane by lane.

use std::cell::RefCell;
use std::rc::Rc;

use candle_core::{DType, Device, Result, Tensor, Var};

use super::Streams;
use crate::math::random::Stream;
use crate::optim::Rule;

/// A trained tensor of a model: lanes first, then its own shape.
///
/// A handle: when lanes leave the batch, the tensor behind it becomes smaller.
#[derive(Clone)]
pub struct Param(Rc<RefCell<Var>>);

impl Param {
    /// Returns the tensor, lanes × shape.
    pub fn tensor(&self) -> Tensor {
        self.0.borrow().as_tensor().clone()
    }

    pub(crate) fn var(&self) -> Var {
        self.0.borrow().clone()
    }

    /// Replaces the tensor.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn set(&self, value: &Tensor) -> Result<()> {
        *self.0.borrow_mut() = Var::from_tensor(value)?;
        Ok(())
    }
}

/// A trained tensor with its name and what the optimiser does with it.
#[derive(Clone)]
pub struct Named {
    /// Unique in a model.
    pub name: &'static str,
    /// The tensor.
    pub param: Param,
    /// Its learning rate and weight decay.
    pub rule: Rule,
}

/// The weights of a model while it is built: every lane draws from streams of its own.
pub struct Weights<'s> {
    lanes: &'s mut [Streams],
    dtype: DType,
    device: Device,
    named: Vec<Named>,
}

impl<'s> Weights<'s> {
    /// Opens an empty list for lanes with these streams.
    pub fn new(lanes: &'s mut [Streams], dtype: DType, device: Device) -> Self {
        Self { lanes, dtype, device, named: Vec::new() }
    }

    /// Adds a tensor whose values every lane draws from its stream of a purpose, such as `init/lin1`, where it was left.
    ///
    /// # Errors
    /// When the values do not fill the shape.
    pub fn add(
        &mut self,
        name: &'static str,
        rule: Rule,
        shape: &[usize],
        purpose: &'static str,
        mut draw: impl FnMut(&mut Stream) -> Vec<f64>,
    ) -> Result<Param> {
        let values: Vec<f64> = self.lanes.iter_mut().flat_map(|lane| draw(lane.open(purpose))).collect();
        let shape = [&[self.lanes.len()], shape].concat();
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(&self.device)?;
        let param = Param(Rc::new(RefCell::new(Var::from_tensor(&tensor)?)));
        self.named.push(Named { name, param: param.clone(), rule });
        Ok(param)
    }

    /// Adds a tensor drawn uniformly from [−r, r).
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn uniform(
        &mut self,
        name: &'static str,
        rule: Rule,
        shape: &[usize],
        purpose: &'static str,
        r: f64,
    ) -> Result<Param> {
        let count = shape.iter().product();
        self.add(name, rule, shape, purpose, |stream| (0..count).map(|_| stream.symmetric(r)).collect())
    }

    /// Returns numbers that are not trained, where the weights are: 1 × numbers.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn constant(&self, numbers: &[f64]) -> Result<Tensor> {
        let row = Tensor::from_slice(numbers, (1, numbers.len()), &Device::Cpu)?;
        row.to_dtype(self.dtype)?.to_device(&self.device)
    }

    /// Returns the type of all weights.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns where all weights are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the weights in the order in which they were added.
    pub fn into_named(self) -> Vec<Named> {
        self.named
    }
}
