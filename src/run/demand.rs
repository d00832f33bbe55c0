//! Which nodes a run would compute, without computing or checking anything.
//!
//! A node is needed if it is a target, is forced, or is an input of a node that must be computed. A needed node that
//! is in the store is a hit, and its own inputs are then not needed for its sake.

use crate::plan::{NodeId, Plan};
use crate::store::Store;

/// What a run would do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Use it from the store.
    Hit,
    /// Compute it.
    Miss,
    /// Leave it alone: it is not in the store, and nothing that has to be computed reads it.
    Absent,
}

/// Says for every node what a run would do with it. Manifests are read, other files are not.
pub fn demand(plan: &Plan, store: &Store, targets: &[NodeId], force: &[NodeId]) -> Vec<NodeState> {
    let mut needed = vec![false; plan.nodes.len()];
    let mut forced = vec![false; plan.nodes.len()];
    for id in force {
        forced.get_mut(id.0).into_iter().for_each(|f| *f = true);
    }
    for id in targets.iter().chain(force) {
        needed.get_mut(id.0).into_iter().for_each(|n| *n = true);
    }
    let mut states = vec![NodeState::Absent; plan.nodes.len()];
    // Inputs stand before the nodes that need them, so from the end on, every demand is known when its node comes.
    for (id, node) in plan.iter().rev() {
        if !needed[id.0] {
            if store.has(&node.key, node.stage.name) {
                states[id.0] = NodeState::Hit;
            }
            continue;
        }
        if !forced[id.0] && store.get(&node.key, node.stage.name).is_some() {
            states[id.0] = NodeState::Hit;
        } else {
            states[id.0] = NodeState::Miss;
            node.inputs.iter().for_each(|edge| needed[edge.node.0] = true);
        }
    }
    states
}
