//! What a model sees of a graph: tensors made once and shared by all splits.

use std::sync::Arc;

use candle_core::{DType, Device};

use super::FeatureView;
use super::ops::{Eigenvectors, Propagator};
use super::plain::PlainGraph;
use super::propagated::Propagated;
use super::related::Related;
use crate::contract::StageError;
use crate::kinds::{Features, Nodes, Operator, Projection, Relations, SeparatedHops, Spectrum};
use crate::math::csr::Csr;
use crate::tensor::is_gpu;

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
    /// Symmetric operators by the distance of the nodes that they join, for the models that need them.
    pub hops: Option<Vec<(usize, Arc<Propagator>)>>,
    /// How nodes are related, for the models that need it.
    pub relations: Option<Related>,
    /// The same graph for models in plain form.
    pub plain: PlainGraph,
    propagated: Propagated,
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
    /// UᵀX, pairs × features, for the models that filter features.
    pub projection: Option<Arc<FeatureView>>,
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
    /// Features in the basis of the eigenvectors.
    pub projection: Option<&'a Projection>,
    /// Powers of the operator by distance.
    pub hops: Option<&'a SeparatedHops>,
    /// How nodes are related.
    pub relations: Option<&'a Relations>,
}

impl<'a> GraphParts<'a> {
    /// What every model needs, and nothing else.
    pub fn of(operator: &'a Operator, nodes: &'a Nodes) -> Self {
        Self { operator, nodes, spectrum: None, second_operator: None, projection: None, hops: None, relations: None }
    }
}

impl GraphView {
    /// Turns artifacts into tensors of type `dtype` on a device. What a model does not use is never uploaded.
    ///
    /// # Errors
    /// [`StageError::Unusable`] if the artifacts differ in size.
    pub fn new(parts: GraphParts, dtype: DType, device: Device) -> Result<Self, StageError> {
        let GraphParts { operator, nodes: graph, spectrum, second_operator, projection, hops, relations } = parts;
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
        if let Some(hops) = hops.filter(|hops| hops.nodes != nodes) {
            return Err(StageError::unusable(
                format!("the hops are of `{}` nodes, the graph has `{nodes}`", hops.nodes),
                "wire `hops` to a `separate` of the same operator that is wired to `operator`",
            ));
        }
        if let Some(relations) = relations.filter(|relations| relations.nodes() != nodes) {
            return Err(StageError::unusable(
                format!("the relations are of `{}` nodes, the graph has `{nodes}`", relations.nodes()),
                "wire `relations` to a `relate` of the same graph",
            ));
        }
        if let Some(label) = graph.labels.iter().find(|l| **l as usize >= graph.classes) {
            return Err(StageError::unusable(
                format!("a node has class `{label}`, but the graph has `{}` classes", graph.classes),
                "classes are counted from 0; the data source is not consistent",
            ));
        }
        let propagator = |operator: &Operator| Arc::new(Propagator::new(operator.matrix.clone()));
        let (features, operator) = (Arc::new(FeatureView::new(&graph.features, dtype)?), propagator(operator));
        Ok(Self {
            nodes,
            classes: graph.classes,
            plain: PlainGraph::new(&features, &operator, graph.classes, device.clone()),
            features,
            operator,
            spectrum: spectrum.map(|s| SpectrumView::new(s, projection, nodes, dtype, &device)).transpose()?,
            second_operator: second_operator.map(propagator),
            hops: hops.map(|hops| {
                let operator = |(hop, matrix): &(usize, Csr<f32>)| (*hop, Arc::new(Propagator::of_single(matrix)));
                hops.hops.iter().map(operator).collect()
            }),
            relations: relations.map(Related::new).transpose()?,
            propagated: Propagated::default(),
            device,
        })
    }

    /// Returns S^K X, made once for all batches.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn propagated(&self, order: usize) -> Result<Arc<FeatureView>, StageError> {
        self.propagated.get(&self.features, self.operator.matrix(), order, self.dtype())
    }

    /// Returns whether a GPU computes.
    pub fn on_gpu(&self) -> bool {
        is_gpu(&self.device)
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
    fn new(
        spectrum: &Spectrum,
        projection: Option<&Projection>,
        nodes: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self, StageError> {
        let (low, high) = (&spectrum.low, &spectrum.high);
        let pairs = low.values.len() + high.values.len();
        if spectrum.nodes != nodes || low.vectors.len() + high.vectors.len() != pairs * nodes {
            return Err(StageError::unusable(
                format!("the spectrum is of `{}` nodes, the graph has `{nodes}`", spectrum.nodes),
                "wire `spectrum` to an `evd` of the same operator that is wired to `operator`",
            ));
        }
        let values = [low.values.as_slice(), high.values.as_slice()].concat();
        if let Some(other) = projection.filter(|projection| projection.eigenvalues != values) {
            return Err(StageError::unusable(
                format!("the projection is of `{}` other eigenpairs than the `{pairs}` given", other.eigenvalues.len()),
                "wire `spectrum` to the same `evd` as that of the `project` that `projection` is wired to",
            ));
        }
        let view = |of: &Projection| FeatureView::new(&Features::Dense(of.features.clone()), dtype).map(Arc::new);
        Ok(Self {
            values,
            low: low.values.len(),
            vectors: Eigenvectors::new(&[&low.vectors[..], &high.vectors[..]], nodes, dtype, device)?,
            projection: projection.map(view).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::testing;

    fn view(operator: &Operator, nodes: &Nodes, spectrum: Option<&Spectrum>) -> Result<GraphView, StageError> {
        GraphView::new(GraphParts { spectrum, ..GraphParts::of(operator, nodes) }, DType::F32, Device::Cpu)
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
        let parts = GraphParts { second_operator: Some(&smaller), ..GraphParts::of(&operator, &nodes) };
        let error = GraphView::new(parts, DType::F32, Device::Cpu).err().unwrap();
        assert_eq!(error.to_string(), "the second operator is of `1` nodes, the graph has `14`");
    }

    #[test]
    fn relations_of_another_graph_are_refused() {
        let (operator, nodes, _) = testing::artifacts();
        let smaller = Relations { pairs: crate::math::csr::Csr::new(1, vec![0, 1], vec![0], vec![8]).unwrap() };
        let parts = GraphParts { relations: Some(&smaller), ..GraphParts::of(&operator, &nodes) };
        let error = GraphView::new(parts, DType::F32, Device::Cpu).err().unwrap();
        assert_eq!(error.to_string(), "the relations are of `1` nodes, the graph has `14`");
    }

    #[test]
    fn a_projection_onto_other_eigenvectors_is_refused() {
        let (operator, nodes, spectrum) = testing::artifacts();
        let projection = testing::projection(&spectrum, &nodes);
        let with = |projection: &Projection| {
            let (spectrum, projection) = (Some(&spectrum), Some(projection));
            let parts = GraphParts { spectrum, projection, ..GraphParts::of(&operator, &nodes) };
            GraphView::new(parts, DType::F32, Device::Cpu).err()
        };
        assert!(with(&projection).is_none());
        let mut other = projection;
        other.eigenvalues[3] += 1e-9;
        let error = with(&other).unwrap();
        assert_eq!(error.to_string(), "the projection is of `14` other eigenpairs than the `14` given");
        assert!(error.hint().unwrap().contains("`project`"));
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
