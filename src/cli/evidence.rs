//! What is behind some runs: their splits, every setting, the files that were read, and every artifact that they were made from.
//!
//! It is told from the plan, which knows all of it before anything is computed, and from the store as far as it has the results.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::kinds::{Metric, Metrics, Trained};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::runs;
use super::stored::{Stored, nearest};
use crate::plan::{ArtifactKey, Node, NodeId, SearchState};

/// The parameter that says which random numbers are drawn, in every stage that draws some.
const SEED: &str = "seed";

/// Everything behind some runs.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Evidence {
    /// The runs.
    pub runs: Vec<Run>,
    /// The settings that all runs have.
    pub settings: Vec<Setting>,
    /// The files that were read.
    pub data: Vec<DataFile>,
    /// Every artifact that the runs are made of, themselves among them, inputs first.
    pub inputs: Vec<Input>,
}

/// One run: a configuration, on all of its splits.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Run {
    /// Its name in the plan.
    pub id: String,
    /// Its key.
    pub key: String,
    /// Whether it is in the store.
    pub computed: bool,
    /// Why it is known to fail, if it is.
    pub failed: Option<String>,
    /// The data set.
    pub dataset: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The seeds, by stage.
    pub seeds: BTreeMap<String, Value>,
    /// How long training took, all splits together.
    pub seconds: Option<f64>,
    /// What it has on every split; nothing if it is not in the store.
    pub splits: Vec<Split>,
    /// The settings in which the runs differ.
    pub settings: Vec<Setting>,
    /// The searches that chose its settings.
    pub searched: Vec<Searched>,
}

/// What a run has on a split.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Split {
    /// The split, counted from 0.
    pub split: usize,
    /// The metric, where it is defined.
    pub value: Option<f64>,
    /// Why it is not, elsewhere.
    pub undefined: Option<String>,
    /// The epoch that was kept, counted from 0.
    pub chosen_epoch: Option<usize>,
}

/// A parameter of a stage.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Setting {
    /// What the pipeline calls the stage.
    pub stage: String,
    /// The parameter.
    pub parameter: String,
    /// Its value.
    pub value: Value,
    /// Whether that is what it is if nobody sets it.
    pub default: bool,
}

/// A file that was read.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DataFile {
    /// The node that reads it.
    pub node: String,
    /// The parameter that names it.
    pub parameter: String,
    /// Where it is.
    pub file: String,
    /// The digest that is in keys.
    pub blake3: String,
}

/// An artifact that runs are made of.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Input {
    /// Its name in the plan.
    pub id: String,
    /// What it is.
    pub kind: &'static str,
    /// The stage that makes it.
    pub stage: &'static str,
    /// The version of the stage.
    pub version: u32,
    /// What the stage chose, such as a model, and its version.
    pub chosen: Option<String>,
    /// Its key.
    pub key: String,
    /// Precision, backend and instruction set.
    pub profile: String,
    /// Whether it is in the store.
    pub computed: bool,
    /// The version of ppgnn that made it.
    pub ppgnn: Option<String>,
    /// When it was made.
    pub created: Option<String>,
    /// How long that took.
    pub seconds: Option<f64>,
}

/// A search that chose the settings of a run.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Searched {
    /// The point of the sweep that it is for.
    pub point: String,
    /// The trial that was chosen, counted from 0 as in `search show`.
    pub trial: usize,
    /// How many trials there were.
    pub of: usize,
    /// How settings were proposed.
    pub sampler: &'static str,
    /// The metric whose mean decided.
    pub objective: String,
    /// That mean, for the chosen trial.
    pub score: Option<f64>,
    /// What the trial set.
    pub settings: BTreeMap<String, Value>,
}

/// The settings of nodes: those of one are found once, since a table has the same behind many cells.
pub struct Settings<'r> {
    registry: &'r Registry,
    known: RefCell<HashMap<ArtifactKey, Rc<[Setting]>>>,
}

impl Evidence {
    /// Gathers what is behind some nodes with metrics, or with facts. Values per split are those of `metric`.
    pub fn of(
        stored: &Stored,
        nodes: &[NodeId],
        metric: Option<&Metric>,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let plan = stored.plan;
        let of_runs: Vec<Vec<Setting>> = nodes.iter().map(|id| settings.behind(stored, *id)).collect();
        let common: Vec<Setting> = match of_runs.split_first() {
            None => Vec::new(),
            Some((first, others)) => {
                first.iter().filter(|setting| others.iter().all(|of| of.contains(setting))).cloned().collect()
            }
        };
        let mut all = Vec::new();
        for (id, mut own) in nodes.iter().zip(of_runs) {
            own.retain(|setting| !common.contains(setting));
            all.push(run(stored, *id, metric, own)?);
        }
        let behind = plan.ancestors(nodes);
        let behind = || plan.iter().filter(|(id, _)| behind[id.0]).map(|(_, node)| node);
        let data = behind().flat_map(files).collect();
        let inputs = behind().map(|node| input(stored, node)).collect();
        Ok(Self { runs: all, settings: common, data, inputs })
    }
}

fn run(stored: &Stored, id: NodeId, metric: Option<&Metric>, settings: Vec<Setting>) -> Result<Run, Failure> {
    let (plan, node) = (stored.plan, stored.plan.node(id));
    let trains = nearest(plan, id, Trained::KIND.0);
    let train = trains.first().map(|id| plan.node(*id));
    let computed = stored.has(id);
    let splits = match metric.filter(|_| computed) {
        Some(metric) => splits(&stored.load::<Metrics>(id)?, metric),
        None => Vec::new(),
    };
    let seeds = runs::behind(plan, id).filter_map(|node| {
        let seed = node.params.all().get(SEED)?;
        Some((node.name.stage.clone(), seed.clone()))
    });
    Ok(Run {
        id: node.name.to_string(),
        key: node.key.to_string(),
        computed,
        failed: runs::behind(plan, id).filter(|_| !computed).find_map(|node| stored.store.failure(&node.key)),
        dataset: runs::dataset(plan, id),
        model: train.and_then(|train| train.params.variant()).map(|model| model.name.to_owned()),
        seeds: seeds.collect(),
        seconds: train.and_then(|t| stored.store.manifest(&t.key, t.stage.name)).map(|manifest| manifest.seconds),
        splits,
        settings,
        searched: searched(stored, &trains),
    })
}

fn splits(metrics: &Metrics, metric: &Metric) -> Vec<Split> {
    let of_split = |(at, scores): (usize, _)| {
        let value = metric.of(scores);
        Split {
            split: at,
            value: value.and_then(|value| value.as_ref().ok().copied()),
            undefined: value.and_then(|value| value.as_ref().err()).map(ToString::to_string),
            chosen_epoch: scores.best_epoch,
        }
    };
    metrics.splits.iter().enumerate().map(of_split).collect()
}

impl<'r> Settings<'r> {
    /// Nothing is known yet.
    pub fn new(registry: &'r Registry) -> Self {
        Self { registry, known: RefCell::default() }
    }

    /// Every parameter of every stage behind a node, files aside. Of two nodes of a stage the nearer one counts.
    fn behind(&self, stored: &Stored, id: NodeId) -> Vec<Setting> {
        let mut seen = BTreeSet::new();
        let nearest = runs::behind(stored.plan, id).rev().filter(|node| seen.insert(&node.name.stage));
        let all: Vec<Rc<[Setting]>> = nearest.map(|node| self.of_node(node)).collect();
        all.iter().rev().flat_map(|of_node| of_node.iter().cloned()).collect()
    }

    fn of_node(&self, node: &Node) -> Rc<[Setting]> {
        if let Some(known) = self.known.borrow().get(&node.key) {
            return Rc::clone(known);
        }
        let files: BTreeSet<&str> = node.params.files().map(|(name, _)| name).collect();
        let defaults = defaults(node, self.registry);
        let of_node = node.params.all().iter().filter(|(name, _)| !files.contains(name.as_str()));
        let found: Rc<[Setting]> = of_node
            .map(|(name, value)| Setting {
                stage: node.name.stage.clone(),
                parameter: name.clone(),
                value: value.clone(),
                default: defaults.contains(name.as_str()),
            })
            .collect();
        self.known.borrow_mut().insert(node.key, Rc::clone(&found));
        found
    }
}

/// The parameters of a node that are what they would be if nobody had set them and all others were as they are.
fn defaults<'n>(node: &'n Node, registry: &Registry) -> BTreeSet<&'n str> {
    let all = node.params.all();
    let is_default = |name: &&str| {
        let mut others = all.clone();
        others.shift_remove(*name);
        let completed = node.stage.check(registry, &others);
        completed.is_ok_and(|completed| completed.all().get(*name) == all.get(*name))
    };
    all.keys().map(String::as_str).filter(is_default).collect()
}

/// The files of a node with their digests; those of a list are in its order.
fn files(node: &Node) -> Vec<DataFile> {
    let mut found: Vec<DataFile> = Vec::new();
    for (param, path) in node.params.files() {
        let before = found.iter().filter(|file| file.parameter == param).count();
        let in_key = node.ingredients.params.get(param);
        let in_key = in_key.and_then(|value| value.as_array().map_or(Some(value), |list| list.get(before)));
        let digest = in_key.and_then(|value| value.get("blake3")?.as_str()).unwrap_or_default();
        found.push(DataFile {
            node: node.name.to_string(),
            parameter: param.to_owned(),
            file: path.display().to_string(),
            blake3: digest.to_owned(),
        });
    }
    found
}

fn input(stored: &Stored, node: &Node) -> Input {
    let manifest = stored.store.manifest(&node.key, node.stage.name);
    Input {
        id: node.name.to_string(),
        kind: node.stage.output.0,
        stage: node.stage.name,
        version: node.ingredients.version,
        chosen: node.ingredients.variant.as_ref().map(ToString::to_string),
        key: node.key.to_string(),
        profile: node.ingredients.profile.clone(),
        computed: manifest.is_some(),
        ppgnn: manifest.as_ref().map(|manifest| manifest.ppgnn.clone()),
        created: manifest.as_ref().map(|manifest| manifest.created.clone()),
        seconds: manifest.map(|manifest| manifest.seconds),
    }
}

/// The searches whose chosen trial trained what a run evaluates: the trial may have left test nodes alone, and have metrics of its own.
fn searched(stored: &Stored, trains: &[NodeId]) -> Vec<Searched> {
    let plan = stored.plan;
    let trained_by = |node: &NodeId| nearest(plan, *node, Trained::KIND.0).iter().any(|train| trains.contains(train));
    let chosen = plan.trials.iter().filter_map(|trial| {
        let search: &SearchState = plan.searches.get(trial.search)?;
        let is_it = search.chosen == Some(trial.trial) && trial.nodes.iter().flatten().any(trained_by);
        let state = search.trials.get(trial.trial).filter(|_| is_it)?;
        Some(Searched {
            point: search.label.clone(),
            trial: trial.trial,
            of: search.trials.len(),
            sampler: search.sampler,
            objective: search.objective.clone(),
            score: state.score,
            settings: state.settings.clone(),
        })
    });
    chosen.collect()
}
