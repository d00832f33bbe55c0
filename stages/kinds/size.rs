//! Names of the sizes that artifacts have, for [`Sizes`].

use std::path::Path;

use serde_json::Value;

use crate::contract::{Size, Sizes};
use crate::kinds::files::{TensorsRead, read_json};

/// Nodes of a graph.
pub const NODES: &str = "nodes";
/// Features per node.
pub const FEATURES: &str = "features";
/// Values of the features that are stored: all of dense ones, those that are not zero of sparse ones.
pub const STORED: &str = "stored";
/// Classes.
pub const CLASSES: &str = "classes";
/// Nodes of every class that have a label: a list.
pub const CLASS_SIZES: &str = "class-sizes";
/// Edges as stored, in either direction.
pub const EDGES: &str = "edges";
/// Pairs of different nodes with an edge in either direction.
pub const LINKS: &str = "links";
/// Entries of an operator.
pub const ENTRIES: &str = "entries";
/// Entries on the diagonal of an operator.
pub const LOOPS: &str = "loops";
/// Distances of separated hops: a list, and a list of the entries of each.
pub const HOPS: &str = "hops";
/// The entries of every separated hop.
pub const HOP_ENTRIES: &str = "hop-entries";
/// Relations that some pair of nodes has.
pub const RELATIONS: &str = "relations";
/// Splits.
pub const SPLITS: &str = "splits";
/// Eigenpairs of the low side.
pub const LOW: &str = "low";
/// Eigenpairs of the high side.
pub const HIGH: &str = "high";
/// Trained values per split.
pub const WEIGHTS: &str = "weights";
/// The split with the fewest classes among its training nodes, and how many: a list of two.
pub const LEAST_CLASSES: &str = "least-classes";
/// Splits in which no training, validation or test node is of a class, each followed by the class: a list each.
pub const LACKS: [&str; 3] = ["train-lacks", "val-lacks", "test-lacks"];

/// Sizes out of `facts.json`: what they are called here, and there.
pub(crate) fn from_facts(dir: &Path, names: &[(&'static str, &str)]) -> Sizes {
    let facts: Value = read_json(&dir.join("facts.json")).unwrap_or_default();
    let number = |pointer: &str| facts.pointer(pointer)?.as_u64().and_then(|n| usize::try_from(n).ok());
    names.iter().fold(Sizes::default(), |sizes, (name, pointer)| sizes.with_some(name, number(pointer)))
}

/// What the header of a file of tensors says of the features in it.
pub(crate) fn of_features(path: &Path) -> Sizes {
    let Ok(file) = TensorsRead::open(path) else { return Sizes::default() };
    let dense = file.shape_of("features").map(|shape| Size::exact(shape.iter().product()));
    let stored = dense.or_else(|| file.shape_of("features.values")?.first().copied().map(Size::exact));
    Sizes::default().with_some(STORED, stored)
}

/// Bytes that a loaded graph takes, with the pages of its file.
pub(crate) fn graph_bytes(graph: &Sizes) -> Size {
    let (nodes, masks) = (graph.or_guess(NODES, 5000.0), graph.or_guess(SPLITS, 10.0));
    graph.or_guess(EDGES, 1e5) * 24 + feature_bytes(graph) + nodes * (masks * 3 + 100)
}

/// Bytes that loaded features take, with the pages of their file.
pub(crate) fn feature_bytes(of: &Sizes) -> Size {
    let all = of.or_guess(NODES, 5000.0) * of.or_guess(FEATURES, 500.0);
    let stored = of.get(STORED).unwrap_or(all * Size::guess(0.1));
    stored * if stored.value < all.value { 16 } else { 8 }
}
