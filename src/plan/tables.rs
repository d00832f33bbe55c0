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
use crate::pipeline::{Axis, Key, Pipeline, Search, Span, TABLE_STAGE, TableEntry, holds};

/// The parameter that says which random numbers are drawn, in every stage that draws some.
const SEED: &str = "seed";
/// The parameter that asks for facts instead of a metric, and the slot that they are in.
const FACTS: &str = "facts";
/// What runs must share if their scores are to be compared.
const DATA: [&str; 2] = ["graph", "splits"];

/// A row and a column.
pub(super) type Place = (Vec<usize>, Vec<usize>);
/// For each cell its candidates, and for each candidate the nodes that are pooled.
pub(super) type Cells = BTreeMap<Place, BTreeMap<Vec<usize>, Vec<NodeId>>>;

/// For each cell the runs that cannot be made: the candidate, and why.
type Lacking = BTreeMap<Place, Vec<(Vec<usize>, Lack)>>;

/// Why a run cannot be made.
#[derive(Clone, Copy)]
enum Lack {
    /// Data is missing: an index into what is absent.
    Data(usize),
    /// A search has not ended: its position.
    Search(usize),
}

/// The stage that a table shows, and where each axis that reaches it goes.
pub(super) struct Layout {
    from: usize,
    pub(super) rows: Vec<usize>,
    pub(super) columns: Vec<usize>,
    pool: Vec<usize>,
    /// The axes that are neither of these nor pooled: what candidates of one cell differ in.
    left: Vec<usize>,
}

/// The contents of a table.
pub(super) struct Content {
    pub(super) cells: Cells,
    /// The axes that candidates of one cell differ in.
    mixed: Vec<usize>,
    /// For each of these cells the runs that it lacks: the candidate, and why.
    pub(super) missing: BTreeMap<Place, Vec<(Vec<usize>, String)>>,
    /// For each cell that cannot be computed, why not.
    pub(super) absent: BTreeMap<Place, String>,
    /// For each cell what known settings lack for it.
    notes: BTreeMap<Place, Vec<String>>,
}

/// Adds the node of a table and publishes it. `None` where a problem was reported.
pub(super) fn add(builder: &mut Builder, table: &TableEntry, of_points: &[Vec<Planned>]) -> Option<()> {
    let stage = builder.around.registry.stage(TABLE_STAGE)?;
    let of_facts = table.params.iter().any(|(key, node)| key.name == FACTS && !node.is_null());
    let slot = stage.inputs.iter().find(|slot| (slot.name == FACTS) == of_facts)?;
    let layout = layout(builder, table, slot.kind)?;
    let content = content(builder, table, &layout, of_points)?;
    let (params, inputs) = params(builder.pipeline, table, &layout, &content);
    let checked = builder.checked(stage, &table.what(), &params, |_, name, _| span_of(table, name))?;
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

/// Finds the stage whose results are shown, and places the axes.
pub(super) fn layout(builder: &mut Builder, table: &TableEntry, kind: Kind) -> Option<Layout> {
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
    let trials = builder.pipeline.search.as_ref().map(|_| builder.pipeline.sweep.axes.len() - 1);
    let left = builder.axes[from].iter().copied().filter(|a| !placed.contains(a) && Some(*a) != trials).collect();
    Some(Layout { from, rows, columns, pool, left })
}

/// Finds the runs of every cell.
pub(super) fn content(
    builder: &mut Builder,
    table: &TableEntry,
    layout: &Layout,
    of_points: &[Vec<Planned>],
) -> Option<Content> {
    let sweep = &builder.pipeline.sweep;
    let filter = sweep.matches(&table.filter, &mut builder.problems);
    let (mut cells, mut lacking) = (Cells::new(), Lacking::new());
    let mut notes: BTreeMap<Place, Vec<String>> = BTreeMap::new();
    let mut incomplete = false;
    let search = builder.pipeline.search.as_ref();
    let shown = |point: &[usize]| holds(&filter, point) && (search.is_none() || Search::is_choice(point));
    for (point, planned) in sweep.points.iter().zip(of_points).filter(|(point, _)| shown(point)) {
        let at = |axes: &[usize]| axes.iter().map(|a| point[*a]).collect::<Vec<usize>>();
        let place = (at(&layout.rows), at(&layout.columns));
        match planned[layout.from] {
            Ok(node) => {
                let of_cell = notes.entry(place.clone()).or_default();
                let instead = builder.pipeline.presets.iter().filter(|preset| holds(&preset.matches, point));
                let instead = instead.filter_map(|preset| preset.instead.clone());
                let instead = instead.chain(search.and_then(|search| search.said(point)));
                let noted = sweep.when.iter().filter(|when| holds(&when.matches, point));
                let said = instead.chain(noted.filter_map(|when| when.note.clone()));
                of_cell.extend(said.filter(|note| !of_cell.contains(note)).collect::<Vec<_>>());
                let pooled = cells.entry(place).or_default().entry(at(&layout.left)).or_default();
                if !pooled.contains(&node) {
                    pooled.push(node);
                }
            }
            Err(NoNode::DataAbsent(why)) => lacking.entry(place).or_default().push((at(&layout.left), Lack::Data(why))),
            Err(NoNode::Open(search)) => {
                lacking.entry(place).or_default().push((at(&layout.left), Lack::Search(search)))
            }
            Err(NoNode::NotWanted) => {}
            Err(NoNode::Reported) => incomplete = true,
        }
    }
    if incomplete {
        return None;
    }
    if cells.is_empty() && lacking.is_empty() {
        let message = format!("no point of the sweep is in {}", table.what());
        return builder.problems.refuse(&table.name.span, message, None);
    }
    // Points that differ in nothing that reaches the metrics are one candidate.
    for candidates in cells.values_mut() {
        let mut seen = HashSet::new();
        candidates.retain(|_, nodes| seen.insert(nodes.clone()));
    }
    let picks = table.params.iter().any(|(k, n)| k.name == "pick" && !n.is_null());
    let mixed = mixed(layout, &cells, &lacking);
    if picks && refuse_unpickable(builder, &mixed, table) {
        return None;
    }
    if !picks && cells.values().any(|c| c.len() > 1) {
        report_mixed(builder, &mixed, table);
        return None;
    }
    let (mut missing, mut absent) = (BTreeMap::new(), BTreeMap::new());
    for (place, runs) in lacking {
        let why = |lack: Lack| match lack {
            Lack::Data(at) => builder.absent[at].absence.in_short(),
            Lack::Search(at) => search.map_or(String::new(), |search| search.why_open(at)),
        };
        let Some(candidates) = cells.get_mut(&place) else {
            absent.extend(runs.first().map(|(_, at)| (place, why(*at))));
            continue;
        };
        if picks {
            for (candidate, _) in &runs {
                candidates.entry(candidate.clone()).or_default();
            }
        }
        missing.insert(place, runs.into_iter().map(|(candidate, at)| (candidate, why(at))).collect());
    }
    Some(Content { cells, mixed, missing, absent, notes })
}

/// Where a parameter of a table is written.
pub(super) fn span_of(table: &TableEntry, param: &str) -> Span {
    table.params.iter().find(|(k, _)| k.name == param).map_or(&table.name.span, |(_, n)| &n.span).clone()
}

/// The stage whose results the table shows: the one it names, or the only one there is.
fn shown_stage(builder: &mut Builder, table: &TableEntry, kind: Kind) -> Option<usize> {
    let stages = &builder.pipeline.stages;
    let able: Vec<usize> = (0..stages.len()).filter(|s| kind == stages[*s].def.output).collect();
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
        let makers = builder.around.registry.stages().filter(|stage| stage.output == kind).map(|stage| stage.name);
        (format!("no stage produces {kind} for this {}", table.words.whole), format!("add one: {}", list(makers)))
    } else {
        (
            format!("{} does not say which stage it shows", table.what()),
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
            let (part, whole) = (table.words.part, table.words.whole);
            let help = format!("every {part} along it would show the same run; leave it out of this {whole}");
            builder.problems.add(&key.span, message, Some(help));
            fine = false;
        }
    }
    fine
}

/// The axes that candidates of one cell differ in.
fn mixed(layout: &Layout, cells: &Cells, lacking: &Lacking) -> Vec<usize> {
    let mut seen: BTreeMap<&Place, BTreeSet<&Vec<usize>>> = BTreeMap::new();
    for (place, candidates) in cells {
        seen.entry(place).or_default().extend(candidates.keys());
    }
    for (place, runs) in lacking {
        seen.entry(place).or_default().extend(runs.iter().map(|(candidate, _)| candidate));
    }
    let varies = |at: &usize| seen.values().any(|of| of.iter().map(|c| c[*at]).collect::<HashSet<_>>().len() > 1);
    (0..layout.left.len()).filter(varies).map(|at| layout.left[at]).collect()
}

/// Names the axes that put several runs into one cell.
fn report_mixed(builder: &mut Builder, mixed: &[usize], table: &TableEntry) {
    let axes = &builder.pipeline.sweep.axes;
    let names = list(mixed.iter().map(|a| axes[*a].name.as_str()));
    let words = table.words;
    let message = format!("{} would put several runs into one {}: {names} {}", table.what(), words.part, words.neither);
    builder.problems.add(&table.name.span, message, Some(words.sides.into()));
}

/// Reports axes that nothing may be picked from, and returns whether there are any. The best of several seeds is luck, and
/// scores on other graphs or splits do not compare.
fn refuse_unpickable(builder: &mut Builder, mixed: &[usize], table: &TableEntry) -> bool {
    let stages = &builder.pipeline.stages;
    let of_data = |stage: &str| {
        let used = stages.iter().find(|used| used.name.name == stage);
        used.is_some_and(|used| DATA.contains(&used.def.output.0))
    };
    let mut refused = Vec::new();
    for axis in mixed.iter().map(|a| &builder.pipeline.sweep.axes[*a]) {
        let settings = || axis.values.iter().flat_map(|value| &value.settings);
        let what = if settings().all(|s| s.param == SEED) && settings().next().is_some() {
            "the best of several seeds"
        } else if settings().any(|s| of_data(&s.stage)) {
            "the best of several data sets or splits"
        } else {
            continue;
        };
        refused.push((axis.name.clone(), what));
    }
    for (axis, what) in &refused {
        let message = format!(
            "table `{}` would show {what}: `{axis}` is neither a row nor a column, nor pooled",
            table.name.name
        );
        let help = format!(
            "average over it with `pool: {axis}`, add it to `rows` or `columns`, or fix it under `where`; `pick` chooses \
             configurations"
        );
        builder.problems.add(&table.name.span, message, Some(help));
    }
    !refused.is_empty()
}

/// Writes the parameters of `tabulate`, and the nodes they refer to by position.
fn params(
    pipeline: &Pipeline,
    table: &TableEntry,
    layout: &Layout,
    content: &Content,
) -> (Map<String, Value>, Vec<NodeId>) {
    let axes = &pipeline.sweep.axes[..];
    let labels = |of: &[usize], at: &[usize]| {
        of.iter().zip(at).map(|(a, v)| axes[*a].values[*v].label.as_str()).collect::<Vec<_>>().join(", ")
    };
    let title = |of: &[usize]| of.iter().map(|a| axes[*a].short.as_str()).collect::<Vec<_>>().join(", ");
    let places = || content.cells.keys().chain(content.absent.keys());
    let rows: Vec<_> = places().map(|(row, _)| row).collect::<BTreeSet<_>>().into_iter().collect();
    let columns: Vec<_> = places().map(|(_, column)| column).collect::<BTreeSet<_>>().into_iter().collect();
    let position =
        |(row, column): &Place| (rows.binary_search(&row).unwrap_or(0), columns.binary_search(&column).unwrap_or(0));
    let (cells, inputs) = cell_params(axes, &layout.left, content, position);
    let absent = content.absent.iter().map(|(place, why)| {
        let (row, column) = position(place);
        json!({"row": row, "column": column, "why": why})
    });
    let mut params: Map<String, Value> = table.params.iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
    params.entry("title").or_insert_with(|| table.name.name.clone().into());
    // What is no list is refused with the other parameters.
    if let Value::Array(own) = params.entry("notes").or_insert_with(|| json!([])) {
        own.splice(..0, pipeline.notes.iter().map(|note| note.as_str().into()));
    }
    params.insert("rows".into(), rows.iter().map(|r| labels(&layout.rows, r)).collect());
    params.insert("columns".into(), columns.iter().map(|c| labels(&layout.columns, c)).collect());
    let names = |of: &[usize]| of.iter().map(|a| axes[*a].name.as_str()).collect::<Vec<_>>();
    let chosen = content.cells.values().any(|candidates| candidates.len() > 1);
    for (param, of) in [("pooled", &layout.pool), ("picked-from", &content.mixed)] {
        if !of.is_empty() && (chosen || param == "pooled") {
            params.insert(param.into(), names(of).into());
        }
    }
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
    content: &Content,
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
    for (place, candidates) in &content.cells {
        let several = candidates.len() > 1;
        let labels: Vec<String> = candidates.keys().filter(|_| several).map(label).collect();
        let numbers: Vec<Vec<usize>> =
            candidates.values().map(|nodes| nodes.iter().map(&mut number).collect()).collect();
        let missing = content.missing.get(place).into_iter().flatten().map(|(candidate, why)| {
            let at = candidates.keys().position(|there| there == candidate).unwrap_or(0);
            json!({"candidate": at, "why": why})
        });
        let (missing, (row, column)) = (missing.collect::<Vec<_>>(), position(place));
        let notes = content.notes.get(place).cloned().unwrap_or_default();
        written.push(json!({
            "row": row, "column": column, "candidates": numbers, "labels": labels, "missing": missing, "notes": notes,
        }));
    }
    (written, inputs)
}

#[cfg(test)]
mod tests;
