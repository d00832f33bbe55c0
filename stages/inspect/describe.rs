//! What a graph is like, in numbers.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use serde::Serialize;

use super::homophily::{Homophily, homophily};
use super::informativeness::{Informativeness, informativeness};
use super::lists::Lists;
use super::twins::twins;
use crate::kinds::{Counts, Features, Graph, Part, Splits};

/// Everything [`describe`] measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Description {
    /// What `facts.json` of the graph says.
    pub counts: Counts,
    /// Neighbours of a node.
    pub degrees: Degrees,
    /// How often neighbours have the same class.
    pub homophily: Homophily,
    /// What the class at one end of an edge tells about the other; none where it is not defined.
    pub label_informativeness: Option<Informativeness>,
    /// Parts of the graph without an edge between them.
    pub components: Components,
    /// Values of the features.
    pub features: FeatureFacts,
    /// Nodes of every class, without those whose class is not given.
    pub class_sizes: Vec<usize>,
    /// What the publisher calls the classes; empty where classes go by their numbers.
    pub class_names: Vec<String>,
    /// Weights of the edges, if the file has them.
    pub weights: Option<WeightFacts>,
    /// Nodes that are copies of each other as far as links and label can tell.
    pub twins: TwinFacts,
    /// The splits that came with the file, if any.
    pub splits: Option<SplitFacts>,
}

/// Undirected degrees, loops not counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Degrees {
    /// Smallest.
    pub min: usize,
    /// Middle one, or the mean of the two in the middle.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: usize,
    /// Degrees 0, 1, 2, 3–4, 5–8 and so on up to the largest.
    pub histogram: Vec<Bucket>,
}

/// Nodes with a degree in a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Bucket {
    /// Smallest degree.
    pub from: usize,
    /// Largest degree.
    pub to: usize,
    /// How many nodes.
    pub nodes: usize,
}

/// Connected components of the undirected graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Components {
    /// How many, isolated nodes included.
    pub count: usize,
    /// Nodes of the largest.
    pub largest: usize,
    /// How many have a single node.
    pub isolated: usize,
}

/// Values of the features, zeros that are not stored included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FeatureFacts {
    /// Features per node.
    pub cols: usize,
    /// Whether only values that are not zero are stored.
    pub sparse: bool,
    /// Share of values that are not zero.
    pub density: f64,
    /// Whether every value is 0 or 1.
    pub binary: bool,
    /// Nodes whose features are all zero.
    pub zero_rows: usize,
    /// Smallest value; 0 without any.
    pub min: f32,
    /// Largest value; 0 without any.
    pub max: f32,
}

/// Weights of edges as stored, which count where `normalize` is asked to use them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WeightFacts {
    /// Smallest; 0 without edges.
    pub min: f32,
    /// Largest; 0 without edges.
    pub max: f32,
}

/// Twins, see [`super::twins`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TwinFacts {
    /// Groups of two and more.
    pub groups: usize,
    /// Nodes in them.
    pub nodes: usize,
    /// Nodes that `filter: duplicates` takes away.
    pub duplicates: usize,
}

/// Sizes of the parts of splits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitFacts {
    /// Sizes of every split.
    pub sizes: Vec<PartSizes>,
    /// The smallest size of every part over the splits.
    pub least: PartSizes,
    /// The largest size of every part over the splits.
    pub most: PartSizes,
}

/// How many nodes the parts of a split have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartSizes {
    /// Training nodes.
    pub train: usize,
    /// Validation nodes.
    pub val: usize,
    /// Test nodes.
    pub test: usize,
    /// Nodes in no part.
    pub outside: usize,
}

/// Measures a graph. Takes time in proportion to edges · log nodes, and to the features.
pub fn describe(graph: &Graph) -> Description {
    let around = Lists::around(graph);
    let twins = twins(graph);
    let (groups, nodes) = twins.groups(0);
    Description {
        counts: graph.counts(),
        degrees: degrees(&around),
        homophily: homophily(graph, &around),
        label_informativeness: informativeness(graph, &around),
        components: components(&around),
        features: features(&graph.features),
        class_sizes: class_sizes(graph),
        class_names: graph.names.classes.clone(),
        weights: graph.weights.as_deref().map(weights),
        twins: TwinFacts { groups, nodes, duplicates: graph.nodes() - twins.kept().len() },
        splits: graph.masks.as_ref().and_then(split_facts),
    }
}

/// Counts the nodes of every part of every split.
pub fn part_sizes(splits: &Splits) -> Vec<PartSizes> {
    let sizes = |row: &Vec<Part>| {
        let count = |part| row.iter().filter(|p| **p == part).count();
        let [train, val, test, outside] = [Part::Train, Part::Val, Part::Test, Part::None].map(count);
        PartSizes { train, val, test, outside }
    };
    splits.parts.iter().map(sizes).collect()
}

/// Counts the nodes of every degree, in the buckets of [`Degrees::histogram`].
pub fn degree_histogram(graph: &Graph) -> Vec<Bucket> {
    degrees(&Lists::around(graph)).histogram
}

fn degrees(around: &Lists) -> Degrees {
    let mut degrees: Vec<_> = (0..around.len()).map(|i| around.row(i).len()).collect();
    degrees.sort_unstable();
    let n = degrees.len();
    let at = |i: usize| degrees.get(i).copied().unwrap_or(0);
    let max = at(n.saturating_sub(1));
    let mut histogram = Vec::new();
    let (mut from, mut to) = (0, 0);
    while from <= max {
        let nodes = degrees.partition_point(|d| *d <= to) - degrees.partition_point(|d| *d < from);
        histogram.push(Bucket { from, to, nodes });
        (from, to) = (to + 1, if to == 0 { 1 } else { 2 * to });
    }
    Degrees {
        min: at(0),
        median: (at(n.saturating_sub(1) / 2) + at(n / 2)) as f64 / 2.0,
        mean: degrees.iter().sum::<usize>() as f64 / n.max(1) as f64,
        max,
        histogram,
    }
}

fn components(around: &Lists) -> Components {
    let mut seen = vec![false; around.len()];
    let mut found = Components { count: 0, largest: 0, isolated: 0 };
    let mut waiting = Vec::new();
    for start in 0..around.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut size = 0;
        waiting.push(start);
        while let Some(node) = waiting.pop() {
            size += 1;
            let new = around.row(node).iter().map(|j| *j as usize);
            waiting.extend(new.filter(|j| !std::mem::replace(&mut seen[*j], true)));
        }
        found.count += 1;
        found.largest = found.largest.max(size);
        found.isolated += usize::from(size == 1);
    }
    found
}

fn features(features: &Features) -> FeatureFacts {
    let (rows, cols) = (features.rows(), features.cols());
    let values = features.values();
    let non_zeros = features.non_zeros();
    let zero_rows = match features {
        Features::Dense(m) if cols > 0 => m.data.chunks(cols).filter(|row| row.iter().all(|x| *x == 0.0)).count(),
        Features::Dense(_) => rows,
        Features::Sparse(s) => (0..rows).filter(|i| s.row(*i).1.iter().all(|x| *x == 0.0)).count(),
    };
    // What is not stored is zero.
    let unstored = values.len() < rows * cols;
    let extreme = |better: fn(f32, f32) -> f32| {
        values.iter().copied().chain(unstored.then_some(0.0)).reduce(better).unwrap_or(0.0)
    };
    FeatureFacts {
        cols,
        sparse: matches!(features, Features::Sparse(_)),
        density: non_zeros as f64 / (rows * cols).max(1) as f64,
        binary: values.iter().all(|x| *x == 0.0 || *x == 1.0),
        zero_rows,
        min: extreme(f32::min),
        max: extreme(f32::max),
    }
}

fn weights(weights: &[f32]) -> WeightFacts {
    let extreme = |better: fn(f32, f32) -> f32| weights.iter().copied().reduce(better).unwrap_or(0.0);
    WeightFacts { min: extreme(f32::min), max: extreme(f32::max) }
}

fn class_sizes(graph: &Graph) -> Vec<usize> {
    let mut sizes = vec![0usize; graph.classes];
    for label in &graph.labels {
        sizes[*label as usize] += 1;
    }
    for node in &graph.unlabelled {
        let size = &mut sizes[graph.labels[*node as usize] as usize];
        *size = size.saturating_sub(1);
    }
    sizes
}

fn split_facts(splits: &Splits) -> Option<SplitFacts> {
    let sizes = part_sizes(splits);
    let combine = |pick: fn(usize, usize) -> usize| {
        sizes.iter().copied().reduce(|a, b| PartSizes {
            train: pick(a.train, b.train),
            val: pick(a.val, b.val),
            test: pick(a.test, b.test),
            outside: pick(a.outside, b.outside),
        })
    };
    Some(SplitFacts { least: combine(usize::min)?, most: combine(usize::max)?, sizes: sizes.clone() })
}
