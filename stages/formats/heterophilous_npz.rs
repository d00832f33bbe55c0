//! The `.npz` layout of the heterophilous graph benchmark, often used for one's own data.
//!
//! | member | type | shape |
//! | --- | --- | --- |
//! | `node_features` | f4 (any number type is read, f2 and bool too) | nodes × features |
//! | `node_labels` | i8 (any number type, bool too) | nodes |
//! | `edges` | i8 (any whole-number type) | edges × 2, as source and target |
//! | `edge_weights` | f4 (any number type) | edges; may be absent |
//! | `train_masks`, `val_masks`, `test_masks` | bool (or whole numbers 0 and 1) | splits × nodes; all three or none |
//!
//! Labels are 0 to C − 1, where C is the largest label plus one: a number in between that no node has is a class
//! without nodes, which is fine. A node whose label is −1 or not a number is unlabelled, and may be in no mask. Other
//! members are ignored. Edges stay as they are stored: once each, by the benchmark's convention. Features are stored as [`Features::compact`] says.

use super::{Format, OneFile, partly_labelled};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::reading::npz::{Array, Expected, Npz, Numbers};
use crate::reading::number::BadValue;
use crate::reading::parts::{PartNames, PartsBuilder};

const MASKS: PartNames = [("train_masks", Part::Train), ("val_masks", Part::Val), ("test_masks", Part::Test)];

/// The format.
pub struct HeterophilousNpz;

impl Format for HeterophilousNpz {
    const NAME: &'static str = "heterophilous-npz";
    const ABOUT: &'static str = "A NumPy archive with node_features, node_labels, edges and optional masks";
    const VERSION: u32 = 2;
    const EDGES_ONCE: bool = true;
    type Params = OneFile;

    fn read(params: &OneFile, job: &Job) -> Result<Graph, StageError> {
        let mut file = Npz::open(&params.path.0)?;
        let labels = labels(&mut file, job)?;
        job.check_cancelled()?;
        let features = features(&mut file, labels.len(), job)?;
        job.check_cancelled()?;
        let edges = edges(&mut file, labels.len(), job)?;
        let weights = weights(&mut file, edges.len(), job)?;
        let masks = masks(&mut file, &labels, job)?;
        Ok(Graph { weights, ..partly_labelled(edges, Features::compact(features), &labels, masks) })
    }
}

fn labels(file: &mut Npz, job: &Job) -> Result<Vec<Option<u32>>, StageError> {
    let expected = Expected { member: "node_labels", dims: &[("nodes", None)], numbers: Numbers::Real };
    let labels = file.read(&expected, job, |node, _, label| label.label(node))?;
    if labels.values.is_empty() {
        return Err(file.error("node_labels", "has no nodes, expected at least one"));
    }
    if labels.values.iter().all(Option::is_none) {
        return Err(file.error("node_labels", "labels no node, expected the class of at least one"));
    }
    Ok(labels.values)
}

fn features(file: &mut Npz, nodes: usize, job: &Job) -> Result<Matrix, StageError> {
    let dims = &[("nodes", Some(nodes)), ("features", None)];
    let expected = Expected { member: "node_features", dims, numbers: Numbers::Real };
    let Array { shape, values } = file
        .read(&expected, job, |node, feature, number| number.finite(format_args!("node {node}, feature {feature}")))?;
    let cols = shape.get(1).copied().unwrap_or(0);
    if cols == 0 {
        return Err(file.error("node_features", "has no features, expected at least one"));
    }
    Ok(Matrix { rows: nodes, cols, data: values })
}

fn edges(file: &mut Npz, nodes: usize, job: &Job) -> Result<Vec<(u32, u32)>, StageError> {
    let dims = &[("edges", None), ("source and target", Some(2))];
    let expected = Expected { member: "edges", dims, numbers: Numbers::Whole };
    let bound = u32::try_from(nodes).unwrap_or(u32::MAX);
    let ends = file.read(&expected, job, |edge, _, node| {
        node.below(bound).ok_or_else(|| {
            let what = format!("endpoint {node} is not a node, expected 0 to {}", nodes.saturating_sub(1));
            BadValue::new(format_args!("edge {edge}"), what)
        })
    })?;
    Ok(ends.values.chunks_exact(2).map(|e| (e[0], e[1])).collect())
}

fn weights(file: &mut Npz, edges: usize, job: &Job) -> Result<Option<Vec<f32>>, StageError> {
    const MEMBER: &str = "edge_weights";
    if !file.has(MEMBER) {
        return Ok(None);
    }
    let expected = Expected { member: MEMBER, dims: &[("edges", Some(edges))], numbers: Numbers::Real };
    let weights = file.read(&expected, job, |edge, _, number| number.finite(format_args!("edge {edge}")))?;
    Ok(Some(weights.values))
}

fn masks(file: &mut Npz, labels: &[Option<u32>], job: &Job) -> Result<Option<Splits>, StageError> {
    let nodes = labels.len();
    let (given, absent): (Vec<_>, Vec<_>) = MASKS.iter().map(|(name, _)| *name).partition(|name| file.has(name));
    match (given.first(), absent.first()) {
        (None, _) => return Ok(None),
        (Some(given), Some(absent)) => {
            return Err(file.error(given, format!("stands without `{absent}`, expected all three masks or none")));
        }
        (Some(_), None) => {}
    }
    let mut parts = Vec::new();
    let mut splits = None;
    for (member, part) in MASKS {
        let dims = &[("splits", splits), ("nodes", Some(nodes))];
        let mask = file.read(&Expected { member, dims, numbers: Numbers::Truth }, job, |split, node, number| {
            number.truth(format_args!("split {split}, node {node}"))
        })?;
        splits = mask.shape.first().copied();
        parts.resize(splits.unwrap_or(0), PartsBuilder::new(nodes, MASKS));
        for (at, _) in mask.values.iter().enumerate().filter(|(_, inside)| **inside) {
            let (split, node) = (at / nodes, at % nodes);
            if labels[node].is_none() {
                let what = format!("node {node} of split {split} has no label, expected one of every node in a part");
                let hint = format!("take the node out of `{member}`, or give it a label in `node_labels`");
                return Err(file.error(member, what).with_hint(hint));
            }
            parts[split].put(node, part).map_err(|other| {
                let what = format!("node {node} of split {split} is in `{other}` as well, expected one part per node");
                file.error(member, what)
            })?;
        }
    }
    if parts.is_empty() {
        return Err(file.error("train_masks", "has no splits, expected at least one or no masks at all"));
    }
    Ok(Some(Splits { parts: parts.into_iter().map(PartsBuilder::finish).collect() }))
}

#[cfg(test)]
mod tests;
