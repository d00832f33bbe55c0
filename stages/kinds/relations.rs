//! Which nodes a node hears, and how each of them is related to it.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::size;
use crate::math::csr::Csr;

/// What `relate` produces: ordered pairs of nodes, each with one relation.
#[derive(Clone, Debug, PartialEq)]
pub struct Relations {
    /// A row for every node that hears, a column for every node that is heard, and the relation of the pair, below
    /// [`Relations::COUNT`]: 0 to 3 are the quadrants of neighbours in the graph, 4 to 7 those of neighbours in the plane of an
    /// embedding, 8 is the node itself.
    pub pairs: Csr<u8>,
}

impl Relations {
    /// Relations that there are.
    pub const COUNT: usize = 9;
    /// The relation of a node to itself.
    pub const OWN: u8 = 8;

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.pairs.n()
    }

    /// Returns how many pairs have every relation.
    pub fn sizes_of_all(&self) -> [usize; Self::COUNT] {
        let mut sizes = [0; Self::COUNT];
        for relation in &self.pairs.values {
            if let Some(size) = sizes.get_mut(usize::from(*relation)) {
                *size += 1;
            }
        }
        sizes
    }
}

impl Artifact for Relations {
    const KIND: Kind = Kind("relations");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        file.add("indptr", &[self.pairs.indptr.len()], &self.pairs.indptr);
        file.add("indices", &[self.pairs.indices.len()], &self.pairs.indices);
        file.add("relations", &[self.pairs.values.len()], &self.pairs.values);
        file.write(&dir.join("relations.safetensors"))?;
        let sizes = self.sizes_of_all();
        let used = sizes.iter().filter(|size| **size > 0).count();
        let facts = serde_json::json!({
            "nodes": self.nodes(), "pairs": self.pairs.indices.len(), "relations": used, "pairs-of": sizes,
        });
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join("relations.safetensors"))?;
        let (_, indptr) = file.shaped::<u64, 1>("indptr")?;
        let (_, indices) = file.shaped::<u32, 1>("indices")?;
        let (_, relations) = file.shaped::<u8, 1>("relations")?;
        let known = relations.iter().all(|relation| usize::from(*relation) < Self::COUNT);
        let pairs = Csr::new(indptr.len().saturating_sub(1), indptr, indices, relations).filter(|_| known);
        Ok(Self { pairs: pairs.ok_or_else(|| file.malformed("a square sparse matrix of relations"))? })
    }

    fn sizes(dir: &Path) -> Sizes {
        let names = [(size::NODES, "/nodes"), (size::ENTRIES, "/pairs"), (size::RELATIONS, "/relations")];
        size::from_facts(dir, &names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded() {
        let pairs = Csr::new(2, vec![0, 2, 3], vec![0, 1, 1], vec![8, 3, 8]).unwrap();
        let (relations, dir) = (Relations { pairs }, tempfile::tempdir().unwrap());
        relations.save(dir.path()).unwrap();
        assert_eq!(Relations::load(dir.path()).unwrap(), relations);
        let sizes = Relations::sizes(dir.path());
        assert_eq!([size::NODES, size::ENTRIES, size::RELATIONS].map(|name| sizes.known(name)), [2, 3, 2].map(Some));
        let unknown = Csr::new(1, vec![0, 1], vec![0], vec![9]).unwrap();
        Relations { pairs: unknown }.save(dir.path()).unwrap();
        assert!(Relations::load(dir.path()).unwrap_err().to_string().contains("sparse matrix of relations"));
    }
}
