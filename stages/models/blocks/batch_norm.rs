//! Batch normalisation with running moments, as PyTorch's `BatchNorm1d`: ε = 1e-5, momentum 0.1, trained scale and shift.
//!
//! Statistics are over all nodes of the graph, not over training nodes alone. Training normalises with the biased variance of the
//! pass; the running variance is the unbiased one. Evaluation reads the running moments that the training passes before have
//! left. Scale starts at 1, shift at 0; the model says whether they are decayed, as PyTorch does with whatever is in a group.

use std::sync::Arc;

use candle_core::{Result, Tensor};

use crate::models::ops::{AsTensor, Moments, Norm, Propagator, Sided};
use crate::models::{ModelWork, Param, Pass, State, Weights};
use crate::optim::Rule;

/// Share of the new moments in the running ones.
const MOMENTUM: f64 = 0.1;

/// A normalisation of some columns.
pub struct BatchNorm {
    scale: Param,
    shift: Param,
    mean: State,
    variance: State,
}

impl BatchNorm {
    /// Adds scale, shift and running moments of `columns` columns; the names of all begin with `name`. Scale and shift follow `rule`.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn new(name: &str, columns: usize, rule: Rule, weights: &mut Weights) -> Result<Self> {
        let of = |part: &str| format!("{name}.{part}");
        let constant = |value: f64| move |_: &mut crate::math::random::Stream| vec![value; columns];
        Ok(Self {
            scale: weights.add(of("scale"), rule, &[columns], "init/norm", constant(1.0))?,
            shift: weights.add(of("shift"), rule, &[columns], "init/norm", constant(0.0))?,
            mean: weights.state(of("running-mean"), &[columns], &vec![0.0; columns])?,
            variance: weights.state(of("running-variance"), &[columns], &vec![1.0; columns])?,
        })
    }

    /// Normalises X, and keeps what evaluation will read from the next pass on.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn forward(&self, x: &Sided, pass: &Pass) -> Result<Sided> {
        let running = self.running();
        let (normalised, seen) = x.batch_norm(&self.norm(&running))?;
        self.keep(&running, seen, x.dims()[1], pass)?;
        Ok(normalised)
    }

    /// Returns drop(ReLU(BN(S·X + b))), with `bias` or without, and keeps what evaluation will read from the next pass on.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn units(
        &self,
        x: &Sided,
        operator: &Arc<Propagator>,
        bias: Option<&dyn AsTensor>,
        dropout: f64,
        pass: &mut Pass,
    ) -> Result<Sided> {
        let running = self.running();
        let dropout = pass.dropout(dropout, "dropout/hidden");
        let (units, seen) = x.propagate_norm_relu_dropout(operator, bias, &self.norm(&running), dropout)?;
        self.keep(&running, seen, x.dims()[1], pass)?;
        Ok(units)
    }

    fn running(&self) -> Moments {
        Moments { mean: self.mean.tensor(), variance: self.variance.tensor() }
    }

    fn norm<'n>(&self, running: &'n Moments) -> Norm<'n> {
        Norm { scale: self.scale.tensor(), shift: self.shift.tensor(), running }
    }

    /// Mixes the moments of a pass that trains into the running ones.
    fn keep(&self, running: &Moments, seen: Option<Moments>, nodes: usize, pass: &Pass) -> Result<()> {
        let Some(seen) = seen else { return Ok(()) };
        let mixed =
            |before: &Tensor, now: &Tensor, factor: f64| (before * (1.0 - MOMENTUM))? + (now * (MOMENTUM * factor))?;
        self.mean.update(mixed(&running.mean, &seen.mean, 1.0)?, pass);
        let nodes = nodes as f64;
        let unbiased = nodes / (nodes - 1.0).max(1.0);
        self.variance.update(mixed(&running.variance, &seen.variance, unbiased)?, pass);
        Ok(())
    }

    /// Adds what it takes.
    pub fn work(work: ModelWork, columns: usize) -> ModelWork {
        work.units(columns).trained(2 * columns)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::models::ops::Sides;
    use crate::models::testing::{self, distance, normal};

    #[test]
    fn running_moments_follow_the_passes_that_train() {
        let mut streams = testing::streams(2);
        let mut weights = Weights::new(&mut streams, DType::F64, candle_core::Device::Cpu);
        let norm = BatchNorm::new("norm1", 3, Rule::decayed(), &mut weights).unwrap();
        let named = weights.into_named();
        let z = normal(&[2, 20, 3], 5);
        let graph = testing::view(DType::F64);
        let pass = |sides| {
            testing::in_pass(sides, &graph, &mut testing::streams(2), |x, pass| norm.forward(&x.weight(&z), pass));
            named.iter().for_each(|named| named.param.commit().unwrap());
        };
        let state = |name: &str| named.iter().find(|n| n.name == name).unwrap().param.tensor();
        pass(Sides::Eval);
        assert_eq!(distance(&state("norm1.running-mean"), &state("norm1.shift")), 0.0, "evaluation changes nothing");
        pass(Sides::Both);
        // 0.9 · 0 + 0.1 · mean, and 0.9 · 1 + 0.1 · n/(n−1) · variance.
        let mean = z.mean(1).unwrap();
        let variance = z.broadcast_sub(&mean.unsqueeze(1).unwrap()).unwrap().sqr().unwrap().sum(1).unwrap();
        let expected = ((variance / 19.0).unwrap() * 0.1).unwrap();
        assert!(distance(&state("norm1.running-mean"), &(mean * 0.1).unwrap()) < 1e-12);
        assert!(distance(&state("norm1.running-variance"), &(expected + 0.9).unwrap()) < 1e-12);
        assert!(named.iter().filter(|n| n.name.contains("running")).all(|n| n.rule.is_none()));
    }
}
