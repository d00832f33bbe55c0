//! `ppgnn check`: validates a pipeline, and warns about problems in its data that would distort results.

use std::collections::BTreeSet;

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::inspect::{self, Warning};
use ppgnn_stages::kinds::{Graph, Metric, ScoreDef, Splits, Trained};
use serde_json::json;

use super::artifacts::Artifacts;
use super::failure::Failure;
use super::project::{PipelineArgs, every_node, plan_here};
use super::{exit, note, overview, print, print_json, readiness};
use crate::catalogue::Catalogue;
use crate::forecast::{Fault, Forecast, allowed};
use crate::pipeline::Pipeline;
use crate::plan::{self, Node, NodeId, Plan, PlanContext};
use crate::run::{NodeState, demand};

/// Check pipeline files without training anything
///
/// The pipeline and all its profiles are validated. If its data is available locally, graphs and splits are checked as
/// well, with warnings about what may distort results: copies of test nodes among the training nodes, classes without
/// training nodes, unlabelled nodes in a part, edges stored in one direction. Warnings do not change the exit
/// code, but what must fail does: parameters that do not fit the graph, or nodes that do not fit into the memory (3),
/// and data that a run could not read (4).
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
    let pipeline = args.pipeline.pipeline(&catalogue, registry)?;
    let plan = build(&pipeline, registry)?;
    // A broken profile should be found now, not when it is first used.
    if args.pipeline.profile.is_none() {
        for profile in &pipeline.profiles {
            let with = PipelineArgs { profile: Some(profile.clone()), ..args.pipeline.clone() };
            build(&with.pipeline(&catalogue, registry)?, registry)?;
        }
    }
    let Findings { absent, warnings: found, code } =
        if args.no_data { Findings::default() } else { look(args, &pipeline, &catalogue, registry)? };
    let valid = code != exit::INVALID;
    let (points, nodes, tables) = (pipeline.sweep.points.len(), plan.nodes.len(), pipeline.tables.len());
    if args.json {
        let warnings: Vec<_> =
            found.iter().map(|(node, w)| json!({"node": node, "code": w.code, "message": w.message})).collect();
        print_json(&json!({
            "version": 1, "pipeline": plan.pipeline, "valid": valid, "points": points, "nodes": nodes, "tables": tables,
            "absent-data": absent, "warnings": warnings, "exit-code": code,
        }))?;
    } else {
        let file = args.pipeline.file.display();
        let verdict = if valid { "valid" } else { "cannot run as a whole" };
        print(&format!("{file}: {verdict}; points: {points}, nodes: {nodes}, tables: {tables}\n"))?;
        for (node, warning) in &found {
            note(&format!("warning: {node}: {} [{}]", warning.message, warning.code));
        }
    }
    Ok(code)
}

/// Problems found in the data.
#[derive(Default)]
struct Findings {
    absent: serde_json::Value,
    warnings: Vec<(String, Warning)>,
    /// The exit code: what a run would fail by.
    code: u8,
}

impl Findings {
    fn fails(&mut self, node: impl ToString, why: &str) {
        let message = format!("a run will fail: {why}");
        self.code = if self.code == exit::INVALID { self.code } else { exit::DATA };
        self.warnings.push((node.to_string(), Warning { code: "will-fail", message }));
    }

    /// Enters what must fail by sizes, once for all nodes that it is true of.
    fn refuse(&mut self, plan: &Plan, forecast: &Forecast) {
        let mut refused: Vec<(&Fault, Vec<NodeId>)> = Vec::new();
        for (id, fault) in forecast.iter().filter_map(|(id, expected)| Some((id, expected.fault.as_ref()?))) {
            match refused.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, nodes)) => nodes.push(id),
                None => refused.push((fault, vec![id])),
            }
        }
        for (fault, nodes) in refused {
            let others = if nodes.len() > 1 { format!(" (and {} more nodes)", nodes.len() - 1) } else { String::new() };
            let hint = fault.hint.iter().map(|hint| format!("\n    hint: {hint}")).collect::<String>();
            self.fails(format!("{}{others}", plan.node(nodes[0]).name), &format!("{}{hint}", fault.what));
            self.code = if fault.data { self.code } else { exit::INVALID };
        }
    }
}

/// Plans without digests: they only matter for keys, and no keys are shown here.
fn build(pipeline: &Pipeline, registry: &Registry) -> Result<Plan, Failure> {
    let around = PlanContext {
        registry,
        profile: String::new(),
        device_profile: String::new(),
        digest: &|path, _| Ok(path.display().to_string()),
    };
    Ok(plan::build(pipeline, &around)?)
}

/// Checks every graph and its splits whose data is available.
fn look(args: &Args, pipeline: &Pipeline, catalogue: &Catalogue, registry: &Registry) -> Result<Findings, Failure> {
    let plan = match plan_here(pipeline, registry, args.pipeline.device_request(&pipeline.device), &every_node) {
        Ok(plan) => plan,
        Err(error) if error.is_data() => {
            error.problems.iter().for_each(|problem| note(&format!("note: {}", problem.message)));
            let absent = error.problems.iter().map(|p| json!({"why": p.message, "remedy": p.help})).collect();
            return Ok(Findings { absent, ..Findings::default() });
        }
        Err(error) => return Err(error.into()),
    };
    for absence in &plan.absent {
        note(&format!("note: {}", absence.what()));
    }
    let store = args.pipeline.store.look()?;
    let mut found = Findings { absent: overview::absent_json(&plan), ..Findings::default() };
    for (node, error) in readiness::prechecks(&plan) {
        found.fails(&node.name, &error.to_string());
    }
    let states = demand(&plan, &store, &plan.leaves(), &[]);
    if let Err(failure) = readiness::verify_data(&plan, &states, catalogue, &args.pipeline.data) {
        found.fails("files", &failure.message());
    }
    let misses: Vec<bool> = states.iter().map(|state| *state == NodeState::Miss).collect();
    found.refuse(&plan, &Forecast::new(&plan, &store, &misses, 1, allowed()));
    let artifacts = Artifacts::new(&plan, store)?;
    for (id, node) in plan.iter().filter(|(_, n)| n.stage.output == Graph::KIND) {
        let decisions = Decisions::on(&plan, id);
        let manifest = plan.known_data.iter().find(|(known, _)| *known == id).and_then(|(_, name)| catalogue.get(name));
        let published = manifest.and_then(Result::ok).and_then(|manifest| manifest.metric.clone());
        if let Some(warning) = published.and_then(|metric| decisions.unlike(&metric, registry)) {
            found.warnings.push((node.name.to_string(), warning));
        }
        match judged(&plan, id, &artifacts, &decisions) {
            Ok(warnings) => found.warnings.extend(warnings),
            // The temporary store failed, which says nothing about the pipeline.
            Err(failure) if failure.code() == exit::STORE => return Err(failure),
            Err(failure) => found.fails(&node.name, &failure.message()),
        }
    }
    Ok(found)
}

/// Warnings about a graph and the splits that the pipeline makes of it.
fn judged(
    plan: &Plan,
    graph: NodeId,
    artifacts: &Artifacts,
    decisions: &Decisions,
) -> Result<Vec<(String, Warning)>, Failure> {
    let read: Graph = artifacts.get(graph)?;
    let divides = |n: &Node| n.stage.output == Splits::KIND && n.inputs.iter().any(|e| e.node == graph);
    let mut found: Vec<(String, Warning)> = Vec::new();
    // A generated graph is as its parameters say; what is made of its classes is worth a look.
    let is_file = plan.node(graph).params.files().next().is_some();
    for (id, node) in plan.iter().filter(|(_, n)| is_file && divides(n)) {
        let splits: Splits = artifacts.get(id)?;
        found.extend(inspect::warnings(&read, Some(&splits)).into_iter().map(|w| (node.name.to_string(), w)));
    }
    if is_file && found.is_empty() {
        found.extend(inspect::warnings(&read, None).into_iter().map(|w| (plan.node(graph).name.to_string(), w)));
    }
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
        let mut decisions = BTreeSet::new();
        for (id, node) in plan.iter() {
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
