//! A graph as models in plain form see it.

use std::sync::{Arc, OnceLock};

use candle_core::{DType, Device, Result, Tensor};

use super::{Edges, PlainFeatures};
use crate::models::FeatureView;
use crate::models::ops::{Propagator, candle_graph};

/// Sizes, products with the operator, and its entries as edges. Shared by all splits; what a model does not use is never made.
pub struct PlainGraph {
    operator: Arc<Propagator>,
    view: Arc<FeatureView>,
    classes: usize,
    device: Device,
    features: OnceLock<PlainFeatures>,
    edges: OnceLock<Edges>,
}

impl PlainGraph {
    pub(in crate::models) fn new(
        view: &Arc<FeatureView>,
        operator: &Arc<Propagator>,
        classes: usize,
        device: Device,
    ) -> Self {
        let (operator, view) = (operator.clone(), view.clone());
        Self { operator, view, classes, device, features: OnceLock::new(), edges: OnceLock::new() }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.view.rows()
    }

    /// Returns the number of features.
    pub fn columns(&self) -> usize {
        self.view.columns()
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns where all tensors are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the type of all tensors that hold floats.
    pub fn dtype(&self) -> DType {
        self.view.dtype()
    }

    /// Returns S·X, with S the operator of the pipeline: nodes × columns.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn propagate(&self, x: &Tensor) -> Result<Tensor> {
        if self.device.is_cpu() { candle_graph::propagated(&self.operator, x) } else { self.propagate_by_edges(x) }
    }

    /// S·X by candle's operations alone.
    pub(super) fn propagate_by_edges(&self, x: &Tensor) -> Result<Tensor> {
        let edges = self.edges()?;
        edges.sum(&edges.of_sources(x)?.broadcast_mul(&edges.weights)?)
    }

    /// Returns the features, which every pass gets as an argument.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn features(&self) -> Result<&PlainFeatures> {
        once(&self.features, || PlainFeatures::new(&self.view, &self.device))
    }

    /// Returns the entries of the operator as edges.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn edges(&self) -> Result<&Edges> {
        once(&self.edges, || Edges::new(&self.operator, self.dtype(), &self.device))
    }
}

/// Makes something when it is first asked for. Threads that ask at the same time may make it twice; one of both is kept.
pub(super) fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}
