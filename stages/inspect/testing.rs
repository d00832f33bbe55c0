//! Graphs for tests: made by hand, and read from the real files.

use serde_json::json;

use crate::contract::Chosen;
use crate::formats::FORMATS;
use crate::formats::testing::{real_data, with_job};
use crate::kinds::{Features, Graph, Matrix};

/// A graph with one feature that is 1 everywhere.
pub(crate) fn graph(edges: &[(u32, u32)], labels: Vec<u32>, classes: usize) -> Graph {
    let features = Features::Dense(Matrix { rows: labels.len(), cols: 1, data: vec![1.0; labels.len()] });
    Graph { edges: edges.to_vec(), features, labels, classes, ..Graph::default() }
}

/// Reads a data set in the Geom-GCN layout with dense rows.
pub(crate) fn geom_gcn(name: &str) -> Option<Graph> {
    let folder = real_data(name)?;
    let splits: Vec<_> = (0..10).map(|i| folder.join(format!("splits/{name}_split_0.6_0.2_{i}.npz"))).collect();
    let (edges, nodes) = (folder.join("out1_graph_edges.txt"), folder.join("out1_node_feature_label.txt"));
    let params = &json!({"edges": edges, "nodes": nodes, "splits": splits, "layout": "dense", "features": null});
    let row = FORMATS.iter().find(|f| f.variant.name == "geom-gcn").unwrap();
    Some(with_job(|job| Chosen { row, params }.read(job)).unwrap())
}
