//! What `train` refuses: splits and metrics that nothing can be learned from, by sizes before it runs and by data when it does.

use super::{Params, Watched};
use crate::contract::{Known, StageError};
use crate::kinds::{Part, ScoreDef, Splits, ValMetric, size};
use crate::models::{GraphSizes, ModelDef};

/// What must fail, by sizes.
pub(super) fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
    // A command names no activations, and nobody knows what it can train on.
    let model = known.chosen::<ModelDef>().ok();
    must_name_hidden(params, model.map_or(&[], |model| model.row.hidden))?;
    model.map_or(Ok(()), |model| model.fits(&GraphSizes::of(known)))?;
    let splits = known.sizes("splits");
    if splits.known(size::SPLITS) == Some(0) {
        return Err(no_split());
    }
    if let Some(&[split, classes]) = splits.list(size::LEAST_CLASSES).filter(|least| least.len() == 2) {
        must_have_classes(split, classes)?;
    }
    let lacks = splits.list(size::LACKS[1]).unwrap_or_default();
    if let Some(classes) = known.sizes("nodes").known(size::CLASSES) {
        Watched::new(params, &known.used())?.defined(classes, lacks)?;
    }
    Ok(())
}

pub(super) fn must_name_hidden(params: &Params, named: &[&str]) -> Result<(), StageError> {
    if params.keep_hidden && named.is_empty() {
        return Err(StageError::unusable(
            format!("`{}` names no activations that `keep-hidden` could keep", params.model),
            "leave `keep-hidden` out for this model",
        ));
    }
    Ok(())
}

fn no_split() -> StageError {
    StageError::unusable("there is no split to train on", "ask `split` for at least one split")
}

fn no_node(split: usize, part: &str) -> StageError {
    StageError::unusable(
        format!("split `{split}` has no {part} node"),
        "weights are fitted on training nodes and the epoch is chosen on validation nodes: give each a share",
    )
}

/// Training nodes of one class teach nothing.
fn must_have_classes(split: usize, classes: usize) -> Result<(), StageError> {
    match classes {
        0 => Err(no_node(split, "training")),
        1 => Err(StageError::unusable(
            format!("all training nodes of split `{split}` are of one class"),
            "give another class training nodes: a larger share, or other splits",
        )),
        _ => Ok(()),
    }
}

/// What must fail, by the splits themselves.
pub(super) fn check_splits(labels: &[u32], splits: &Splits) -> Result<(), StageError> {
    if splits.is_empty() {
        return Err(no_split());
    }
    let nodes = labels.len();
    for (i, row) in splits.parts.iter().enumerate() {
        if row.len() != nodes {
            return Err(StageError::unusable(
                format!("split `{i}` is of `{}` nodes, the graph has `{nodes}`", row.len()),
                "wire `splits` to a `split` of the same graph that is wired to `nodes`",
            ));
        }
        for (part, name) in [(Part::Train, "training"), (Part::Val, "validation")] {
            if !row.contains(&part) {
                return Err(no_node(i, name));
            }
        }
        let mut trained = row.iter().zip(labels).filter(|(part, _)| **part == Part::Train).map(|(_, label)| label);
        let first = trained.next();
        must_have_classes(i, if trained.any(|label| Some(label) != first) { 2 } else { 1 })?;
    }
    Ok(())
}

/// A metric that decides must be defined.
pub(super) fn undefined(row: &ScoreDef, split: usize, why: &str) -> StageError {
    let metric = ValMetric::of(row.variant.name);
    StageError::unusable(
        format!("`{metric}` of split `{split}` is undefined: {why}"),
        "name another metric in `select` or `stop-on`, or give every class validation nodes",
    )
}

impl Watched {
    /// Refuses metrics that validation nodes without some classes do not define. `lacks`: splits, each followed by a class.
    fn defined(&self, classes: usize, lacks: &[usize]) -> Result<(), StageError> {
        let (pairs, _) = lacks.as_chunks::<2>();
        for of_split in pairs.chunk_by(|a, b| a[0] == b[0]) {
            let has = |class: usize| !of_split.iter().any(|[_, lacking]| *lacking == class);
            if !(0..classes).any(has) {
                return Err(no_node(of_split[0][0], "validation"));
            }
            for row in &self.further {
                row.defined(classes, has).map_err(|why| undefined(row, of_split[0][0], &why.to_string()))?;
            }
        }
        Ok(())
    }
}
