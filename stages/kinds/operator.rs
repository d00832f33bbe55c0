//! The symmetric propagation operator of a graph, with the features and labels that models see.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::graph::Matrix;
use crate::math::csr::Csr;

/// What `normalize` produces and every model trains on.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The symmetric operator, nodes × nodes: Ã with self-loops, Â₀ without.
    pub matrix: Csr,
    /// nodes × features, as the models see them.
    pub features: Matrix,
    /// One class a node.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
}

impl Operator {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }
}

impl Artifact for Operator {
    const KIND: Kind = Kind("operator");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        file.add("indptr", &[self.matrix.indptr.len()], &self.matrix.indptr);
        file.add("indices", &[self.matrix.indices.len()], &self.matrix.indices);
        file.add("values", &[self.matrix.values.len()], &self.matrix.values);
        file.add("features", &[self.features.rows, self.features.cols], &self.features.data);
        file.add("labels", &[self.labels.len()], &self.labels);
        file.add("classes", &[1], &[self.classes as u64]);
        file.write(&dir.join("operator.safetensors"))?;
        let facts = serde_json::json!({"nodes": self.nodes(), "non-zeros": self.matrix.indices.len()});
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join("operator.safetensors"))?;
        let (_, indptr) = file.shaped::<u64, 1>("indptr")?;
        let (_, indices) = file.shaped::<u32, 1>("indices")?;
        let (_, values) = file.shaped::<f64, 1>("values")?;
        let ([rows, cols], data) = file.shaped::<f32, 2>("features")?;
        let (_, labels) = file.shaped::<u32, 1>("labels")?;
        let (_, classes) = file.shaped::<u64, 1>("classes")?;
        let matrix = Csr::new(labels.len(), indptr, indices, values)
            .filter(|_| rows == labels.len())
            .ok_or_else(|| file.malformed("a square sparse matrix with a row a node"))?;
        let classes = classes.first().and_then(|c| usize::try_from(*c).ok()).unwrap_or(0);
        Ok(Self { matrix, features: Matrix { rows, cols, data }, labels, classes })
    }
}
