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

use super::sum::sum;

/// Turns the gradients of an operation's outputs, none where nothing arrived, into those of its inputs.
type Back = Box<dyn FnOnce(&[Option<Tensor>]) -> Result<Vec<(Tensor, Tensor)>>>;

struct Step {
    outputs: Vec<TensorId>,
    back: Back,
}

/// Which sides a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Training alone: the first pass of a run.
    Train,
    /// Training, and the evaluation of the same weights beside it.
    Both,
    /// Evaluation alone: the last pass of a run. Nothing is dropped, and there is no way back.
    Eval,
}

impl Sides {
    /// Returns whether a pass trains.
    pub fn train(self) -> bool {
        self != Self::Eval
    }

    /// Returns whether a pass evaluates.
    pub fn evaluate(self) -> bool {
        self != Self::Train
    }
}

/// The steps of a pass; a handle.
#[derive(Clone)]
pub struct Tape {
    sides: Sides,
    steps: Rc<RefCell<Vec<Step>>>,
}

impl Tape {
    /// Starts the tape of a pass. One that only evaluates notes nothing.
    pub fn new(sides: Sides) -> Self {
        Self { sides, steps: Rc::default() }
    }

    /// Returns which sides the pass computes.
    pub fn sides(&self) -> Sides {
        self.sides
    }

    /// Notes an operation.
    pub(crate) fn note(
        &self,
        outputs: &[&Tensor],
        back: impl FnOnce(&[Option<Tensor>]) -> Result<Vec<(Tensor, Tensor)>> + 'static,
    ) {
        if self.sides.train() {
            let outputs = outputs.iter().map(|output| output.id()).collect();
            self.steps.borrow_mut().push(Step { outputs, back: Box::new(back) });
        }
    }

    /// Walks back from the gradients of some tensors, and returns those of all tensors that no operation of ours has made.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn back(&self, from: Vec<(Tensor, Tensor)>) -> Result<Gradients> {
        let mut gradients = Gradients::default();
        for (tensor, gradient) in from {
            gradients.add(tensor, gradient)?;
        }
        for step in self.steps.take().into_iter().rev() {
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
pub struct Gradients {
    /// Tensors with what has arrived at them, in the order of arrival.
    arrived: Vec<(Tensor, Tensor)>,
    /// What candle's backward pass has reached.
    through_candle: Option<GradStore>,
}

impl Gradients {
    fn add(&mut self, tensor: Tensor, gradient: Tensor) -> Result<()> {
        let total = match self.take(tensor.id()) {
            Some(before) => sum(&before, &gradient)?,
            None => gradient,
        };
        self.arrived.push((tensor, total));
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
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn of(&self, weight: &Tensor) -> Result<Option<Tensor>> {
        let arrived = self.arrived.iter().find(|(tensor, _)| tensor.id() == weight.id()).map(|(_, gradient)| gradient);
        let reached = self.through_candle.as_ref().and_then(|store| store.get(weight));
        match (arrived, reached) {
            (Some(a), Some(b)) => sum(a, b).map(Some),
            (one, other) => Ok(one.or(other).cloned()),
        }
    }
}
