//! A weighted sum of Z itself and of its products with several symmetric operators: θ_0 Z + Σ_l θ_l P_l·Z.
//!
//! With P_0 = I and G the gradient of the result, ∂Z = Σ_l θ_l P_l·G and ∂θ_l = ⟨P_l·Z, G⟩ = ⟨Z, P_l·G⟩: the way back needs the same products as
//! the way there, and nothing is kept between them. All lanes stand side by side, so one pass over an operator serves all.

use std::sync::Arc;

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::propagate::{Coefficients, Propagator, firsts, symmetric};
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::tensor::slices::{Element, by_float};

/// Values that one task adds.
const TASK: usize = 1 << 14;

impl Sided {
    /// Returns θ_0 X + Σ_l θ_l P_l·X of every lane for symmetric P_l: nodes × nodes; `weights` holds θ: lanes × (1 + operators).
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn hop_sum(&self, operators: &[Arc<Propagator>], weights: &impl AsTensor) -> Result<Self> {
        let theta = weights.tensor();
        let Some(first) = operators.first() else { bail!("a sum over no operators") };
        let shape = symmetric(first, self.dims())?;
        if theta.dims() != [shape.lanes, 1 + operators.len()] || operators.iter().any(|o| o.n() != first.n()) {
            bail!("weights of {:?} for {} lanes and {} operators", theta.dims(), shape.lanes, operators.len());
        }
        on_gpu!(self.main() => super::cuda::hop_sum(operators, &theta, self));
        let (again, degrees) = (operators.to_vec(), 1 + operators.len());
        by_float!(self.dtype(), "a sum over hops", T => operation::<T, _, 1, 1>(
            [self],
            [&theta],
            self.dims(),
            |sides, [theta]| {
                let (count, of) = (sides.len(), Coefficients { values: theta, degrees, shape });
                let (sum, _) = summed(operators, &of.rows(count), &shape.join(&firsts(sides)), None, shape.width(count));
                Ok(((0..count).map(|i| shape.part(&sum, i, count)).collect(), ()))
            },
            move |Back { gradient, inputs: [x], weights: [theta], .. }| {
                let (of, width) = (Coefficients { values: theta, degrees, shape }, shape.width(1));
                let (x, gradient) = (shape.join(&[x]), shape.join(&[gradient]));
                let (sum, dots) = summed(&again, &of.rows(1), &gradient, Some(&x), width);
                Ok(vec![Gradient::Of(shape.part(&sum, 0, 1)), Gradient::Of(of.sums(&dots, width))])
            },
        ))
    }
}

/// Returns Σ_l θ_l P_l·Z with P_0 = I, and the inner products of the columns of P_l·Z with those of `against`, if it is given: a row of
/// `width` values for every l. `theta` has such a row too.
fn summed<T: Element>(
    operators: &[Arc<Propagator>],
    theta: &[T],
    z: &[T],
    against: Option<&[T]>,
    width: usize,
) -> (Vec<T>, Vec<f64>) {
    let (mut sum, mut hop, mut dots) = (vec![T::default(); z.len()], z.to_vec(), Vec::new());
    let rows = (TASK / width.max(1)).max(1) * width;
    let all = std::iter::once(None).chain(operators.iter().map(Some));
    for (operator, theta) in all.zip(theta.chunks_exact(width.max(1))) {
        if let Some(operator) = operator {
            operator.product(z, width, &mut hop);
        }
        sum.par_chunks_mut(rows).zip(hop.par_chunks(rows)).for_each(|(sum, hop)| {
            for (sum, hop) in sum.chunks_exact_mut(width).zip(hop.chunks_exact(width)) {
                sum.iter_mut().zip(hop.iter().zip(theta)).for_each(|(sum, (hop, theta))| *sum += *hop * *theta);
            }
        });
        if let Some(against) = against {
            let of_task = |(hop, against): (&[T], &[T])| {
                let mut dots = vec![0.0; width];
                for (hop, against) in hop.chunks_exact(width).zip(against.chunks_exact(width)) {
                    let products = hop.iter().zip(against).map(|(hop, against)| hop.widen() * against.widen());
                    dots.iter_mut().zip(products).for_each(|(dot, product)| *dot += product);
                }
                dots
            };
            let of_tasks: Vec<Vec<f64>> = hop.par_chunks(rows).zip(against.par_chunks(rows)).map(of_task).collect();
            let mut of_operator = vec![0.0; width];
            of_tasks.iter().for_each(|of_task| of_operator.iter_mut().zip(of_task).for_each(|(sum, dot)| *sum += dot));
            dots.extend(of_operator);
        }
    }
    (sum, dots)
}
