//! How long a node will take, judging by artifacts of the same stage.

use crate::plan::{KeyInputs, Node};
use crate::store::Manifest;

/// An expected duration and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// Median of the earlier durations.
    pub seconds: f64,
    /// Number of earlier artifacts.
    pub samples: usize,
}

impl Expectation {
    /// Judges by artifacts of the same stage with the same inputs and choice, else with the same choice, else by all. A
    /// slice says nothing about the duration of the node it is taken from, and vice versa.
    pub(super) fn of(node: &Node, earlier: &[Manifest]) -> Option<Self> {
        let is_slice = |k: &KeyInputs| node.stage.shared.is_some_and(|s| k.inputs.iter().any(|i| i.slot == s.slot));
        let alike = |m: &&Manifest| is_slice(&m.ingredients) == is_slice(&node.ingredients);
        let earlier: Vec<&Manifest> = earlier.iter().filter(alike).collect();
        let same_choice = |m: &&Manifest| m.ingredients.variant == node.ingredients.variant;
        let same_inputs = |m: &&Manifest| same_choice(m) && m.ingredients.inputs == node.ingredients.inputs;
        let all = || earlier.iter().copied();
        Self::median(all().filter(same_inputs))
            .or_else(|| Self::median(all().filter(same_choice)))
            .or_else(|| Self::median(all()))
    }

    fn median<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Option<Self> {
        let mut seconds: Vec<f64> = manifests.map(|m| m.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let median = *seconds.get(seconds.len() / 2)?;
        Some(Self { seconds: median, samples: seconds.len() })
    }
}
