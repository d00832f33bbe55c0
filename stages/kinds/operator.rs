//! The symmetric propagation operator of a graph.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::size;
use crate::math::csr::Csr;

/// What `normalize` produces: the structure of a graph as models use it, without anything about its nodes, so that
/// eigenpairs are shared by everything that differs in features alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The symmetric operator, nodes × nodes: Ã with self-loops, Â₀ without.
    pub matrix: Csr,
}

impl Operator {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.matrix.n()
    }
}

impl Artifact for Operator {
    const KIND: Kind = Kind("operator");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        file.add("indptr", &[self.matrix.indptr.len()], &self.matrix.indptr);
        file.add("indices", &[self.matrix.indices.len()], &self.matrix.indices);
        file.add("values", &[self.matrix.values.len()], &self.matrix.values);
        file.write(&dir.join("operator.safetensors"))?;
        let facts = serde_json::json!({"nodes": self.nodes(), "non-zeros": self.matrix.indices.len()});
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join("operator.safetensors"))?;
        let (_, indptr) = file.shaped::<u64, 1>("indptr")?;
        let (_, indices) = file.shaped::<u32, 1>("indices")?;
        let (_, values) = file.shaped::<f64, 1>("values")?;
        let matrix = Csr::new(indptr.len().saturating_sub(1), indptr, indices, values)
            .ok_or_else(|| file.malformed("a square sparse matrix"))?;
        Ok(Self { matrix })
    }

    fn sizes(dir: &Path) -> Sizes {
        size::from_facts(dir, &[(size::NODES, "/nodes"), (size::ENTRIES, "/non-zeros")])
    }
}
