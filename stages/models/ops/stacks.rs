//! Copies of a network side by side: every lane has several stacks, which are lanes of their own until they are averaged.
//!
//! Weights of lanes × stacks × in × out become those of (lanes · stacks) lanes. No operation mixes lanes, so all of them compute
//! every stack apart; the mean brings stacks of a lane together again.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Eval, Gradient, Sided, operation};
use crate::models::Input;
use crate::tensor::slices::{Element, by_float};

impl Input {
    /// Returns a weight as something that operations apply to; it is the same in training and in evaluation.
    pub fn weight(&self, weight: &impl AsTensor) -> Sided {
        Sided::new(weight.tensor(), Eval::Same, &self.tape)
    }

    /// Returns a weight of lanes × stacks × …, with every stack a lane.
    ///
    /// # Errors
    /// When there are no stacks.
    pub fn stacked(&self, weight: &impl AsTensor) -> Result<Tensor> {
        let whole = weight.tensor();
        let [lanes, stacks, rest @ ..] = whole.dims() else { bail!("{:?} has no stacks", whole.dims()) };
        // Detached, or candle would note its own way back beside that of the tape.
        let apart = whole.detach().reshape([&[lanes * stacks], rest].concat())?;
        self.tape.note(&[&apart], move |arrived| match arrived {
            [Some(gradient)] => Ok(vec![(whole.clone(), gradient.reshape(whole.dims())?)]),
            _ => Ok(Vec::new()),
        });
        Ok(apart)
    }
}

impl Sided {
    /// Returns it as a weight of an operation: what was made of weights alone, and is the same on both sides.
    ///
    /// # Errors
    /// When training and evaluation have parted.
    pub fn as_weight(&self) -> Result<Tensor> {
        match self.eval {
            Eval::Same => Ok(self.main().clone()),
            _ => bail!("a weight must be the same in training and in evaluation"),
        }
    }

    /// Returns the mean over the stacks of every lane: (lanes · stacks) × … becomes lanes × ….
    ///
    /// # Errors
    /// When the lanes are no multiple of the stacks.
    pub fn mean_of_stacks(&self, stacks: usize) -> Result<Self> {
        let lanes = self.lanes().checked_div(stacks).unwrap_or(0);
        if stacks == 0 || lanes * stacks != self.lanes() {
            bail!("{} lanes are no {stacks} stacks each", self.lanes());
        }
        if stacks == 1 {
            return Ok(self.clone());
        }
        on_gpu!(self.main() => super::cuda::mean_of_stacks(self, stacks));
        let mut shape = self.dims().to_vec();
        shape[0] = lanes;
        let share = 1.0 / stacks as f64;
        let size: usize = shape[1..].iter().product::<usize>().max(1);
        by_float!(self.dtype(), "a mean of stacks", T => operation::<T, _, 1, 0>(
            [self],
            [],
            &shape,
            |sides, []| Ok((sides.iter().map(|[x]| mean(x, stacks, size)).collect(), ())),
            move |Back { gradient, .. }| {
                let share = T::narrow(share);
                let spread = |of_lane: &[T]| of_lane.iter().map(|g| *g * share).collect::<Vec<T>>().repeat(stacks);
                Ok(vec![Gradient::Of(gradient.par_chunks(size).flat_map_iter(spread).collect())])
            },
        ))
    }
}

/// The mean over `stacks` neighbours of `size` values each.
fn mean<T: Element>(x: &[T], stacks: usize, size: usize) -> Vec<T> {
    let share = T::narrow(1.0 / stacks as f64);
    let of_lane = |stacks: &[T]| {
        let mut sum = stacks[..size].to_vec();
        stacks[size..].chunks_exact(size).for_each(|stack| sum.iter_mut().zip(stack).for_each(|(a, b)| *a += *b));
        sum.iter_mut().for_each(|sum| *sum *= share);
        sum
    };
    x.par_chunks(stacks * size).flat_map_iter(of_lane).collect()
}
