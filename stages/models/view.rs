//! What a model sees of a graph: tensors made once and shared by all splits.

use std::sync::Arc;

use candle_core::{DType, Device};

use super::FeatureView;
use super::ops::{Eigenvectors, Propagator};
use crate::contract::StageError;
use crate::kinds::{Nodes, Operator, Spectrum};

/// A graph as models see it.
pub struct GraphView {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of classes.
    pub classes: usize,
    /// nodes × features.
    pub features: Arc<FeatureView>,
    /// The symmetric operator, nodes × nodes.
    pub operator: Arc<Propagator>,
    /// Eigenpairs of the operator, for the models that need them.
    pub spectrum: Option<SpectrumView>,
    device: Device,
}

/// Eigenpairs of both ends: first the low side, then the high side, each by descending eigenvalue.
pub struct SpectrumView {
    /// Eigenvalues, low side first.
    pub values: Vec<f64>,
    /// How many of them are on the low side.
    pub low: usize,
    /// Eigenvectors as rows: pairs × nodes.
    pub vectors: Eigenvectors,
}

impl GraphView {
    /// Turns artifacts into tensors of type `dtype` in main memory.
    ///
    /// # Errors
    /// [`StageError::Unusable`] if graph and spectrum differ in size.
    pub fn new(
        operator: &Operator,
        nodes: &Nodes,
        spectrum: Option<&Spectrum>,
        dtype: DType,
    ) -> Result<Self, StageError> {
        Self::on(Device::Cpu, operator, nodes, spectrum, dtype)
    }

    /// Turns artifacts into tensors of type `dtype` on a device. What a model does not use is never uploaded.
    ///
    /// # Errors
    /// [`StageError::Unusable`] if graph and spectrum differ in size.
    pub fn on(
        device: Device,
        operator: &Operator,
        nodes: &Nodes,
        spectrum: Option<&Spectrum>,
        dtype: DType,
    ) -> Result<Self, StageError> {
        let (graph, nodes) = (nodes, nodes.len());
        let (rows, cols) = (graph.features.rows(), graph.features.cols());
        if rows != nodes || operator.nodes() != nodes || cols == 0 || graph.classes == 0 {
            return Err(StageError::unusable(
                format!(
                    "the graph has `{nodes}` labels, an operator of `{}` rows, features of `{}` × `{}` and `{}` classes",
                    operator.nodes(),
                    rows,
                    cols,
                    graph.classes
                ),
                "a model needs labels, operator rows and feature rows for the same nodes, and at least one feature",
            ));
        }
        if let Some(label) = graph.labels.iter().find(|l| **l as usize >= graph.classes) {
            return Err(StageError::unusable(
                format!("a node has class `{label}`, but the graph has `{}` classes", graph.classes),
                "classes are counted from 0; the data source is not consistent",
            ));
        }
        let spectrum = spectrum.map(|s| SpectrumView::new(s, nodes, dtype, &device)).transpose()?;
        let features = Arc::new(FeatureView::new(&graph.features, dtype)?);
        let operator = Arc::new(Propagator::new(operator.matrix.clone()));
        Ok(Self { nodes, classes: graph.classes, features, operator, spectrum, device })
    }

    /// Returns where all tensors are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the type of all tensors.
    pub fn dtype(&self) -> DType {
        self.features.dtype()
    }
}

impl SpectrumView {
    fn new(spectrum: &Spectrum, nodes: usize, dtype: DType, device: &Device) -> Result<Self, StageError> {
        let (low, high) = (&spectrum.low, &spectrum.high);
        let pairs = low.values.len() + high.values.len();
        if spectrum.nodes != nodes || low.vectors.len() + high.vectors.len() != pairs * nodes {
            return Err(StageError::unusable(
                format!("the spectrum is of `{}` nodes, the graph has `{nodes}`", spectrum.nodes),
                "wire `spectrum` to an `evd` of the same operator that is wired to `graph`",
            ));
        }
        Ok(Self {
            values: [low.values.as_slice(), high.values.as_slice()].concat(),
            low: low.values.len(),
            vectors: Eigenvectors::on(device, &[&low.vectors[..], &high.vectors[..]], nodes, dtype)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing;

    #[test]
    fn a_spectrum_of_another_graph_is_refused() {
        let (operator, graph, mut spectrum) = testing::artifacts();
        spectrum.nodes += 1;
        let error = GraphView::new(&operator, &graph, Some(&spectrum), DType::F32).err().unwrap();
        assert!(matches!(error, StageError::Unusable { .. }) && error.hint().is_some());
    }

    #[test]
    fn a_label_beyond_the_classes_is_refused() {
        let (operator, mut graph, _) = testing::artifacts();
        graph.labels[3] = 2;
        assert!(matches!(GraphView::new(&operator, &graph, None, DType::F32), Err(StageError::Unusable { .. })));
    }

    #[test]
    fn the_low_side_stands_first() {
        let (operator, graph, spectrum) = testing::artifacts();
        let view = GraphView::new(&operator, &graph, Some(&spectrum), DType::F32).unwrap().spectrum.unwrap();
        assert_eq!(view.values[..view.low], spectrum.low.values);
        assert_eq!(view.values[view.low..], spectrum.high.values);
        assert!(view.values.windows(2).all(|w| w[0] >= w[1]));
    }
}
