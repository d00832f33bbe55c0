//! The backward pass: every operation notes how to go back, and one walk in reverse does it.
//!
//! candle's own backward pass fills a tensor of zeros for every gradient and adds to it, on threads of its own that know
//! nothing of the run's share of the cores; for operations that are as short as ours that costs as much as they do. Here
//! a gradient is handed on as it is, and added only where two meet. An operation may have several outputs.
//!
//! Whatever a model computes from its weights by candle's operations alone (a few numbers: the response of a filter, a
//! penalty) stays in candle's graph: its gradient arrives here, and candle's backward pass takes it from there.

use std::cell::RefCell;
use std::rc::Rc;

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, TensorId};

use super::shift::sum;

/// Turns the gradients of an operation's outputs, none where nothing arrived, into those of its inputs.
type Back = Box<dyn FnOnce(&[Option<Tensor>]) -> Result<Vec<(Tensor, Tensor)>>>;

struct Step {
    outputs: Vec<TensorId>,
    back: Back,
}

/// The steps of a pass; a handle.
#[derive(Clone)]
pub(crate) struct Tape {
    /// None in a pass that has no way back.
    steps: Option<Rc<RefCell<Vec<Step>>>>,
}

impl Tape {
    /// A tape for a pass that trains.
    pub fn recording() -> Self {
        Self { steps: Some(Rc::default()) }
    }

    /// A tape that forgets: evaluation has no way back.
    pub fn forgetting() -> Self {
        Self { steps: None }
    }

    /// Notes an operation.
    pub fn note(
        &self,
        outputs: &[&Tensor],
        back: impl FnOnce(&[Option<Tensor>]) -> Result<Vec<(Tensor, Tensor)>> + 'static,
    ) {
        if let Some(steps) = &self.steps {
            let outputs = outputs.iter().map(|output| output.id()).collect();
            steps.borrow_mut().push(Step { outputs, back: Box::new(back) });
        }
    }

    /// Walks back from the gradients of some tensors, and returns those of all tensors that candle or nobody made.
    pub fn back(&self, from: Vec<(Tensor, Tensor)>) -> Result<Gradients> {
        let mut gradients = Gradients::default();
        for (tensor, gradient) in from {
            gradients.add(tensor, gradient)?;
        }
        let steps = self.steps.as_ref().map(|steps| steps.take()).unwrap_or_default();
        for step in steps.into_iter().rev() {
            let arrived: Vec<_> = step.outputs.iter().map(|output| gradients.take(*output)).collect();
            if arrived.iter().any(Option::is_some) {
                for (input, gradient) in (step.back)(&arrived)? {
                    gradients.add(input, gradient)?;
                }
            }
        }
        gradients.hand_to_candle()?;
        Ok(gradients)
    }
}

/// Gradients by tensor.
#[derive(Default)]
pub(crate) struct Gradients {
    /// Tensors with what has arrived at them, in the order of arrival.
    arrived: Vec<(Tensor, Tensor)>,
    /// What candle's backward pass has reached.
    through_candle: Option<GradStore>,
}

impl Gradients {
    fn add(&mut self, tensor: Tensor, gradient: Tensor) -> Result<()> {
        let sum = match self.take(tensor.id()) {
            Some(before) => sum(&before, &gradient)?,
            None => gradient,
        };
        self.arrived.push((tensor, sum));
        Ok(())
    }

    fn take(&mut self, tensor: TensorId) -> Option<Tensor> {
        let at = self.arrived.iter().position(|(t, _)| t.id() == tensor)?;
        Some(self.arrived.remove(at).1)
    }

    /// Hands the gradients of tensors that are no weights to candle: Σ ⟨tensor, gradient⟩ has them as its gradients.
    fn hand_to_candle(&mut self) -> Result<()> {
        let mut total: Option<Tensor> = None;
        for (tensor, gradient) in self.arrived.iter().filter(|(tensor, _)| !tensor.is_variable()) {
            let term = (tensor * gradient.detach())?.sum_all()?;
            total = Some(match total {
                Some(total) => (total + term)?,
                None => term,
            });
        }
        self.through_candle = total.map(|total| total.backward()).transpose()?;
        Ok(())
    }

    /// Returns the gradient of a weight, if anything reached it.
    pub fn of(&self, weight: &Tensor) -> Result<Option<Tensor>> {
        let arrived = self.arrived.iter().find(|(tensor, _)| tensor.id() == weight.id()).map(|(_, gradient)| gradient);
        let reached = self.through_candle.as_ref().and_then(|store| store.get(weight));
        match (arrived, reached) {
            (Some(a), Some(b)) => sum(a, b).map(Some),
            (one, other) => Ok(one.or(other).cloned()),
        }
    }
}
