//! Eigenpairs of an operator from both ends of its spectrum.
//!
//! Low frequency is an eigenvalue near +1, high frequency one near −1. Both sides are sorted by descending
//! eigenvalue, and no pair is on both sides.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};

/// Eigenpairs of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Eigenvalues, descending.
    pub values: Vec<f64>,
    /// Eigenvectors, one after the other: pairs × nodes, row-major.
    pub vectors: Vec<f32>,
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

impl Artifact for Spectrum {
    const KIND: Kind = Kind("spectrum");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        for (name, side) in [("low", &self.low), ("high", &self.high)] {
            file.add(format!("{name}.values"), &[side.values.len()], &side.values);
            file.add(format!("{name}.vectors"), &[side.values.len(), self.nodes], &side.vectors);
        }
        file.add("quality", &[2], &[self.worst_residual, self.worst_overlap]);
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
            let ([rows, nodes], vectors) = file.shaped::<f32, 2>(&format!("{name}.vectors"))?;
            if rows == pairs {
                Ok((nodes, Side { values, vectors }))
            } else {
                Err(file.malformed("a vector an eigenvalue"))
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
}
