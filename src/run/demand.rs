//! Which nodes a run would compute, without computing or checking anything.
//!
//! A node is needed if it is a target, is forced, or is an input of a node that must be computed. A needed node that
//! is in the store is a hit, and does not need its own inputs.

use std::collections::HashSet;

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
    for id in targets.iter().chain(force) {
        needed.get_mut(id.0).into_iter().for_each(|n| *n = true);
    }
    let forced: HashSet<&NodeId> = force.iter().collect();
    let mut states = vec![NodeState::Absent; plan.nodes.len()];
    // Inputs come before the nodes that need them, so in reverse order every demand is known when its node is reached.
    for (id, node) in plan.iter().rev() {
        let there = match needed[id.0] {
            true => !forced.contains(&id) && store.get(&node.key, node.stage.name).is_some(),
            false => store.has(&node.key, node.stage.name),
        };
        if there {
            states[id.0] = NodeState::Hit;
        } else if needed[id.0] {
            states[id.0] = NodeState::Miss;
            node.inputs.iter().for_each(|edge| needed[edge.node.0] = true);
        }
    }
    states
}

/// Counts the nodes that a run will find in the store: targets that are there, and what the nodes to compute read.
pub(super) fn needed_hits(plan: &Plan, targets: &[NodeId], states: &[NodeState]) -> usize {
    let mut needed = vec![false; plan.nodes.len()];
    let read = plan.iter().filter(|(id, _)| states[id.0] == NodeState::Miss).flat_map(|(_, node)| &node.inputs);
    targets.iter().copied().chain(read.map(|edge| edge.node)).for_each(|id| needed[id.0] = true);
    needed.iter().zip(states).filter(|(needed, state)| **needed && **state == NodeState::Hit).count()
}

#[cfg(test)]
mod tests {
    use super::NodeState::{Absent, Hit, Miss};
    use super::*;
    use crate::run::testing::plan;
    use crate::store::{Claim, Provenance};

    /// 0 → 1 → {2, 3} → 4, and 5 alone.
    const DIAMOND: [&[usize]; 6] = [&[], &[0], &[1], &[1], &[2, 3], &[]];

    /// What a run to `targets` would do where some nodes are in the store.
    fn states(stored: &[usize], targets: &[usize], force: &[usize]) -> Vec<NodeState> {
        let dir = tempfile::tempdir().unwrap();
        let (plan, store) = (plan(&DIAMOND), Store::open(dir.path()).unwrap());
        for at in stored {
            let node = plan.node(NodeId(*at));
            let Claim::Held(claim) = store.claim(&node.key).unwrap() else { panic!("claimed by another") };
            let made = Provenance {
                node: node.name.to_string(),
                ingredients: node.ingredients.clone(),
                seconds: 0.0,
                threads: 1,
                measured: Default::default(),
                noted: Default::default(),
                cost: None,
                remarks: Vec::new(),
                said: Vec::new(),
            };
            store.begin(&claim).unwrap().commit(made).unwrap();
        }
        let ids = |of: &[usize]| of.iter().map(|i| NodeId(*i)).collect::<Vec<_>>();
        demand(&plan, &store, &ids(targets), &ids(force))
    }

    #[test]
    fn an_empty_store_lacks_the_targets_and_all_before_them() {
        assert_eq!(states(&[], &[4], &[]), [Miss, Miss, Miss, Miss, Miss, Absent]);
        assert_eq!(states(&[], &[2], &[]), [Miss, Miss, Miss, Absent, Absent, Absent]);
        assert_eq!(states(&[], &[], &[]), [Absent; 6]);
    }

    #[test]
    fn what_is_in_the_store_needs_nothing_before_it() {
        assert_eq!(states(&[4], &[4], &[]), [Absent, Absent, Absent, Absent, Hit, Absent]);
        // One side of the diamond is there; the other still needs what both read.
        assert_eq!(states(&[2], &[4], &[]), [Miss, Miss, Hit, Miss, Miss, Absent]);
        assert_eq!(states(&[1, 2], &[4], &[]), [Absent, Hit, Hit, Miss, Miss, Absent]);
    }

    #[test]
    fn hits_that_nothing_needs_are_not_counted() {
        let plan = plan(&DIAMOND);
        let found = |stored: &[usize]| needed_hits(&plan, &[NodeId(4)], &states(stored, &[4], &[]));
        assert_eq!([found(&[]), found(&[0, 5]), found(&[0, 1, 2]), found(&[0, 1, 4])], [0, 1, 2, 1]);
    }

    #[test]
    fn a_node_that_nothing_needs_is_a_hit_if_it_is_there() {
        assert_eq!(states(&[0, 5], &[], &[]), [Hit, Absent, Absent, Absent, Absent, Hit]);
    }

    #[test]
    fn a_forced_node_is_computed_though_it_is_there_and_no_other() {
        assert_eq!(states(&[0, 1, 2, 3, 4], &[4], &[1]), [Hit, Miss, Hit, Hit, Hit, Absent]);
        assert_eq!(states(&[1], &[], &[1]), [Miss, Miss, Absent, Absent, Absent, Absent]);
    }

    #[test]
    fn an_id_of_another_plan_is_nothing() {
        assert_eq!(states(&[], &[99], &[99]), [Absent; 6]);
    }
}
