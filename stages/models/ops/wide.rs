//! What flows through a batched model: the same quantity of every lane, for training and for evaluation.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, Result, Shape, Tensor, bail};

use super::tape::Tape;
use crate::tensor::slices::{self, Element};

/// lanes × nodes × columns, as training sees it and as evaluation sees it.
///
/// Both use the same weights, so the evaluation of one epoch rides along with the training pass of the next: every
/// operation reads the graph, the features or the eigenvectors once for both. They are one tensor until dropout parts
/// them. Gradients reach the training side only.
#[derive(Clone)]
pub struct Wide {
    main: Tensor,
    eval: Eval,
    tape: Tape,
}

/// The evaluation side.
#[derive(Clone)]
pub(crate) enum Eval {
    /// Has the values of the training side.
    Same,
    /// Has values of its own.
    Own(Tensor),
    /// Is not wanted in this pass.
    Absent,
}

impl Wide {
    pub(crate) fn new(main: Tensor, eval: Eval, tape: &Tape) -> Self {
        Self { main, eval, tape: tape.clone() }
    }

    /// Returns the side that gradients reach: training, or evaluation in a pass that does not train.
    pub fn main(&self) -> &Tensor {
        &self.main
    }

    /// Returns the evaluation side, if this pass evaluates.
    pub fn eval(&self) -> Option<&Tensor> {
        match &self.eval {
            Eval::Same => Some(&self.main),
            Eval::Own(eval) => Some(eval),
            Eval::Absent => None,
        }
    }

    pub(crate) fn eval_side(&self) -> &Eval {
        &self.eval
    }

    /// Applies an operation to both sides at once: `forward` computes the evaluation side beside the other, in one pass
    /// over whatever it reads. `back` turns the gradient of the result into those of the inputs.
    pub(crate) fn apply(
        &self,
        forward: impl FnOnce(&Tensor, Beside) -> Result<Tensor>,
        back: impl FnOnce(&Tensor) -> Result<Vec<(Tensor, Tensor)>> + 'static,
    ) -> Result<Self> {
        let beside = Beside::of(match &self.eval {
            Eval::Own(eval) => Some(eval.clone()),
            Eval::Same | Eval::Absent => None,
        });
        let main = forward(&self.main.contiguous()?, beside.clone())?;
        let eval = match &self.eval {
            Eval::Own(_) => Eval::Own(beside.take()?),
            other => other.clone(),
        };
        Ok(self.next(main, eval, back))
    }

    /// What an operation with one output has made of this.
    pub(crate) fn next(
        &self,
        main: Tensor,
        eval: Eval,
        back: impl FnOnce(&Tensor) -> Result<Vec<(Tensor, Tensor)>> + 'static,
    ) -> Self {
        self.tape.note(&[&main], move |arrived| match arrived {
            [Some(gradient)] => back(&gradient.contiguous()?),
            _ => Ok(Vec::new()),
        });
        Self { main, eval, tape: self.tape.clone() }
    }
}

/// The evaluation side of an operation's input and output, handed through candle, which knows one output only.
#[derive(Clone)]
pub(crate) struct Beside(Arc<Handed>);

struct Handed {
    input: Option<Tensor>,
    output: Mutex<Option<Tensor>>,
}

impl Beside {
    fn of(input: Option<Tensor>) -> Self {
        Self(Arc::new(Handed { input, output: Mutex::new(None) }))
    }

    /// Nothing rides along.
    pub fn nothing() -> Self {
        Self::of(None)
    }

    /// Returns the input, if there is one.
    pub fn input(&self) -> Option<&Tensor> {
        self.0.input.as_ref()
    }

    /// Leaves the output.
    pub fn put(&self, output: Tensor) {
        *self.0.output.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    }

    /// Computes the training side and, if it has values of its own, the evaluation side together: `run` gets both.
    pub fn both<T: Element>(
        &self,
        main: &[T],
        shape: &Shape,
        run: impl FnOnce(&[&[T]]) -> Result<Vec<Vec<T>>>,
    ) -> Result<CpuStorage> {
        let mut outputs = match self.input() {
            Some(eval) => slices::values::<T, _>(eval, |eval| run(&[main, eval]))?,
            None => run(&[main])?,
        };
        if self.input().is_some() {
            self.put(slices::tensor(outputs.pop().unwrap_or_default(), shape.dims())?);
        }
        Ok(T::to_cpu_storage_owned(outputs.pop().unwrap_or_default()))
    }

    /// As [`Beside::both`], for an operation that gains nothing from having both at once.
    pub fn each<T: Element>(&self, main: &[T], shape: &Shape, run: impl Fn(&[T]) -> Vec<T>) -> Result<CpuStorage> {
        self.both(main, shape, |sides| Ok(sides.iter().map(|side| run(side)).collect()))
    }

    fn take(&self) -> Result<Tensor> {
        match self.0.output.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(output) => Ok(output),
            None => bail!("an operation left out the evaluation side"),
        }
    }
}
