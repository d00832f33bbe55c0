//! The weights of a model, drawn lane by lane, and what it changes itself: one tensor for all lanes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use candle_core::{DType, Device, Result, Tensor, Var, bail};

use super::ops::AsTensor;
use super::{Pass, Streams};
use crate::contract::StageError;
use crate::kinds::Trained;
use crate::math::random::Stream;
use crate::optim::Rule;

/// A trained tensor of a model: lanes first, then its own shape.
///
/// A handle: when lanes leave the batch, the tensor behind it becomes smaller.
#[derive(Clone)]
pub struct Param(Rc<Values>);

struct Values {
    now: RefCell<Var>,
    /// From the next pass on, where the model changes them itself.
    next: RefCell<Option<Tensor>>,
}

impl Param {
    fn new(tensor: &Tensor) -> Result<Self> {
        Ok(Self(Rc::new(Values { now: RefCell::new(Var::from_tensor(tensor)?), next: RefCell::default() })))
    }

    pub(crate) fn var(&self) -> Var {
        self.0.now.borrow().clone()
    }

    /// Replaces the tensor.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn set(&self, value: &Tensor) -> Result<()> {
        *self.0.now.borrow_mut() = Var::from_tensor(value)?;
        Ok(())
    }

    /// Makes what the model has updated count.
    pub(crate) fn commit(&self) -> Result<()> {
        let Some(next) = self.0.next.take() else { return Ok(()) };
        let now = self.tensor();
        let [(dims, dtype), (own_dims, own_dtype)] = [&next, &now].map(|tensor| (tensor.dims(), tensor.dtype()));
        if (dims, dtype) != (own_dims, own_dtype) {
            bail!("an update of {dims:?} {dtype:?} for a state of {own_dims:?} {own_dtype:?}");
        }
        self.set(&next)
    }
}

impl AsTensor for Param {
    /// Returns the tensor, lanes × shape.
    fn tensor(&self) -> Tensor {
        self.0.now.borrow().as_tensor().clone()
    }
}

/// A tensor that training changes without a gradient, such as a running mean: lanes first, then its own shape.
///
/// In a pass both sides read what the pass before has left: what a model hands to [`State::update`] counts from the next
/// pass on. So the evaluation that rides along sees the state that belongs to its weights.
#[derive(Clone)]
pub struct State(Param);

impl State {
    /// Sets what the state will be from the next pass on. A pass that only evaluates changes nothing.
    pub fn update(&self, next: Tensor, pass: &Pass) {
        if pass.trains() {
            self.0.0.next.replace(Some(next.detach()));
        }
    }
}

impl AsTensor for State {
    fn tensor(&self) -> Tensor {
        self.0.tensor().detach()
    }
}

/// The name of a tensor: fixed, or that of a layer by its number.
pub type WeightName = Cow<'static, str>;

/// A tensor of a model with its name.
#[derive(Clone)]
pub struct Named {
    /// Unique in a model.
    pub name: WeightName,
    /// The tensor.
    pub param: Param,
    /// Learning rate and weight decay; none if the model changes the tensor itself.
    pub rule: Option<Rule>,
}

/// The weights of a model while it is built: every lane draws from streams of its own.
pub struct Weights<'s> {
    lanes: &'s mut [Streams],
    /// Weights that were trained before, by split.
    pretrained: Option<&'s Trained>,
    dtype: DType,
    device: Device,
    named: Vec<Named>,
}

impl<'s> Weights<'s> {
    /// Opens an empty list for lanes with these streams.
    pub fn new(lanes: &'s mut [Streams], dtype: DType, device: Device) -> Self {
        Self { lanes, pretrained: None, dtype, device, named: Vec::new() }
    }

    /// Lets a model start from weights that were trained before, on the same splits.
    #[must_use]
    pub fn with_pretrained(self, pretrained: Option<&'s Trained>) -> Self {
        Self { pretrained, ..self }
    }

    /// Replaces tensors that were added by those of the same names that were trained before, of the same split.
    ///
    /// # Errors
    /// [`StageError::Unusable`] when there are none of that name, shape or split.
    pub fn start_from_pretrained(&mut self, names: &[&str]) -> std::result::Result<(), StageError> {
        let pretrained = self.pretrained.ok_or(StageError::MissingInput { slot: "pretrained" })?;
        for name in names {
            let Some(named) = self.named.iter().find(|named| named.name == *name) else { continue };
            let shape = &named.param.tensor().dims()[1..].to_vec();
            let mut values = Vec::new();
            for lane in self.lanes.iter() {
                let found = pretrained.splits.get(lane.split()).and_then(|split| split.weights.get(*name));
                let fits = found.filter(|(there, _)| there == shape);
                let (_, weight) = fits.ok_or_else(|| {
                    let what = match found {
                        Some((there, _)) => format!("`{name}` has shape {there:?} in `pretrained`, and {shape:?} here"),
                        None => format!("`pretrained` has no `{name}` of split `{}`", lane.split()),
                    };
                    StageError::unusable(what, "train both on the same splits, with the same model and sizes")
                })?;
                values.extend(weight.iter().map(|value| f64::from(*value)));
            }
            named.param.set(&self.constant(&values, &[&[self.lanes.len()], &shape[..]].concat())?)?;
        }
        Ok(())
    }

    /// Adds a tensor whose values every lane draws from its stream of a purpose, such as `init/lin1`, where it was left.
    ///
    /// # Errors
    /// When the values do not fill the shape.
    pub fn add(
        &mut self,
        name: impl Into<WeightName>,
        rule: Rule,
        shape: &[usize],
        purpose: &'static str,
        mut draw: impl FnMut(&mut Stream) -> Vec<f64>,
    ) -> Result<Param> {
        let values: Vec<f64> = self.lanes.iter_mut().flat_map(|lane| draw(lane.open(purpose))).collect();
        let shape = [&[self.lanes.len()], shape].concat();
        self.push(name.into(), Some(rule), &self.constant(&values, &shape)?)
    }

    fn push(&mut self, name: WeightName, rule: Option<Rule>, tensor: &Tensor) -> Result<Param> {
        if self.named.iter().any(|there| there.name == name) {
            bail!("a model has two tensors of the name `{name}`");
        }
        let param = Param::new(tensor)?;
        self.named.push(Named { name, param: param.clone(), rule });
        Ok(param)
    }

    /// Adds a tensor that the model changes itself; it starts with the same `values` in every lane.
    ///
    /// # Errors
    /// When the values do not fill the shape.
    pub fn state(&mut self, name: impl Into<WeightName>, shape: &[usize], values: &[f64]) -> Result<State> {
        let one = self.constant(values, shape)?;
        self.push(name.into(), None, &one.broadcast_left(self.lanes.len())?.contiguous()?).map(State)
    }

    /// Returns the streams, by lane.
    pub(super) fn lanes(&mut self) -> &mut [Streams] {
        self.lanes
    }

    /// Adds a tensor that has its values already, lanes first.
    pub(super) fn drawn(&mut self, name: WeightName, rule: Rule, lanes: &Tensor) -> Result<Param> {
        self.push(name, Some(rule), lanes)
    }

    /// Adds a tensor that has its values already, lanes first, and that the model changes itself.
    pub(super) fn drawn_state(&mut self, name: WeightName, lanes: &Tensor) -> Result<State> {
        self.push(name, None, lanes).map(State)
    }

    /// Adds a tensor drawn uniformly from [−r, r).
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn uniform(
        &mut self,
        name: impl Into<WeightName>,
        rule: Rule,
        shape: &[usize],
        purpose: &'static str,
        r: f64,
    ) -> Result<Param> {
        let count = shape.iter().product();
        self.add(name, rule, shape, purpose, |stream| (0..count).map(|_| stream.symmetric(r)).collect())
    }

    /// Adds a matrix drawn from Glorot's uniform distribution, U(±√(6/(in + out))).
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn glorot(
        &mut self,
        name: impl Into<WeightName>,
        rule: Rule,
        [inputs, outputs]: [usize; 2],
        purpose: &'static str,
    ) -> Result<Param> {
        let r = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
        self.uniform(name, rule, &[inputs, outputs], purpose, r)
    }

    /// Returns numbers that are not trained, where the weights are and of their type.
    ///
    /// # Errors
    /// When the numbers do not fill the shape.
    pub fn constant(&self, numbers: &[f64], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(numbers, shape, &Device::Cpu)?.to_dtype(self.dtype)?.to_device(&self.device)
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
