//! Slices: of nodes that differ only in how much they ask for, the one that asks for the most is computed, and the
//! others are taken from it.
//!
//! Which one that is depends on the whole pipeline and on nothing else: neither on targets nor on what is in the store. So
//! a key says whether its result was computed or taken from a larger one, and a result never depends on what was there
//! before. The largest keeps the key that it would have alone.

use std::collections::HashMap;

use super::graph::{Edge, Node, NodeId, Plan};
use super::key::ArtifactKey;

/// Turns nodes into slices of larger ones, and gives new keys to them and to everything downstream. Returns where every node
/// has moved to; nothing if all stay.
pub(super) fn share(plan: &mut Plan) -> Vec<NodeId> {
    let slices = slices(&plan.nodes);
    if slices.is_empty() {
        return Vec::new();
    }
    let moved = new_places(plan.nodes.len(), &slices);
    for (id, from) in slices {
        plan.nodes[id.0].inputs = vec![from];
    }
    let mut nodes: Vec<(NodeId, Node)> = moved.iter().copied().zip(std::mem::take(&mut plan.nodes)).collect();
    nodes.sort_by_key(|(place, _)| *place);
    for (_, mut node) in nodes {
        node.inputs.iter_mut().for_each(|edge| edge.node = moved[edge.node.0]);
        node.settle(&plan.nodes);
        plan.nodes.push(node);
    }
    plan.outputs.iter_mut().for_each(|output| output.node = moved[output.node.0]);
    plan.known_data.iter_mut().for_each(|(node, _)| *node = moved[node.0]);
    plan.trials.iter_mut().flat_map(|trial| trial.nodes.iter_mut().flatten()).for_each(|node| *node = moved[node.0]);
    moved
}

/// Finds the nodes that are slices, and for each the edge from the largest one of its kind.
fn slices(nodes: &[Node]) -> HashMap<NodeId, Edge> {
    // Keys without the shared parameter: equal ones mean nodes that differ in nothing else.
    let mut alike: HashMap<ArtifactKey, Vec<(f64, NodeId, &'static str)>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(shared) = node.stage.shared else { continue };
        let mut rest = node.ingredients.clone();
        let Some(size) = rest.params.shift_remove(shared.param).and_then(|v| v.as_f64()) else { continue };
        alike.entry(rest.key()).or_default().push((size, NodeId(at), shared.slot));
    }
    let mut slices = HashMap::new();
    for sizes in alike.into_values() {
        let Some((_, largest, _)) = sizes.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let smaller = sizes.into_iter().filter(|(_, id, _)| *id != largest);
        slices.extend(smaller.map(|(_, id, slot)| (id, Edge { slot, node: largest })));
    }
    slices
}

/// Returns the new position of every node, so that a sliced node comes before its slices. The largest one reads what its
/// slices would have read, which comes before them already.
fn new_places(nodes: usize, slices: &HashMap<NodeId, Edge>) -> Vec<NodeId> {
    let mut places = vec![None; nodes];
    let mut next = 0;
    for id in (0..nodes).map(NodeId) {
        let first = slices.get(&id).map(|from| from.node);
        for id in first.into_iter().chain([id]) {
            places[id.0].get_or_insert_with(|| {
                next += 1;
                NodeId(next - 1)
            });
        }
    }
    places.into_iter().flatten().collect()
}
