//! The graph of a plan as boxes and arrows: of nodes, or of stages. `dag` writes it for other programs, a report draws it.

use std::collections::HashMap;

use crate::plan::{Edge, NodeId, Plan};
use crate::store::Store;

/// Labels of boxes, whether each is in the store, and arrows between positions. What nothing needs is left out.
pub struct Drawing {
    pub boxes: Vec<(String, bool)>,
    pub arrows: Vec<(usize, usize, &'static str)>,
}

impl Drawing {
    /// A box for every node.
    pub fn of_nodes(plan: &Plan, store: &Store) -> Self {
        let drawn = drawn(plan);
        let place: HashMap<NodeId, usize> = drawn.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let there = |id: NodeId| store.has(&plan.node(id).key, plan.node(id).stage.name);
        let arrow = |to: usize, edge: &Edge| Some((*place.get(&edge.node)?, to, edge.slot));
        let into = |(at, id): (usize, &NodeId)| plan.node(*id).inputs.iter().filter_map(move |edge| arrow(at, edge));
        Self {
            boxes: drawn.iter().map(|id| (plan.node(*id).name.to_string(), there(*id))).collect(),
            arrows: drawn.iter().enumerate().flat_map(into).collect(),
        }
    }

    /// A box for every stage.
    pub fn of_stages(plan: &Plan, store: &Store) -> Self {
        let nodes = Self::of_nodes(plan, store);
        let mut names: Vec<&str> = Vec::new();
        let mut counts: Vec<(usize, usize)> = Vec::new();
        let mut place = Vec::new();
        for (node, (_, cached)) in drawn(plan).into_iter().map(|id| plan.node(id)).zip(&nodes.boxes) {
            let at = names.iter().position(|n| *n == node.name.stage).unwrap_or_else(|| {
                names.push(&node.name.stage);
                counts.push((0, 0));
                names.len() - 1
            });
            place.push(at);
            counts[at].0 += 1;
            counts[at].1 += usize::from(*cached);
        }
        let mut arrows: Vec<_> =
            nodes.arrows.iter().map(|(from, to, slot)| (place[*from], place[*to], *slot)).collect();
        arrows.sort_unstable();
        arrows.dedup();
        let boxes =
            names.iter().zip(&counts).map(|(n, (all, hit))| (format!("{n} ({hit} of {all} cached)"), hit == all));
        Self { boxes: boxes.collect(), arrows }
    }
}

fn drawn(plan: &Plan) -> Vec<NodeId> {
    let needed = plan.needed();
    plan.iter().map(|(id, _)| id).filter(|id| needed[id.0]).collect()
}
