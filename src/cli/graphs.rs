//! What is wrong with a graph of a plan: the warnings that `check` and `data describe` show.

use ppgnn_stages::contract::Registry;
use ppgnn_stages::formats::FormatDef;
use ppgnn_stages::inspect::{self, Warning};
use ppgnn_stages::kinds::{Graph, Splits};

use crate::plan::Node;

/// Judges a graph, and splits of it if there are any, with what the format says that its node has read.
pub fn warnings(node: &Node, graph: &Graph, splits: Option<&Splits>, registry: &Registry) -> Vec<Warning> {
    let format = node.params.variant().map(|row| row.name);
    let once = registry.rows::<FormatDef>().any(|row| row.edges_once && Some(row.variant.name) == format);
    inspect::warnings(graph, splits, once)
}
