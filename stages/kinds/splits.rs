//! Which nodes train, validate and test, for any number of splits.
//!
//! A node has exactly one part in a split, so parts cannot overlap once they are here.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::size;

/// The part a node plays in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// Not used by this split.
    None = 0,
    /// Fits weights.
    Train = 1,
    /// Chooses the epoch and the configuration.
    Val = 2,
    /// Is only reported.
    Test = 3,
}

impl Part {
    /// The three parts that nodes are scored on, with their names.
    pub const SCORED: [(Part, &'static str); 3] = [(Part::Train, "train"), (Part::Val, "val"), (Part::Test, "test")];

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::None, Self::Train, Self::Val, Self::Test].get(usize::from(byte)).copied()
    }
}

/// Splits of the nodes of one graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splits {
    /// One row per split, one part per node.
    pub parts: Vec<Vec<Part>>,
}

impl Splits {
    pub(crate) const TENSOR: &'static str = "parts";

    /// Returns the number of splits.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether there is no split.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the nodes of a part, ascending.
    pub fn nodes(&self, split: usize, part: Part) -> Vec<u32> {
        (0u32..).zip(&self.parts[split]).filter(|(_, p)| **p == part).map(|(i, _)| i).collect()
    }

    pub(crate) fn put(&self, file: &mut TensorFile) {
        let nodes = self.parts.first().map_or(0, Vec::len);
        let bytes: Vec<u8> = self.parts.iter().flatten().map(|p| *p as u8).collect();
        file.add_copy(Self::TENSOR, &[self.len(), nodes], &bytes);
    }

    pub(crate) fn take(file: &TensorsRead) -> Result<Self, ArtifactError> {
        let ([splits, nodes], bytes) = file.shaped::<u8, 2>(Self::TENSOR)?;
        let parts: Option<Vec<Part>> = bytes.into_iter().map(Part::from_byte).collect();
        let parts = parts.ok_or_else(|| file.malformed("parts between 0 and 3"))?;
        let rows = (0..splits).map(|s| parts[s * nodes..(s + 1) * nodes].to_vec()).collect();
        Ok(Self { parts: rows })
    }
}

impl Artifact for Splits {
    const KIND: Kind = Kind("splits");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        self.put(&mut file);
        file.write(&dir.join("splits.safetensors"))?;
        let sizes: Vec<_> = self
            .parts
            .iter()
            .map(|row| Part::SCORED.map(|(part, _)| row.iter().filter(|p| **p == part).count()))
            .collect();
        write_json(&dir.join("facts.json"), &serde_json::json!({"train-val-test": sizes}))
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        Self::take(&TensorsRead::open(&dir.join("splits.safetensors"))?)
    }

    fn sizes(dir: &Path) -> Sizes {
        let file = TensorsRead::open(&dir.join("splits.safetensors")).ok();
        let shape = file.and_then(|file| <[usize; 2]>::try_from(file.shape_of(Self::TENSOR)?).ok());
        Sizes::default()
            .with_some(size::SPLITS, shape.map(|[splits, _]| splits))
            .with_some(size::NODES, shape.map(|[_, n]| n))
    }
}
