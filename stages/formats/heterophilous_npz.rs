//! The `.npz` layout of the heterophilous graph benchmark, often used for one's own data.
//!
//! | member | type | shape |
//! | --- | --- | --- |
//! | `node_features` | f4 (any number type is read) | nodes × features |
//! | `node_labels` | i8 (any whole-number type) | nodes |
//! | `edges` | i8 (any whole-number type) | edges × 2, as source and target |
//! | `train_masks`, `val_masks`, `test_masks` | bool (or whole numbers 0 and 1) | splits × nodes; all three or none |
//!
//! Labels are 0 to C − 1, where C is the largest label plus one: a number in between that no node has is a class
//! without nodes, which is fine. Other members are ignored. Edges stay as they are stored.

use super::{Format, OneFile, labelled};
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
    const VERSION: u32 = 1;
    type Params = OneFile;

    fn read(params: &OneFile, job: &Job) -> Result<Graph, StageError> {
        let mut file = Npz::open(&params.path.0)?;
        let labels = labels(&mut file, job)?;
        job.check_cancelled()?;
        let features = features(&mut file, labels.len(), job)?;
        job.check_cancelled()?;
        let edges = edges(&mut file, labels.len(), job)?;
        let masks = masks(&mut file, labels.len(), job)?;
        Ok(labelled(edges, Features::Dense(features), labels, masks))
    }
}

fn labels(file: &mut Npz, job: &Job) -> Result<Vec<u32>, StageError> {
    let expected = Expected { member: "node_labels", dims: &[("nodes", None)], numbers: Numbers::Whole };
    let labels = file.read(&expected, job, |node, _, label| label.class(node))?;
    if labels.values.is_empty() {
        return Err(file.error("node_labels", "has no nodes, expected at least one"));
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

fn masks(file: &mut Npz, nodes: usize, job: &Job) -> Result<Option<Splits>, StageError> {
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
