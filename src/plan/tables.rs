//! Turns a table of the pipeline into a `tabulate` node: which run stands in which cell.

use std::collections::BTreeMap;

use ppgnn_stages::contract::Kind;
use ppgnn_stages::contract::params::{list, nearest_help};
use serde_json::{Map, Value, json};

use super::build::{Builder, Gone, Made};
use super::graph::{Edge, NodeId, TableNode};
use crate::pipeline::{Axis, Key, TABLE_STAGE, TableEntry, holds};

/// The kind that it reads.
const METRICS: Kind = Kind("metrics");

/// The parameter of `tabulate` that names a file of published values.
const REFERENCE: &str = "reference";

/// A row and a column.
type Place = (Vec<usize>, Vec<usize>);
/// For each cell that cannot be computed the absence behind it.
type Absent = BTreeMap<Place, usize>;
/// For each cell its candidates, and for each candidate the nodes that are pooled.
type Cells = BTreeMap<Place, BTreeMap<Vec<usize>, Vec<NodeId>>>;

/// Adds the node of a table, or reports why it cannot be made.
pub(super) fn add(builder: &mut Builder, table: &TableEntry, of_points: &[Vec<Made>]) -> Option<TableNode> {
    let stage = builder.around.registry.stage(TABLE_STAGE)?;
    let from = metrics_stage(builder, table)?;
    let sweep = &builder.pipeline.sweep;
    let mut known = |keys: &[Key]| keys.iter().map(|k| sweep.known_axis(k, &mut builder.problems)).collect::<Vec<_>>();
    let (rows, columns, pool) = (known(&table.rows), known(&table.columns), known(&table.pool));
    let filter = sweep.matches(&table.filter, &mut builder.problems);
    let (rows, columns, pool): (Vec<usize>, Vec<usize>, Vec<usize>) = (
        rows.into_iter().collect::<Option<_>>()?,
        columns.into_iter().collect::<Option<_>>()?,
        pool.into_iter().collect::<Option<_>>()?,
    );
    if !all_reach(builder, from, &[&rows, &columns, &pool], table) {
        return None;
    }
    let placed: Vec<usize> = [&rows[..], &columns, &pool].concat();
    let left: Vec<usize> = builder.axes[from].iter().copied().filter(|a| !placed.contains(a)).collect();

    let mut cells = Cells::new();
    let mut absent = Absent::new();
    let mut missing = false;
    for (point, made) in sweep.points.iter().zip(of_points).filter(|(p, _)| holds(&filter, p)) {
        let at = |axes: &[usize]| at_axes(point, axes);
        let node = match made[from] {
            Ok(node) => node,
            Err(Gone::Absent(at)) => {
                absent.insert((at_axes(point, &rows), at_axes(point, &columns)), at);
                continue;
            }
            Err(Gone::Problem) => {
                missing = true;
                continue;
            }
        };
        let pooled = cells.entry((at(&rows), at(&columns))).or_default().entry(at(&left)).or_default();
        if !pooled.contains(&node) {
            pooled.push(node);
        }
    }
    if missing {
        return None;
    }
    if cells.is_empty() && absent.is_empty() {
        builder.problems.add(
            &table.name.span,
            format!("no point of the sweep is in table `{}`", table.name.name),
            None,
        );
        return None;
    }
    // Points that differ in nothing that reaches the metrics are one candidate.
    for candidates in cells.values_mut() {
        let mut seen: Vec<Vec<NodeId>> = Vec::new();
        candidates.retain(|_, nodes| {
            !seen.contains(nodes) && {
                seen.push(nodes.clone());
                true
            }
        });
    }
    let picks = table.params.iter().any(|(k, n)| k.name == "pick" && !n.is_null());
    if !picks && cells.values().any(|c| c.len() > 1) {
        report_mixed(builder, &left, &cells, table);
        return None;
    }
    // A cell with some of its runs is computed from those; a candidate that is not here cannot be picked.
    absent.retain(|place, _| !cells.contains_key(place));
    let whys = absent.into_iter().map(|(place, at)| (place, builder.absent[at].0.in_short())).collect();
    let (mut params, inputs) = params(&builder.pipeline.sweep.axes, table, [&rows, &columns, &left], &cells, &whys);
    if let Some((_, node)) = table.params.iter().find(|(k, _)| k.name == REFERENCE)
        && let Some(path) = node.value().as_str()
    {
        let path = builder.pipeline.sources.folder(&node.span).join(path);
        params.insert(REFERENCE.into(), path.display().to_string().into());
    }
    let checked = match stage.check(builder.around.registry, &params) {
        Ok(checked) => checked,
        Err(found) => {
            for problem in found {
                let written = table.params.iter().find(|(k, _)| k.name == problem.param);
                let span = written.map_or(&table.name.span, |(_, n)| &n.span);
                builder.problems.add(span, format!("table `{}`: {}", table.name.name, problem.message), problem.help);
            }
            return None;
        }
    };
    let mut all = checked.all().clone();
    let digests = checked.map_files(|name, path| {
        (builder.around.digest)(path).map(|digest| json!({ "blake3": digest })).map_err(|error| {
            let written = table.params.iter().find(|(k, _)| k.name == name);
            let span = written.map_or(&table.name.span, |(_, n)| &n.span);
            let help = "a relative path starts from the folder of the file it is written in";
            let message = format!("cannot read `{}`: {error}", path.display());
            builder.problems.add_data(span, message, Some(help.into()));
        })
    });
    all.extend(digests.ok()?);
    let slot = stage.inputs.first()?.name;
    let edges = inputs.into_iter().map(|node| Edge { slot, node }).collect();
    let node = builder.add(format!("{TABLE_STAGE}/{}", table.name.name), stage, checked, all, edges);
    Some(TableNode { name: table.name.name.clone(), node })
}

fn at_axes(point: &[usize], axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|a| point[*a]).collect()
}

/// The stage whose metrics the table shows: the one it names, or the only one there is.
fn metrics_stage(builder: &mut Builder, table: &TableEntry) -> Option<usize> {
    let stages = &builder.pipeline.stages;
    let able: Vec<usize> = (0..stages.len()).filter(|s| stages[*s].def.output == METRICS).collect();
    let names = || able.iter().map(|s| stages[*s].name.name.as_str());
    if let Some(from) = &table.from {
        let found = able.iter().copied().find(|s| stages[*s].name.name == from.name);
        if found.is_none() {
            let message = format!("no stage `{}` that produces `{METRICS}`", from.name);
            builder.problems.add(&from.span, message, Some(nearest_help(&from.name, names())));
        }
        return found;
    }
    if let [only] = able[..] {
        return Some(only);
    }
    let (message, help) = if able.is_empty() {
        ("no stage produces metrics for this table".to_owned(), "add an `evaluate` stage".to_owned())
    } else {
        (
            format!("table `{}` does not say which stage it shows", table.name.name),
            format!("add `from:` with one of {}", list(names())),
        )
    };
    builder.problems.add(&table.name.span, message, Some(help));
    None
}

/// A row or column over an axis that does not reach the metrics would show one run again and again.
fn all_reach(builder: &mut Builder, from: usize, placed: &[&[usize]; 3], table: &TableEntry) -> bool {
    let written = table.rows.iter().chain(&table.columns).chain(&table.pool);
    let mut fine = true;
    for (axis, key) in placed.iter().copied().flatten().zip(written) {
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
    let varies = |place: &usize| {
        cells.values().any(|candidates| {
            let mut values = candidates.keys().map(|k| k[*place]);
            let first = values.next();
            values.any(|v| Some(v) != first)
        })
    };
    let names = list((0..left.len()).filter(varies).map(|p| axes[left[p]].name.as_str()));
    let message = format!(
        "table `{}` would put several runs into one cell: {names} is neither a row nor a column",
        table.name.name
    );
    let help = "add it to `rows` or `columns`, fix it under `where`, average over it with `pool`, or let `pick: val-accuracy` choose";
    builder.problems.add(&table.name.span, message, Some(help.into()));
}

/// Writes the parameters of `tabulate`, and the nodes they refer to by position.
fn params(
    axes: &[Axis],
    table: &TableEntry,
    [rows, columns, left]: [&[usize]; 3],
    cells: &Cells,
    absent: &BTreeMap<Place, String>,
) -> (Map<String, Value>, Vec<NodeId>) {
    let label = |of: &[usize], at: &[usize]| {
        let words: Vec<&str> = of.iter().zip(at).map(|(a, v)| axes[*a].values[*v].label.as_str()).collect();
        words.join(", ")
    };
    let title = |of: &[usize]| of.iter().map(|a| axes[*a].short.as_str()).collect::<Vec<_>>().join(", ");
    let sorted = |keys: &mut Vec<&Vec<usize>>| {
        keys.sort_unstable();
        keys.dedup();
    };
    let mut row_keys: Vec<&Vec<usize>> = cells.keys().chain(absent.keys()).map(|(r, _)| r).collect();
    sorted(&mut row_keys);
    let mut column_keys: Vec<&Vec<usize>> = cells.keys().chain(absent.keys()).map(|(_, c)| c).collect();
    sorted(&mut column_keys);
    let row_of = |row: &Vec<usize>| row_keys.binary_search(&row).unwrap_or(0);
    let column_of = |column: &Vec<usize>| column_keys.binary_search(&column).unwrap_or(0);
    let mut inputs: Vec<NodeId> = Vec::new();
    let mut position = std::collections::HashMap::new();
    let mut specs = Vec::new();
    for ((row, column), candidates) in cells {
        let several = candidates.len() > 1;
        let named = |at: &Vec<usize>| {
            let words = left
                .iter()
                .zip(at)
                .filter_map(|(a, v)| Some(format!("{}={}", axes[*a].short, axes[*a].values.get(*v)?.label)));
            words.collect::<Vec<_>>().join(", ")
        };
        let labels: Vec<String> = candidates.keys().filter(|_| several).map(named).collect();
        let candidates: Vec<Vec<usize>> = candidates
            .values()
            .map(|nodes| {
                let place = |n: &NodeId| {
                    *position.entry(*n).or_insert_with(|| {
                        inputs.push(*n);
                        inputs.len() - 1
                    })
                };
                nodes.iter().map(place).collect()
            })
            .collect();
        let (row, column) = (row_of(row), column_of(column));
        specs.push(json!({"row": row, "column": column, "candidates": candidates, "labels": labels}));
    }
    let mut params: Map<String, Value> = table.params.iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
    params.entry("title").or_insert_with(|| table.name.name.clone().into());
    params.insert("rows".into(), row_keys.iter().map(|r| label(rows, r)).collect());
    params.insert("columns".into(), column_keys.iter().map(|c| label(columns, c)).collect());
    params.insert("row-title".into(), title(rows).into());
    params.insert("column-title".into(), title(columns).into());
    params.insert("cells".into(), specs.into());
    let absent =
        absent.iter().map(|((row, column), why)| json!({"row": row_of(row), "column": column_of(column), "why": why}));
    params.insert("absent".into(), absent.collect());
    (params, inputs)
}
