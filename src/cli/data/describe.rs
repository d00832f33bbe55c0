//! `ppgnn data describe`.

use std::fmt::Write as _;
use std::path::PathBuf;

use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::inspect::{self, Bucket, Description, Informativeness, Warning};
use ppgnn_stages::kinds::{Graph, Spectrum};
use serde_json::{Value, json};

use super::{DataContext, exit, note, print_as};
use crate::catalogue::{DataFolder, Manifest};
use crate::cli::artifacts::Artifacts;
use crate::cli::failure::Failure;
use crate::cli::graphs;
use crate::cli::project::{StoreArgs, every_node, plan_here};
use crate::history::Recall;
use crate::pipeline::{DATASET_PARAM, DATASET_STAGE, DeviceRequest, FORMAT, Overrides, Pipeline};
use crate::plan::{Absence, Missing, NodeId, Plan};
use crate::report::{duration_text, measured_text};
use crate::store::Store;

/// Columns of the longest bar.
const BAR: usize = 40;

/// Describe a data set: counts, degrees, homophily, components, features, classes, splits, and warnings
///
/// Beside homophily stands label informativeness: how much the class at one end of an edge tells about the class at the other, with its
/// mean and spread where labels are shuffled.
///
/// The graph is taken from the store if a pipeline has loaded it; otherwise it is read without storing it. If a pipeline
/// has computed eigenpairs of the graph, the ends of the spectrum are shown with their accuracy and cost. Warnings say
/// what to know before trusting a result, with numbers.
#[derive(clap::Args)]
pub struct Args {
    /// Data set: a known one, or with --in one of a pipeline file
    #[arg(value_name = "NAME")]
    name: String,
    /// Pipeline file that has the data set
    #[arg(long = "in", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &DataContext, registry: &Registry) -> Result<u8, Failure> {
    let manifest = match &args.file {
        Some(_) => None,
        None => context.named(std::slice::from_ref(&args.name))?.pop(),
    };
    if let Some(manifest) = &manifest {
        look_for(manifest, context)?;
    }
    let plan = plan(args, context, registry)?;
    let store = args.store.look()?;
    let Some((node, _)) = plan.iter().find(|(_, n)| n.stage.name == DATASET_STAGE) else {
        return Err(Failure::usage("the pipeline has no stage `load`", None));
    };
    let graph: Graph = Artifacts::new(&plan, args.store.look()?)?.get(node)?;
    let description = inspect::describe(&graph);
    let warnings = graphs::warnings(plan.node(node), &graph, graph.masks.as_ref(), registry);
    let spectra = spectra(&plan, node, &store, registry);
    let about = manifest
        .as_ref()
        .map(|m| json!({"title": m.title, "licence": m.licence, "source": m.source, "metric": m.metric}));
    let object = json!({
        "version": 1, "name": args.name, "about": about, "description": description, "spectra": spectra,
        "warnings": warnings,
    });
    let text = text(&args.name, manifest.as_deref(), &description, &spectra, &warnings);
    print_as(context.json, &object, &text)?;
    Ok(exit::DONE)
}

/// Says which files are missing, and which are not what the manifest says.
fn look_for(manifest: &Manifest, context: &DataContext) -> Result<(), Failure> {
    let missing = manifest.loaded().filter(|f| !context.path(manifest, f).is_file()).collect::<Vec<_>>();
    if let Some(first) = missing.first() {
        let (known, by_hand, file) = (manifest.name.clone(), manifest.by_hand(), context.path(manifest, first));
        let absence = Absence { dataset: manifest.name.clone(), missing: Missing::File { known, by_hand, file } };
        let count = format!("{} of {} files are missing", missing.len(), manifest.loaded().count());
        return Err(Failure::new(exit::DATA, format!("{} ({count})", absence.what()), Some(&absence.remedy())));
    }
    for file in manifest.loaded() {
        if let Err(error) = file.verify(&context.path(manifest, file)) {
            note(&format!("warning: {error}; the description below is not of the published data set"));
        }
    }
    Ok(())
}

/// A plan that loads the data set and does nothing else with it.
fn plan(args: &Args, context: &DataContext, registry: &Registry) -> Result<Plan, Failure> {
    let known = DataFolder { catalogue: &context.catalogue, data_dir: &context.dir };
    let pipeline = match &args.file {
        None => {
            let stages = json!({DATASET_STAGE: {"params": {DATASET_PARAM: args.name}}});
            let text = json!({"ppgnn": FORMAT, "name": "describe", "stages": stages}).to_string();
            Pipeline::of_text("<command line>", &text, registry, &known)?
        }
        Some(file) => {
            let plain = Pipeline::load(file, &Overrides::default(), registry, &known)?;
            let stage = plain.stages.iter().find(|s| s.def.name == DATASET_STAGE).map(|s| s.name.name.clone());
            let set = stage.map(|stage| format!("{stage}.{DATASET_PARAM}={}", args.name)).into_iter().collect();
            let overrides = Overrides { profile: None, set };
            let mut pipeline = Pipeline::load(file, &overrides, registry, &known)?;
            pipeline.tables.clear();
            pipeline
        }
    };
    Ok(plan_here(&pipeline, registry, &DeviceRequest::Cpu, &every_node)?)
}

/// What is in the store about eigenpairs of the graph: facts of every decomposition, the most pairs first.
fn spectra(plan: &Plan, load: NodeId, store: &Store, registry: &Registry) -> Vec<Value> {
    let recall = Recall::new(store);
    let key = plan.node(load).key;
    let reads = |m: &crate::store::Manifest, key| m.ingredients.inputs.iter().any(|i| i.key == key);
    let makers = |kind| registry.stages().filter(move |d| d.output == kind).map(|d| d.name);
    let operators = makers(ppgnn_stages::kinds::Operator::KIND).flat_map(|stage| recall.of_stage(stage).to_vec());
    let operators: Vec<_> = operators.filter(|m| reads(m, key)).collect();
    let mut found: Vec<Value> = Vec::new();
    for stage in makers(Spectrum::KIND) {
        for manifest in recall.of_stage(stage).iter() {
            let of = operators.iter().find(|o| reads(manifest, o.key));
            let Some((operator, entry)) = of.zip(store.get(&manifest.key, stage)) else { continue };
            let facts = std::fs::read(entry.dir.join("facts.json")).ok();
            let Some(mut facts) = facts.and_then(|f| serde_json::from_slice::<Value>(&f).ok()) else { continue };
            facts["key"] = json!(manifest.key);
            facts["seconds"] = json!(manifest.seconds);
            facts["threads"] = json!(manifest.threads);
            facts["measured"] = json!(manifest.measured);
            facts["operator"] = json!(operator.ingredients.params);
            found.push(facts);
        }
    }
    found.sort_by_key(|f| std::cmp::Reverse(f["low"]["pairs"].as_u64()));
    found
}

fn text(name: &str, manifest: Option<&Manifest>, d: &Description, spectra: &[Value], warnings: &[Warning]) -> String {
    let mut out = match manifest {
        Some(m) => {
            let metric = m.metric.as_ref().map(|metric| format!("; metric: {metric}")).unwrap_or_default();
            format!("{name}: {}\n{}\nsource: {}; licence: {}{metric}\n\n", m.title, m.about, m.source, m.licence)
        }
        None => format!("{name}\n\n"),
    };
    let c = &d.counts;
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "{what:<22} {value}");
    };
    line("nodes", c.nodes.to_string());
    line("edges", format!("{} undirected, without loops", c.edges_undirected));
    line(
        "  as stored",
        format!(
            "{}: {} distinct, {} of them loops; {} one-way, {} repeated",
            c.edges_stored, c.edges_distinct, c.self_loops, c.edges_one_way, c.edges_duplicate
        ),
    );
    if let Some(w) = &d.weights {
        let value = format!("{} to {}, ignored unless `normalize` has `weights: use`", w.min, w.max);
        line("  weights", value);
    }
    let f = &d.features;
    let kind = if f.binary { "0 or 1".to_owned() } else { format!("{} to {}", f.min, f.max) };
    let form = if f.sparse { "sparse" } else { "dense" };
    let zero = if f.zero_rows > 0 { format!("; {} nodes have none", f.zero_rows) } else { String::new() };
    line("features", format!("{}: {form}, {:.2} % not zero, {kind}{zero}", f.cols, 100.0 * f.density));
    line("classes", format!("{}: {}", c.classes, classes(d)));
    if c.unlabelled_nodes > 0 {
        line("  unlabelled nodes", format!("{} of {}", c.unlabelled_nodes, c.nodes));
    }
    let p = &d.components;
    let parts = format!("{}; the largest has {} nodes, {} are isolated nodes", p.count, p.largest, p.isolated);
    line("connected components", parts);
    let share = |x: Option<f64>| x.map_or("–".to_owned(), |x| format!("{x:.3}"));
    let h = &d.homophily;
    let of = [("edge", h.edge), ("node", h.node), ("class-insensitive", h.class_insensitive), ("adjusted", h.adjusted)];
    line("homophily", of.map(|(by, x)| format!("{by} {}", share(x))).join(", "));
    line("label informativeness", d.label_informativeness.map_or("–".to_owned(), informativeness));
    let t = &d.twins;
    let twins = format!(
        "{} nodes in {} groups with the same label and the same out-edges; `filter: duplicates` removes {}",
        t.nodes, t.groups, t.duplicates
    );
    line("twins", if t.groups == 0 { "none".into() } else { twins });
    match &d.splits {
        None => line("splits", "none".into()),
        Some(s) => {
            let (l, m) = (s.least, s.most);
            let sizes = [(l.train, m.train), (l.val, m.val), (l.test, m.test)].map(|(a, b)| range(a, b)).join(" / ");
            let outside = (m.outside > 0).then(|| format!("; in none: {}", range(l.outside, m.outside)));
            let outside = outside.unwrap_or_default();
            line("splits", format!("{}: {sizes} to train / validate / test{outside}", s.sizes.len()));
        }
    }
    for (what, value) in spectra.iter().flat_map(spectrum_lines) {
        line(what, value);
    }
    if spectra.is_empty() {
        line("eigenvalues", "none in the store".into());
    }
    let g = &d.degrees;
    line("degrees", format!("{} to {}, median {}, mean {:.1}", g.min, g.max, g.median, g.mean));
    out.push_str(&histogram(&g.histogram));
    for warning in warnings {
        let _ = writeln!(out, "\nwarning: {} [{}]", warning.message, warning.code);
    }
    out
}

/// `0.1923; shuffled labels have 0.0164 ± 0.0081 (100 shuffles)`.
fn informativeness(i: Informativeness) -> String {
    format!("{:.4}; shuffled labels have {:.4} ± {:.4} ({} shuffles)", i.edge, i.shuffled, i.spread, i.shuffles)
}

/// What a decomposition holds, its accuracy and its cost.
fn spectrum_lines(s: &Value) -> [(&'static str, String); 3] {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let end = |side: &str| {
        let side = &s[side];
        format!("{} from {:.6} to {:.6}", side["pairs"], number(&side["from"]), number(&side["to"]))
    };
    let loops = if s["operator"]["self-loops"] == json!(false) { ", without self-loops" } else { "" };
    let loops = if s["operator"]["weights"] == json!("use") { format!("{loops}, weighted") } else { loops.to_owned() };
    let (residual, overlap) = (number(&s["worst-residual"]), number(&s["worst-overlap"]));
    let mut cost = format!("in {}; threads {}", duration_text(number(&s["seconds"])), s["threads"]);
    for name in ["products", "memory"] {
        if let Some(value) = s["measured"][name].as_f64() {
            let _ = write!(cost, ", {}", measured_text(name, value));
        }
    }
    [
        ("eigenvalues", format!("low {}; high {}{loops}", end("low"), end("high"))),
        ("  quality", format!("worst residual {residual:.1e}, worst overlap {overlap:.1e}")),
        ("  computed", cost),
    ]
}

fn histogram(buckets: &[Bucket]) -> String {
    let most = buckets.iter().map(|b| b.nodes).max().unwrap_or(0).max(1);
    let mut out = String::new();
    for b in buckets {
        let range = range(b.from, b.to);
        let bar = "█".repeat((b.nodes * BAR).div_ceil(most));
        let line = format!("  {range:>12} {:>8} {bar}", b.nodes);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// `3`, `3–7`.
fn range(from: usize, to: usize) -> String {
    if from == to { from.to_string() } else { format!("{from}–{to}") }
}

/// `456, 460` or, where classes have names, `cat (456), dog (460)`.
fn classes(d: &Description) -> String {
    const MOST: usize = 20;
    // A name is the publisher's and may hold anything; a terminal must not obey it.
    let plain = |name: &str| name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>();
    let word = |(class, size): (usize, &usize)| match d.class_names.get(class) {
        Some(name) => format!("{} ({size})", plain(name)),
        None => size.to_string(),
    };
    let mut words: Vec<String> = d.class_sizes.iter().enumerate().take(MOST).map(word).collect();
    if d.class_sizes.len() > MOST {
        words.push(format!("… ({} more)", d.class_sizes.len() - MOST));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spectrum_is_shown_with_its_quality_and_cost() {
        let mut facts = json!({
            "low": {"pairs": 3, "from": 1.0, "to": 0.5}, "high": {"pairs": 2, "from": -0.5, "to": -1.0},
            "worst-residual": 1.24e-9, "worst-overlap": 3e-15, "operator": {"self-loops": false},
            "seconds": 75.0, "threads": 2, "measured": {"memory": 1.5e9, "products": 1234.0, "other": 1.0},
        });
        let lines = spectrum_lines(&facts).map(|(what, value)| format!("{what}: {value}"));
        assert_eq!(
            lines,
            [
                "eigenvalues: low 3 from 1.000000 to 0.500000; high 2 from -0.500000 to -1.000000, without self-loops",
                "  quality: worst residual 1.2e-9, worst overlap 3.0e-15",
                "  computed: in 1 m 15 s; threads 2, products 1234, memory 1.5 GB",
            ]
        );
        facts["measured"] = json!({});
        assert_eq!(spectrum_lines(&facts)[2].1, "in 1 m 15 s; threads 2");
    }
}
