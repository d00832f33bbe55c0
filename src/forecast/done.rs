//! What a node that has run had to do, for its manifest.

use std::collections::BTreeMap;
use std::path::Path;

use ppgnn_stages::contract::profile::backend_of;
use ppgnn_stages::contract::{InputDir, Known, KnownInput, Sizes};

use super::machine::machine;
use crate::plan::{Edge, Node, Plan};
use crate::store::Cost;

/// Counts the work of a node, by the inputs that it had, the result in the folder `made` and what was measured.
pub fn cost(plan: &Plan, node: &Node, inputs: &[InputDir], made: &Path, measured: &BTreeMap<String, f64>) -> Cost {
    // Of a slot that takes many, nothing but the number of inputs counts.
    let sizes = |edge: &Edge, input: &InputDir| match node.takes_many(edge.slot) {
        true => Sizes::default(),
        false => plan.node(edge.node).stage.sizes(&input.dir),
    };
    let known = |(edge, input): (&Edge, &InputDir)| KnownInput {
        slot: input.slot,
        key: input.key.clone(),
        sizes: sizes(edge, input),
        dir: None,
    };
    let inputs: Vec<KnownInput> = node.inputs.iter().zip(inputs).map(known).collect();
    let backend = backend_of(&node.ingredients.profile);
    let known = Known { backend, made: Some(made), measured: Some(measured), ..Known::of(&inputs) };
    let work = node.stage.estimate(&node.params, &known).work;
    let amounts = work.amounts.iter().map(|(name, amount)| ((*name).to_owned(), amount.value));
    let threads = Some(work.threads.value).filter(|threads| threads.is_finite());
    Cost { machine: machine().to_owned(), work: amounts.collect(), threads }
}
