//! The units of a graph convolution: drop_p(ReLU(BN(Ã Z + b))) for Z = H W, with or without bias and batch normalisation.

use candle_core::Result;

use super::BatchNorm;
use crate::models::ops::{AsTensor, Sided};
use crate::models::{GraphSizes, GraphView, ModelWork, Pass};

/// What follows the product with the weights, from the operator to dropout of the units.
pub struct Convolution<'m> {
    /// b.
    pub bias: Option<&'m dyn AsTensor>,
    /// Batch normalisation before ReLU.
    pub norm: Option<&'m BatchNorm>,
    /// Share of units dropped in training.
    pub dropout: f64,
}

impl Convolution<'_> {
    /// Returns the units of Z.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn forward(&self, z: &Sided, graph: &GraphView, pass: &mut Pass) -> Result<Sided> {
        let a = &graph.operator;
        match self.norm {
            Some(norm) => norm.units(z, a, self.bias, self.dropout, pass),
            None => z.propagate_relu_dropout(a, self.bias, pass.dropout(self.dropout, "dropout/hidden")),
        }
    }

    /// Counts the work of two convolutions, the first on features.
    pub fn work_of_two(graph: &GraphSizes, hidden: usize, batch_norm: bool) -> ModelWork {
        let work = ModelWork::on(graph).features(hidden, 1).hops(1, hidden).propagated(hidden).units(hidden);
        let work = if batch_norm { BatchNorm::work(work, hidden) } else { work };
        work.dense(hidden, graph.classes).hops(1, graph.classes)
    }
}
