//! `ppgnn export`: takes results out of the store in forms that other programs read, and computes nothing.

mod output;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ppgnn_stages::contract::params::list;
use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::export::{self, Arrays, Frame, Predictions};
use ppgnn_stages::kinds::{Graph, Metrics, Nodes, Operator, Spectrum, Splits, Trained};
use ppgnn_stages::models::ModelDef;

use super::failure::Failure;
use super::project::{PipelineArgs, every_node};
use super::stored::{Stored, nearest};
use super::{exit, note, runs, targets};
use crate::plan::{Node, NodeId, Plan};
use output::Content;

/// Export predictions, histories, weights, filters, spectra, graphs or runs for other programs
///
/// Only reads the store: what was not computed is an error that names the command which computes it. Tables have a row for
/// every run and whatever it is about; the column `node` and a column for every axis say which run. Arrays of one node stand
/// under their own names, those of several nodes under `<node>/<name>`. The guide (docs/after-the-run.md) lists all columns
/// and shapes.
#[derive(clap::Args)]
pub struct Args {
    /// What to export
    #[arg(value_enum, value_name = "WHAT")]
    what: What,
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Nodes, stages or tables: what they are, or what is behind them (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Format to write (default: by the ending of the file, else csv for tables and safetensors for arrays)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write, `-` for stdout (default: stdout for csv and json, else `<pipeline>-<what>.<format>`)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Only this split, counted from 0; weights then have their names without a prefix
    #[arg(long, value_name = "N")]
    split: Option<usize>,
    /// Combine splits into one prediction per node: the mean over those that used it neither in training nor in validation
    #[arg(long, conflicts_with = "split")]
    vote: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every node in every split: part, true and predicted class, probability of each class; as arrays also the logits
    Predictions,
    /// Every epoch of every split: losses and metrics, and whether it was kept
    History,
    /// The learned filter: h(λ) at every eigenvalue and on a grid, for models that have one
    Filter,
    /// Trained weights, as PyTorch and candle-nn load them
    Weights,
    /// Eigenvalues and eigenvectors; as a table the eigenvalues alone
    Spectrum,
    /// The operator that models propagate with, a sparse matrix
    Operator,
    /// Features as models see them, after `featurize`
    Features,
    /// Edges, features, labels and splits as loaded; as a table the edges alone
    Graph,
    /// The nodes of a graph: number in arrays, id, class by name
    Nodes,
    /// Every run and split: data set, model, axes, parameters, metrics, chosen epoch, seconds, key
    Runs,
}

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values with a line of names
    Csv,
    /// Apache Parquet
    Parquet,
    /// A JSON list with an object per row
    Json,
    /// Arrays for NumPy
    Npz,
    /// Arrays for PyTorch, candle and others
    Safetensors,
}

const TABLES: &[Format] = &[Format::Csv, Format::Parquet, Format::Json];
const ARRAYS: &[Format] = &[Format::Safetensors, Format::Npz];
const TABLES_FIRST: &[Format] = &[Format::Csv, Format::Parquet, Format::Json, Format::Safetensors, Format::Npz];
const ARRAYS_FIRST: &[Format] = &[Format::Safetensors, Format::Npz, Format::Csv, Format::Parquet, Format::Json];

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Json => "json",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
        }
    }

    fn is_table(self) -> bool {
        TABLES.contains(&self)
    }
}

impl What {
    /// The formats that make sense, the usual one first.
    fn formats(self) -> &'static [Format] {
        match self {
            Self::Predictions => TABLES_FIRST,
            Self::History | Self::Filter | Self::Runs | Self::Nodes => TABLES,
            Self::Weights | Self::Features => ARRAYS,
            Self::Spectrum | Self::Operator | Self::Graph => ARRAYS_FIRST,
        }
    }

    /// The kind of artifact that it is about.
    fn kind(self) -> &'static str {
        match self {
            Self::Predictions | Self::History | Self::Weights | Self::Filter => Trained::KIND.0,
            Self::Spectrum => Spectrum::KIND.0,
            Self::Operator => Operator::KIND.0,
            Self::Features => Nodes::KIND.0,
            Self::Graph | Self::Nodes => Graph::KIND.0,
            Self::Runs => Metrics::KIND.0,
        }
    }

    fn has_splits(self) -> bool {
        matches!(self, Self::Predictions | Self::History | Self::Weights | Self::Filter | Self::Runs)
    }

    fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let format = format(args)?;
    let asked =
        |plan: &Plan| if args.targets.is_empty() { every_node(plan) } else { targets::asked(plan, &args.targets) };
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &asked)?;
    let store = args.pipeline.store.look()?;
    let stored = Stored { plan: &plan, store: &store, words: args.pipeline.words() };
    let mut nodes = nodes(&plan, &args.targets, args.what)?;
    let export = Export { args, registry, stored: &stored };
    let is_there = |id: &NodeId| export.reads(*id).into_iter().all(|id| stored.has(id));
    if args.targets.is_empty() && nodes.iter().any(is_there) {
        // Nobody needs them, or a run has not got there.
        for id in nodes.extract_if(.., |id| !is_there(id)) {
            note(&format!("note: {} has not been computed and is left out", plan.node(id).name));
        }
    }
    stored.all_there(nodes.iter().flat_map(|id| export.reads(*id)))?;
    let content =
        if format.is_table() { Content::Table(export.table(&nodes)?) } else { Content::Arrays(export.arrays(&nodes)?) };
    let path = match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) if path.canonicalize().is_ok_and(|to| args.pipeline.file.canonicalize().is_ok_and(|f| f == to)) => {
            return Err(Failure::usage(format!("`{}` is the pipeline itself", path.display()), None));
        }
        Some(path) => Some(path.clone()),
        None => output::default_path(&plan.pipeline, &args.what.name(), format),
    };
    output::write(&content, format, path.as_deref())?;
    Ok(exit::DONE)
}

/// The format to write, if it makes sense.
fn format(args: &Args) -> Result<Format, Failure> {
    let (what, possible) = (args.what.name(), args.what.formats());
    let ending = args.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str());
    let by_ending = ending.and_then(|e| Format::from_str(e, true).ok());
    let format = args.format.or(by_ending).unwrap_or(possible[0]);
    if !possible.contains(&format) {
        let hint = format!("possible are {}", list(possible.iter().map(|f| f.name())));
        return Err(Failure::usage(format!("{what} cannot be exported as {}", format.name()), Some(&hint)));
    }
    if args.vote && (args.what != What::Predictions || !format.is_table()) {
        return Err(Failure::usage("--vote is for tables of predictions", None));
    }
    if args.split.is_some() && !args.what.has_splits() {
        return Err(Failure::usage(format!("--split is not for {what}, which does not depend on a split"), None));
    }
    if args.output.as_deref() == Some(Path::new("-")) && !matches!(format, Format::Csv | Format::Json) {
        let message = format!("{} is not written to stdout", format.name());
        return Err(Failure::usage(message, Some("name a file with -o")));
    }
    Ok(format)
}

/// The nodes that targets mean: those of the right kind, and for others what is behind them.
fn nodes(plan: &Plan, words: &[String], what: What) -> Result<Vec<NodeId>, Failure> {
    let kind = what.kind();
    let all: Vec<NodeId> = plan.iter().filter(|(_, n)| n.stage.output.0 == kind).map(|(id, _)| id).collect();
    if words.is_empty() && !all.is_empty() {
        return Ok(all);
    }
    let mut found = Vec::new();
    for id in if words.is_empty() { Vec::new() } else { targets::find(plan, words)? } {
        let behind = nearest(plan, id, kind);
        if behind.is_empty() {
            let message = format!("`{}` has no {}", plan.node(id).name, what.name());
            let mut stages: Vec<&str> = all.iter().map(|id| plan.node(*id).name.stage.as_str()).collect();
            stages.dedup();
            let hint = format!("name nodes of {}, or what depends on them", list(stages.into_iter()));
            return Err(Failure::usage(message, Some(&hint).filter(|_| !all.is_empty()).map(String::as_str)));
        }
        found.extend(behind);
    }
    if found.is_empty() {
        return Err(Failure::usage(format!("the pipeline has no stage that makes `{kind}`"), None));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

struct Export<'a> {
    args: &'a Args,
    registry: &'a Registry,
    stored: &'a Stored<'a>,
}

impl Export<'_> {
    /// Every node that is read for one.
    fn reads(&self, id: NodeId) -> Vec<NodeId> {
        let (graph, splits) = self.around(id);
        match self.args.what {
            What::Predictions => [Some(id), graph, splits].into_iter().flatten().collect(),
            What::Filter => std::iter::once(id).chain(self.spectrum(id)).collect(),
            _ => vec![id],
        }
    }

    /// The spectrum that a model was trained with.
    fn spectrum(&self, id: NodeId) -> Option<NodeId> {
        self.stored.plan.node(id).inputs.iter().find(|edge| edge.slot == "spectrum").map(|edge| edge.node)
    }

    /// The model that a node has trained.
    fn model(&self, id: NodeId) -> Option<&'static ModelDef> {
        let name = self.stored.plan.node(id).params.variant()?.name;
        self.registry.rows::<ModelDef>().find(|model| model.variant.name == name)
    }

    /// The filter that a node has trained; nothing if its model is none.
    fn filter(&self, id: NodeId) -> Result<Option<Frame>, Failure> {
        let (plan, trained) = (self.stored.plan, self.trained(id)?);
        let params = plan.node(id).params.chosen().map(|chosen| chosen.params);
        let (Some(model), Some(params)) = (self.model(id), params) else { return Ok(None) };
        let given: Option<Spectrum> = self.spectrum(id).map(|id| self.stored.load(id)).transpose()?;
        // Any spectrum of the same operator will do for a model that needs none.
        let operator = |node: &Node| node.inputs.iter().find(|edge| edge.slot == "operator").map(|edge| edge.node);
        let of_same = |(_, node): &(NodeId, &Node)| {
            node.stage.output == Spectrum::KIND && operator(node).is_some() && operator(node) == operator(plan.node(id))
        };
        let known = plan.iter().filter(of_same).map(|(id, _)| id).find(|id| given.is_none() && self.stored.has(*id));
        let known: Option<Spectrum> = known.map(|id| self.stored.load(id)).transpose()?;
        let frame = export::filter(&trained, (model, params), (given.as_ref(), known.as_ref()), self.args.split);
        frame.map_err(|e| Failure::unexpected(e.to_string()))
    }

    fn no_filter(&self, id: NodeId) -> Failure {
        let model = self.model(id).map_or("its model", |model| model.variant.name);
        let filters = self.registry.rows::<ModelDef>().filter(|m| m.filters).map(|m| m.variant.name);
        let message =
            format!("`{}` has no filter: {model} is not a function of the operator", self.stored.plan.node(id).name);
        Failure::usage(
            message,
            Some(&format!("models that have one are {}", list(filters.collect::<Vec<_>>().into_iter()))),
        )
    }

    /// The graph and the splits that a model was trained on.
    fn around(&self, id: NodeId) -> (Option<NodeId>, Option<NodeId>) {
        let plan = self.stored.plan;
        let behind = |slot: &str, kind: &str| {
            let edge = plan.node(id).inputs.iter().find(|edge| edge.slot == slot)?;
            nearest(plan, edge.node, kind).first().copied()
        };
        (behind("nodes", Graph::KIND.0), behind("splits", Splits::KIND.0))
    }

    fn table(&self, nodes: &[NodeId]) -> Result<Frame, Failure> {
        let mut all = Frame::default();
        for id in nodes {
            let frame = match self.args.what {
                What::Predictions => {
                    self.predictions(*id, |p| if self.args.vote { p.vote() } else { p.frame(self.args.split) })?
                }
                What::History => {
                    self.trained(*id)?;
                    let read = export::history(&self.stored.dir(*id)?, self.args.split);
                    read.map_err(|e| Failure::unexpected(e.to_string()))?
                }
                What::Spectrum => export::spectrum_values(&self.stored.load::<Spectrum>(*id)?),
                What::Operator => export::operator_entries(&self.stored.load::<Operator>(*id)?),
                What::Graph => export::graph_edges(&self.stored.load::<Graph>(*id)?),
                What::Nodes => export::graph_nodes(&self.stored.load::<Graph>(*id)?),
                What::Filter => match self.filter(*id)? {
                    Some(frame) => frame,
                    // Of many models those that filter are exported; one alone must.
                    None if nodes.iter().any(|id| self.model(*id).is_some_and(|m| m.filters)) => continue,
                    None => return Err(self.no_filter(*id)),
                },
                What::Weights | What::Features => Frame::default(),
                What::Runs => {
                    all.append(runs::frame(self.stored, *id, self.args.split)?);
                    continue;
                }
            };
            let node = self.stored.plan.node(*id);
            all.append(frame.labelled(labels(node, &node.name.to_string()).into_iter()));
        }
        Ok(all)
    }

    fn arrays(&self, nodes: &[NodeId]) -> Result<Arrays, Failure> {
        let mut all = Arrays::default();
        for id in nodes {
            let arrays = match self.args.what {
                What::Predictions => self.predictions(*id, |p| p.arrays(self.args.split))?,
                What::Weights => export::weights(&self.trained(*id)?, self.args.split),
                What::Spectrum => export::spectrum_arrays(&self.stored.load(*id)?),
                What::Operator => export::operator_arrays(&self.stored.load(*id)?),
                What::Features => export::feature_arrays(&self.stored.load(*id)?),
                What::Graph => self.graph(*id)?,
                What::History | What::Filter | What::Runs | What::Nodes => Arrays::default(),
            };
            let prefix = if nodes.len() == 1 { String::new() } else { format!("{}/", self.stored.plan.node(*id).name) };
            all.extend(&prefix, arrays);
        }
        Ok(all)
    }

    /// Loads what was trained, and refuses a split that there is not.
    fn trained(&self, id: NodeId) -> Result<Trained, Failure> {
        let trained: Trained = self.stored.load(id)?;
        match self.args.split {
            Some(split) if split >= trained.splits.len() => {
                let (name, count) = (&self.stored.plan.node(id).name, trained.splits.len());
                let message = format!("`{name}` has no split {split}; it has {count}, counted from 0");
                Err(Failure::usage(message, None))
            }
            _ => Ok(trained),
        }
    }

    fn predictions<T>(&self, id: NodeId, make: impl FnOnce(&Predictions) -> T) -> Result<T, Failure> {
        let name = &self.stored.plan.node(id).name;
        let (Some(graph), Some(splits)) = self.around(id) else {
            return Err(Failure::usage(format!("`{name}` was not trained on nodes of a graph and splits"), None));
        };
        let trained = self.trained(id)?;
        let (graph, splits): (Graph, Splits) = (self.stored.load(graph)?, self.stored.load(splits)?);
        let predictions = Predictions::new(&trained, &graph, &splits);
        let predictions = predictions.map_err(|why| Failure::usage(format!("`{name}`: {why}"), None))?;
        Ok(make(&predictions))
    }

    /// The graph with the splits that the pipeline makes of it.
    fn graph(&self, id: NodeId) -> Result<Arrays, Failure> {
        let plan = self.stored.plan;
        let mut arrays = export::graph_arrays(&self.stored.load(id)?);
        let reads = |node: &Node| node.inputs.iter().any(|edge| edge.node == id);
        let makers = plan.iter().filter(|(_, n)| n.stage.output == Splits::KIND && reads(n));
        let makers: Vec<(NodeId, &Node)> = makers.collect();
        for (splits, node) in &makers {
            if self.stored.has(*splits) {
                let name = if makers.len() == 1 { "splits".to_owned() } else { format!("splits/{}", node.name) };
                export::add_splits(&mut arrays, &name, &self.stored.load(*splits)?);
            } else {
                note(&format!("note: {} has not been computed, its splits are left out", node.name));
            }
        }
        Ok(arrays)
    }
}

/// What tells a node from others: its name, and its place on every axis.
fn labels<'n>(node: &'n Node, name: &'n str) -> Vec<(&'n str, &'n str)> {
    let axes = node.axes.iter().map(|(axis, label)| (axis.as_str(), label.as_str()));
    std::iter::once(("node", name)).chain(axes).collect()
}
