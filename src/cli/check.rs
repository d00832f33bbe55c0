//! `ppgnn check`: validates a pipeline, and warns about problems in its data that would distort results.

use std::collections::{BTreeSet, HashMap};

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::inspect::{self, Warning};
use ppgnn_stages::kinds::{Graph, Metric, ScoreDef, Splits, Trained};
use serde_json::json;

use super::artifacts::Artifacts;
use super::failure::Failure;
use super::graphs;
use super::project::{PipelineArgs, every_node, plan_here};
use super::{exit, note, overview, print, print_json, readiness};
use crate::catalogue::Catalogue;
use crate::forecast::{FaultKind, Forecast, allowed};
use crate::pipeline::{AbsentData, Pipeline};
use crate::plan::{self, NodeId, Plan, PlanContext};
use crate::run::{NodeState, demand};
use crate::store::Store;
use crate::study;

/// Check pipeline files without training anything
///
/// The pipeline and all its profiles are validated. If its data is available locally, graphs and splits are checked as
/// well, with warnings about what may distort results: copies of test nodes among the training nodes, classes without
/// training nodes, unlabelled nodes in a part, edges that say nothing about classes. Warnings do not change the exit
/// code. What a run could not do does: data that cannot be read (4), and nodes that must fail (5), such as a model that
/// cannot use its operator, more bins than eigenpairs, or more memory than there is.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Do not read any data
    #[arg(long)]
    no_data: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let catalogue = args.pipeline.catalogue();
    let mut pipeline = begun(&args.pipeline, &catalogue, registry)?;
    let plan = build(&pipeline, registry)?;
    // A broken profile should be found now, not when it is first used.
    if args.pipeline.profile.is_none() {
        for profile in &pipeline.profiles {
            let with = PipelineArgs { profile: Some(profile.clone()), ..args.pipeline.clone() };
            build(&begun(&with, &catalogue, registry)?, registry)?;
        }
    }
    // Data that is missing is no reason to leave the rest unchecked.
    pipeline.absent = AbsentData::Skip;
    let Findings { absent, warnings: found, notes, code } =
        if args.no_data { by_parameters(args, &plan)? } else { look(args, &pipeline, &plan, &catalogue, registry)? };
    let (points, nodes, tables) = (pipeline.sweep.points.len(), count(&plan.needed()), pipeline.tables.len());
    if args.json {
        let warnings: Vec<_> =
            found.iter().map(|(node, w)| json!({"node": node, "code": w.code, "message": w.message})).collect();
        print_json(&json!({
            "version": 1, "pipeline": plan.pipeline, "valid": true, "points": points, "nodes": nodes, "tables": tables,
            "absent-data": absent, "notes": notes, "warnings": warnings, "exit-code": code,
        }))?;
    } else {
        let file = args.pipeline.file.display();
        print(&format!("{file}: valid; points: {points}, nodes: {nodes}, tables: {tables}\n"))?;
        notes.iter().for_each(|text| note(&format!("note: {text}")));
        for (nodes, warning) in by_warning(&found) {
            note(&format!("warning: {nodes}: {} [{}]", warning.message, warning.code));
        }
    }
    Ok(code)
}

/// How many nodes a run would need.
fn count(needed: &[bool]) -> usize {
    needed.iter().filter(|needed| **needed).count()
}

/// A pipeline with the first round of its searches.
fn begun(args: &PipelineArgs, catalogue: &Catalogue, registry: &Registry) -> Result<Pipeline, Failure> {
    let mut pipeline = args.pipeline(catalogue, registry)?;
    study::begin(&mut pipeline, registry)?;
    Ok(pipeline)
}

/// Warnings, each once, with the nodes that they are about.
fn by_warning(found: &[(String, Warning)]) -> Vec<(String, &Warning)> {
    let mut grouped: Vec<(&str, &Warning, usize)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (node, warning) in found {
        let place = *places.entry((warning.code, &warning.message)).or_insert(grouped.len());
        match grouped.get_mut(place) {
            Some((.., more)) => *more += 1,
            None => grouped.push((node, warning, 0)),
        }
    }
    let nodes = |node: &str, more: usize| match more {
        0 => node.to_owned(),
        more => format!("{node} and {more} more"),
    };
    grouped.into_iter().map(|(node, warning, more)| (nodes(node, more), warning)).collect()
}

/// What was found in the data, and what a run could not do.
#[derive(Default)]
struct Findings {
    absent: serde_json::Value,
    warnings: Vec<(String, Warning)>,
    notes: Vec<String>,
    /// The exit code of a run that fails for the first reason found.
    code: u8,
}

impl Findings {
    fn fails(&mut self, node: impl ToString, why: &str, hint: Option<&str>, code: u8) {
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        let warning = Warning { code: "will-fail", message: format!("a run will fail: {why}{hint}") };
        self.code = if self.code == exit::DONE { code } else { self.code };
        self.warnings.push((node.to_string(), warning));
    }

    /// Looks ahead: nodes that must fail, and parameters that count only in part.
    fn foresee(&mut self, plan: &Plan, store: &Store) {
        let states = demand(plan, store, &plan.leaves(), &[]);
        let misses: Vec<bool> = states.iter().map(|state| *state == NodeState::Miss).collect();
        let forecast = Forecast::new(plan, store, &misses, 1, allowed());
        let known: BTreeSet<String> =
            self.warnings.iter().filter(|(_, w)| w.code == "will-fail").map(|(n, _)| n.clone()).collect();
        for (id, fault) in forecast.faults() {
            let name = plan.node(id).name.to_string();
            if !known.contains(&name) {
                self.fails(
                    name,
                    &fault.what,
                    fault.hint.as_deref(),
                    if fault.kind == FaultKind::Data { exit::DATA } else { exit::FAILED },
                );
            }
        }
        let notes = forecast.iter().flat_map(|(id, e)| e.notes.iter().map(move |note| (id, note)));
        self.notes.extend(notes.map(|(id, note)| format!("{}: {note}", plan.node(id).name)));
    }
}

/// Plans without digests: they only matter for keys, and no keys are shown here.
fn build(pipeline: &Pipeline, registry: &Registry) -> Result<Plan, Failure> {
    let around = PlanContext {
        registry,
        profile: String::new(),
        device_profile: String::new(),
        machine: String::new(),
        digest: &|path, _| Ok(path.display().to_string()),
    };
    Ok(plan::build(pipeline, &around)?)
}

/// What the parameters alone tell, where data is not to be read or not there.
fn by_parameters(args: &Args, plan: &Plan) -> Result<Findings, Failure> {
    let mut found = Findings::default();
    found.foresee(plan, &args.pipeline.store.look()?);
    Ok(found)
}

/// Checks every graph and its splits whose data is available. `bare` is the plan without digests of data.
fn look(
    args: &Args,
    pipeline: &Pipeline,
    bare: &Plan,
    catalogue: &Catalogue,
    registry: &Registry,
) -> Result<Findings, Failure> {
    let plan = match plan_here(pipeline, registry, args.pipeline.device_request(&pipeline.device), &every_node) {
        Ok(plan) => plan,
        Err(error) if error.is_absence() => {
            error.problems.iter().for_each(|problem| note(&format!("note: {}", problem.message)));
            let absent = error.problems.iter().map(|p| json!({"why": p.message, "remedy": p.help})).collect();
            return Ok(Findings { absent, ..by_parameters(args, bare)? });
        }
        Err(error) => return Err(error.into()),
    };
    for absence in &plan.absent {
        note(&format!("note: {}", absence.what()));
    }
    let store = args.pipeline.store.look()?;
    let mut found = Findings { absent: overview::absent_json(&plan), ..Findings::default() };
    for (node, error) in readiness::prechecks(&plan) {
        found.fails(&node.name, &error.to_string(), error.hint(), readiness::exit_code(&error));
    }
    let all = plan.leaves();
    if let Err(failure) =
        readiness::verify_data(&plan, &demand(&plan, &store, &all, &[]), catalogue, &args.pipeline.data)
    {
        found.fails("files", &failure.message(), failure.hint(), exit::DATA);
    }
    let artifacts = Artifacts::new(&plan, store)?;
    for (id, node) in plan.iter().filter(|(_, n)| graphs::is_graph(n)) {
        let decisions = Decisions::on(&plan, id);
        let manifest = plan.known_data.iter().find(|(known, _)| *known == id).and_then(|(_, name)| catalogue.get(name));
        let published = manifest.and_then(Result::ok).and_then(|manifest| manifest.metric.clone());
        if let Some(warning) = published.and_then(|metric| decisions.unlike(&metric, registry)) {
            found.warnings.push((node.name.to_string(), warning));
        }
        match judged(&plan, id, &artifacts, &decisions, registry) {
            Ok(warnings) => found.warnings.extend(warnings),
            // The temporary store failed, which says nothing about the pipeline.
            Err(failure) if failure.code() == exit::STORE => return Err(failure),
            Err(failure) => found.fails(&node.name, &failure.message(), failure.hint(), failure.code()),
        }
    }
    found.foresee(&plan, artifacts.store());
    Ok(found)
}

/// Warnings about a graph and the splits that the pipeline makes of it.
fn judged(
    plan: &Plan,
    graph: NodeId,
    artifacts: &Artifacts,
    decisions: &Decisions,
    registry: &Registry,
) -> Result<Vec<(String, Warning)>, Failure> {
    let read: Graph = artifacts.get(graph)?;
    let splits = graphs::splits_of(plan, graph).map(|(id, name)| Ok((name, artifacts.get(id)?)));
    let splits: Vec<(String, Splits)> = splits.collect::<Result<_, Failure>>()?;
    // What is made of the classes of a generated graph is worth a look, even if its splits are not.
    let mut found = graphs::found(plan.node(graph), &read, &splits, registry);
    let by_accuracy = decisions.by("accuracy");
    if !by_accuracy.is_empty() {
        let warning = inspect::constant_answer(&read, &by_accuracy.join(", "));
        found.extend(warning.map(|w| (plan.node(graph).name.to_string(), w)));
    }
    Ok(found)
}

/// What decides in the part of a pipeline that stands on a graph: parameters, in words, and the scores that they go by.
struct Decisions(BTreeSet<(String, String)>);

impl Decisions {
    fn on(plan: &Plan, graph: NodeId) -> Self {
        let mut reached = vec![false; plan.nodes.len()];
        let (mut decisions, needed) = (BTreeSet::new(), plan.needed());
        for (id, node) in plan.iter().filter(|(id, _)| needed[id.0]) {
            reached[id.0] = id == graph || node.inputs.iter().any(|edge| reached[edge.node.0]);
            let params = ["select", "stop-on", "metric", "pick"].iter().filter(|_| reached[id.0]);
            for param in params {
                let metric = node.params.all().get(*param).and_then(|value| value.as_str()?.parse::<Metric>().ok());
                let place =
                    if node.stage.output == Trained::KIND { node.stage.name.to_owned() } else { node.name.to_string() };
                decisions.extend(metric.map(|metric| (format!("`{param}` of {place}"), metric.score)));
            }
        }
        Self(decisions)
    }

    /// Returns the parameters that go by a score.
    fn by(&self, score: &str) -> Vec<&str> {
        self.0.iter().filter(|(_, by)| *by == score).map(|(place, _)| place.as_str()).collect()
    }

    /// Warns if nothing in the pipeline goes by the score that the data set's publishers report.
    fn unlike(&self, published: &str, registry: &Registry) -> Option<Warning> {
        if registry.rows::<ScoreDef>().all(|row| row.variant.name != published) {
            let message =
                format!("its manifest names the metric `{published}`, which `ppgnn list metrics` does not have");
            return Some(Warning { code: "publishers-metric", message });
        }
        (!self.0.is_empty() && self.by(published).is_empty()).then(|| Warning {
            code: "publishers-metric",
            message: format!("its publishers report `{published}`, which nothing in the pipeline goes by or shows"),
        })
    }
}
