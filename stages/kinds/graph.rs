//! A graph as its publisher stored it: directed edges, features, labels, and masks if the file has them.
//!
//! Nothing is symmetrised, de-duplicated or scaled here; `normalize` decides what models use.

use std::collections::BTreeMap;
use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::features::Features;
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::splits::Splits;

const UNLABELLED: &str = "unlabelled";

/// A graph with node features and labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Directed edges `(source, target)` as stored, loops and duplicates included.
    pub edges: Vec<(u32, u32)>,
    /// nodes × features.
    pub features: Features,
    /// One class a node, below `classes`.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
    /// Nodes whose class the publisher does not give, ascending; their entry in `labels` is a placeholder.
    pub unlabelled: Vec<u32>,
    /// The splits that came with the file, if any.
    pub masks: Option<Splits>,
}

impl Graph {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Counts what a person wants to know about the file.
    pub fn facts(&self) -> BTreeMap<&'static str, serde_json::Value> {
        let loops = self.edges.iter().filter(|(a, b)| a == b).count();
        let mut distinct = self.edges.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut undirected: Vec<_> =
            distinct.iter().filter(|(a, b)| a != b).map(|&(a, b)| (a.min(b), a.max(b))).collect();
        undirected.sort_unstable();
        undirected.dedup();
        let same = undirected.iter().filter(|(a, b)| self.labels[*a as usize] == self.labels[*b as usize]).count();
        let mut touched = vec![false; self.nodes()];
        for &(a, b) in &undirected {
            touched[a as usize] = true;
            touched[b as usize] = true;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let homophily = same as f64 / undirected.len().max(1) as f64;
        BTreeMap::from([
            ("nodes", self.nodes().into()),
            ("features", self.features.cols().into()),
            ("classes", self.classes.into()),
            ("edges-stored", self.edges.len().into()),
            ("edges-distinct", distinct.len().into()),
            ("edges-undirected", undirected.len().into()),
            ("self-loops", loops.into()),
            ("isolated-nodes", touched.iter().filter(|t| !**t).count().into()),
            ("edge-homophily", homophily.into()),
            ("unlabelled-nodes", self.unlabelled.len().into()),
            ("splits", self.masks.as_ref().map_or(0, Splits::len).into()),
        ])
    }
}

impl Artifact for Graph {
    const KIND: Kind = Kind("graph");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        let flat: Vec<u32> = self.edges.iter().flat_map(|&(a, b)| [a, b]).collect();
        file.add("edges", &[self.edges.len(), 2], &flat);
        self.features.put(&mut file);
        file.add("labels", &[self.labels.len()], &self.labels);
        file.add("classes", &[1], &[self.classes as u64]);
        if !self.unlabelled.is_empty() {
            file.add(UNLABELLED, &[self.unlabelled.len()], &self.unlabelled);
        }
        if let Some(masks) = &self.masks {
            masks.put(&mut file);
        }
        file.write(&dir.join("graph.safetensors"))?;
        write_json(&dir.join("facts.json"), &self.facts())
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let path = dir.join("graph.safetensors");
        let file = TensorsRead::open(&path)?;
        let (_, edges) = file.shaped::<u32, 2>("edges")?;
        let features = Features::take(&file)?;
        let (_, labels) = file.shaped::<u32, 1>("labels")?;
        let (_, classes) = file.shaped::<u64, 1>("classes")?;
        let names = file.names()?;
        let has = |name: &str| names.iter().any(|n| n == name);
        let masks = if has(Splits::TENSOR) { Some(Splits::take(&file)?) } else { None };
        let unlabelled = if has(UNLABELLED) { file.shaped::<u32, 1>(UNLABELLED)?.1 } else { Vec::new() };
        let edges: Vec<_> = edges.chunks_exact(2).map(|e| (e[0], e[1])).collect();
        let classes = classes.first().and_then(|c| usize::try_from(*c).ok()).unwrap_or(0);
        let n = labels.len();
        let sound = features.rows() == n
            && edges.iter().all(|&(a, b)| (a as usize) < n && (b as usize) < n)
            && labels.iter().all(|l| (*l as usize) < classes)
            && unlabelled.iter().all(|u| (*u as usize) < n)
            && masks.iter().flat_map(|m| &m.parts).all(|parts| parts.len() == n);
        if !sound {
            return Err(ArtifactError::malformed(&path, "a consistent graph"));
        }
        Ok(Self { edges, features, labels, classes, unlabelled, masks })
    }
}
