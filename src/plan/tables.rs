//! Turns a table of the pipeline into a `tabulate` node: which runs belong to which cell.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::Path;

use ppgnn_stages::contract::Kind;
use ppgnn_stages::contract::params::{list, nearest_help};
use serde_json::{Map, Value, json};

use super::build::{Builder, NoNode, Planned};
use super::graph::{Edge, NodeId};
use super::name::NodeName;
use crate::pipeline::{Axis, Key, Span, TABLE_STAGE, TableEntry, holds};

/// A row and a column.
type Place = (Vec<usize>, Vec<usize>);
/// For each cell its candidates, and for each candidate the nodes that are pooled.
type Cells = BTreeMap<Place, BTreeMap<Vec<usize>, Vec<NodeId>>>;

/// The stage that a table shows, and where each axis that reaches it goes.
struct Layout {
    from: usize,
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// The axes that are neither of these nor pooled: what candidates of one cell differ in.
    left: Vec<usize>,
}

/// The contents of a table.
struct Content {
    cells: Cells,
    /// For each cell that cannot be computed, why not.
    absent: BTreeMap<Place, String>,
}

/// Adds the node of a table and publishes it. `None` where a problem was reported.
pub(super) fn add(builder: &mut Builder, table: &TableEntry, of_points: &[Vec<Planned>]) -> Option<()> {
    let stage = builder.around.registry.stage(TABLE_STAGE)?;
    let slot = stage.inputs.first()?;
    let layout = layout(builder, table, slot.kind)?;
    let content = content(builder, table, &layout, of_points)?;
    let (params, inputs) = params(&builder.pipeline.sweep.axes, table, &layout, &content);
    let what = format!("table `{}`", table.name.name);
    let checked = builder.checked(stage, &what, &params, |_, name, _| span_of(table, name))?;
    let unread = |builder: &mut Builder, name: &str, path: &Path, error: &io::Error| {
        builder.unreadable(&span_of(table, name), path, error)
    };
    let in_key = builder.with_digests(&checked, unread).ok()?;
    let edges = inputs.into_iter().map(|node| Edge { slot: slot.name, node }).collect();
    let name = NodeName::new(TABLE_STAGE, [&table.name.name]);
    let (node, _) = builder.add(name, stage, checked, in_key, edges);
    builder.publish(table.name.name.clone(), node, &table.name.span);
    Some(())
}

fn layout(builder: &mut Builder, table: &TableEntry, kind: Kind) -> Option<Layout> {
    let from = shown_stage(builder, table, kind)?;
    let sweep = &builder.pipeline.sweep;
    let mut known = |keys: &[Key]| keys.iter().map(|k| sweep.known_axis(k, &mut builder.problems)).collect::<Vec<_>>();
    // All three are looked at before the first unknown axis ends this, so that every one is reported.
    let (rows, columns, pool) = (known(&table.rows), known(&table.columns), known(&table.pool));
    let all = |axes: Vec<Option<usize>>| axes.into_iter().collect::<Option<Vec<usize>>>();
    let (rows, columns, pool) = (all(rows)?, all(columns)?, all(pool)?);
    let placed = [&rows[..], &columns, &pool].concat();
    if !all_reach(builder, from, &placed, table) {
        return None;
    }
    let left = builder.axes[from].iter().copied().filter(|a| !placed.contains(a)).collect();
    Some(Layout { from, rows, columns, left })
}

/// Finds the runs of every cell.
fn content(builder: &mut Builder, table: &TableEntry, layout: &Layout, of_points: &[Vec<Planned>]) -> Option<Content> {
    let sweep = &builder.pipeline.sweep;
    let filter = sweep.matches(&table.filter, &mut builder.problems);
    let (mut cells, mut absent) = (Cells::new(), BTreeMap::new());
    let mut incomplete = false;
    for (point, planned) in sweep.points.iter().zip(of_points).filter(|(p, _)| holds(&filter, p)) {
        let at = |axes: &[usize]| axes.iter().map(|a| point[*a]).collect::<Vec<usize>>();
        let place = (at(&layout.rows), at(&layout.columns));
        match planned[layout.from] {
            Ok(node) => {
                let pooled = cells.entry(place).or_default().entry(at(&layout.left)).or_default();
                if !pooled.contains(&node) {
                    pooled.push(node);
                }
            }
            Err(NoNode::DataAbsent(at)) => {
                absent.insert(place, at);
            }
            Err(NoNode::Reported) => incomplete = true,
        }
    }
    if incomplete {
        return None;
    }
    if cells.is_empty() && absent.is_empty() {
        let message = format!("no point of the sweep is in table `{}`", table.name.name);
        return builder.problems.refuse(&table.name.span, message, None);
    }
    // Points that differ in nothing that reaches the metrics are one candidate.
    for candidates in cells.values_mut() {
        let mut seen = HashSet::new();
        candidates.retain(|_, nodes| seen.insert(nodes.clone()));
    }
    let picks = table.params.iter().any(|(k, n)| k.name == "pick" && !n.is_null());
    if !picks && cells.values().any(|c| c.len() > 1) {
        report_mixed(builder, &layout.left, &cells, table);
        return None;
    }
    // A cell with some of its runs is computed from those; a missing candidate cannot be picked.
    absent.retain(|place, _| !cells.contains_key(place));
    let absent = absent.into_iter().map(|(place, at)| (place, builder.absent[at].0.in_short())).collect();
    Some(Content { cells, absent })
}

/// Where a parameter of a table is written.
fn span_of(table: &TableEntry, param: &str) -> Span {
    table.params.iter().find(|(k, _)| k.name == param).map_or(&table.name.span, |(_, n)| &n.span).clone()
}

/// The stage whose results the table shows: the one it names, or the only one there is.
fn shown_stage(builder: &mut Builder, table: &TableEntry, kind: Kind) -> Option<usize> {
    let stages = &builder.pipeline.stages;
    let able: Vec<usize> = (0..stages.len()).filter(|s| stages[*s].def.output == kind).collect();
    let names = || able.iter().map(|s| stages[*s].name.name.as_str());
    if let Some(from) = &table.from {
        let message = || format!("no stage `{}` that produces `{kind}`", from.name);
        let help = || Some(nearest_help(&from.name, names()));
        let found = able.iter().copied().find(|s| stages[*s].name.name == from.name);
        return found.or_else(|| builder.problems.refuse(&from.span, message(), help()));
    }
    if let [only] = able[..] {
        return Some(only);
    }
    let (message, help) = if able.is_empty() {
        (format!("no stage produces {kind} for this table"), "add an `evaluate` stage".to_owned())
    } else {
        (
            format!("table `{}` does not say which stage it shows", table.name.name),
            format!("add `from:` with one of {}", list(names())),
        )
    };
    builder.problems.refuse(&table.name.span, message, Some(help))
}

/// A row or column over an axis that does not reach the metrics would show the same run repeatedly.
fn all_reach(builder: &mut Builder, from: usize, placed: &[usize], table: &TableEntry) -> bool {
    let written = table.rows.iter().chain(&table.columns).chain(&table.pool);
    let mut fine = true;
    for (axis, key) in placed.iter().zip(written) {
        if !builder.axes[from].contains(axis) {
            let stage = &builder.pipeline.stages[from].name.name;
            let message = format!("axis `{}` changes nothing that reaches stage `{stage}`", key.name);
            let help = "every cell along it would show the same run; leave it out of this table";
            builder.problems.add(&key.span, message, Some(help.into()));
            fine = false;
        }
    }
    fine
}

/// Names the axes that put several runs into one cell.
fn report_mixed(builder: &mut Builder, left: &[usize], cells: &Cells, table: &TableEntry) {
    let axes = &builder.pipeline.sweep.axes;
    let values = |candidates: &BTreeMap<Vec<usize>, _>, place: usize| {
        candidates.keys().map(|k| k[place]).collect::<HashSet<_>>().len()
    };
    let varies = |place: &usize| cells.values().any(|candidates| values(candidates, *place) > 1);
    let names = list((0..left.len()).filter(varies).map(|p| axes[left[p]].name.as_str()));
    let message = format!(
        "table `{}` would put several runs into one cell: {names} is neither a row nor a column",
        table.name.name
    );
    let help = "add it to `rows` or `columns`, fix it under `where`, average over it with `pool`, or let `pick: val-accuracy` choose";
    builder.problems.add(&table.name.span, message, Some(help.into()));
}

/// Writes the parameters of `tabulate`, and the nodes they refer to by position.
fn params(axes: &[Axis], table: &TableEntry, layout: &Layout, content: &Content) -> (Map<String, Value>, Vec<NodeId>) {
    let labels = |of: &[usize], at: &[usize]| {
        of.iter().zip(at).map(|(a, v)| axes[*a].values[*v].label.as_str()).collect::<Vec<_>>().join(", ")
    };
    let title = |of: &[usize]| of.iter().map(|a| axes[*a].short.as_str()).collect::<Vec<_>>().join(", ");
    let places = || content.cells.keys().chain(content.absent.keys());
    let rows: Vec<_> = places().map(|(row, _)| row).collect::<BTreeSet<_>>().into_iter().collect();
    let columns: Vec<_> = places().map(|(_, column)| column).collect::<BTreeSet<_>>().into_iter().collect();
    let position =
        |(row, column): &Place| (rows.binary_search(&row).unwrap_or(0), columns.binary_search(&column).unwrap_or(0));
    let (cells, inputs) = cell_params(axes, &layout.left, &content.cells, position);
    let absent = content.absent.iter().map(|(place, why)| {
        let (row, column) = position(place);
        json!({"row": row, "column": column, "why": why})
    });
    let mut params: Map<String, Value> = table.params.iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
    params.entry("title").or_insert_with(|| table.name.name.clone().into());
    params.insert("rows".into(), rows.iter().map(|r| labels(&layout.rows, r)).collect());
    params.insert("columns".into(), columns.iter().map(|c| labels(&layout.columns, c)).collect());
    params.insert("row-title".into(), title(&layout.rows).into());
    params.insert("column-title".into(), title(&layout.columns).into());
    params.insert("cells".into(), cells.into());
    params.insert("absent".into(), absent.collect());
    (params, inputs)
}

/// Writes every cell with its candidates, and collects the nodes that they refer to.
fn cell_params(
    axes: &[Axis],
    left: &[usize],
    cells: &Cells,
    position: impl Fn(&Place) -> (usize, usize),
) -> (Vec<Value>, Vec<NodeId>) {
    let mut inputs: Vec<NodeId> = Vec::new();
    let mut numbers: HashMap<NodeId, usize> = HashMap::new();
    let mut number = |node: &NodeId| {
        *numbers.entry(*node).or_insert_with(|| {
            inputs.push(*node);
            inputs.len() - 1
        })
    };
    let label = |at: &Vec<usize>| {
        let words = left.iter().zip(at).filter_map(|(a, v)| Some((&axes[*a].short, axes[*a].values.get(*v)?)));
        words.map(|(axis, value)| format!("{axis}={}", value.label)).collect::<Vec<_>>().join(", ")
    };
    let mut written = Vec::new();
    for (place, candidates) in cells {
        let several = candidates.len() > 1;
        let labels: Vec<String> = candidates.keys().filter(|_| several).map(label).collect();
        let numbers: Vec<Vec<usize>> =
            candidates.values().map(|nodes| nodes.iter().map(&mut number).collect()).collect();
        let (row, column) = position(place);
        written.push(json!({"row": row, "column": column, "candidates": numbers, "labels": labels}));
    }
    (written, inputs)
}

#[cfg(test)]
mod tests;
