//! Copies of a network: every lane has several stacks, which nothing mixes until they are averaged.
//!
//! A product with the features reads rows of W that are padded to a register, so as many stacks as fill one stand side by side in
//! the columns of a lane ([`Stacks`]); what is left over is lanes of its own. Weights of lanes × stacks × in × out are put together in
//! that order; products from stack to stack are with a matrix that is zero outside of the blocks on its diagonal. A sum has the
//! same order either way, so how stacks stand changes no byte.

use candle_core::{Device, Result, Tensor, bail};
use rayon::prelude::*;

use super::sided::{AsTensor, Back, Eval, Gradient, Sided, operation};
use crate::math::kernels::BLOCK;
use crate::models::Input;
use crate::tensor::slices::{Element, by_float};

/// How the stacks of a lane stand.
#[derive(Clone, Copy, Debug)]
pub struct Stacks {
    /// Lanes of their own that each lane has.
    pub lanes: usize,
    /// Stacks side by side in each of them.
    pub beside: usize,
}

impl Stacks {
    /// Puts as many of `stacks` stacks side by side as fill a register with `columns` columns each.
    pub fn of(stacks: usize, columns: usize) -> Self {
        let fits = |beside: &usize| stacks.is_multiple_of(*beside) && beside * columns <= BLOCK;
        let beside = (1..=stacks).rev().find(fits).unwrap_or(1);
        Self { lanes: stacks / beside, beside }
    }

    fn count(self) -> usize {
        self.lanes * self.beside
    }
}

impl Input {
    /// Returns a weight as something that operations apply to; it is the same in training and in evaluation.
    pub fn weight(&self, weight: &impl AsTensor) -> Sided {
        Sided::new(weight.tensor(), Eval::Same, &self.tape)
    }

    /// Returns a weight of lanes × stacks × in × out, or lanes × stacks × out, as the layer of all stacks.
    ///
    /// # Errors
    /// When it has other stacks.
    pub fn stacked(&self, weight: &impl AsTensor, stacks: Stacks) -> Result<Tensor> {
        let whole = weight.tensor();
        let ([lanes, inputs, out], shape) = match *whole.dims() {
            [lanes, of, out] if of == stacks.count() => {
                ([lanes, 1, out], vec![lanes * stacks.lanes, out * stacks.beside])
            }
            [lanes, of, inputs, out] if of == stacks.count() => {
                ([lanes, inputs, out], vec![lanes * stacks.lanes, inputs, out * stacks.beside])
            }
            _ => bail!("{:?} has no {} stacks", whole.dims(), stacks.count()),
        };
        let (from, to) =
            ([lanes * stacks.lanes, stacks.beside, inputs, out], [lanes * stacks.lanes, inputs, stacks.beside, out]);
        self.made_of(
            whole,
            move |x| x.reshape(&from)?.transpose(1, 2)?.contiguous()?.reshape(&*shape),
            move |gradient| gradient.reshape(&to)?.transpose(1, 2)?.contiguous(),
        )
    }

    /// Returns a weight of lanes × stacks × in × out as the layer between layers of all stacks: block by block.
    ///
    /// # Errors
    /// When it has other stacks.
    pub fn stacked_between(&self, weight: &impl AsTensor, stacks: Stacks) -> Result<Tensor> {
        let (whole, beside) = (weight.tensor(), stacks.beside);
        let [lanes, of, inputs, out] = *whole.dims() else { bail!("{:?} has no stacks", whole.dims()) };
        if of != stacks.count() {
            bail!("{:?} has no {} stacks", whole.dims(), stacks.count());
        }
        let lanes = lanes * stacks.lanes;
        let blocks = Tensor::eye(beside, whole.dtype(), &Device::Cpu)?.to_device(whole.device())?;
        let (blocks, apart) = (blocks.reshape((1, beside, 1, beside, 1))?, [lanes, beside, inputs, 1, out]);
        let kept = blocks.clone();
        self.made_of(
            whole,
            move |x| x.reshape(&apart)?.broadcast_mul(&blocks)?.reshape((lanes, beside * inputs, beside * out)),
            move |gradient| gradient.reshape((lanes, beside, inputs, beside, out))?.broadcast_mul(&kept)?.sum(3),
        )
    }

    /// What is made of a weight, and the way back.
    fn made_of(
        &self,
        weight: Tensor,
        make: impl FnOnce(&Tensor) -> Result<Tensor>,
        back: impl FnOnce(&Tensor) -> Result<Tensor> + 'static,
    ) -> Result<Tensor> {
        // Detached, or candle would note its own way back beside that of the tape.
        let made = make(&weight.detach())?;
        self.tape.note(&[&made], move |arrived| match arrived {
            [Some(gradient)] => Ok(vec![(weight.clone(), back(gradient)?.reshape(weight.dims())?)]),
            _ => Ok(Vec::new()),
        });
        Ok(made)
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

    /// Returns the mean over the stacks of every lane.
    ///
    /// # Errors
    /// When it has other stacks.
    pub fn mean_of_stacks(&self, stacks: Stacks) -> Result<Self> {
        let Stacks { lanes, beside } = stacks;
        let [all, rows, wide] = *self.dims() else { bail!("{:?} has no stacks", self.dims()) };
        if stacks.count() == 0 || !all.is_multiple_of(lanes) || !wide.is_multiple_of(beside) {
            bail!("{:?} has no {} stacks", self.dims(), stacks.count());
        }
        if stacks.count() == 1 {
            return Ok(self.clone());
        }
        on_gpu!(self.main() => super::cuda::mean_of_stacks(self, stacks));
        let mean = Mean { stacks, rows, columns: wide / beside };
        let shape = [all / lanes, rows, mean.columns];
        by_float!(self.dtype(), "a mean of stacks", T => operation::<T, _, 1, 0>(
            [self],
            [],
            &shape,
            |sides, []| Ok((sides.iter().map(|[x]| mean.of(x)).collect(), ())),
            move |Back { gradient, .. }| Ok(vec![Gradient::Of(mean.back(gradient))]),
        ))
    }
}

/// The mean over stacks of some rows and columns each.
#[derive(Clone, Copy)]
struct Mean {
    stacks: Stacks,
    rows: usize,
    columns: usize,
}

impl Mean {
    fn share<T: Element>(self) -> T {
        T::narrow(1.0 / self.stacks.count() as f64)
    }

    fn of<T: Element>(self, x: &[T]) -> Vec<T> {
        let Self { stacks: Stacks { lanes, beside }, rows, columns } = self;
        let (wide, share): (_, T) = (beside * columns, self.share());
        let mut out = vec![T::default(); x.len() / (lanes * beside).max(1)];
        let of_lanes = out.par_chunks_mut((rows * columns).max(1)).zip(x.par_chunks((lanes * rows * wide).max(1)));
        of_lanes.for_each(|(out, x)| {
            for (i, out) in out.chunks_exact_mut(columns.max(1)).enumerate() {
                for stacks in (0..lanes).map(|lane| &x[(lane * rows + i) * wide..][..wide]) {
                    for stack in stacks.chunks_exact(columns) {
                        out.iter_mut().zip(stack).for_each(|(sum, x)| *sum += *x);
                    }
                }
                out.iter_mut().for_each(|sum| *sum *= share);
            }
        });
        out
    }

    fn back<T: Element>(self, gradient: &[T]) -> Vec<T> {
        let Self { stacks: Stacks { lanes, beside }, rows, columns } = self;
        let share: T = self.share();
        let of_lane = |of_lane: &[T]| {
            let row = |row: &[T]| row.iter().map(|g| *g * share).collect::<Vec<T>>().repeat(beside);
            of_lane.chunks_exact(columns.max(1)).flat_map(row).collect::<Vec<T>>().repeat(lanes)
        };
        gradient.par_chunks((rows * columns).max(1)).flat_map_iter(of_lane).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_fill_a_register_and_none_is_left_out() {
        for (stacks, columns, beside) in
            [(1, 7, 1), (2, 7, 2), (3, 7, 1), (4, 7, 2), (3, 5, 3), (5, 3, 5), (6, 3, 3), (2, 40, 1)]
        {
            let found = Stacks::of(stacks, columns);
            assert_eq!((found.beside, found.count()), (beside, stacks), "{stacks} stacks of {columns} columns");
        }
    }
}
