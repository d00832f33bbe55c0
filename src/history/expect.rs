//! How long a node will take, judging by artifacts of the same stage.

use crate::plan::{KeyInputs, Node};
use crate::store::Manifest;

/// Returns the seconds that a node is expected to take: the median over artifacts of the same stage with the same inputs and
/// choice, else with the same choice, else over all. A slice says nothing about the duration of the node it is taken from,
/// and vice versa.
pub(super) fn expected_seconds(node: &Node, earlier: &[Manifest]) -> Option<f64> {
    let is_slice = |k: &KeyInputs| node.stage.shared.is_some_and(|s| k.inputs.iter().any(|i| i.slot == s.slot));
    let alike = |m: &&Manifest| is_slice(&m.ingredients) == is_slice(&node.ingredients);
    let all = || earlier.iter().filter(alike);
    let same_choice = |m: &&Manifest| m.ingredients.variant == node.ingredients.variant;
    let same_inputs = |m: &&Manifest| same_choice(m) && m.ingredients.inputs == node.ingredients.inputs;
    median(all().filter(same_inputs)).or_else(|| median(all().filter(same_choice))).or_else(|| median(all()))
}

fn median<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Option<f64> {
    let mut seconds: Vec<f64> = manifests.map(|m| m.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}
