//! What a measuring stage needs: everything that the nodes read which it computes again.
//!
//! What is measured is in the store already, so nothing else would keep a run from finding its inputs gone.

use std::collections::BTreeSet;

use ppgnn_stages::contract::params::{Checked, nearest_help};
use ppgnn_stages::contract::{Measures, Registry, Slot};
use serde_json::Value;

use super::build::{Builder, NoNode, Planned};
use super::graph::{Edge, Node, NodeId, Plan};
use crate::pipeline::{At, Pipeline, Problems, Search, StageUse};

/// Returns the stages that are planned when all others are: those that measure, and what is made of them. A whole search can only be
/// measured when its trials have nodes.
pub(super) fn last(pipeline: &Pipeline) -> BTreeSet<usize> {
    let mut last = BTreeSet::new();
    for (stage, used) in pipeline.stages.iter().enumerate() {
        let after = used.inputs.iter().flat_map(|(_, from)| from).any(|from| last.contains(from));
        if after || used.def.measures.is_some() {
            last.insert(stage);
        }
    }
    last
}

impl Builder<'_> {
    /// Plans what comes last at a point.
    pub(super) fn measure(&mut self, last: &BTreeSet<usize>, point: &[usize], planned: &mut [Planned]) {
        let search = self.pipeline.search.as_ref();
        if search.is_some() && !Search::is_choice(point) {
            return;
        }
        let open = search.and_then(|search| search.at(point)).and_then(|at| match at {
            At::Open(search) => Some(search),
            _ => None,
        });
        for stage in last.iter().copied() {
            planned[stage] = match open.filter(|_| self.is_searched(stage)) {
                Some(search) => Err(NoNode::Open(search)),
                None => self.node(stage, point, planned),
            };
        }
    }

    /// Returns the nodes of all trials of the search that decides at a point, if a stage measures all of them.
    pub(super) fn measured_trials(
        &self,
        used: &StageUse,
        checked: &Checked,
        slot: &Slot,
        wired: &[usize],
        point: &[usize],
    ) -> Option<Vec<NodeId>> {
        let measures = used.def.measures.filter(|measures| measures.slot == slot.name)?;
        let search = self.pipeline.search.as_ref()?;
        let whole = checked.all().get(measures.whole_search) == Some(&Value::Bool(true));
        let from = wired.iter().find(|from| whole && **from == search.scored)?;
        let of_trial = |point: Vec<usize>| self.made_at(*from, &point)?.ok();
        Some(search.trials_of(point).into_iter().filter_map(of_trial).collect())
    }
}

impl Plan {
    /// Returns the nodes that a node measures, inputs first: those of the stages that it names, above what is in its slot.
    pub fn measured(&self, node: &Node) -> Vec<NodeId> {
        node.stage.measures.map_or_else(Vec::new, |measures| measured(&self.nodes, node, measures))
    }
}

/// Hands over to every measuring node what the nodes read that it measures, and gives new keys to what follows from it.
pub(super) fn wire(plan: &mut Plan) {
    if plan.nodes.iter().all(|node| node.stage.measures.is_none()) {
        return;
    }
    for at in 0..plan.nodes.len() {
        let (before, rest) = plan.nodes.split_at_mut(at);
        let Some(node) = rest.first_mut() else { break };
        if let Some(measures) = node.stage.measures {
            let read = measured(before, node, measures).into_iter().flat_map(|id| before[id.0].inputs.iter());
            let read: BTreeSet<NodeId> = read.map(|edge| edge.node).collect();
            node.inputs.extend(read.into_iter().map(|node| Edge { slot: measures.reads, node }));
        }
        node.settle(before);
    }
}

fn measured(nodes: &[Node], node: &Node, Measures { slot, param, .. }: Measures) -> Vec<NodeId> {
    let names = node.params.all().get(param).and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    let mut above: BTreeSet<NodeId> = BTreeSet::new();
    let mut open: Vec<NodeId> = node.inputs.iter().filter(|edge| edge.slot == slot).map(|edge| edge.node).collect();
    while let Some(id) = open.pop() {
        if above.insert(id) {
            open.extend(nodes[id.0].inputs.iter().map(|edge| edge.node));
        }
    }
    above.into_iter().filter(|id| names.contains(&nodes[id.0].stage.name)).collect()
}

impl Plan {
    /// Returns nodes and what is made of those that measure: measured again, they are others.
    pub fn with_what_follows(&self, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let measures = |id: &&NodeId| self.node(**id).stage.measures.is_some();
        let mut others: BTreeSet<NodeId> = nodes.iter().filter(measures).copied().collect();
        let mut all: BTreeSet<NodeId> = nodes.into_iter().collect();
        for (id, node) in self.iter() {
            if node.inputs.iter().any(|edge| others.contains(&edge.node)) {
                others.insert(id);
            }
        }
        all.append(&mut others);
        all.into_iter().collect()
    }
}

/// Refuses names of stages that there are not.
pub(super) fn check(used: &StageUse, names: Option<&Value>, registry: &Registry, problems: &mut Problems) {
    for name in names.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if registry.stage(name).is_none() {
            let message = format!("stage `{}` cannot measure `{name}`: there is no such stage", used.name.name);
            let help = nearest_help(name, registry.stages().map(|stage| stage.name));
            problems.add(&used.name.span, message, Some(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pipeline::Nothing;
    use crate::plan::testing::{names, node, plan, plan_on, problems};

    const TIMED: &str = "stages: {load: {}, train: {inputs: {graph: load}}, draw: {inputs: {metrics: train}}, \
                         time: {inputs: {of: draw}, params: {stages: [train, draw]}}}";

    #[test]
    fn a_measuring_node_reads_what_the_measured_ones_read() {
        let plan = plan(TIMED);
        let time = node(&plan, "time");
        let read: Vec<(&str, String)> =
            time.inputs.iter().map(|edge| (edge.slot, plan.node(edge.node).name.to_string())).collect();
        let expected = [("of", "draw"), ("reads", "load"), ("reads", "train")];
        assert_eq!(read, expected.map(|(slot, name)| (slot, name.to_owned())));
        assert_eq!(
            plan.measured(time).into_iter().map(|id| plan.node(id).name.to_string()).collect::<Vec<_>>(),
            ["train", "draw"]
        );
        assert_eq!(time.ingredients.inputs.len(), 3, "what is read is in the key");
        assert_eq!(time.ingredients.key(), time.key);
    }

    #[test]
    fn another_machine_has_another_key_for_what_is_measured_and_for_nothing_else() {
        let [here, there] = ["this", "that"].map(|machine| plan_on(machine, TIMED, &Nothing).unwrap());
        let differ: Vec<String> =
            names(&here).into_iter().filter(|name| node(&here, name).key != node(&there, name).key).collect();
        assert_eq!(differ, ["time"]);
    }

    #[test]
    fn a_stage_that_there_is_not_cannot_be_measured() {
        let wrong = TIMED.replace("stages: [train, draw]", "stages: [trian]");
        assert_eq!(problems(&wrong), ["stage `time` cannot measure `trian`: there is no such stage"]);
    }
}
