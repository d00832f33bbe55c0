//! Turns a figure of the pipeline into a node of the stage that draws it: which runs are drawn where, and what stands beside them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;

use ppgnn_stages::contract::params::list;
use ppgnn_stages::contract::{Arity, Kind, Slot, StageDef};
use serde_json::{Map, Value, json};

use super::build::{Builder, Planned};
use super::graph::{Edge, NodeId};
use super::name::NodeName;
use super::tables::{self, Content, Layout};
use crate::pipeline::{FigureEntry, Group, Pipeline, SHOWN, Search, StageUse, TableEntry};
use crate::search::{Settings, importance};

/// Marks the parameter of a stage that wants to know which row, such as a model, a run has chosen, and with which parameters.
const WANTS_ROW: &str = "x-row";
/// The parameter of a stage that wants to know what searches have tried.
const SEARCHES: &str = "searches";
/// The parameter of a stage that wants to know how the stages of the pipeline are wired.
const WIRING: &str = "wiring";

/// A figure as written, and the stage that draws it.
type Figure<'f> = (&'f TableEntry, &'static StageDef);

/// Adds the node of a figure and publishes it. `None` where a problem was reported.
pub(super) fn add(builder: &mut Builder, figure: &FigureEntry, of_points: &[Vec<Planned>]) -> Option<()> {
    let (entry, stage) = (&figure.shown, builder.around.registry.stage(figure.stage)?);
    let mut params: Map<String, Value> = entry.params.iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
    let mut inputs = Vec::new();
    if let Some(slot) = stage.inputs.first() {
        let layout = tables::layout(builder, entry, slot.kind)?;
        let content = tables::content(builder, entry, &layout, of_points)?;
        let (shown, edges) = shown(builder, (entry, stage), &layout, &content)?;
        params.insert(SHOWN.into(), shown);
        inputs = edges;
    }
    let schema = stage.own_schema(builder.around.registry);
    let wants = |param: &str| schema["properties"].get(param).is_some();
    if wants(WIRING) {
        params.insert(WIRING.into(), wiring(builder.pipeline));
    }
    if wants(SEARCHES) {
        let Some(search) = &builder.pipeline.search else {
            let message = format!("{} is of a search, and the pipeline has none", entry.what());
            return builder.problems.refuse(&entry.name.span, message, Some("add `search:` to the file".into()));
        };
        let searches = searches(search);
        // Nothing is drawn of searches that go on: their figure would be another one after every round.
        if searches.len() < search.groups.len() {
            return builder.checked(stage, &entry.what(), &params, |_, name, _| tables::span_of(entry, name)).map(drop);
        }
        params.insert(SEARCHES.into(), searches.into());
    }
    let checked = builder.checked(stage, &entry.what(), &params, |_, name, _| tables::span_of(entry, name))?;
    let unread = |builder: &mut Builder, name: &str, path: &Path, error: &io::Error| {
        builder.unreadable(&tables::span_of(entry, name), path, error)
    };
    let in_key = builder.with_digests(&checked, unread).ok()?;
    let name = NodeName::new(stage.name, [&entry.name.name]);
    let (node, _) = builder.add(name, stage, checked, in_key, inputs);
    builder.publish(entry.name.name.clone(), node, &entry.name.span);
    Some(())
}

/// Says which stages there are, inputs first, and what each reads.
fn wiring(pipeline: &Pipeline) -> Value {
    let wired = |used: &StageUse| {
        let inputs: BTreeSet<usize> = used.inputs.iter().flat_map(|(_, from)| from).copied().collect();
        json!({"name": used.name.name, "inputs": inputs})
    };
    pipeline.stages.iter().map(wired).collect()
}

/// Says what searches have tried, of those that have ended.
fn searches(search: &Search) -> Vec<Value> {
    let ended = search.groups.iter().filter(|group| group.failed || group.chosen.is_some());
    let of_group = |group: &Group| {
        let scores = group.scores.iter().copied().chain(std::iter::repeat(None));
        let trials: Vec<(&Settings, Option<f64>)> = group.trials.iter().zip(scores).collect();
        let scored: Vec<(&Settings, f64)> =
            trials.iter().filter_map(|(settings, worth)| Some((*settings, (*worth)?))).collect();
        let matters: Map<String, Value> =
            importance(&scored).into_iter().map(|(name, share)| (name, share.into())).collect();
        let trials: Vec<Value> =
            trials.iter().map(|(settings, worth)| json!({"settings": settings, "worth": worth})).collect();
        json!({"label": group.label, "objective": search.objective.name, "trials": trials, "importance": matters})
    };
    ended.map(of_group).collect()
}

/// Says which runs are drawn where, and collects the nodes that are needed for it, slot by slot.
fn shown(builder: &mut Builder, figure: Figure, layout: &Layout, content: &Content) -> Option<(Value, Vec<Edge>)> {
    let axes = &builder.pipeline.sweep.axes;
    let labels = |of: &[usize], at: &[usize]| {
        of.iter().zip(at).map(|(a, v)| axes[*a].values[*v].label.as_str()).collect::<Vec<_>>().join(", ")
    };
    // Of several lines a number alone does not say what it is.
    let name = |(axis, value): (&usize, &usize)| {
        let (axis, label) = (&axes[*axis], &axes[*axis].values[*value].label);
        if label.parse::<f64>().is_ok() { format!("{} {label}", axis.short) } else { label.clone() }
    };
    let x_title = layout.columns.iter().map(|a| axes[*a].short.as_str()).collect::<Vec<_>>().join(", ");
    let columns: Vec<&Vec<usize>> = content.cells.keys().map(|(_, x)| x).collect::<BTreeSet<_>>().into_iter().collect();
    let x: Vec<String> =
        columns.iter().map(|at| labels(&layout.columns, at)).filter(|label| !label.is_empty()).collect();
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut series: Vec<Value> = Vec::new();
    for row in content.cells.keys().map(|(row, _)| row).collect::<BTreeSet<_>>() {
        let of_row = content.cells.iter().filter(|((of, _), _)| of == row);
        let marks: Vec<Value> = of_row
            .map(|((_, x), candidates)| {
                let pooled = candidates.values().flatten();
                let runs: Vec<usize> = pooled.map(|node| place_of(&mut nodes, *node)).collect();
                json!({"x": columns.binary_search(&x).unwrap_or(0), "runs": runs})
            })
            .collect();
        let label = layout.rows.iter().zip(row).map(name).collect::<Vec<_>>().join(", ");
        series.push(json!({"label": label, "marks": marks}));
    }
    let missing = content.missing.values().flatten().map(|(_, why)| why);
    let missing: BTreeSet<&String> = missing.chain(content.absent.values()).collect();
    let missing = missing.into_iter().map(String::as_str).collect::<Vec<_>>();
    let (runs, edges) = runs(builder, figure, &nodes)?;
    let mut shown = json!({"series": series, "runs": runs, "missing": missing});
    if !layout.columns.is_empty() {
        (shown["x"], shown["x-title"]) = (x.into(), x_title.into());
    }
    Some((shown, edges))
}

/// The place of a node in a list, to which it is added where it is new.
fn place_of(nodes: &mut Vec<NodeId>, node: NodeId) -> usize {
    nodes.iter().position(|there| *there == node).unwrap_or_else(|| {
        nodes.push(node);
        nodes.len() - 1
    })
}

/// Says what every run has in every slot.
fn runs(builder: &mut Builder, (entry, stage): Figure, nodes: &[NodeId]) -> Option<(Vec<Value>, Vec<Edge>)> {
    let schema = stage.own_schema(builder.around.registry);
    let wants_row = schema["properties"][SHOWN].get(WANTS_ROW).is_some();
    let mut slots: Vec<(Slot, Vec<NodeId>)> = stage.inputs.iter().map(|slot| (*slot, Vec::new())).collect();
    let mut places: HashMap<(&str, NodeId), usize> = HashMap::new();
    let mut runs = Vec::new();
    for node in nodes {
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, (slot, filled)) in slots.iter_mut().enumerate() {
            let found = if number == 0 { Some(*node) } else { beside(builder, *node, slot.kind) };
            let Some(found) = found else {
                if slot.arity == Arity::Optional {
                    continue;
                }
                report_missing(builder, entry, slot.kind);
                return None;
            };
            let place = *places.entry((slot.name, found)).or_insert_with(|| {
                filled.push(found);
                filled.len() - 1
            });
            at.insert(slot.name, place);
        }
        let mut run = json!({"at": at});
        let checked = &builder.nodes[node.0].params;
        if let Some(chosen) = checked.chosen().filter(|_| wants_row) {
            // A file counts by its content, and no figure has any use for it.
            let is_own =
                |name: &String| chosen.params.get(name).is_none() && checked.files().all(|(file, _)| file != name);
            let own: Map<String, Value> =
                checked.all().iter().filter(|(name, _)| is_own(name)).map(|(k, v)| (k.clone(), v.clone())).collect();
            (run["row"], run["params"], run["own"]) =
                (chosen.row.variant().name.into(), chosen.params.clone(), own.into());
        }
        runs.push(run);
    }
    let edges =
        slots.into_iter().flat_map(|(slot, filled)| filled.into_iter().map(move |node| Edge { slot: slot.name, node }));
    Some((runs, edges.collect()))
}

/// Finds what stands beside a run: the nearest node of a kind that it was made from, else the first of that kind which is made of
/// nothing else than the run is.
fn beside(builder: &Builder, run: NodeId, kind: Kind) -> Option<NodeId> {
    let nodes = &builder.nodes;
    let (mut behind, mut next) = (BTreeSet::new(), VecDeque::from([run]));
    while let Some(id) = next.pop_front() {
        if behind.insert(id) {
            if nodes[id.0].stage.output == kind {
                return Some(id);
            }
            next.extend(nodes[id.0].inputs.iter().map(|edge| edge.node));
        }
    }
    let of_same = |(_, node): &(usize, &super::graph::Node)| {
        node.stage.output == kind
            && !node.inputs.is_empty()
            && node.inputs.iter().all(|edge| behind.contains(&edge.node))
    };
    nodes.iter().enumerate().find(of_same).map(|(at, _)| NodeId(at))
}

/// Says that what a figure needs beside its runs is not made.
fn report_missing(builder: &mut Builder, entry: &TableEntry, kind: Kind) {
    let makers = builder.around.registry.stages().filter(|stage| stage.output == kind).map(|stage| stage.name);
    let help = format!("wire a stage that makes it to what the runs are made from: {}", list(makers));
    let message = format!("{} needs a `{kind}` beside what it shows, and the pipeline makes none", entry.what());
    builder.problems.add(&entry.name.span, message, Some(help));
}
