//! Runs as a tidy table: one row per run and split, with everything that tells runs apart and everything that was measured.

use std::collections::{BTreeMap, BTreeSet};

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::export::{Frame, Values};
use ppgnn_stages::kinds::{Metrics, Part, SplitScores, Table, Trained};
use serde_json::Value;

use super::failure::Failure;
use super::note;
use super::stored::{Stored, nearest};
use crate::plan::{Node, NodeId, Plan};
use crate::store::Source;

/// Returns the rows of a node with metrics, one per split.
///
/// `node`, `dataset`, `model`, `seed`, `split`, every metric with the number of nodes behind it, `chosen-epoch`, `seconds` (of
/// training, all splits together), `key` (which tables call their runs by), `train-key`, a column for every axis that is not a
/// parameter, then `<stage>.<parameter>` of every stage behind the run.
pub fn frame(stored: &Stored, id: NodeId, of_split: Option<usize>) -> Result<Frame, Failure> {
    let (plan, node) = (stored.plan, stored.plan.node(id));
    let metrics: Metrics = stored.load(id)?;
    let rows = metrics.splits.len();
    if let Some(split) = of_split.filter(|split| *split >= rows) {
        let message = format!("`{}` has no split {split}; it has {rows}, counted from 0", node.name);
        return Err(Failure::usage(message, None));
    }
    if let Some(runs) = node.of_splits() {
        let mut all = Frame::default();
        for (split, run) in runs.into_iter().enumerate().filter(|(split, _)| of_split.is_none_or(|one| one == *split)) {
            all.append(frame(stored, run, Some(split))?);
        }
        return Ok(all);
    }
    let train = nearest(plan, id, Trained::KIND.0).first().map(|id| plan.node(*id));
    let params = params(plan, id);
    let text = |text: Option<String>| Values::constant(&text.map_or(Value::Null, Value::String), rows);
    let mut frame = Frame::of_rows(rows)
        .with("node", text(Some(node.name.to_string())))
        .with("dataset", text(dataset(plan, id)))
        .with("model", text(train.and_then(|t| t.params.variant()).map(|model| model.name.to_owned())));
    let seed = train.and_then(|t| t.params.all().get("seed")).unwrap_or(&Value::Null);
    frame = frame.with("seed", Values::constant(seed, rows)).with("split", Values::wholes(0..rows));
    frame = scores(frame, &metrics);
    let manifest = train.and_then(|t| stored.store.get(&t.key, t.stage.name)).map(|entry| entry.manifest);
    let seconds = manifest.map_or(Value::Null, |m| m.seconds.into());
    frame = frame
        .with("chosen-epoch", chosen_epochs(&metrics))
        .with("seconds", Values::constant(&seconds, rows))
        .with("key", text(Some(node.key.to_string())))
        .with("train-key", text(train.map(|t| t.key.to_string())));
    for (axis, label) in node.axes.iter().filter(|(axis, _)| !params.contains_key(axis)) {
        frame = frame.with_axis(axis, text(Some(label.clone())));
    }
    for (name, value) in params {
        frame = frame.with(name, Values::constant(&value, rows));
    }
    if let Some(only) = of_split {
        frame.keep(&(0..rows).map(|split| split == only).collect::<Vec<_>>());
    }
    Ok(frame)
}

/// Every metric of every part, those that are reported first.
fn scores(mut frame: Frame, metrics: &Metrics) -> Frame {
    let Some(first) = metrics.splits.first() else { return frame };
    for (part, name) in Part::SCORED.iter().rev() {
        let of_part = |split: &SplitScores| split.part(*part).cloned().unwrap_or_default();
        for (score, _) in of_part(first).scores {
            let values = metrics.splits.iter().map(|split| of_part(split).get(&score)?.as_ref().ok().copied());
            frame = frame.with(format!("{name}-{score}"), Values::Number(values.collect()));
        }
        frame = frame.with(format!("{name}-nodes"), Values::wholes(metrics.splits.iter().map(|s| of_part(s).nodes)));
    }
    frame
}

/// The parameters of all stages behind a node as `<stage>.<parameter>`. Of two nodes of a stage the nearer one counts.
fn params(plan: &Plan, id: NodeId) -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for node in behind(plan, id).rev() {
        for (name, value) in node.params.all() {
            all.entry(format!("{}.{name}", node.name.stage)).or_insert_with(|| value.clone());
        }
    }
    all
}

/// Returns the data set that a run is about.
pub fn dataset(plan: &Plan, id: NodeId) -> Option<String> {
    behind(plan, id).find_map(|node| node.dataset.clone())
}

/// Returns a node and all that it depends on, inputs first. A look at these alone: a table may have thousands of runs.
pub fn behind(plan: &Plan, id: NodeId) -> impl DoubleEndedIterator<Item = &Node> {
    let (mut found, mut next) = (BTreeSet::new(), vec![id]);
    while let Some(id) = next.pop() {
        if found.insert(id) {
            next.extend(plan.node(id).inputs.iter().map(|edge| edge.node));
        }
    }
    found.into_iter().map(|id| plan.node(id))
}

/// Returns the runs behind a table that are in the store, to be published beside it: what the names end in, and the bytes.
/// The kept epoch of every split; a command may not say it.
fn chosen_epochs(metrics: &Metrics) -> Values {
    let epoch = |epoch: Option<usize>| epoch.and_then(|epoch| i64::try_from(epoch).ok());
    Values::Whole(metrics.splits.iter().map(|split| epoch(split.best_epoch)).collect())
}

/// Nothing of an output that is no table.
pub fn files(stored: &Stored, table: NodeId) -> Result<Vec<(&'static str, Source)>, Failure> {
    let plan = stored.plan;
    if plan.node(table).stage.output != Table::KIND {
        return Ok(Vec::new());
    }
    let shown: Table = stored.load(table)?;
    let shown: BTreeSet<&String> = shown.cells.iter().flat_map(|cell| &cell.runs).collect();
    let mut all = Frame::default();
    let runs: BTreeSet<NodeId> = plan.node(table).inputs.iter().map(|edge| edge.node).collect();
    for run in runs.into_iter().filter(|id| plan.node(*id).stage.output == Metrics::KIND && stored.has(*id)) {
        // The table is there and is published, whatever became of the runs behind it.
        match frame(stored, run, None) {
            Ok(rows) => {
                let is_shown = shown.contains(&plan.node(run).key.to_string());
                let flags = Values::Flag(vec![Some(is_shown); rows.rows()]);
                all.append(rows.with("in-table", flags));
            }
            Err(failure) => {
                note(&format!("note: {} is not among the runs: {}", plan.node(run).name, failure.message()))
            }
        }
    }
    if all.rows() == 0 {
        return Ok(Vec::new());
    }
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    let written = all.write_csv(&mut csv).and_then(|()| all.write_parquet(&mut parquet));
    written.map_err(|e| Failure::unexpected(format!("the runs of `{}`: {e}", plan.node(table).name)))?;
    Ok(vec![("runs.csv", Source::Made(csv)), ("runs.parquet", Source::Made(parquet))])
}
