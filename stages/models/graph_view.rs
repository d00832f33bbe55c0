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
    /// A second symmetric operator on the same nodes, such as that of two hops, for the models that need it.
    pub second_operator: Option<Arc<Propagator>>,
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

/// The artifacts that a view is made of.
#[derive(Clone, Copy)]
pub struct GraphParts<'a> {
    /// The operator that models propagate with.
    pub operator: &'a Operator,
    /// Features and classes.
    pub nodes: &'a Nodes,
    /// Eigenpairs of the operator.
    pub spectrum: Option<&'a Spectrum>,
    /// A second operator on the same nodes.
    pub second_operator: Option<&'a Operator>,
}

impl GraphView {
    /// Turns artifacts into tensors of type `dtype` on a device. What a model does not use is never uploaded.
    ///
    /// # Errors
    /// [`StageError::Unusable`] if the artifacts differ in size.
    pub fn new(parts: GraphParts, dtype: DType, device: Device) -> Result<Self, StageError> {
        let GraphParts { operator, nodes: graph, spectrum, second_operator } = parts;
        let (nodes, rows, cols) = (graph.len(), graph.features.rows(), graph.features.cols());
        if rows != nodes || operator.nodes() != nodes || cols == 0 || graph.classes == 0 {
            return Err(StageError::unusable(
                format!(
                    "the graph has `{nodes}` labels, an operator of `{}` rows, features of `{rows}` × `{cols}` and `{}` classes",
                    operator.nodes(),
                    graph.classes
                ),
                "a model needs labels, operator rows and feature rows for the same nodes, and at least one feature",
            ));
        }
        if let Some(second) = second_operator.filter(|second| second.nodes() != nodes) {
            return Err(StageError::unusable(
                format!("the second operator is of `{}` nodes, the graph has `{nodes}`", second.nodes()),
                "wire `second-operator` to a `normalize` of the same graph",
            ));
        }
        if let Some(label) = graph.labels.iter().find(|l| **l as usize >= graph.classes) {
            return Err(StageError::unusable(
                format!("a node has class `{label}`, but the graph has `{}` classes", graph.classes),
                "classes are counted from 0; the data source is not consistent",
            ));
        }
        let propagator = |operator: &Operator| Arc::new(Propagator::new(operator.matrix.clone()));
        Ok(Self {
            nodes,
            classes: graph.classes,
            features: Arc::new(FeatureView::new(&graph.features, dtype)?),
            operator: propagator(operator),
            spectrum: spectrum.map(|s| SpectrumView::new(s, nodes, dtype, &device)).transpose()?,
            second_operator: second_operator.map(propagator),
            device,
        })
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
                "wire `spectrum` to an `evd` of the same operator that is wired to `operator`",
            ));
        }
        Ok(Self {
            values: [low.values.as_slice(), high.values.as_slice()].concat(),
            low: low.values.len(),
            vectors: Eigenvectors::new(&[&low.vectors[..], &high.vectors[..]], nodes, dtype, device)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing;

    fn view(operator: &Operator, nodes: &Nodes, spectrum: Option<&Spectrum>) -> Result<GraphView, StageError> {
        GraphView::new(GraphParts { operator, nodes, spectrum, second_operator: None }, DType::F32, Device::Cpu)
    }

    #[test]
    fn a_spectrum_of_another_graph_is_refused() {
        let (operator, nodes, mut spectrum) = testing::artifacts();
        spectrum.nodes += 1;
        let error = view(&operator, &nodes, Some(&spectrum)).err().unwrap();
        assert!(matches!(error, StageError::Unusable { .. }) && error.hint().is_some());
    }

    #[test]
    fn a_second_operator_of_another_graph_is_refused() {
        let (operator, nodes, _) = testing::artifacts();
        let smaller = Operator { matrix: crate::math::csr::Csr::new(1, vec![0, 0], vec![], vec![]).unwrap() };
        let parts = GraphParts { operator: &operator, nodes: &nodes, spectrum: None, second_operator: Some(&smaller) };
        let error = GraphView::new(parts, DType::F32, Device::Cpu).err().unwrap();
        assert_eq!(error.to_string(), "the second operator is of `1` nodes, the graph has `14`");
    }

    #[test]
    fn a_label_beyond_the_classes_is_refused() {
        let (operator, mut nodes, _) = testing::artifacts();
        nodes.labels[3] = 2;
        assert!(matches!(view(&operator, &nodes, None), Err(StageError::Unusable { .. })));
    }

    #[test]
    fn the_low_side_stands_first() {
        let (operator, nodes, spectrum) = testing::artifacts();
        let view = view(&operator, &nodes, Some(&spectrum)).unwrap().spectrum.unwrap();
        assert_eq!(view.values[..view.low], spectrum.low.values);
        assert_eq!(view.values[view.low..], spectrum.high.values);
        assert!(view.values.windows(2).all(|w| w[0] >= w[1]));
    }
}
