//! The pipeline as meant: stages that exist, slots of the right kind, no cycle, a sweep with its points.
//!
//! Reports every problem at once. Parameters are checked later, node by node, because a sweep may change them.

use std::collections::BTreeSet;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use ppgnn_stages::contract::params::{list, nearest_help};
use ppgnn_stages::contract::{Arity, Registry, Slot, StageDef};

use super::axes::Sweep;
use super::datasets::{self, DATASET_PARAM, Datasets};
use super::device::DeviceRequest;
use super::document::{self, Document, Forced, Overrides, Setting};
use super::figure::FigureEntry;
use super::file::{self, AbsentData, StageEntry, TableEntry};
use super::known::Known;
use super::problem::{PipelineError, Problems};
use super::search::{self, Search};
use super::settings::{Lookup, Preset};
use super::source::Sources;
use super::yaml::{Key, Node};

/// A stage as meant.
#[derive(Clone)]
pub struct StageUse {
    /// Name in the pipeline.
    pub name: Key,
    /// The stage.
    pub def: &'static StageDef,
    /// Slot, and the positions of the stages wired to it, in slot order.
    pub inputs: Vec<(Slot, Vec<usize>)>,
    /// Parameters as written.
    pub params: Vec<(Key, Node)>,
}

/// A condition on the points that a setting of the command line is for.
#[derive(Clone, Debug)]
pub enum Only {
    /// An axis has one of these values, by position.
    Axis(usize, Vec<usize>),
    /// A parameter of the stage has one of these values.
    Param(String, Vec<String>),
}

/// A pipeline as meant.
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// The profile that was merged in.
    pub profile: Option<String>,
    /// Names of the profiles that the file has.
    pub profiles: Vec<String>,
    /// Data sets that it uses.
    pub datasets: Datasets,
    /// What happens if data is missing.
    pub absent: AbsentData,
    /// What readers of any table must know.
    pub notes: Vec<String>,
    /// What stages that compute on a device should use, unless the command line says otherwise.
    pub device: DeviceRequest,
    /// Stages, inputs before the stages that need them.
    pub stages: Vec<StageUse>,
    /// The sweep.
    pub sweep: Sweep,
    /// Settings of models that are known without the pipeline, for every point.
    pub presets: Vec<Preset>,
    /// The searches, if there are any.
    pub search: Option<Search>,
    /// Settings from the command line, and the points that each is for.
    pub forced: Vec<(Setting, Vec<Only>)>,
    /// Tables.
    pub tables: Vec<TableEntry>,
    /// Figures.
    pub figures: Vec<FigureEntry>,
    /// The texts behind it, for messages.
    pub sources: Sources,
}

impl Pipeline {
    /// Reads and resolves a pipeline file.
    ///
    /// # Errors
    /// Every problem of the first phase that has any.
    pub fn load(
        path: &Path,
        overrides: &Overrides,
        registry: &Registry,
        known: &dyn Known,
    ) -> Result<Self, PipelineError> {
        let mut sources = Sources::default();
        let document = document::load(path, overrides, known, &mut sources)?;
        Self::of(document, sources, registry, known)
    }

    /// Resolves a pipeline that is not a file; messages call it `place`.
    ///
    /// # Errors
    /// Every problem of the first phase that has any.
    pub fn of_text(place: &str, text: &str, registry: &Registry, known: &dyn Known) -> Result<Self, PipelineError> {
        let mut sources = Sources::default();
        let document = document::of_text(place, text, &mut sources)?;
        Self::of(document, sources, registry, known)
    }

    /// Finds what a document means.
    fn of(
        document: Document,
        mut sources: Sources,
        registry: &Registry,
        known: &dyn Known,
    ) -> Result<Self, PipelineError> {
        let mut problems = Problems::default();
        let file = file::read(&document.root, registry, &mut problems);
        problems.finish(&sources)?;
        let (mut problems, forced) = (Problems::default(), document.forced);
        let stages = wire(&file.stages, registry, &mut problems);
        let mut sweep = Sweep::expand(file.sweep, &forced, &mut problems);
        let of_axes = sweep.axes.iter().flat_map(|a| &a.values).flat_map(|v| &v.settings);
        let settings: Vec<&Setting> = of_axes
            .chain(sweep.when.iter().flat_map(|w| &w.settings))
            .chain(forced.iter().map(|f| &f.setting))
            .collect();
        let names = || file.stages.iter().map(|s| s.name.name.as_str());
        for setting in settings.iter().filter(|s| !names().any(|n| n == s.stage)) {
            let message = format!("the pipeline has no stage `{}`", setting.stage);
            problems.add(&setting.span, message, Some(nearest_help(&setting.stage, names())));
        }
        let set = settings.iter().filter(|s| s.param == DATASET_PARAM).map(|s| s.value.value());
        let written = file.stages.iter().flat_map(|s| &s.params).filter(|(k, _)| k.name == DATASET_PARAM);
        let named: Vec<_> = set.chain(written.map(|(_, n)| n.value())).collect();
        let named = named.iter().filter_map(serde_json::Value::as_str);
        let look = Lookup { stages: &stages, sweep: &sweep, forced: &forced };
        let presets = file.settings.map(|name| look.presets(&name, known, &mut sources, &mut problems));
        let search = file.search.filter(|_| problems.is_empty()).and_then(|entry| {
            search::Resolver::new(&stages, &forced, known, &mut sources, &mut problems).search(entry, &mut sweep)
        });
        let forced =
            forced.iter().map(|f| (f.setting.clone(), conditions(f, &sweep, &stages, registry, &mut problems)));
        let forced = forced.collect();
        let datasets = datasets::resolve(&file.datasets, named, known, &mut sources, &mut problems);
        problems.finish(&sources)?;
        Ok(Self {
            name: file.name,
            profile: document.profile,
            profiles: document.profiles,
            datasets,
            absent: file.absent,
            notes: file.notes.into_iter().map(|note| note.name).collect(),
            device: file.device,
            stages,
            sweep,
            presets: presets.unwrap_or_default(),
            search,
            forced,
            tables: file.tables,
            figures: file.figures,
            sources,
        })
    }
}

/// Finds what the conditions of a setting are about: axes, else parameters of the stage.
fn conditions(
    forced: &Forced,
    sweep: &Sweep,
    stages: &[StageUse],
    registry: &Registry,
    problems: &mut Problems,
) -> Vec<Only> {
    let mut all = Vec::new();
    for (key, values) in &forced.only {
        if sweep.axis(&key.name).is_some() {
            let found = sweep.matches(std::slice::from_ref(&(key.clone(), values.clone())), problems);
            all.extend(found.into_iter().map(|(axis, values)| Only::Axis(axis, values)));
            continue;
        }
        let Some(used) = stages.iter().find(|s| s.name.name == forced.setting.stage) else { continue };
        let params = params_of(used.def, registry);
        if params.contains(&key.name) {
            all.push(Only::Param(key.name.clone(), values.iter().map(file::label).collect()));
            continue;
        }
        let axes = sweep.axes.iter().map(|a| a.name.as_str());
        let known: Vec<&str> = axes.chain(params.iter().map(String::as_str)).collect();
        let message = format!("`{}` is neither an axis nor a parameter of stage `{}`", key.name, used.name.name);
        problems.add(&key.span, message, Some(nearest_help(&key.name, known.iter().copied())));
    }
    all
}

/// The names of a stage's parameters, those of every row that it could choose among them.
fn params_of(def: &StageDef, registry: &Registry) -> BTreeSet<String> {
    let own = def.own_schema(registry);
    let schemas = std::iter::once(own.as_ref()).chain(def.variants(registry).into_iter().map(|row| row.schema()));
    let properties = schemas.filter_map(|schema| schema.get("properties")?.as_object());
    properties.flat_map(|of| of.keys().cloned()).collect()
}

/// Finds every stage's definition, checks its wiring, and sorts inputs first.
fn wire(entries: &[StageEntry], registry: &Registry, problems: &mut Problems) -> Vec<StageUse> {
    let defs: Vec<Option<&'static StageDef>> = entries.iter().map(|e| find_def(e, registry, problems)).collect();
    let mut graph = DiGraph::<usize, ()>::new();
    let nodes: Vec<_> = (0..entries.len()).map(|i| graph.add_node(i)).collect();
    let mut inputs: Vec<Vec<(Slot, Vec<usize>)>> = vec![Vec::new(); entries.len()];
    for (at, entry) in entries.iter().enumerate() {
        let Some(def) = defs[at] else { continue };
        for (slot_name, sources) in &entry.inputs {
            let Some(slot) = def.inputs.iter().find(|s| s.name == slot_name.name) else {
                let message = format!("stage `{}` has no input `{}`", def.name, slot_name.name);
                let shared = def.shared.filter(|s| s.slot == slot_name.name);
                let help = if let Some(shared) = shared {
                    format!("remove it: it is filled in automatically if the pipeline has a larger `{}`", shared.param)
                } else if def.inputs.is_empty() {
                    "it takes no inputs".to_owned()
                } else {
                    nearest_help(&slot_name.name, def.inputs.iter().map(|s| s.name))
                };
                problems.add(&slot_name.span, message, Some(help));
                continue;
            };
            let mut wired = Vec::new();
            for source in sources {
                let Some(from) = entries.iter().position(|e| e.name.name == source.name) else {
                    let names = entries.iter().map(|e| e.name.name.as_str());
                    let message = format!("the pipeline has no stage `{}`", source.name);
                    problems.add(&source.span, message, Some(nearest_help(&source.name, names)));
                    continue;
                };
                graph.add_edge(nodes[from], nodes[at], ());
                wired.push(from);
                if let Some(from_def) = defs[from].filter(|d| !slot.takes(d.output)) {
                    let message = format!(
                        "slot `{}` wants kind `{}`, but `{}` produces `{}`",
                        slot.name, slot.kind, source.name, from_def.output
                    );
                    let help = what_to_wire(slot, from_def, &source.name, entries, &defs, registry);
                    problems.add(&source.span, message, Some(help));
                }
            }
            if slot.arity != Arity::Many && wired.len() > 1 {
                let message = format!("slot `{}` takes one stage, not {}", slot.name, wired.len());
                problems.add(&slot_name.span, message, None);
            }
            inputs[at].push((*slot, wired));
        }
        for slot in def.inputs.iter().filter(|s| s.arity == Arity::One) {
            if !entry.inputs.iter().any(|(k, _)| k.name == slot.name) {
                let producers = producers(slot, entries, &defs);
                let help = match producers.is_empty() {
                    false => format!("wire it to {}", list(producers.iter().copied())),
                    true => format!("add a stage that produces `{}`: {}", slot.kind, makers(slot, registry)),
                };
                let message = format!("input `{}` of stage `{}` is not wired", slot.name, entry.name.name);
                problems.add(&entry.name.span, message, Some(help));
            }
        }
        // A key lists inputs in the stage's own order, however the file lists them.
        inputs[at].sort_by_key(|(slot, _)| def.inputs.iter().position(|s| s.name == slot.name));
    }
    report_cycles(&graph, entries, problems);
    let order = order(&inputs);
    if order.len() < entries.len() || defs.iter().any(Option::is_none) {
        return Vec::new();
    }
    let place = |old: usize| order.iter().position(|o| *o == old).unwrap_or(0);
    order
        .iter()
        .filter_map(|&at| {
            let moved = inputs[at].iter().map(|(s, from)| (*s, from.iter().map(|f| place(*f)).collect())).collect();
            let entry = &entries[at];
            Some(StageUse { name: entry.name.clone(), def: defs[at]?, inputs: moved, params: entry.params.clone() })
        })
        .collect()
}

/// Sorts inputs first and otherwise keeps the order of the file, which reads best. Leaves out what is in a cycle.
fn order(inputs: &[Vec<(Slot, Vec<usize>)>]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..inputs.len()).collect();
    let mut order = Vec::new();
    while let Some(at) =
        left.iter().position(|s| inputs[*s].iter().flat_map(|(_, from)| from).all(|f| order.contains(f)))
    {
        order.push(left.remove(at));
    }
    order
}

fn find_def(entry: &StageEntry, registry: &Registry, problems: &mut Problems) -> Option<&'static StageDef> {
    let def = registry.stage(&entry.uses.name);
    if def.is_none() {
        let names = registry.stages().map(|d| d.name);
        let help = format!("{} (a name of your own needs `uses: <stage>`)", nearest_help(&entry.uses.name, names));
        problems.add(&entry.uses.span, format!("unknown stage `{}`", entry.uses.name), Some(help));
    }
    def
}

fn producers<'e>(slot: &Slot, entries: &'e [StageEntry], defs: &[Option<&StageDef>]) -> Vec<&'e str> {
    let of_kind = |(_, def): &(&StageEntry, &Option<&StageDef>)| def.is_some_and(|d| slot.takes(d.output));
    entries.iter().zip(defs).filter(of_kind).map(|(e, _)| e.name.name.as_str()).collect()
}

fn makers(slot: &Slot, registry: &Registry) -> String {
    list(registry.stages().filter(|d| slot.takes(d.output)).map(|d| d.name))
}

/// Says what would fit a slot: a stage that is there, or one to insert.
fn what_to_wire(
    slot: &Slot,
    from: &StageDef,
    from_name: &str,
    entries: &[StageEntry],
    defs: &[Option<&StageDef>],
    registry: &Registry,
) -> String {
    let there = producers(slot, entries, defs);
    if !there.is_empty() {
        return format!("wire `{}` to {}", slot.name, list(there.into_iter()));
    }
    let between = registry.stages().find(|d| slot.takes(d.output) && d.inputs.iter().any(|s| s.kind == from.output));
    match between {
        Some(stage) => format!("insert stage `{}` after `{from_name}`", stage.name),
        None => format!("`{}` is produced by {}", slot.kind, makers(slot, registry)),
    }
}

fn report_cycles(graph: &DiGraph<usize, ()>, entries: &[StageEntry], problems: &mut Problems) {
    for component in tarjan_scc(graph) {
        let own_loop = component.len() == 1 && graph.find_edge(component[0], component[0]).is_some();
        if component.len() < 2 && !own_loop {
            continue;
        }
        let mut members: Vec<usize> = component.iter().map(|n| graph[*n]).collect();
        members.sort_unstable();
        let names = list(members.iter().map(|m| entries[*m].name.name.as_str()));
        let message = format!("stages depend on each other in a cycle: {names}");
        problems.add(&entries[members[0]].name.span, message, Some("a stage cannot need its own result".into()));
    }
}
