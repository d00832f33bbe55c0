//! What is wrong with a graph of a plan: the warnings that `check` and `data describe` show.

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::formats::FormatDef;
use ppgnn_stages::inspect::{self, Warning};
use ppgnn_stages::kinds::{Graph, Splits};

use crate::plan::{Node, NodeId, Plan};

/// Judges a graph, and splits of it if there are any, with what the format says that its node has read.
pub fn warnings(node: &Node, graph: &Graph, splits: Option<&Splits>, registry: &Registry) -> Vec<Warning> {
    let format = node.params.variant().map(|row| row.name);
    let once = registry.rows::<FormatDef>().any(|row| row.edges_once && Some(row.variant.name) == format);
    inspect::warnings(graph, splits, once)
}

/// Returns whether a node is a graph.
pub fn is_graph(node: &Node) -> bool {
    node.stage.output == Graph::KIND
}

/// Iterates over the nodes that split a graph, with their names. A generated graph is as its parameters say: it has none to look at.
pub fn splits_of(plan: &Plan, graph: NodeId) -> impl Iterator<Item = (NodeId, String)> {
    let divides = move |n: &Node| n.stage.output == Splits::KIND && n.inputs.iter().any(|e| e.node == graph);
    let is_file = is_file(plan.node(graph));
    plan.iter().filter(move |(_, node)| is_file && divides(node)).map(|(id, node)| (id, node.name.to_string()))
}

/// Judges a graph with each of its splits, or alone where there are none. A generated graph is as its parameters say.
pub fn found(node: &Node, graph: &Graph, splits: &[(String, Splits)], registry: &Registry) -> Vec<(String, Warning)> {
    let named = |name: &str, splits| {
        warnings(node, graph, splits, registry).into_iter().map(|w| (name.to_owned(), w)).collect()
    };
    let mut found: Vec<(String, Warning)> =
        splits.iter().flat_map(|(name, splits)| -> Vec<_> { named(name, Some(splits)) }).collect();
    if is_file(node) && found.is_empty() {
        found = named(&node.name.to_string(), None);
    }
    found
}

fn is_file(node: &Node) -> bool {
    node.params.files().next().is_some()
}
