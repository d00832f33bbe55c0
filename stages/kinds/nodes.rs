//! What models see of the nodes: features and labels.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::features::Features;
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::size;

const FILE: &str = "nodes.safetensors";

/// What `featurize` produces and every model trains on.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes {
    /// nodes × features, as the models see them.
    pub features: Features,
    /// One class per node, below `classes`.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
}

impl Nodes {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

impl Artifact for Nodes {
    const KIND: Kind = Kind("nodes");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        self.features.put(&mut file);
        file.add("labels", &[self.labels.len()], &self.labels);
        file.add_copy("classes", &[1], &[self.classes as u64]);
        file.write(&dir.join(FILE))?;
        let facts = serde_json::json!({
            "nodes": self.len(),
            "features": self.features.cols(),
            "non-zeros": self.features.non_zeros(),
            "sparse": matches!(self.features, Features::Sparse(_)),
        });
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join(FILE))?;
        let features = Features::take(&file)?;
        let (_, labels) = file.shaped::<u32, 1>("labels")?;
        let (_, classes) = file.shaped::<u64, 1>("classes")?;
        let classes = classes.first().and_then(|c| usize::try_from(*c).ok()).unwrap_or(0);
        if features.rows() != labels.len() || labels.iter().any(|l| *l as usize >= classes) {
            return Err(file.malformed("features and a class of every node"));
        }
        Ok(Self { features, labels, classes })
    }

    fn sizes(dir: &Path) -> Sizes {
        let names = [(size::NODES, "/nodes"), (size::FEATURES, "/features")];
        let sizes = size::from_facts(dir, &names).overlaid(size::of_features(&dir.join(FILE)));
        let classes = TensorsRead::open(&dir.join(FILE)).and_then(|file| file.shaped::<u64, 1>("classes"));
        let classes = classes.ok().and_then(|(_, classes)| usize::try_from(*classes.first()?).ok());
        sizes.with_some(size::CLASSES, classes)
    }
}
