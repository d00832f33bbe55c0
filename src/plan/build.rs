//! Expands a pipeline into a plan: checks the parameters of every node, wires inputs, and gives each node its key.
//!
//! A node is made once for each combination of the axes that can reach it, so a sweep over training costs no look at
//! the stages above it; nodes whose keys turn out equal become one, and [`sharing`] has the last word on keys. Work is
//! linear in the number of nodes.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

use ppgnn_stages::contract::device::Backend;
use ppgnn_stages::contract::params::{Checked, nearest_help};
use ppgnn_stages::contract::profile::backend_of;
use ppgnn_stages::contract::{Arity, Registry, StageDef};
use serde_json::{Map, Value, json};

use super::graph::{Absence, Edge, Node, NodeId, Plan, key_inputs};
use super::key::{ArtifactKey, KeyCrate, KeyInputs, KeyVariant};
use super::{sharing, tables};
use crate::pipeline::{
    AbsentData, DATASET_PARAM, DATASET_STAGE, Pipeline, PipelineError, Problems, Setting, Span, StageUse, holds,
};

/// What a plan depends on beside the pipeline.
pub struct Surroundings<'a> {
    /// The stages and rows there are.
    pub registry: &'a Registry,
    /// Precision, backend and instruction set.
    pub profile: String,
    /// The same for stages that compute on a device.
    pub device_profile: String,
    /// Returns the content digest of a file outside the store.
    pub digest: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

/// Plans a pipeline.
///
/// # Errors
/// Every problem with parameters, optional inputs, files and tables.
pub fn build(pipeline: &Pipeline, around: &Surroundings) -> Result<Plan, PipelineError> {
    let mut builder = Builder::new(pipeline, around);
    let mut of_points = Vec::with_capacity(pipeline.sweep.points.len());
    for point in &pipeline.sweep.points {
        let mut made: Vec<Made> = Vec::with_capacity(pipeline.stages.len());
        for stage in 0..pipeline.stages.len() {
            let node = builder.node(stage, point, &made);
            made.push(node);
        }
        of_points.push(made);
    }
    builder.check_unused_datasets();
    let nothing_left = builder.nodes.is_empty();
    let unshared = pipeline.sweep.points.len() * pipeline.stages.len() + pipeline.tables.len();
    let mut tables = Vec::new();
    for table in &pipeline.tables {
        tables.extend(tables::add(&mut builder, table, &of_points));
    }
    let Builder { mut problems, nodes, absent, known_data, .. } = builder;
    if pipeline.absent == AbsentData::Fail || nothing_left {
        for (absence, span) in &absent {
            problems.add_data(span, absence.what(), Some(absence.remedy()));
        }
    }
    problems.finish(&pipeline.sources)?;
    let mut plan = Plan {
        pipeline: pipeline.name.clone(),
        profile: pipeline.profile.clone(),
        device: pipeline.device.clone(),
        nodes,
        tables,
        absent: absent.into_iter().map(|(absence, _)| absence).collect(),
        known_data,
        unshared,
    };
    sharing::share(&mut plan);
    Ok(plan)
}

/// A node, or why there is none.
pub(super) type Made = Result<NodeId, Gone>;

/// Why there is no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// A problem was reported.
    Problem,
    /// Data is not here: a place in [`Builder::absent`].
    Absent(usize),
}

pub(super) struct Builder<'b> {
    pub(super) pipeline: &'b Pipeline,
    pub(super) around: &'b Surroundings<'b>,
    pub(super) problems: Problems,
    nodes: Vec<Node>,
    by_key: HashMap<ArtifactKey, NodeId>,
    names: HashSet<String>,
    used_datasets: HashSet<String>,
    /// Data that is not here, and where it is asked for.
    pub(super) absent: Vec<(Absence, Span)>,
    known_data: Vec<(NodeId, String)>,
    /// For every stage its parameters as written, data sets not yet looked up.
    base: Vec<Map<String, Value>>,
    /// For every stage the axes that can reach it, its own or through its inputs.
    pub(super) axes: Vec<Vec<usize>>,
    /// For every stage the nodes made so far, by the values of those axes.
    made: Vec<HashMap<Vec<usize>, Made>>,
}

impl<'b> Builder<'b> {
    fn new(pipeline: &'b Pipeline, around: &'b Surroundings<'b>) -> Self {
        let base = pipeline
            .stages
            .iter()
            .map(|s| s.params.iter().map(|(k, n)| (k.name.clone(), n.value())).collect())
            .collect();
        Self {
            pipeline,
            around,
            problems: Problems::default(),
            nodes: Vec::new(),
            by_key: HashMap::new(),
            names: HashSet::new(),
            used_datasets: HashSet::new(),
            absent: Vec::new(),
            known_data: Vec::new(),
            base,
            axes: reaching_axes(pipeline),
            made: vec![HashMap::new(); pipeline.stages.len()],
        }
    }

    /// Returns the node of a stage at a point, making it if no earlier point had the same values.
    fn node(&mut self, stage: usize, point: &[usize], upstream: &[Made]) -> Made {
        let values: Vec<usize> = self.axes[stage].iter().map(|a| point[*a]).collect();
        if let Some(node) = self.made[stage].get(&values) {
            return *node;
        }
        let node = self.make(stage, point, upstream);
        self.made[stage].insert(values, node);
        node
    }

    fn make(&mut self, stage: usize, point: &[usize], upstream: &[Made]) -> Made {
        let pipeline = self.pipeline;
        let used = &pipeline.stages[stage];
        let written = self.written(stage, point).ok_or(Gone::Problem)?;
        let checked = self.checked(used, point, written).ok_or(Gone::Problem)?;
        self.check_device(used, point, &checked)?;
        let mut inputs = Vec::new();
        for slot in used.def.inputs {
            let wired = used.inputs.iter().find(|(s, _)| s.name == slot.name).map_or(&[][..], |(_, w)| w);
            let wanted = slot.arity != Arity::Optional || checked.needs().contains(&slot.name);
            if !wanted {
                continue;
            }
            if wired.is_empty() && slot.arity == Arity::Optional {
                self.unwired(used, point, slot.name, &checked);
                return Err(Gone::Problem);
            }
            for from in wired {
                inputs.push(Edge { slot: slot.name, node: upstream[*from]? });
            }
        }
        let tags = self.axes[stage].iter().filter_map(|a| pipeline.sweep.axes[*a].tag(point[*a]));
        let name = std::iter::once(used.name.name.clone()).chain(tags).collect::<Vec<_>>().join("/");
        let params = self.with_digests(used, point, &checked)?;
        let node = self.add(name, used.def, checked, params, inputs);
        if used.def.name == DATASET_STAGE
            && let Some(known) = self.known_dataset(used, point)
            && !self.known_data.iter().any(|(there, _)| *there == node)
        {
            self.known_data.push((node, known));
        }
        Ok(node)
    }

    /// The name of the data set that `load` reads at a point.
    fn dataset(&self, used: &'b StageUse, point: &[usize]) -> Option<String> {
        let set = self.settings(used, point).filter(|s| s.param == DATASET_PARAM).last().map(|s| s.value.value());
        let own = || used.params.iter().find(|(k, _)| k.name == DATASET_PARAM).map(|(_, n)| n.value());
        set.or_else(own)?.as_str().map(str::to_owned)
    }

    /// The known data set that `load` starts from at a point.
    fn known_dataset(&self, used: &'b StageUse, point: &[usize]) -> Option<String> {
        self.pipeline.datasets.known.get(&self.dataset(used, point)?).cloned()
    }

    /// Adds a node, or finds the one with the same key.
    pub(super) fn add(
        &mut self,
        mut name: String,
        stage: &'static StageDef,
        checked: Checked,
        params: Map<String, Value>,
        inputs: Vec<Edge>,
    ) -> NodeId {
        let around = self.around;
        let profile = if stage.on_device { &around.device_profile } else { &around.profile };
        let ingredients = KeyInputs {
            stage: stage.name.to_owned(),
            version: stage.version,
            from: KeyCrate::of(stage.from),
            variant: checked.variant().map(KeyVariant::of),
            added: KeyVariant::added(checked.used()),
            params,
            inputs: key_inputs(&inputs, &self.nodes),
            profile: profile.clone(),
        };
        let key = ingredients.key();
        if let Some(there) = self.by_key.get(&key) {
            if self.nodes[there.0].name != name {
                self.nodes[there.0].aliases.push(name);
            }
            return *there;
        }
        while !self.names.insert(name.clone()) {
            name.push('~');
        }
        let id = NodeId(self.nodes.len());
        self.by_key.insert(key, id);
        self.nodes.push(Node { name, aliases: Vec::new(), stage, params: checked, inputs, ingredients, key });
        id
    }

    /// Returns the parameters of a stage at a point, as written: data set, file, axes, `when`, `--set`.
    fn written(&mut self, stage: usize, point: &[usize]) -> Option<Map<String, Value>> {
        let used = &self.pipeline.stages[stage];
        let mut written = self.base[stage].clone();
        for setting in self.settings(used, point) {
            written.insert(setting.param.clone(), setting.value.value());
        }
        if used.def.name != DATASET_STAGE {
            return Some(written);
        }
        let Some(name) = written.shift_remove(DATASET_PARAM) else { return Some(written) };
        let datasets = &self.pipeline.datasets;
        let known = || {
            let own = datasets.all.iter().map(|(k, _)| k.name.as_str());
            own.chain(datasets.names.iter().map(String::as_str))
        };
        let found = name.as_str().and_then(|n| datasets.get(n));
        let Some((_, dataset)) = found else {
            let help = if known().next().is_none() {
                "the pipeline has no `datasets`".to_owned()
            } else {
                nearest_help(name.as_str().unwrap_or_default(), known())
            };
            let span = self.span_of(used, point, DATASET_PARAM, false);
            let shown = name.as_str().map_or(name.to_string(), str::to_owned);
            self.problems.add(&span, format!("unknown data set `{shown}`"), Some(help));
            return None;
        };
        if let Some(name) = name.as_str() {
            self.used_datasets.insert(name.to_owned());
        }
        let mut all: Map<_, _> = dataset.entries().iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
        all.extend(written);
        Some(all)
    }

    /// Checks data sets that no point uses: one that is broken should not wait for its first use to say so.
    fn check_unused_datasets(&mut self) {
        let Some(load) = self.around.registry.stage(DATASET_STAGE) else { return };
        for (key, dataset) in self.pipeline.datasets.all.iter().filter(|(k, _)| !self.used_datasets.contains(&k.name)) {
            let written = dataset.entries().iter().map(|(k, n)| (k.name.clone(), n.value())).collect();
            for problem in load.check(self.around.registry, &written).err().into_iter().flatten() {
                let known = dataset.entries().iter().any(|(k, _)| problem.param.split('.').next() == Some(&k.name));
                let inside = || span_inside(dataset, &problem.param, problem.about_name);
                let span = if known { inside() } else { key.span.clone() };
                self.problems.add(&span, format!("data set `{}`: {}", key.name, problem.message), problem.help);
            }
        }
    }

    /// Settings that the sweep and the command line make on a stage at a point, the strongest last.
    fn settings(&self, used: &'b StageUse, point: &[usize]) -> impl Iterator<Item = &'b Setting> + use<'b> {
        let sweep = &self.pipeline.sweep;
        let point = point.to_vec();
        let of_axes = sweep.axes.iter().zip(point.clone()).flat_map(|(axis, value)| &axis.values[value].settings);
        let of_when = sweep.when.iter().filter(move |w| holds(&w.matches, &point)).flat_map(|w| &w.settings);
        of_axes.chain(of_when).chain(&self.pipeline.forced).filter(|s| s.stage == used.name.name)
    }

    fn checked(&mut self, used: &'b StageUse, point: &[usize], written: Map<String, Value>) -> Option<Checked> {
        match used.def.check(self.around.registry, &written) {
            Ok(mut checked) => {
                // A relative path starts from the folder of the file that it is written in.
                checked.rebase(|name, path| {
                    let span = self.span_of(used, point, name, false);
                    self.pipeline.sources.folder(&span).join(path)
                });
                Some(checked)
            }
            Err(found) => {
                for problem in found {
                    let span = self.span_of(used, point, &problem.param, problem.about_name);
                    self.problems.add(&span, format!("stage `{}`: {}", used.name.name, problem.message), problem.help);
                }
                None
            }
        }
    }

    /// Refuses a row that cannot be computed on a GPU where the stage is to use one.
    fn check_device(&mut self, used: &'b StageUse, point: &[usize], checked: &Checked) -> Result<(), Gone> {
        let on_gpu = used.def.on_device && backend_of(&self.around.device_profile) == Backend::Cuda;
        let Some(row) = checked.variant().filter(|row| on_gpu && !row.gpu) else { return Ok(()) };
        let span = self.span_of(used, point, used.def.choice.map_or("", |c| c.param), false);
        let message = format!("stage `{}`: `{}` cannot be computed on a GPU", used.name.name, row.name);
        self.problems.add(&span, message, Some("`--device cpu` computes it on the CPU".into()));
        Err(Gone::Problem)
    }

    fn unwired(&mut self, used: &'b StageUse, point: &[usize], slot: &str, checked: &Checked) {
        let chooser = used.def.choice.map_or("", |c| c.param);
        let span = self.span_of(used, point, chooser, false);
        let who = checked.variant().map_or(used.def.name, |row| row.name);
        let message = format!("`{who}` needs input `{slot}`, which stage `{}` does not wire", used.name.name);
        let kind = used.def.inputs.iter().find(|s| s.name == slot).map(|s| s.kind);
        let there = self.pipeline.stages.iter().find(|s| Some(s.def.output) == kind);
        let maker = self.around.registry.stages().find(|s| Some(s.output) == kind);
        let help = match (there, maker) {
            (Some(stage), _) => format!("add `{slot}: {}` to the inputs of `{}`", stage.name.name, used.name.name),
            (None, Some(maker)) => format!("insert stage `{}` and wire it to `{slot}`", maker.name),
            (None, None) => format!("wire `{slot}`"),
        };
        self.problems.add(&span, message, Some(help));
    }

    /// Returns the parameters for the key: a file counts by its content.
    fn with_digests(
        &mut self,
        used: &'b StageUse,
        point: &[usize],
        checked: &Checked,
    ) -> Result<Map<String, Value>, Gone> {
        let mut params = checked.all().clone();
        let digests = checked.map_files(|name, path| match (self.around.digest)(path) {
            Ok(digest) => Ok(json!({ "blake3": digest })),
            Err(error) if error.kind() == ErrorKind::NotFound && self.known_dataset(used, point).is_some() => {
                Err(self.absence(used, point, path))
            }
            Err(error) => {
                let span = self.span_of(used, point, name, false);
                let help = "a relative path starts from the folder of the file it is written in";
                let message = format!("cannot read `{}`: {error}", path.display());
                self.problems.add_data(&span, message, Some(help.into()));
                Err(Gone::Problem)
            }
        });
        params.extend(digests?);
        Ok(params)
    }

    /// Notes that the data of a known data set is not here.
    fn absence(&mut self, used: &'b StageUse, point: &[usize], file: &Path) -> Gone {
        let (dataset, known) = (self.dataset(used, point), self.known_dataset(used, point));
        let (dataset, known) = (dataset.unwrap_or_default(), known.unwrap_or_default());
        let by_hand = self.pipeline.datasets.by_hand.get(&known).cloned();
        let absence = Absence { dataset, known, by_hand, file: file.to_owned() };
        let at = self.absent.iter().position(|(a, _)| *a == absence).unwrap_or_else(|| {
            let span = self.span_of(used, point, DATASET_PARAM, false);
            self.absent.push((absence, span));
            self.absent.len() - 1
        });
        Gone::Absent(at)
    }

    /// Finds where a parameter of a stage at a point was written, strongest place first. Inside of a mapping it is the
    /// innermost place of the path that was written.
    fn span_of(&self, used: &'b StageUse, point: &[usize], path: &str, name: bool) -> Span {
        let (param, inside) = path.split_once('.').map_or((path, None), |(param, inside)| (param, Some(inside)));
        let place = |key: &Span, node: &crate::pipeline::Node| match inside {
            Some(inside) => span_inside(node, inside, name),
            None if name => key.clone(),
            None => node.span.clone(),
        };
        if let Some(setting) = self.settings(used, point).filter(|s| s.param == param).last() {
            return place(&setting.span, &setting.value);
        }
        let dataset = |p: &str| {
            let (key, set) = self.pipeline.datasets.get(&self.dataset(used, point)?)?;
            let entry = set.entries().iter().find(|(k, _)| k.name == p);
            Some(entry.map_or_else(|| key.span.clone(), |(k, n)| place(&k.span, n)))
        };
        let own = used.params.iter().find(|(k, _)| k.name == param);
        own.map(|(k, n)| place(&k.span, n)).or_else(|| dataset(param)).unwrap_or_else(|| used.name.span.clone())
    }
}

/// Follows a path of names into a mapping, as far as it was written.
fn span_inside(node: &crate::pipeline::Node, path: &str, name: bool) -> Span {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (node.entries().iter().find(|(k, _)| k.name == first), rest) {
        (None, _) => node.span.clone(),
        (Some((_, inner)), Some(rest)) => span_inside(inner, rest, name),
        (Some((key, _)), None) if name => key.span.clone(),
        (Some((_, inner)), None) => inner.span.clone(),
    }
}

/// For every stage the axes whose values can change it or something above it.
fn reaching_axes(pipeline: &Pipeline) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    for used in &pipeline.stages {
        let sets = |settings: &[Setting]| settings.iter().any(|s| s.stage == used.name.name);
        let mut axes: Vec<usize> = (0..pipeline.sweep.axes.len())
            .filter(|a| pipeline.sweep.axes[*a].values.iter().any(|v| sets(&v.settings)))
            .collect();
        for when in pipeline.sweep.when.iter().filter(|w| sets(&w.settings)) {
            axes.extend(when.matches.iter().map(|(axis, _)| *axis));
        }
        axes.extend(used.inputs.iter().flat_map(|(_, from)| from).flat_map(|f| all[*f].clone()));
        axes.sort_unstable();
        axes.dedup();
        all.push(axes);
    }
    all
}
