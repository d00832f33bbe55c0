//! The plan: every node of a run with its key, inputs before the nodes that need them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ppgnn_stages::contract::params::Checked;
use ppgnn_stages::contract::{Arity, Lost, Registry, StageDef};
use serde_json::Value;

use crate::pipeline::DeviceRequest;

use super::key::{ArtifactKey, KeyInput, KeyInputs};
use super::name::NodeName;

/// Position of a node in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// An input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Slot it is wired to.
    pub slot: &'static str,
    /// The node that produces it.
    pub node: NodeId,
}

/// One result: a stage with parameters and inputs. Nodes with equal keys are one node.
#[derive(Clone)]
pub struct Node {
    /// Readable name, unique in the plan.
    pub name: NodeName,
    /// Other names of the same node: points of the sweep that turned out to mean the same.
    pub aliases: Vec<NodeName>,
    /// Its place in the sweep: axes that reach it and apply, with the labels of their values.
    pub axes: Vec<(String, String)>,
    /// The data set that it reads, as the pipeline calls it.
    pub dataset: Option<String>,
    /// The stage.
    pub stage: &'static StageDef,
    /// Its parameters.
    pub params: Checked,
    /// Its inputs in slot order.
    pub inputs: Vec<Edge>,
    /// Everything that is in the key.
    pub ingredients: KeyInputs,
    /// The key.
    pub key: ArtifactKey,
}

impl Node {
    /// Returns whether a slot takes any number of inputs.
    pub fn takes_many(&self, slot: &str) -> bool {
        self.stage.inputs.iter().any(|s| s.name == slot && s.arity == Arity::Many)
    }

    /// Returns the node that this one is a slice of, if it is one.
    pub fn slice_of(&self) -> Option<NodeId> {
        let slot = self.stage.shared?.slot;
        self.inputs.iter().find(|edge| edge.slot == slot).map(|edge| edge.node)
    }
}

impl Node {
    /// Returns the node that is left of this one without inputs that are lost, if its stage can do without them.
    fn without(&self, registry: &Registry, lost: &BTreeMap<NodeId, String>, nodes: &[Self]) -> Option<Self> {
        let slot = self.inputs.first().map(|edge| edge.slot).filter(|slot| self.takes_many(slot))?;
        let (gone, there): (Vec<_>, Vec<_>) =
            self.inputs.iter().enumerate().partition(|(_, edge)| lost.contains_key(&edge.node));
        if gone.is_empty() || gone.iter().any(|(_, edge)| edge.slot != slot) {
            return None;
        }
        let gone =
            gone.iter().filter_map(|(place, edge)| Some(Lost { place: *place, why: lost.get(&edge.node)?.clone() }));
        let params = self.stage.without(registry, &self.params, &gone.collect::<Vec<_>>())?;
        let inputs: Vec<Edge> = there.into_iter().map(|(_, edge)| *edge).collect();
        let mut in_key = params.all().clone();
        // Files count by their digests, which stay.
        let files = params.files().filter_map(|(name, _)| self.ingredients.params.get_key_value(name));
        in_key.extend(files.map(|(name, digest)| (name.clone(), digest.clone())));
        let ingredients = KeyInputs { params: in_key, inputs: key_inputs(&inputs, nodes), ..self.ingredients.clone() };
        Some(Self { key: ingredients.key(), params, inputs, ingredients, ..self.clone() })
    }
}

impl Node {
    /// Gives it the key that follows from its inputs.
    pub(super) fn settle(&mut self, nodes: &[Self]) {
        let inputs = key_inputs(&self.inputs, nodes);
        if inputs != self.ingredients.inputs {
            self.ingredients.inputs = inputs;
            self.key = self.ingredients.key();
        }
    }
}

/// Returns what a key says of inputs.
pub(super) fn key_inputs(inputs: &[Edge], nodes: &[Node]) -> Vec<KeyInput> {
    inputs.iter().map(|e| KeyInput { slot: e.slot.to_owned(), key: nodes[e.node.0].key }).collect()
}

/// What the pipeline publishes: files of one node, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The name, unique in the plan.
    pub name: String,
    /// The node.
    pub node: NodeId,
}

/// A data set that lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Name in the pipeline.
    pub dataset: String,
    /// What it lacks.
    pub missing: Missing,
}

/// What a data set lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A file of a known data set.
    File {
        /// Name that `ppgnn data` knows the data set by.
        known: String,
        /// The publisher's page, if it cannot be fetched.
        by_hand: Option<String>,
        /// The first file that is missing.
        file: PathBuf,
    },
    /// Files for a stage, which are not known for this data set.
    Files {
        /// What they are called where data sets are described.
        field: &'static str,
        /// The stage that reads one.
        stage: String,
        /// Its parameter that names a file.
        param: &'static str,
    },
}

impl Absence {
    /// Says what is missing.
    pub fn what(&self) -> String {
        match &self.missing {
            Missing::File { known, file, .. } => {
                format!("the data of `{known}` is missing: no file `{}`", file.display())
            }
            Missing::Files { field, stage, .. } => {
                format!("no `{field}` of `{}` are known, which stage `{stage}` reads", self.dataset)
            }
        }
    }

    /// Says how to get it.
    pub fn remedy(&self) -> String {
        match &self.missing {
            Missing::File { by_hand: Some(page), file, .. } => {
                let folder = file.parent().unwrap_or(file).display();
                format!(
                    "the publisher has no address to download from: get the files by hand from {page} and put them into \
                     `{folder}`, or use `ppgnn data import DIR`"
                )
            }
            Missing::File { known, .. } => format!(
                "`ppgnn data fetch {known}` downloads it; `--data-dir DIR` uses a folder that has it, `ppgnn data import DIR` copies from one"
            ),
            Missing::Files { field, stage, param } => format!(
                "list your own under `{field}` of the data set, set `{stage}.{param}`, or leave out what needs stage `{stage}` there; \
                 `absent-data: skip` leaves the cells of a table empty"
            ),
        }
    }

    /// Both in one line, for a table.
    pub fn in_short(&self) -> String {
        let name = &self.dataset;
        match &self.missing {
            Missing::File { by_hand: Some(page), .. } => {
                format!("{name}, its data is missing (get it by hand from {page})")
            }
            Missing::File { known, .. } => {
                format!("{name}, its data is missing (ppgnn data fetch {known} downloads it)")
            }
            Missing::Files { field, .. } => format!("{name}, no {field} of it are known"),
        }
    }
}

/// A trial of a search, and the nodes whose metrics say how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialNodes {
    /// Position of the search.
    pub search: usize,
    /// Number of the trial, from 0.
    pub trial: usize,
    /// Whether these have the first splits alone, of a race.
    pub first: bool,
    /// The nodes; none where data is missing.
    pub nodes: Vec<Option<NodeId>>,
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchState {
    /// The point of the sweep that it is for.
    pub label: String,
    /// The metric whose mean decides.
    pub objective: String,
    /// How settings are chosen.
    pub sampler: &'static str,
    /// Whether a larger score is better.
    pub larger_is_better: bool,
    /// How many trials it may have.
    pub of: usize,
    /// The trials whose settings are known.
    pub trials: Vec<TrialState>,
    /// The one that was chosen.
    pub chosen: Option<usize>,
    /// Those that were chosen for every split, if each has its own.
    pub of_splits: Vec<usize>,
    /// What identifies a search that ended because its trials had taken long enough, so that it stays ended.
    pub out_of_time: Option<String>,
    /// The stages on which it decides.
    pub stages: Vec<String>,
    /// Whether no more trials will come.
    pub ended: bool,
}

impl SearchState {
    /// Returns whether a trial has a better score than another one.
    pub fn is_better(&self, trial: usize, than: usize) -> bool {
        let score = |at: usize| self.trials[at].score.map(|score| if self.larger_is_better { score } else { -score });
        score(trial) > score(than)
    }

    /// Returns whether a trial was chosen, if only for one split.
    pub fn is_chosen(&self, trial: usize) -> bool {
        if self.of_splits.is_empty() { self.chosen == Some(trial) } else { self.of_splits.contains(&trial) }
    }

    /// Returns the best trial so far; the first of equal ones.
    pub fn best(&self) -> Option<(usize, &TrialState)> {
        let scored = (0..self.trials.len()).filter(|at| self.trials[*at].score.is_some());
        let best = scored.reduce(|best, next| if self.is_better(next, best) { next } else { best });
        best.map(|at| (at, &self.trials[at]))
    }

    /// Returns the trials within one standard error of the best, the best one among them.
    pub fn near_best(&self) -> Vec<usize> {
        let Some((_, best)) = self.best() else { return Vec::new() };
        let is_near = |score: f64| best.score.is_some_and(|of_best| (of_best - score).abs() <= best.error);
        (0..self.trials.len()).filter(|at| self.trials[*at].score.is_some_and(is_near)).collect()
    }
}

/// A trial of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialState {
    /// Its settings.
    pub settings: BTreeMap<String, Value>,
    /// The mean of the objective over splits.
    pub score: Option<f64>,
    /// Its standard error.
    pub error: f64,
    /// The score of every split, none where it is undefined; those of the first splits where it stopped.
    pub scores: Vec<Option<f64>>,
    /// The mean of the same score on test nodes, where they were scored.
    pub test: Option<f64>,
    /// Why it failed.
    pub failed: Option<String>,
    /// Where it stopped after the first splits: their mean.
    pub stopped: Option<f64>,
    /// What the node with its scores was called where it was computed, if that was elsewhere: in another search, or another pipeline.
    pub reused: Option<String>,
}

impl TrialState {
    /// Returns whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.score.is_some() || self.failed.is_some() || self.stopped.is_some()
    }
}

/// Every node of a pipeline, inputs first.
#[derive(Clone)]
pub struct Plan {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Name of the profile, if one was chosen.
    pub profile: Option<String>,
    /// What the file asks stages that compute on a device to use.
    pub device: DeviceRequest,
    /// The nodes; an edge only points to an earlier one.
    pub nodes: Vec<Node>,
    /// What is published, in the order of the file.
    pub outputs: Vec<Output>,
    /// Data sets that were left out because their data is missing.
    pub absent: Vec<Absence>,
    /// For nodes that read a known data set, its name.
    pub known_data: Vec<(NodeId, String)>,
    /// The trials of searches.
    pub trials: Vec<TrialNodes>,
    /// How far the searches are.
    pub searches: Vec<SearchState>,
    /// Stages that another stage is wired to, whether or not a node reads one of theirs.
    pub wired: BTreeSet<String>,
    /// Nodes there would be if points of the sweep shared nothing.
    pub unshared: usize,
}

impl Plan {
    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Returns a plan that does without nodes that failed: by their keys, and why. What needs one of them is lost as well,
    /// unless its stage can do without; then it is another result, with a key of its own. Nodes stay where they are.
    #[must_use]
    pub fn without(&self, registry: &Registry, failed: &BTreeMap<ArtifactKey, String>) -> Self {
        let mut plan = self.clone();
        let mut lost: BTreeMap<NodeId, String> = BTreeMap::new();
        for (id, node) in self.iter() {
            let why = node.inputs.iter().find_map(|edge| lost.get(&edge.node)).or_else(|| failed.get(&node.key));
            let Some(why) = why.cloned() else { continue };
            match node.without(registry, &lost, &self.nodes) {
                Some(rest) => plan.nodes[id.0] = rest,
                None => drop(lost.insert(id, why)),
            }
        }
        plan
    }

    /// Returns the nodes of trials that have not ended, of some searches.
    pub fn open_trials(&self, searches: &[usize]) -> Vec<NodeId> {
        let open = self.trials.iter().filter(|trial| searches.contains(&trial.search)).filter(|trial| {
            let state = self.searches.get(trial.search).and_then(|search| search.trials.get(trial.trial));
            state.is_some_and(|state| !state.has_ended())
        });
        let whole = open.filter_map(|trial| trial.nodes.iter().copied().collect::<Option<Vec<NodeId>>>());
        whole.flatten().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Iterates over the nodes with their ids, inputs first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i), node))
    }

    /// Returns, for every node, whether one of `targets` needs it; the targets count themselves.
    pub fn ancestors(&self, targets: &[NodeId]) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        targets.iter().for_each(|t| needed[t.0] = true);
        for (id, node) in self.iter().rev() {
            if needed[id.0] {
                node.inputs.iter().for_each(|edge| needed[edge.node.0] = true);
            }
        }
        needed
    }

    /// Returns, for every node, whether what the pipeline is for needs it.
    pub fn needed(&self) -> Vec<bool> {
        self.ancestors(&self.leaves())
    }

    /// Returns what the pipeline is for: the nodes of the stages that no other stage is wired to, and that no node needs. Being
    /// sliced does not count: the pipeline asks for the whole as well. A node of another stage that is not needed is there
    /// because of a sweep, such as the eigenpairs of an operator on which only models without eigenpairs are trained, or because
    /// of a base that wires what some models need. What is published is wanted even where another node reads it.
    pub fn leaves(&self) -> Vec<NodeId> {
        let mut leaf = vec![true; self.nodes.len()];
        let whole = self.nodes.iter().filter(|n| n.slice_of().is_none());
        for edge in whole.flat_map(|n| &n.inputs) {
            leaf[edge.node.0] = false;
        }
        let published: BTreeSet<NodeId> = self.outputs.iter().map(|output| output.node).collect();
        let wanted = |(id, node): &(NodeId, &Node)| {
            published.contains(id) || leaf[id.0] && !self.wired.contains(&node.name.stage)
        };
        self.iter().filter(wanted).map(|(id, _)| id).collect()
    }
}
