//! Slices: the planner makes one node of the largest size, and takes smaller ones from it.

use std::collections::BTreeMap;

use ppgnn::pipeline::{Nothing, Pipeline};
use ppgnn::plan::{ArtifactKey, Plan, PlanContext, build};
use ppgnn::run::{NodeState, demand};
use ppgnn_stages::contract::{Artifact, Job, Registry, Shared, Slot, Stage, StageDef, StageError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::toy::{Number, World};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct Params {
    size: u64,
    how: u64,
}

impl ppgnn_stages::contract::params::Params for Params {}

/// Grows to a size; a smaller one is a slice of a larger one.
struct Grow;
impl Stage for Grow {
    const NAME: &'static str = "grow";
    const ABOUT: &'static str = "Grows";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many("of", Number::KIND)];
    const SHARED: Option<Shared> = Some(Shared { param: "size", slot: "larger" });
    type Params = Params;
    type Output = Number;
    fn run(_: &Params, _: &Job) -> Result<Number, StageError> {
        Ok(Number(0))
    }
}

/// Reads what others made, and shares nothing.
struct Read;
impl Stage for Read {
    const NAME: &'static str = "read";
    const ABOUT: &'static str = "Reads";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many("of", Number::KIND)];
    type Params = Params;
    type Output = Number;
    fn run(_: &Params, _: &Job) -> Result<Number, StageError> {
        Ok(Number(0))
    }
}

static STAGES: &[StageDef] = &[StageDef::of::<Grow>(), StageDef::of::<Read>()];

fn plan(stages: &str, axes: &str) -> Plan {
    let text = format!("{{ppgnn: 1, name: s, stages: {{{stages}}}, sweep: {{axes: {{{axes}}}}}}}");
    let registry = Registry::of_stages(STAGES);
    let pipeline = Pipeline::of_text("s.yaml", &text, &registry, &Nothing).unwrap();
    let around = PlanContext {
        registry: &registry,
        profile: "cpu".into(),
        device_profile: "cpu".into(),
        machine: String::new(),
        digest: &|_, _| Ok(String::new()),
    };
    let plan = build(&pipeline, &around).unwrap();
    for (id, node) in plan.iter() {
        assert!(node.inputs.iter().all(|edge| edge.node < id), "{} stands before its inputs", node.name);
        assert_eq!(node.key, node.ingredients.key(), "{}", node.name);
        let keys: Vec<_> = node.inputs.iter().map(|e| (e.slot, plan.node(e.node).key)).collect();
        let said: Vec<_> = node.ingredients.inputs.iter().map(|i| (i.slot.as_str(), i.key)).collect();
        assert_eq!(keys, said, "{}", node.name);
    }
    plan
}

fn names(plan: &Plan) -> Vec<String> {
    plan.nodes.iter().map(|n| n.name.to_string()).collect()
}

fn keys(plan: &Plan) -> BTreeMap<String, ArtifactKey> {
    plan.nodes.iter().map(|n| (n.name.to_string(), n.key)).collect()
}

/// Each slice and what it is taken from.
fn slices(plan: &Plan) -> Vec<String> {
    plan.nodes.iter().filter_map(|n| Some(format!("{} of {}", n.name, plan.node(n.slice_of()?).name))).collect()
}

const CHAIN: &str = "top: {uses: read}, grow: {inputs: {of: top}}, read: {inputs: {of: grow}}";

#[test]
fn the_largest_is_computed_and_the_others_are_slices_of_it() {
    let plan = plan(CHAIN, "grow.size: [2, 8, 4]");
    // The largest goes before the first slice of it; names are those of the sweep.
    let expected = ["top", "grow/size=8", "grow/size=2", "read/size=2", "read/size=8", "grow/size=4", "read/size=4"];
    assert_eq!(names(&plan), expected);
    assert_eq!(slices(&plan), ["grow/size=2 of grow/size=8", "grow/size=4 of grow/size=8"]);
    for node in plan.nodes.iter().filter(|n| n.slice_of().is_some()) {
        assert_eq!(node.inputs.len(), 1, "a slice reads what it is taken from and nothing else");
    }
}

#[test]
fn keys_do_not_depend_on_the_order_of_the_sweep() {
    let first = keys(&plan(CHAIN, "grow.size: [2, 4, 8]"));
    for order in ["2, 8, 4", "4, 2, 8", "4, 8, 2", "8, 2, 4", "8, 4, 2"] {
        assert_eq!(keys(&plan(CHAIN, &format!("grow.size: [{order}]"))), first, "{order}");
    }
}

#[test]
fn a_larger_one_gives_new_keys_to_slices_and_what_stands_on_them_alone() {
    let before = keys(&plan(CHAIN, "grow.size: [2, 8]"));
    let after = keys(&plan(CHAIN, "grow.size: [2, 8, 16]"));
    assert_eq!(before["top"], after["top"]);
    for name in ["grow/size=2", "read/size=2", "grow/size=8", "read/size=8"] {
        assert_ne!(before[name], after[name], "{name}");
    }
}

#[test]
fn the_largest_has_the_key_that_it_has_alone() {
    let swept = keys(&plan(CHAIN, "grow.size: [2, 4, 8]"));
    let one = keys(&plan(CHAIN, "grow.size: [8]"));
    let plain = keys(&plan(&CHAIN.replace("{of: top}", "{of: top}, params: {size: 8}"), ""));
    assert!(swept["grow/size=8"] == one["grow/size=8"] && one["grow/size=8"] == plain["grow"]);
    assert!(swept["read/size=8"] == one["read/size=8"] && one["read/size=8"] == plain["read"]);
    assert!(slices(&plan(CHAIN, "grow.size: [4]")).is_empty());
}

#[test]
fn nodes_that_differ_in_anything_else_share_nothing() {
    let of = |axes: &str| slices(&plan(CHAIN, axes)).len();
    assert_eq!(of("both: {a: {grow.size: 2, grow.how: 0}, b: {grow.size: 4, grow.how: 1}}"), 0, "a parameter");
    assert_eq!(of("both: {a: {grow.size: 2, top.how: 0}, b: {grow.size: 4, top.how: 1}}"), 0, "an input");
    // The same axes as a grid: each value of the other parameter has a largest of its own.
    let plan = plan(CHAIN, "grow.how: [0, 1], grow.size: [2, 4]");
    let expected = ["grow/how=0/size=2 of grow/how=0/size=4", "grow/how=1/size=2 of grow/how=1/size=4"];
    assert_eq!(slices(&plan), expected);
}

#[test]
fn stages_of_different_names_share() {
    let stages = "top: {uses: read}, few: {uses: grow, inputs: {of: top}, params: {size: 3}}, \
                  lots: {uses: grow, inputs: {of: top}, params: {size: 30}}";
    assert_eq!(slices(&plan(stages, "")), ["few of lots"]);
}

#[test]
fn a_slice_can_be_what_another_is_computed_from() {
    let stages = "top: {uses: read}, a: {uses: grow, inputs: {of: top}}, b: {uses: grow, inputs: {of: a}}";
    let plan = plan(stages, "a.size: [2, 4], b.size: [3, 5]");
    // Names have the last part of an axis, so both are called `size`.
    let expected = ["a/size=2 of a/size=4", "b/size=2/size=3 of b/size=2/size=5", "b/size=4/size=3 of b/size=4/size=5"];
    assert_eq!(slices(&plan), expected);
}

#[test]
fn what_is_sliced_is_still_asked_for_itself_and_needs_no_more_than_before() {
    let stages = "top: {uses: read}, grow: {inputs: {of: top}}";
    let plan = plan(stages, "grow.size: [2, 8]");
    let leaves: Vec<_> = plan.leaves().iter().map(|id| plan.node(*id).name.to_string()).collect();
    assert_eq!(leaves, ["grow/size=8", "grow/size=2"]);
    // A target that is a slice needs its whole, and that needs what it is computed from.
    let slice: Vec<_> = plan.iter().filter(|(_, n)| n.slice_of().is_some()).map(|(id, _)| id).collect();
    assert_eq!(demand(&plan, &World::new().store(), &slice, &[]), [NodeState::Miss; 3]);
}
