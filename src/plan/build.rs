//! Expands a pipeline into a plan: checks the parameters of every node, wires inputs, and gives each node its key.
//!
//! A node is made once for each combination of the axes that can reach it, so a sweep over training does not
//! visit the stages above it again; nodes whose keys turn out equal become one, and [`sharing`] has the last word on keys. Work is
//! linear in the number of nodes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use ppgnn_stages::contract::device::Backend;
use ppgnn_stages::contract::params::Checked;
use ppgnn_stages::contract::profile::backend_of;
use ppgnn_stages::contract::{Arity, FromDataset, Registry, StageDef};
use serde_json::{Map, Value, json};

use super::at_point::span_inside;
use super::files::Contents;
use super::forced::{self, Unset};
use super::graph::{Absence, Edge, Missing, Node, NodeId, Output, Plan, key_inputs};
use super::key::{ArtifactKey, KeyCrate, KeyInputs, KeyVariant};
use super::name::NodeName;
use super::{figures, measured, sharing, tables, trials};
use crate::pipeline::{
    AbsentData, At, DATASET_PARAM, DATASET_STAGE, Only, Pipeline, PipelineError, Problems, Setting, Span, StageUse,
};

/// Name of the record of what was published, stored next to it.
const RECORD: &str = "published";

/// What a plan depends on besides the pipeline.
pub struct PlanContext<'a> {
    /// The stages and rows there are.
    pub registry: &'a Registry,
    /// Precision, backend and instruction set.
    pub profile: String,
    /// The same for stages that compute on a device.
    pub device_profile: String,
    /// The machine, for results that are measured on it.
    pub machine: String,
    /// Returns the content digest of a file outside the store.
    pub digest: &'a dyn Fn(&Path, Contents) -> std::io::Result<String>,
}

/// Plans a pipeline of which everything is asked for.
///
/// # Errors
/// Every problem with parameters, optional inputs, files, tables and figures.
pub fn build(pipeline: &Pipeline, around: &PlanContext) -> Result<Plan, PipelineError> {
    build_for(pipeline, around, &|plan| (0..plan.nodes.len()).map(NodeId).collect())
}

/// Plans a pipeline of which some nodes are asked for: settings of the command line need not fit the others.
///
/// # Errors
/// Every problem with parameters, optional inputs, files, tables and figures.
pub fn build_for(
    pipeline: &Pipeline,
    around: &PlanContext,
    asked: &dyn Fn(&Plan) -> Vec<NodeId>,
) -> Result<Plan, PipelineError> {
    let mut builder = Builder::new(pipeline, around);
    let scored = pipeline.search.as_ref().map(|search| search.scored);
    let needed = scored.map_or_else(Vec::new, |scored| trials::needed(pipeline, scored));
    let mut of_points = Vec::with_capacity(pipeline.sweep.points.len());
    let last = measured::last(pipeline);
    for point in &pipeline.sweep.points {
        let mut planned: Vec<Planned> = Vec::with_capacity(pipeline.stages.len());
        let at = pipeline.search.as_ref().and_then(|search| search.at(point));
        let wanted = trials::wanted(pipeline, at);
        for (stage, is_wanted) in wanted.into_iter().enumerate() {
            let node = match at {
                _ if last.contains(&stage) => Err(NoNode::NotWanted),
                _ if !is_wanted => Err(NoNode::NotWanted),
                Some(At::Open(search)) if builder.is_searched(stage) => {
                    Err(trials::open(&builder.read_by(stage, point, &planned), search))
                }
                Some(At::PerSplit(of_splits)) if scored == Some(stage) => builder.per_split(stage, point, of_splits),
                Some(At::PerSplit(_)) if builder.is_searched(stage) && needed[stage] => Err(NoNode::NotWanted),
                _ => builder.node(stage, point, &planned),
            };
            planned.push(node);
        }
        of_points.push(planned);
    }
    for (point, planned) in pipeline.sweep.points.iter().zip(&mut of_points) {
        builder.measure(&last, point, planned);
    }
    let trials = trials::trials(pipeline, &of_points);
    builder.check_unused_datasets();
    builder.check_spaces();
    let nothing_left = builder.nodes.is_empty();
    for table in &pipeline.tables {
        tables::add(&mut builder, table, &of_points);
    }
    for figure in &pipeline.figures {
        figures::add(&mut builder, figure, &of_points);
    }
    let Builder { mut problems, nodes, outputs, mut absent, known_data, unset, .. } = builder;
    absent.retain(|gap| gap.wanted);
    if pipeline.absent == AbsentData::Fail || nothing_left {
        for Gap { absence, span, .. } in &absent {
            problems.add_absent(span, absence.what(), Some(absence.remedy()));
        }
    }
    problems.finish(&pipeline.sources)?;
    let mut plan = Plan {
        pipeline: pipeline.name.clone(),
        profile: pipeline.profile.clone(),
        device: pipeline.device.clone(),
        nodes,
        outputs,
        absent: absent.into_iter().map(|gap| gap.absence).collect(),
        known_data,
        trials,
        searches: Vec::new(),
        wired: wired(pipeline),
        unshared: 0,
    };
    plan.unshared = unshared(&plan, pipeline);
    let moved = sharing::share(&mut plan);
    measured::wire(&mut plan);
    forced::check(&plan, pipeline, &unset, &|id| moved.get(id.0).copied().unwrap_or(id), asked)?;
    Ok(plan)
}

/// A node, or why there is none.
pub(super) type Planned = Result<NodeId, NoNode>;

/// Why there is no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoNode {
    /// A problem was reported.
    Reported,
    /// Data is missing: an index into [`Builder::absent`].
    DataAbsent(usize),
    /// A search has not chosen its settings yet.
    Open(usize),
    /// The stage is not wanted at the point.
    NotWanted,
}

/// Missing data.
pub(super) struct Gap {
    pub(super) absence: Absence,
    /// Where it is used.
    span: Span,
    /// Whether anything needs it: files for one model are not missed where another is trained.
    wanted: bool,
}

pub(super) struct Builder<'b> {
    pub(super) pipeline: &'b Pipeline,
    pub(super) around: &'b PlanContext<'b>,
    pub(super) problems: Problems,
    pub(super) nodes: Vec<Node>,
    by_key: HashMap<ArtifactKey, NodeId>,
    names: HashSet<NodeName>,
    outputs: Vec<Output>,
    output_names: HashSet<String>,
    pub(super) used_datasets: HashSet<String>,
    pub(super) absent: Vec<Gap>,
    known_data: Vec<(NodeId, String)>,
    /// Nodes that settings of the command line were left out of.
    pub(super) unset: Vec<Unset>,
    /// For every stage its parameters as written, data sets not yet looked up.
    pub(super) base: Vec<Map<String, Value>>,
    /// For every stage the axes that can reach it, its own or through its inputs.
    pub(super) axes: Vec<Vec<usize>>,
    /// For every stage the nodes made so far, by the values of those axes.
    made: Vec<HashMap<Vec<usize>, Planned>>,
}

impl<'b> Builder<'b> {
    fn new(pipeline: &'b Pipeline, around: &'b PlanContext<'b>) -> Self {
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
            outputs: Vec::new(),
            output_names: HashSet::new(),
            used_datasets: HashSet::new(),
            absent: Vec::new(),
            known_data: Vec::new(),
            unset: Vec::new(),
            base,
            axes: reaching_axes(pipeline),
            made: vec![HashMap::new(); pipeline.stages.len()],
        }
    }

    /// Returns the node of a stage at a point, making it if no earlier point had the same values.
    pub(super) fn node(&mut self, stage: usize, point: &[usize], upstream: &[Planned]) -> Planned {
        let values: Vec<usize> = self.axes[stage].iter().map(|a| point[*a]).collect();
        if let Some(node) = self.made[stage].get(&values) {
            return *node;
        }
        let node = self.make(stage, point, upstream);
        self.made[stage].insert(values, node);
        node
    }

    /// Returns what a stage would read at a point where a search has not ended, as far as what is not searched tells.
    fn read_by(&mut self, stage: usize, point: &[usize], planned: &[Planned]) -> Vec<Planned> {
        let (used, registry) = (&self.pipeline.stages[stage], self.around.registry);
        let checked = self.written(stage, point).ok().and_then(|all| used.def.check(registry, &all).ok());
        let needs = checked.as_ref().map(Checked::needs).unwrap_or_default();
        let read = used.inputs.iter().filter(|(slot, _)| slot.arity != Arity::Optional || needs.contains(&slot.name));
        read.flat_map(|(_, from)| from).map(|from| planned[*from]).collect()
    }

    fn make(&mut self, stage: usize, point: &[usize], upstream: &[Planned]) -> Planned {
        let pipeline = self.pipeline;
        let used = &pipeline.stages[stage];
        let written = self.written(stage, point)?;
        let span_of = |builder: &Self, param: &str, name: bool| builder.span_of(used, point, param, name);
        let checked = self.checked(used.def, &format!("stage `{}`", used.name.name), &written, span_of);
        let checked = checked.ok_or(NoNode::Reported)?;
        self.check_device(used, point, &checked)?;
        if let Some(measures) = used.def.measures {
            measured::check(used, checked.all().get(measures.param), self.around.registry, &mut self.problems);
        }
        let mut inputs = Vec::new();
        for slot in used.def.inputs {
            let wired = used.inputs.iter().find(|(s, _)| s.name == slot.name).map_or(&[][..], |(_, w)| w);
            let wanted = slot.arity != Arity::Optional || checked.needs().contains(&slot.name);
            if !wanted {
                continue;
            }
            if wired.is_empty() && slot.arity == Arity::Optional {
                self.unwired(used, point, slot.name, &checked);
                return Err(NoNode::Reported);
            }
            if let Some(trials) = self.measured_trials(used, &checked, slot, wired, point) {
                inputs.extend(trials.into_iter().map(|node| Edge { slot: slot.name, node }));
                continue;
            }
            for from in wired {
                if let Err(NoNode::DataAbsent(at)) = upstream[*from] {
                    self.absent[at].wanted = true;
                }
                inputs.push(Edge { slot: slot.name, node: upstream[*from]? });
            }
        }
        let name = self.name(stage, point);
        let params = self.with_digests(&checked, |builder, name, path, error| {
            if error.kind() == ErrorKind::NotFound && builder.known_dataset(used, point).is_some() {
                return builder.no_file(used, point, path);
            }
            let span = builder.span_of(used, point, name, false);
            builder.unreadable(&span, path, error)
        })?;
        let mut published_as = name.file_name();
        let (node, is_new) = self.add(name, used.def, checked, params, inputs);
        self.note_unset(used, point, node);
        if is_new {
            let dataset = if used.def.name == DATASET_STAGE { self.dataset(used, point) } else { None };
            (self.nodes[node.0].axes, self.nodes[node.0].dataset) = (self.labels(stage, point), dataset);
        }
        if is_new && !used.def.publishes.is_empty() {
            // Points whose names differ in characters that no file name has.
            if self.output_names.contains(&published_as) {
                published_as = format!("{published_as}-{}", self.nodes[node.0].key.short());
            }
            self.publish(published_as, node, &used.name.span);
        }
        if let Some(known) = self.known_dataset(used, point)
            && !self.known_data.iter().any(|(there, _)| *there == node)
        {
            self.known_data.push((node, known));
        }
        Ok(node)
    }

    /// The name of the node of a stage at a point.
    fn name(&self, stage: usize, point: &[usize]) -> NodeName {
        let tags = self.axes[stage].iter().filter_map(|a| self.pipeline.sweep.axes[*a].tag(point[*a]));
        NodeName::new(&self.pipeline.stages[stage].name.name, tags)
    }

    /// The axes that reach a stage and apply at a point, with the labels of their values.
    fn labels(&self, stage: usize, point: &[usize]) -> Vec<(String, String)> {
        let axes = self.axes[stage].iter().map(|a| (&self.pipeline.sweep.axes[*a], point[*a]));
        let applies = axes.filter(|(axis, value)| axis.tag(*value).is_some());
        applies.map(|(axis, value)| (axis.name.clone(), axis.values[value].label.clone())).collect()
    }

    /// What was planned of a stage at a point that came before.
    pub(super) fn made_at(&self, stage: usize, point: &[usize]) -> Option<Planned> {
        let values: Vec<usize> = self.axes[stage].iter().map(|a| point[*a]).collect();
        self.made[stage].get(&values).copied()
    }

    /// Adds a node that stands for that of a stage at a point, though another one makes it.
    pub(super) fn add_at(
        &mut self,
        stage: usize,
        point: &[usize],
        def: &'static StageDef,
        checked: Checked,
        params: Map<String, Value>,
        inputs: Vec<Edge>,
    ) -> NodeId {
        let (node, is_new) = self.add(self.name(stage, point), def, checked, params, inputs);
        if is_new {
            self.nodes[node.0].axes = self.labels(stage, point);
        }
        node
    }

    /// Notes that files of a node are published under a name.
    pub(super) fn publish(&mut self, name: String, node: NodeId, span: &Span) {
        if name == RECORD || !self.output_names.insert(name.clone()) {
            let help = Some("give the stage, the table or the figure another name".into());
            self.problems.add(span, format!("`{name}` is already the name of another published result"), help);
        }
        self.outputs.push(Output { name, node });
    }

    /// Adds a node, or finds the one with the same key. Returns whether it is new.
    pub(super) fn add(
        &mut self,
        mut name: NodeName,
        stage: &'static StageDef,
        checked: Checked,
        params: Map<String, Value>,
        inputs: Vec<Edge>,
    ) -> (NodeId, bool) {
        let around = self.around;
        let profile = if stage.on_device { &around.device_profile } else { &around.profile };
        let profile = match stage.measures {
            Some(_) => format!("{profile}; {}", around.machine),
            None => profile.clone(),
        };
        let ingredients = KeyInputs {
            stage: stage.name.to_owned(),
            version: stage.version,
            from: KeyCrate::of(stage.from),
            variant: checked.variant().map(KeyVariant::of),
            added: KeyVariant::used(checked.used(), stage.uses.is_some_and(|uses| uses.named.is_some())),
            params,
            inputs: key_inputs(&inputs, &self.nodes),
            profile,
        };
        let key = ingredients.key();
        if let Some(there) = self.by_key.get(&key) {
            if self.nodes[there.0].name != name {
                self.nodes[there.0].aliases.push(name);
            }
            return (*there, false);
        }
        while !self.names.insert(name.clone()) {
            name.mark();
        }
        let id = NodeId(self.nodes.len());
        self.by_key.insert(key, id);
        let (aliases, axes) = (Vec::new(), Vec::new());
        self.nodes.push(Node { name, aliases, axes, dataset: None, stage, params: checked, inputs, ingredients, key });
        (id, true)
    }

    /// Checks data sets that no point uses, so that a broken one is reported before its first use.
    fn check_unused_datasets(&mut self) {
        let Some(load) = self.around.registry.stage(DATASET_STAGE) else { return };
        for (key, dataset) in self.pipeline.datasets.all.iter().filter(|(k, _)| !self.used_datasets.contains(&k.name)) {
            let written = self.of_load(dataset);
            for problem in load.check(self.around.registry, &written).err().into_iter().flatten() {
                let known = dataset.entries().iter().any(|(k, _)| problem.param.split('.').next() == Some(&k.name));
                let inside = || span_inside(dataset, &problem.param, problem.about_name);
                let span = if known { inside() } else { key.span.clone() };
                self.problems.add(&span, format!("data set `{}`: {}", key.name, problem.message), problem.help);
            }
        }
    }

    /// Checks parameters of a stage or table, called `what`; reports what is wrong at the place that `span_of` gives for a
    /// parameter or, if that is the problem, its name. A relative path starts from the folder of the text that it is
    /// written in.
    pub(super) fn checked(
        &mut self,
        def: &StageDef,
        what: &str,
        written: &Map<String, Value>,
        span_of: impl Fn(&Self, &str, bool) -> Span,
    ) -> Option<Checked> {
        match def.check(self.around.registry, written) {
            Ok(mut checked) => {
                let moved =
                    checked.rebase(|name, path| self.pipeline.sources.folder(&span_of(self, name, false)).join(path));
                let Err((name, path)) = moved else { return Some(checked) };
                let message = format!("cannot use `{}`: its path is not UTF-8", path.display());
                let help = "rename the folder, or move the file to one whose name is text";
                self.problems.add_data(&span_of(self, &name, false), message, Some(help.into()));
                None
            }
            Err(found) => {
                for problem in found {
                    let span = span_of(self, &problem.param, problem.about_name);
                    self.problems.add(&span, format!("{what}: {}", problem.message), problem.help);
                }
                None
            }
        }
    }

    /// Refuses a row that cannot be computed on a GPU where the stage is to use one.
    fn check_device(&mut self, used: &'b StageUse, point: &[usize], checked: &Checked) -> Result<(), NoNode> {
        let on_gpu = used.def.on_device && backend_of(&self.around.device_profile) == Backend::Cuda;
        let Some(row) = checked.variant().filter(|row| on_gpu && !row.gpu) else { return Ok(()) };
        let span = self.span_of(used, point, used.def.choice.map_or("", |c| c.param), false);
        let message = format!("stage `{}`: `{}` cannot be computed on a GPU", used.name.name, row.name);
        self.problems.add(&span, message, Some("use `--device cpu`".into()));
        Err(NoNode::Reported)
    }

    fn unwired(&mut self, used: &'b StageUse, point: &[usize], slot: &str, checked: &Checked) {
        let span = self.span_of(used, point, used.def.choice.map_or("", |c| c.param), false);
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

    /// Returns the parameters for the key: a file counts by its content. `unread` says what a file means that cannot be read.
    pub(super) fn with_digests(
        &mut self,
        checked: &Checked,
        mut unread: impl FnMut(&mut Self, &str, &Path, &io::Error) -> NoNode,
    ) -> Result<Map<String, Value>, NoNode> {
        let around = self.around;
        let mut params = checked.decisive();
        let digest = |name: &str, path: &Path| {
            (around.digest)(path, if checked.is_text(name) { Contents::Text } else { Contents::Data })
        };
        let digests = checked.map_files(|name, path| match digest(name, path) {
            Ok(digest) => Ok(json!({ "blake3": digest })),
            Err(error) => Err(unread(self, name, path, &error)),
        });
        params.extend(digests?);
        Ok(params)
    }

    /// Reports a file that cannot be read.
    pub(super) fn unreadable(&mut self, span: &Span, path: &Path, error: &io::Error) -> NoNode {
        let help = "a relative path starts from the folder of the file it is written in";
        self.problems.add_data(span, format!("cannot read `{}`: {error}", path.display()), Some(help.into()));
        NoNode::Reported
    }

    /// Records that a file of a known data set is missing.
    fn no_file(&mut self, used: &'b StageUse, point: &[usize], file: &Path) -> NoNode {
        let known = self.known_dataset(used, point).unwrap_or_default();
        let by_hand = self.pipeline.datasets.by_hand.get(&known).cloned();
        self.gap(used, point, DATASET_PARAM, Missing::File { known, by_hand, file: file.to_owned() })
    }

    /// Records that a data set has no files for a stage.
    pub(super) fn without_files(&mut self, used: &'b StageUse, point: &[usize], from: FromDataset) -> NoNode {
        let FromDataset { field, choice, param } = from;
        self.gap(used, point, choice, Missing::Files { field, stage: used.name.name.clone(), param })
    }

    fn gap(&mut self, used: &'b StageUse, point: &[usize], param: &str, missing: Missing) -> NoNode {
        let absence = Absence { dataset: self.dataset(used, point).unwrap_or_default(), missing };
        let at = self.absent.iter().position(|gap| gap.absence == absence).unwrap_or_else(|| {
            let span = self.span_of(used, point, param, false);
            let is_input = |(_, from): &(_, Vec<usize>)| {
                from.iter().any(|at| self.pipeline.stages[*at].name.name == used.name.name)
            };
            let wanted = !self.pipeline.stages.iter().flat_map(|stage| &stage.inputs).any(is_input);
            self.absent.push(Gap { absence, span, wanted: wanted || used.def.name == DATASET_STAGE });
            self.absent.len() - 1
        });
        NoNode::DataAbsent(at)
    }
}

/// Returns the stages that searches decide on, their own or through their inputs.
pub fn searched(pipeline: &Pipeline) -> Vec<String> {
    let trials = pipeline.sweep.axes.len().checked_sub(1).filter(|_| pipeline.search.is_some());
    let reached = reaching_axes(pipeline).into_iter().zip(&pipeline.stages);
    let decided = reached.filter(|(axes, _)| trials.is_some_and(|trials| axes.contains(&trials)));
    decided.map(|(_, used)| used.name.name.clone()).collect()
}

/// The stages that another stage is wired to.
fn wired(pipeline: &Pipeline) -> BTreeSet<String> {
    let from = pipeline.stages.iter().flat_map(|used| &used.inputs).flat_map(|(_, from)| from);
    from.map(|stage| pipeline.stages[*stage].name.name.clone()).collect()
}

/// Nodes there would be if points of the sweep shared nothing: one for every stage that is needed somewhere.
fn unshared(plan: &Plan, pipeline: &Pipeline) -> usize {
    let needed = plan.needed();
    let of_needed = plan.iter().filter(|(id, _)| needed[id.0]).map(|(_, node)| node.name.stage.as_str());
    let stages: HashSet<&str> = of_needed.collect();
    let planned = pipeline.stages.iter().filter(|used| stages.contains(used.name.name.as_str())).count();
    pipeline.sweep.points.len() * planned + pipeline.tables.len() + pipeline.figures.len()
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
        if let Some(search) = &pipeline.search
            && search.settings().any(|setting| setting.stage == used.name.name)
        {
            axes.extend(search.over.iter().copied().chain([pipeline.sweep.axes.len() - 1]));
        }
        for preset in pipeline.presets.iter().filter(|p| sets(&p.settings)) {
            axes.extend(preset.matches.iter().map(|(axis, _)| *axis));
        }
        for (_, only) in pipeline.forced.iter().filter(|(setting, _)| sets(std::slice::from_ref(setting))) {
            axes.extend(only.iter().filter_map(|o| if let Only::Axis(axis, _) = o { Some(*axis) } else { None }));
        }
        axes.extend(used.inputs.iter().flat_map(|(_, from)| from).flat_map(|f| all[*f].clone()));
        axes.sort_unstable();
        axes.dedup();
        all.push(axes);
    }
    all
}

#[cfg(test)]
mod tests;
