//! Eigenpairs of an operator from both ends of its spectrum.
//!
//! Low frequency is an eigenvalue near +1, high frequency one near −1. Both sides are sorted by descending
//! eigenvalue, and no pair is on both sides.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::mapped::Vectors;
use crate::kinds::size;

/// Eigenpairs of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Eigenvalues, descending.
    pub values: Vec<f64>,
    /// Eigenvectors, one after the other: pairs × nodes, row-major. Those of a loaded spectrum stay in its file.
    pub vectors: Vectors,
}

/// Eigenpairs of both ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// Number of nodes, which is the length of every vector.
    pub nodes: usize,
    /// The largest eigenvalues.
    pub low: Side,
    /// The smallest eigenvalues.
    pub high: Side,
    /// The largest ‖Ãu − λu‖₂ over all pairs.
    pub worst_residual: f64,
    /// The largest entry of |UᵀU − I|.
    pub worst_overlap: f64,
}

impl Spectrum {
    /// Keeps the outermost `k` pairs per side, or all where there are fewer. The quality stays that of all pairs, which
    /// bounds that of the kept ones.
    #[must_use]
    pub fn slice(mut self, k: usize) -> Self {
        self.low.values.truncate(k);
        self.low.vectors = self.low.vectors.part(0..self.low.values.len() * self.nodes);
        // Both sides descend, so the end of the spectrum is the first pair of the low side and the last of the high one.
        let inner = self.high.values.len().saturating_sub(k);
        self.high.values.drain(..inner);
        self.high.vectors = self.high.vectors.part(inner * self.nodes..self.high.vectors.len());
        self
    }
}

impl Artifact for Spectrum {
    const KIND: Kind = Kind("spectrum");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        for (name, side) in [("low", &self.low), ("high", &self.high)] {
            file.add(format!("{name}.values"), &[side.values.len()], &side.values);
            file.add(format!("{name}.vectors"), &[side.values.len(), self.nodes], &side.vectors);
        }
        file.add_copy("quality", &[2], &[self.worst_residual, self.worst_overlap]);
        file.write(&dir.join("spectrum.safetensors"))?;
        let ends = |side: &Side| serde_json::json!({"pairs": side.values.len(), "from": side.values.first(), "to": side.values.last()});
        let facts = serde_json::json!({
            "nodes": self.nodes, "low": ends(&self.low), "high": ends(&self.high),
            "worst-residual": self.worst_residual, "worst-overlap": self.worst_overlap,
        });
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join("spectrum.safetensors"))?;
        let side = |name: &str| {
            let ([pairs], values) = file.shaped::<f64, 1>(&format!("{name}.values"))?;
            let ([rows, nodes], vectors) = file.in_place::<2>(&format!("{name}.vectors"))?;
            if rows == pairs {
                Ok((nodes, Side { values, vectors }))
            } else {
                Err(file.malformed("one vector per eigenvalue"))
            }
        };
        let ((nodes, low), (nodes_high, high)) = (side("low")?, side("high")?);
        let (_, quality) = file.shaped::<f64, 1>("quality")?;
        match quality[..] {
            [worst_residual, worst_overlap] if nodes == nodes_high => {
                Ok(Self { nodes, low, high, worst_residual, worst_overlap })
            }
            _ => Err(file.malformed("two sides of one graph")),
        }
    }

    fn sizes(dir: &Path) -> Sizes {
        size::from_facts(dir, &[(size::NODES, "/nodes"), (size::LOW, "/low/pairs"), (size::HIGH, "/high/pairs")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spectrum() -> Spectrum {
        let side =
            |from: f32| Side { values: vec![0.5, 0.25], vectors: (0..6u8).map(|i| from + f32::from(i)).collect() };
        Spectrum { nodes: 3, low: side(0.0), high: side(-10.0), worst_residual: 1e-9, worst_overlap: 1e-12 }
    }

    /// Saves a spectrum, changes its file, and loads it.
    fn changed(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<Spectrum, ArtifactError> {
        let dir = tempfile::tempdir().unwrap();
        spectrum().save(dir.path()).unwrap();
        let path = dir.path().join("spectrum.safetensors");
        std::fs::write(&path, change(std::fs::read(&path).unwrap())).unwrap();
        Spectrum::load(dir.path())
    }

    #[test]
    fn vectors_stay_in_the_file_even_when_its_name_is_gone() {
        let loaded = changed(|bytes| bytes).unwrap();
        assert_eq!(loaded, spectrum());
        assert!(loaded.low.vectors.is_mapped() && loaded.high.vectors.is_mapped());
        assert_eq!(loaded.clone(), loaded);
        assert_eq!(format!("{:?}", loaded.low.vectors), "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]");
    }

    #[test]
    fn vectors_that_do_not_stand_on_a_boundary_are_copied() {
        let loaded = changed(|bytes| {
            // One more space behind the header moves everything by a byte.
            let (length, rest) = bytes.split_at(8);
            let length = u64::from_le_bytes(length.try_into().unwrap());
            let (header, data) = rest.split_at(usize::try_from(length).unwrap());
            [&(length + 1).to_le_bytes()[..], header, b" ", data].concat()
        });
        let loaded = loaded.unwrap();
        assert_eq!(loaded, spectrum());
        assert!(!loaded.low.vectors.is_mapped());
    }

    #[test]
    fn a_file_that_is_absent_empty_or_short_is_an_error_that_names_it() {
        for keep in [0, 7, 8, 100, 1000] {
            let error = changed(|mut bytes| {
                bytes.truncate(keep.min(bytes.len() - 1));
                bytes
            });
            let text = error.unwrap_err().to_string();
            assert!(text.contains("spectrum.safetensors` does not hold safetensors"), "{keep} bytes: {text}");
        }
        let error = Spectrum::load(std::path::Path::new("absent")).unwrap_err().to_string();
        assert_eq!(error, "cannot access `absent/spectrum.safetensors`");
    }

    #[test]
    fn a_slice_keeps_the_outermost_pairs_of_both_ends() {
        let all = Spectrum {
            nodes: 2,
            low: Side { values: vec![1.0, 0.5, 0.25], vectors: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0].into() },
            high: Side { values: vec![-0.1, -0.5, -0.9], vectors: vec![7.0, 8.0, 9.0, 10.0, 11.0, 12.0].into() },
            worst_residual: 1e-9,
            worst_overlap: 1e-10,
        };
        let one = all.clone().slice(1);
        assert_eq!(one.low, Side { values: vec![1.0], vectors: vec![1.0, 2.0].into() });
        assert_eq!(one.high, Side { values: vec![-0.9], vectors: vec![11.0, 12.0].into() });
        assert_eq!((one.nodes, one.worst_residual, one.worst_overlap), (2, 1e-9, 1e-10));
        // More than there are is all of them, as where `k` is clipped; nothing overflows.
        assert_eq!(all.clone().slice(usize::MAX), all);
    }
}
