//! What flows through a model: the same quantity of every lane, for training and for evaluation.
//!
//! An operation is a method of [`Sided`]. [`operation`] is how one is written: a function over the slices of every side,
//! and a function that turns the gradient of the result into those of the inputs.

use candle_core::{DType, Result, Tensor, bail};

use super::tape::{Sides, Tape};
use crate::tensor::slices::{self, Element};

/// lanes × nodes × columns, as training sees it and as evaluation sees it.
///
/// Both use the same weights, so the evaluation of one epoch rides along with the training pass of the next: every
/// operation reads the graph, the features or the eigenvectors once for both. They are one tensor until dropout parts
/// them. Gradients reach the training side only.
#[derive(Clone)]
pub struct Sided {
    main: Tensor,
    pub(super) eval: Eval,
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

#[cfg(any(feature = "cuda", test))]
impl Eval {
    /// Returns what a step makes of values of their own.
    pub fn map(&self, step: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Self> {
        match self {
            Self::Own(eval) => step(eval).map(Self::Own),
            other => Ok(other.clone()),
        }
    }
}

impl Sided {
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

    /// Returns lanes, nodes and columns.
    pub fn dims(&self) -> &[usize] {
        self.main.dims()
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.dims().first().copied().unwrap_or(0)
    }

    /// Returns the type of the values.
    pub fn dtype(&self) -> DType {
        self.main.dtype()
    }

    /// Returns which sides the pass computes.
    pub fn sides(&self) -> Sides {
        self.tape.sides()
    }

    /// Returns the same with a training side that may differ from the evaluation side from here on.
    #[must_use]
    pub fn parted(&self) -> Self {
        let eval = match (&self.eval, self.sides()) {
            (Eval::Same, Sides::Both) => Eval::Own(self.main.clone()),
            (Eval::Same, Sides::Train) => Eval::Absent,
            (other, _) => other.clone(),
        };
        Self { eval, ..self.clone() }
    }

    /// Returns the same with the evaluation side of another.
    ///
    /// # Errors
    /// When the shapes differ.
    pub fn evaluated_as(&self, other: &Self) -> Result<Self> {
        if self.dims() != other.dims() {
            bail!("{:?} cannot be evaluated as {:?}", self.dims(), other.dims());
        }
        let eval = match other.eval() {
            Some(eval) if self.sides().evaluate() => Eval::Own(eval.clone()),
            _ => Eval::Absent,
        };
        Ok(Self { eval, ..self.clone() })
    }

    /// Returns the side that gradients reach alone: what a term of the training loss is made of.
    #[must_use]
    pub fn without_eval(&self) -> Self {
        Self { eval: Eval::Absent, ..self.clone() }
    }

    /// What an operation has made of this; `back` turns the gradient of the result into those of the inputs.
    pub(super) fn next(
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

/// Something that an operation takes as one tensor: a weight, or numbers made of weights.
pub trait AsTensor {
    /// Returns the tensor, lanes first.
    fn tensor(&self) -> Tensor;
}

impl AsTensor for Tensor {
    fn tensor(&self) -> Tensor {
        self.clone()
    }
}

/// What an operation finds on its way back. `T`: the float type, `K`: what forward has kept, `N` inputs, `M` weights.
pub struct Back<'a, T, K, const N: usize, const M: usize> {
    /// What forward has kept.
    pub kept: K,
    /// The gradient of the result.
    pub gradient: &'a [T],
    /// The inputs, training side.
    pub inputs: [&'a [T]; N],
    /// The weights.
    pub weights: [&'a [T]; M],
}

/// The gradient of an input or of a weight.
pub enum Gradient<T> {
    /// Is that of the result, as it is.
    Same,
    /// Has these values.
    Of(Vec<T>),
}

/// Applies an operation to both sides of its inputs at once.
///
/// `forward` gets, for every side that is computed (training first), the values of all inputs, and the weights; it
/// returns a result of `shape` for every side, and what is kept for the way back. `back` returns the gradients of the
/// inputs and then those of the weights. In main memory: on a GPU such an operation is refused.
///
/// # Errors
/// When the tensors are of another type than `T`, or elsewhere; and those of `forward`.
pub fn operation<T: Element, K: 'static, const N: usize, const M: usize>(
    inputs: [&Sided; N],
    weights: [&Tensor; M],
    shape: &[usize],
    forward: impl FnOnce(&[[&[T]; N]], [&[T]; M]) -> Result<(Vec<Vec<T>>, K)>,
    back: impl FnOnce(Back<T, K, N, M>) -> Result<Vec<Gradient<T>>> + 'static,
) -> Result<Sided> {
    let (main, eval, kept) = both_sides(inputs, weights, shape, forward)?;
    let Some(first) = inputs.first() else { bail!("an operation needs an input") };
    let (inputs, weights) = (inputs.map(|input| input.main.clone()), weights.map(Tensor::clone));
    Ok(first.next(main, eval, move |gradient| {
        let found = slices::lend::<T, _, 1>([gradient], |[values]| {
            slices::lend::<T, _, N>(inputs.each_ref(), |inputs| {
                slices::lend::<T, _, M>(weights.each_ref(), |weights| {
                    back(Back { kept, gradient: values, inputs, weights })
                })
            })
        })?;
        let of = inputs.into_iter().chain(weights).zip(found);
        of.map(|(tensor, found)| match found {
            Gradient::Same => Ok((tensor, gradient.clone())),
            Gradient::Of(values) => slices::tensor(values, tensor.dims()).map(|gradient| (tensor, gradient)),
        })
        .collect()
    }))
}

/// Computes the training side of a result, the evaluation side, and what is kept.
pub(super) fn both_sides<T: Element, K, const N: usize, const M: usize>(
    inputs: [&Sided; N],
    weights: [&Tensor; M],
    shape: &[usize],
    forward: impl FnOnce(&[[&[T]; N]], [&[T]; M]) -> Result<(Vec<Vec<T>>, K)>,
) -> Result<(Tensor, Eval, K)> {
    let evals: Option<Vec<&Tensor>> = inputs.iter().map(|input| input.eval()).collect();
    let alike = inputs.iter().all(|input| matches!(input.eval, Eval::Same));
    let mut sides: Vec<&Tensor> = inputs.iter().map(|input| &input.main).collect();
    let beside = evals.filter(|_| !alike);
    let eval_is_own = beside.is_some();
    sides.extend(beside.into_iter().flatten());
    let (mut outputs, kept) = slices::lend::<T, _, M>(weights, |weights| {
        slices::lend_all::<T, _>(&sides, |sides| {
            let sides: Vec<[&[T]; N]> = sides.chunks(N).map(|side| std::array::from_fn(|i| side[i])).collect();
            forward(&sides, weights)
        })
    })?;
    let eval = match (alike, eval_is_own) {
        (true, _) => Eval::Same,
        (false, true) if outputs.len() == 2 => Eval::Own(slices::tensor(outputs.pop().unwrap_or_default(), shape)?),
        (false, true) => bail!("an operation left out the evaluation side"),
        (false, false) => Eval::Absent,
    };
    Ok((slices::tensor(outputs.pop().unwrap_or_default(), shape)?, eval, kept))
}
