//! Powers of an operator, taken apart by the distance of nodes.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, read_json, write_json};
use crate::kinds::size;
use crate::math::csr::Csr;

/// What `separate` produces: for some hops l, the entries of Σ_k S^k between nodes at distance l, a symmetric matrix each.
#[derive(Clone, Debug, PartialEq)]
pub struct SeparatedHops {
    /// Number of nodes.
    pub nodes: usize,
    /// Hops in ascending order, each with its matrix, nodes × nodes.
    pub hops: Vec<(usize, Csr<f32>)>,
}

impl Artifact for SeparatedHops {
    const KIND: Kind = Kind("hops");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        for (hop, matrix) in &self.hops {
            file.add(format!("{hop}.indptr"), &[matrix.indptr.len()], &matrix.indptr);
            file.add(format!("{hop}.indices"), &[matrix.indices.len()], &matrix.indices);
            file.add(format!("{hop}.values"), &[matrix.values.len()], &matrix.values);
        }
        file.write(&dir.join("hops.safetensors"))?;
        let hops: Vec<usize> = self.hops.iter().map(|(hop, _)| *hop).collect();
        let entries: Vec<usize> = self.hops.iter().map(|(_, matrix)| matrix.indices.len()).collect();
        let facts = serde_json::json!({"nodes": self.nodes, "hops": hops, "entries": entries});
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let facts = dir.join("facts.json");
        let told: serde_json::Value = read_json(&facts)?;
        let odd = || ArtifactError::malformed(&facts, "`nodes` and a list `hops`");
        let number = |value: &serde_json::Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let nodes = number(&told["nodes"]).ok_or_else(odd)?;
        let listed = told["hops"].as_array().ok_or_else(odd)?;
        let file = TensorsRead::open(&dir.join("hops.safetensors"))?;
        let mut hops = Vec::with_capacity(listed.len());
        for hop in listed {
            let hop = number(hop).ok_or_else(odd)?;
            let (_, indptr) = file.shaped::<u64, 1>(&format!("{hop}.indptr"))?;
            let (_, indices) = file.shaped::<u32, 1>(&format!("{hop}.indices"))?;
            let (_, values) = file.shaped::<f32, 1>(&format!("{hop}.values"))?;
            let matrix = Csr::new(nodes, indptr, indices, values);
            hops.push((hop, matrix.ok_or_else(|| file.malformed("square sparse matrices of all nodes"))?));
        }
        Ok(Self { nodes, hops })
    }

    fn sizes(dir: &Path) -> Sizes {
        let told: serde_json::Value = read_json(&dir.join("facts.json")).unwrap_or_default();
        let list = |name: &str| {
            let numbers = told[name].as_array()?.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()));
            numbers.collect::<Option<Vec<usize>>>()
        };
        let (hops, entries) = (list("hops").unwrap_or_default(), list("entries").unwrap_or_default());
        let sizes =
            size::from_facts(dir, &[(size::NODES, "/nodes")]).with(size::ENTRIES, entries.iter().sum::<usize>());
        sizes.with_list(size::HOPS, hops).with_list(size::HOP_ENTRIES, entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded() {
        let matrix = |value: f32| Csr::new(2, vec![0, 1, 2], vec![1, 0], vec![value, value]).unwrap();
        let hops = SeparatedHops { nodes: 2, hops: vec![(1, matrix(0.5)), (3, matrix(0.25))] };
        let dir = tempfile::tempdir().unwrap();
        hops.save(dir.path()).unwrap();
        assert_eq!(SeparatedHops::load(dir.path()).unwrap(), hops);
        let sizes = SeparatedHops::sizes(dir.path());
        assert_eq!((sizes.list(size::HOPS), sizes.known(size::ENTRIES)), (Some(&[1, 3][..]), Some(4)));
        SeparatedHops { nodes: 3, ..hops }.save(dir.path()).unwrap();
        assert!(SeparatedHops::load(dir.path()).unwrap_err().to_string().contains("square sparse matrices"));
    }
}
