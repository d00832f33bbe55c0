//! `ppgnn run`: computes what is not in the store, publishes the tables and prints them.

use std::sync::atomic::{AtomicBool, Ordering};

use ppgnn_stages::contract::Registry;
use serde_json::json;

use super::failure::Failure;
use super::project::{PipelineArgs, StoreArgs};
use super::table::{self, Format};
use super::{device, exit, note, plan as plan_command, print, print_json, targets};
use crate::plan::{NodeId, Plan};
use crate::report::{JsonLines, Style, Tee, Terminal};
use crate::run::{FailureKind, NodeState, RunOptions, RunReport, demand, execute};
use crate::store::{ArtifactRef, PublishedRun, PublishedTable, Store};

/// Compute what is not there yet, publish the tables and print them
///
/// Nodes that are in the store are reused. Independent nodes run side by side within the budget of -j cores; with cards
/// (--device), each takes one training at a time. A node
/// that fails stops only what depends on it, unless --fail-fast is given. Ctrl-C stops cleanly; what has finished is
/// kept. Tables are published under <artifacts>/results/<pipeline>/ and printed to stdout.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Nodes, stages or tables to compute (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Show what would run, and run nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Cores to use (default: all of the machine)
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Compute these nodes even if they are in the store; may be repeated
    #[arg(long, value_name = "TARGET")]
    force: Vec<String>,
    /// Stop at the first failure
    #[arg(long, conflicts_with = "keep_going")]
    fail_fast: bool,
    /// Go on with whatever does not depend on a failed node (the default)
    #[arg(short = 'k', long)]
    keep_going: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object at the end in place of the tables
    #[arg(long)]
    pub(super) json: bool,
    /// Show a line for every node, reused ones too
    #[arg(short, long)]
    verbose: bool,
    /// Show nothing but results and failures
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let wanted = if args.targets.is_empty() { plan.leaves() } else { targets::find(&plan, &args.targets)? };
    let force = if args.force.is_empty() { Vec::new() } else { targets::find(&plan, &args.force)? };
    if args.dry_run {
        return plan_command::show(&plan, &args.store.look()?, &wanted, &force, args.json);
    }
    let cards = device::cards(args.pipeline.wish(&plan.device))?;
    let store = args.store.open()?;
    verify_data(&plan, &store, &wanted, &force, &args.pipeline)?;
    check_references(&plan)?;
    for absence in plan.absent.iter().filter(|_| !args.quiet) {
        note(&format!("Left out: {}\n    hint: {}", absence.what(), absence.remedy()));
    }
    let (log_path, log) = store.create_run_log(&plan.pipeline)?;
    let machine = std::thread::available_parallelism().map_or(1, usize::from);
    let cancel = interruptible();
    let options = RunOptions {
        targets: wanted.clone(),
        cores: args.jobs.map_or(machine, usize::from),
        cards,
        fail_fast: args.fail_fast,
        force,
        cancel,
    };
    let terminal = Terminal::stderr(Style::for_stderr(args.verbose, args.quiet));
    let json_lines = JsonLines::new(log);
    // Held until the tables are published, so that nothing they need is deleted in between.
    let _in_use = store.hold()?;
    let report = execute(&plan, &store, &options, &Tee(vec![&terminal, &json_lines]))?;
    let published = publish(&plan, &store, &wanted, args)?;
    let code = exit_code(&report);
    if args.json {
        let mut object = json!({"version": 1, "pipeline": plan.pipeline, "profile": plan.profile});
        let fields = serde_json::to_value(&report).map_err(|e| Failure::unexpected(e.to_string()))?;
        if let (Some(all), serde_json::Value::Object(fields)) = (object.as_object_mut(), fields) {
            all.extend(fields);
            all.insert("tables".into(), json!(published));
            all.insert("absent-data".into(), plan_command::absent_json(&plan));
            all.insert("log".into(), json!(log_path));
            all.insert("exit-code".into(), json!(code));
        }
        print_json(&object)?;
    }
    Ok(code)
}

/// Compares the files of known data sets with their digests, where they are about to be read. What is in the store was
/// read from files that were right.
pub(super) fn verify_data(
    plan: &Plan,
    store: &Store,
    wanted: &[NodeId],
    force: &[NodeId],
    pipeline: &PipelineArgs,
) -> Result<(), Failure> {
    let states = demand(plan, store, wanted, force);
    let catalogue = pipeline.data.catalogue(Some(&pipeline.file));
    let mut wrong: Vec<String> = Vec::new();
    let read = plan.known_data.iter().filter(|(id, _)| states.get(id.0) == Some(&NodeState::Miss));
    let names: std::collections::BTreeSet<&String> = read.map(|(_, name)| name).collect();
    for name in names {
        let Some(manifest) = catalogue.get(name) else { continue };
        let manifest = manifest?;
        let root = manifest.root(&pipeline.data.data_dir);
        for file in &manifest.files {
            if let Err(error) = file.verify(&root.join(&file.path)) {
                wrong.push(format!("{name}: {error}"));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let hint =
        "`ppgnn data fetch` replaces files that are wrong; a pipeline of your own can name them under `datasets`";
    Err(Failure::new(exit::DATA, wrong.join("\nerror: "), Some(hint)))
}

/// Reads the published values of every table before anything is trained for it.
pub(super) fn check_references(plan: &Plan) -> Result<(), Failure> {
    for table in &plan.tables {
        let read = ppgnn_stages::tabulate::check_reference(plan.node(table.node).params.all());
        read.map_err(|e| Failure::new(exit::DATA, format!("table `{}`: {e}", table.name), e.hint()))?;
    }
    Ok(())
}

/// Publishes and prints every table that was asked for and is in the store. Returns the published files.
fn publish(plan: &Plan, store: &Store, wanted: &[NodeId], args: &Args) -> Result<Vec<String>, Failure> {
    let overrides = overrides(plan, &args.pipeline);
    let folder = beside(plan, &overrides);
    let mut run = PublishedRun { overrides, ..PublishedRun::default() };
    let mut printed = Vec::new();
    for named in plan.tables.iter().filter(|t| wanted.contains(&t.node)) {
        let node = plan.node(named.node);
        if !store.has(&node.key, node.stage.name) {
            continue;
        }
        let Some(read) = table::read(plan, named, store)? else { continue };
        let formats = [("md", Format::Md), ("tex", Format::Tex), ("csv", Format::Csv), ("json", Format::Json)];
        let files: Result<Vec<_>, Failure> = formats
            .into_iter()
            .map(|(ending, format)| Ok((format!("{}.{ending}", named.name), format.write(&read)?.into_bytes())))
            .collect();
        let behind = plan.ancestors(&[named.node]);
        let needs =
            plan.iter().filter(|(id, _)| behind[id.0]).map(|(_, n)| ArtifactRef::new(n.stage.name, n.key)).collect();
        run.tables.push(PublishedTable { name: named.name.clone(), key: node.key, needs, files: files? });
        printed.push(Format::Md.write(&read)?);
    }
    if run.tables.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = run.tables.iter().flat_map(|t| t.files.iter().map(|(name, _)| name.clone())).collect();
    let folder = store.publish(&plan.pipeline, folder.as_deref(), run)?;
    if !args.json {
        print(&printed.join("\n"))?;
    }
    if !args.quiet {
        note(&format!("Published {} in {}", names.join(", "), folder.display()));
    }
    Ok(names.iter().map(|n| folder.join(n).display().to_string()).collect())
}

/// What the command line changes in the results: a device that computes otherwise than the file's, and `--set` options.
fn overrides(plan: &Plan, args: &PipelineArgs) -> Vec<String> {
    let (asked, of_file) = (device::backend(args.wish(&plan.device)), device::backend(&plan.device));
    let device = (asked != of_file).then(|| format!("device={asked}"));
    device.into_iter().chain(args.set.iter().cloned()).collect()
}

/// The folder beside the pipeline's own results for a run that was changed on the command line: named by profile and
/// overrides, so that it never takes the place of what the file alone gives.
fn beside(plan: &Plan, overrides: &[String]) -> Option<String> {
    let words: Vec<&str> = plan.profile.iter().chain(overrides).map(String::as_str).collect();
    if words.is_empty() {
        return None;
    }
    let fine = |c: char| if c.is_alphanumeric() || "-_.=+".contains(c) { c } else { '_' };
    let whole = words.join(",");
    let name: String = words.iter().map(|w| w.chars().map(fine).collect::<String>()).collect::<Vec<_>>().join(",");
    if name.len() <= 80 && !name.starts_with('.') {
        return Some(name);
    }
    let short: String = name.trim_start_matches('.').chars().take(60).collect();
    Some(format!("{short}-{}", &blake3::hash(whole.as_bytes()).to_hex()[..8]))
}

fn exit_code(report: &RunReport) -> u8 {
    if report.interrupted {
        return exit::INTERRUPTED;
    }
    if report.failed_by(FailureKind::Store) {
        return exit::STORE;
    }
    let data_only = report.failures.iter().all(|f| f.failure.kind == FailureKind::Data);
    match (report.failures.is_empty(), data_only) {
        (true, _) => exit::DONE,
        (false, true) => exit::DATA,
        (false, false) => exit::FAILED,
    }
}

/// Set by the first Ctrl-C or termination signal; the second one ends the process at once.
pub(super) fn interruptible() -> &'static AtomicBool {
    static CANCEL: AtomicBool = AtomicBool::new(false);
    let installed = ctrlc::set_handler(|| {
        if CANCEL.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
    });
    if let Err(error) = installed {
        tracing::warn!("signals are not handled: {error}");
    }
    &CANCEL
}
