//! A graph as its publisher stored it: directed edges, features, labels, and masks if the file has them.
//!
//! Nothing is symmetrised, de-duplicated or scaled here; `normalize` decides what models use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::features::Features;
use crate::kinds::files::{TensorFile, TensorsRead, read_json, write_json};
use crate::kinds::size;
use crate::kinds::splits::Splits;

const FILE: &str = "graph.safetensors";
const UNLABELLED: &str = "unlabelled";
const WEIGHTS: &str = "weights";
const NAMES: &str = "names.json";

/// What a publisher calls nodes and classes; their bytes are kept as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// An id of every node; empty where the file has none, and nodes go by their numbers.
    pub ids: Vec<String>,
    /// A name of every class; empty where the file has none, and classes go by their numbers.
    pub classes: Vec<String>,
}

fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

impl Names {
    /// Returns what a node is called.
    pub fn id(&self, node: usize) -> Cow<'_, str> {
        self.ids.get(node).map_or_else(|| node.to_string().into(), |id| id.as_str().into())
    }

    /// Returns what a node is called, for a message: a name may hold anything, and a terminal must not obey it.
    pub fn id_shown(&self, node: usize) -> String {
        printable(&self.id(node))
    }

    /// Returns what a class is called, for a message.
    pub fn class_shown(&self, class: usize) -> String {
        printable(&self.class(class))
    }

    /// Returns what a class is called.
    pub fn class(&self, class: usize) -> Cow<'_, str> {
        self.classes.get(class).map_or_else(|| class.to_string().into(), |name| name.as_str().into())
    }
}

/// A graph with node features and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Directed edges `(source, target)` as stored, loops and duplicates included.
    pub edges: Vec<(u32, u32)>,
    /// A weight of every edge, if the file has them.
    pub weights: Option<Vec<f32>>,
    /// nodes × features.
    pub features: Features,
    /// One class per node, below `classes`.
    pub labels: Vec<u32>,
    /// Number of classes.
    pub classes: usize,
    /// Nodes whose class the publisher does not give, ascending; their entry in `labels` is a placeholder.
    pub unlabelled: Vec<u32>,
    /// The splits that came with the file, if any.
    pub masks: Option<Splits>,
    /// What nodes and classes are called.
    pub names: Names,
}

impl Graph {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Reads what splits are made of, and nothing large: classes, nodes without one, and the splits that came with the file.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold it.
    pub fn load_labels(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join(FILE))?;
        let graph = Self::divided(&file)?;
        let n = graph.nodes();
        let sound = graph.labels.iter().all(|label| (*label as usize) < graph.classes)
            && graph.unlabelled.iter().all(|node| (*node as usize) < n)
            && graph.masks.iter().flat_map(|masks| &masks.parts).all(|parts| parts.len() == n);
        if sound { Ok(graph) } else { Err(file.malformed("a class of every node")) }
    }

    fn divided(file: &TensorsRead) -> Result<Self, ArtifactError> {
        let (_, labels) = file.shaped::<u32, 1>("labels")?;
        let (_, classes) = file.shaped::<u64, 1>("classes")?;
        let classes = classes.first().and_then(|c| usize::try_from(*c).ok()).unwrap_or(0);
        let has = |name: &str| file.shape_of(name).is_some();
        let masks = if has(Splits::TENSOR) { Some(Splits::take(file)?) } else { None };
        let unlabelled = if has(UNLABELLED) { file.shaped::<u32, 1>(UNLABELLED)?.1 } else { Vec::new() };
        Ok(Self { labels, classes, unlabelled, masks, ..Self::default() })
    }

    /// Counts what a person wants to know about the file. Sorts the edges once.
    pub fn counts(&self) -> Counts {
        // Both directions of an edge become neighbours: the smaller end, the larger end, then which way it points.
        let mut edges: Vec<_> = self.edges.iter().map(|&(a, b)| (a.min(b), a.max(b), a > b)).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut known = vec![true; self.nodes()];
        for node in &self.unlabelled {
            known.get_mut(*node as usize).into_iter().for_each(|k| *k = false);
        }
        let (mut loops, mut undirected, mut one_way, mut judged, mut same) = (0, 0, 0, 0, 0);
        let mut degrees = vec![0usize; self.nodes()];
        for ways in edges.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let (a, b) = (ways[0].0 as usize, ways[0].1 as usize);
            if a == b {
                loops += 1;
                continue;
            }
            undirected += 1;
            one_way += usize::from(ways.len() == 1);
            let both_known = known[a] && known[b];
            judged += usize::from(both_known);
            same += usize::from(both_known && self.labels[a] == self.labels[b]);
            degrees[a] += 1;
            degrees[b] += 1;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let edge_homophily = same as f64 / judged.max(1) as f64;
        Counts {
            nodes: self.nodes(),
            features: self.features.cols(),
            classes: self.classes,
            edges_stored: self.edges.len(),
            edges_distinct: edges.len(),
            edges_duplicate: self.edges.len() - edges.len(),
            edges_undirected: undirected,
            edges_one_way: one_way,
            self_loops: loops,
            isolated_nodes: degrees.iter().filter(|d| **d == 0).count(),
            largest_degree: degrees.iter().copied().max().unwrap_or(0),
            edge_homophily,
            unlabelled_nodes: self.unlabelled.len(),
            splits: self.masks.as_ref().map_or(0, Splits::len),
        }
    }

    /// Returns [`Graph::counts`] by name, as `facts.json` has them.
    pub fn facts(&self) -> BTreeMap<String, serde_json::Value> {
        match serde_json::to_value(self.counts()) {
            Ok(serde_json::Value::Object(counts)) => counts.into_iter().collect(),
            _ => BTreeMap::new(),
        }
    }
}

/// What can be counted of a graph without knowing what it is for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Nodes.
    pub nodes: usize,
    /// Features per node.
    pub features: usize,
    /// Classes.
    pub classes: usize,
    /// Edges as stored.
    pub edges_stored: usize,
    /// Distinct directed edges, loops included.
    pub edges_distinct: usize,
    /// Stored edges that repeat another.
    pub edges_duplicate: usize,
    /// Pairs of different nodes with an edge in either direction.
    pub edges_undirected: usize,
    /// Distinct directed edges without loops whose reverse is not stored.
    pub edges_one_way: usize,
    /// Distinct loops.
    pub self_loops: usize,
    /// Nodes without a neighbour; a loop is none.
    pub isolated_nodes: usize,
    /// Most neighbours of a node, in either direction, without loops.
    pub largest_degree: usize,
    /// Share of undirected edges between nodes of one class, among edges whose ends both have a label. 0 without any.
    pub edge_homophily: f64,
    /// Nodes whose class the publisher does not give.
    pub unlabelled_nodes: usize,
    /// Splits that came with the file.
    pub splits: usize,
}

impl Artifact for Graph {
    const KIND: Kind = Kind("graph");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let flat: Vec<u32> = self.edges.iter().flat_map(|&(a, b)| [a, b]).collect();
        let mut file = TensorFile::default();
        file.add("edges", &[self.edges.len(), 2], &flat);
        self.features.put(&mut file);
        file.add("labels", &[self.labels.len()], &self.labels);
        file.add_copy("classes", &[1], &[self.classes as u64]);
        if !self.unlabelled.is_empty() {
            file.add(UNLABELLED, &[self.unlabelled.len()], &self.unlabelled);
        }
        if let Some(masks) = &self.masks {
            masks.put(&mut file);
        }
        if let Some(weights) = &self.weights {
            file.add(WEIGHTS, &[weights.len()], weights);
        }
        file.write(&dir.join(FILE))?;
        if self.names != Names::default() {
            write_json(&dir.join(NAMES), &self.names)?;
        }
        write_json(&dir.join("facts.json"), &self.facts())
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let path = dir.join(FILE);
        let file = TensorsRead::open(&path)?;
        let (_, edges) = file.shaped::<u32, 2>("edges")?;
        let features = Features::take(&file)?;
        let Self { labels, classes, unlabelled, masks, .. } = Self::divided(&file)?;
        let weights = file.shape_of(WEIGHTS).map(|_| file.shaped::<f32, 1>(WEIGHTS)).transpose()?.map(|(_, w)| w);
        let names = dir.join(NAMES);
        let names: Names = if names.exists() { read_json(&names)? } else { Names::default() };
        let edges: Vec<_> = edges.chunks_exact(2).map(|e| (e[0], e[1])).collect();
        let n = labels.len();
        let sound = features.rows() == n
            && edges.iter().all(|&(a, b)| (a as usize) < n && (b as usize) < n)
            && labels.iter().all(|l| (*l as usize) < classes)
            && unlabelled.iter().all(|u| (*u as usize) < n)
            && weights.iter().all(|w| w.len() == edges.len())
            && (names.ids.is_empty() || names.ids.len() == n)
            && (names.classes.is_empty() || names.classes.len() == classes)
            && masks.iter().flat_map(|m| &m.parts).all(|parts| parts.len() == n);
        if !sound {
            return Err(ArtifactError::malformed(&path, "a consistent graph"));
        }
        Ok(Self { edges, weights, features, labels, classes, unlabelled, masks, names })
    }

    fn sizes(dir: &Path) -> Sizes {
        let names = [
            (size::NODES, "/nodes"),
            (size::FEATURES, "/features"),
            (size::CLASSES, "/classes"),
            (size::EDGES, "/edges-stored"),
            (size::LINKS, "/edges-undirected"),
            (size::SPLITS, "/splits"),
        ];
        size::from_facts(dir, &names).overlaid(size::of_features(&dir.join(FILE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Matrix;

    #[test]
    fn every_count_is_right_on_a_graph_counted_by_hand() {
        let features = Features::Dense(Matrix { rows: 6, cols: 1, data: vec![0.0; 6] });
        // 0 ⇄ 1 stored three times, 1 → 2 one way, 3 → 0 one way and twice; 4 has a loop twice, 5 nothing.
        let edges = vec![(0, 1), (1, 0), (0, 1), (1, 2), (3, 0), (3, 0), (4, 4), (4, 4)];
        let labels = vec![0, 0, 1, 1, 0, 0];
        let graph = Graph { edges, features, labels, classes: 2, unlabelled: vec![4], ..Graph::default() };
        let counts = graph.counts();
        assert_eq!((counts.nodes, counts.features, counts.classes), (6, 1, 2));
        assert_eq!((counts.edges_stored, counts.edges_distinct, counts.edges_duplicate), (8, 5, 3));
        assert_eq!((counts.edges_undirected, counts.edges_one_way, counts.self_loops), (3, 2, 1));
        assert_eq!((counts.isolated_nodes, counts.largest_degree), (2, 2));
        assert_eq!((counts.unlabelled_nodes, counts.splits), (1, 0));
        // Of 0–1, 1–2 and 0–3 the first joins nodes of one class.
        assert_eq!(counts.edge_homophily, 1.0 / 3.0);
        assert_eq!(graph.facts()["edges-one-way"], 2);
        assert_eq!(graph.facts().len(), 14);
    }
}
