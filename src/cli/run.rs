//! `ppgnn run`: computes what is not in the store, and publishes what the pipeline is for.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::device::cuda;
use serde_json::{Value, json};

use super::failure::{Failure, code_of};
use super::interrupt::interruptible;
use super::machine::MachineArgs;
use super::outputs;
use super::project::every_node;
use super::publishing::{self, Place};
use super::stored::Stored;
use super::targets::{self, TargetArgs};
use super::tolerance::ToleranceArgs;
use super::{device, exit, note, overview, permission, print, print_json, readiness, so_far};
use crate::catalogue::Catalogue;
use crate::pipeline::plural;
use crate::plan::{ArtifactKey, NodeId, Output, Plan};
use crate::report::{Failures, JsonLines, Live, Page, Style, Tee, Terminal};
use crate::run::{
    Event, EventSink, FailedNode, FailureKind, NodeState, RunError, RunOptions, RunReport, demand, execute,
};
use crate::store::{Store, StoreError, UnfinishedRun};

/// Compute what is not in the store, publish the tables and print them
///
/// Nodes that are in the store are reused. Independent nodes run in parallel on up to -j cores; with GPUs (--device),
/// each GPU trains one node at a time. A failed node costs its cells of the tables, which say why, unless --fail-fast is
/// given; the exit code says that something failed, and the next run tries only that again. Ctrl-C
/// stops cleanly; finished nodes are kept. Tables are published under <artifacts>/results/<pipeline>/ and printed to stdout.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: TargetArgs,
    /// Show what would run, and run nothing
    #[arg(short = 'n', long, conflicts_with = "fail_outside")]
    dry_run: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// Compute these nodes even if they are in the store; may be repeated
    #[arg(long, value_name = "TARGET")]
    force: Vec<String>,
    /// Stop at the first failure
    #[arg(long, conflicts_with = "keep_going")]
    fail_fast: bool,
    /// Start the commands that the pipeline trains with (`model: command`), in this run
    #[arg(long)]
    allow_commands: bool,
    /// Overwrite results that another file has published under the same name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    /// Continue with everything that does not depend on a failed node (the default)
    #[arg(short = 'k', long)]
    keep_going: bool,
    /// Print one JSON object at the end instead of the tables
    #[arg(long)]
    pub(super) json: bool,
    /// Show a line for every node, including reused ones
    #[arg(short, long)]
    verbose: bool,
    /// Show the tables as they fill in, what runs, and how long the rest will take (the default on a terminal)
    #[arg(long, overrides_with = "no_live")]
    live: bool,
    /// Show lines only, as where there is no terminal
    #[arg(long, overrides_with = "live")]
    no_live: bool,
    /// Show nothing but results and failures
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let pipeline = &args.of.pipeline;
    let catalogue = pipeline.catalogue();
    let plan = match searched(args, registry, &catalogue)? {
        Searched::Done(plan) => *plan,
        Searched::Stopped(code) => return Ok(code),
    };
    let (wanted, force) = (args.of.wanted(&plan)?, plan.with_what_follows(targets::find(&plan, &args.force)?));
    let looked = pipeline.store.look()?;
    if args.dry_run {
        let device = pipeline.device_request(&plan.device);
        return overview::show((&plan, &looked), (&wanted, &force), (&args.machine, device), args.json);
    }
    let gpus = device::gpus(pipeline.device_request(&plan.device), cuda())?;
    let states = demand(&plan, &looked, &wanted, &force);
    let place = Place::of(&plan, pipeline);
    can_end(args, &plan, &looked)?;
    let commands = permission::granted(args.allow_commands, (&plan, &states), pipeline, (&catalogue, registry))?;
    readiness::verify_data(&plan, &states, &catalogue, &pipeline.data)?;
    for absence in plan.absent.iter().filter(|_| !args.quiet) {
        note(&format!("Left out: {}\n    hint: {}", absence.what(), absence.remedy()));
    }
    let computes = states.contains(&NodeState::Miss);
    // From here on something is written.
    let cancel = interruptible();
    let (store, log) = open(args, looked, &plan.pipeline, computes)?;
    let (log_path, log) = log.unzip();
    // Trials were run for it: with the run, they are done as well.
    let tried: Vec<NodeId> = plan.trials.iter().flat_map(|trial| trial.nodes.iter().flatten().copied()).collect();
    let needs = publishing::needs(&plan, &[&wanted[..], &force, &tried].concat());
    let words = args.of.words();
    let begun = UnfinishedRun::new(&plan.pipeline, place.folder.as_deref(), place.file.clone(), words, needs);
    if computes {
        store.begin_run(&begun, &publishing::needs(&plan, &every_node(&plan)))?;
    }
    let options = RunOptions { force, commands, ..options(args, wanted.clone(), gpus, cancel) };
    let json_lines = told(args, log);
    if store.is_writable() {
        plan.searches
            .iter()
            .filter_map(|search| search.out_of_time.as_ref())
            .try_for_each(|end| store.remember_end(end))?;
    }
    // Held until all is published, so that nothing that it needs is deleted in between.
    let _in_use = store.hold()?;
    let report = watched(args, (&plan, registry), &options, &json_lines, &store)?;
    let (plan, partial) = match do_without_failed(&plan, registry, &report, &options, &store) {
        Some((rest, targets)) => {
            let options = RunOptions { targets, force: Vec::new(), ..options.clone() };
            let failures = execute(&rest, &store, &options, &Tee(vec![&json_lines]))?.failures;
            failures.iter().for_each(|f| note(&format!("warning: {}: {}", f.node, f.failure.errors.join(": "))));
            let made = |o: &&Output| options.targets.contains(&o.node);
            let names: Vec<String> = rest.outputs.iter().filter(made).map(|o| o.name.clone()).collect();
            (rest, names)
        }
        None => (plan, Vec::new()),
    };
    let published = publish((&plan, registry), &store, &wanted, &place, args)?;
    if !partial.is_empty() && !args.quiet {
        note(&format!("Made without what failed: {}. The next run tries that again.", partial.join(", ")));
    }
    let of_failures = report.failures.iter().map(|f| code_of(f.failure.kind)).max().unwrap_or(exit::DONE);
    let code = if report.interrupted { exit::INTERRUPTED } else { of_failures };
    if code == exit::DONE && store.is_writable() {
        store.end_run(&begun)?;
    }
    let outside = args.tolerance.outside_of((&plan, &store), &wanted)?;
    // What failed says more than what is far away.
    let far = args.tolerance.failure(&outside).map_or(exit::DONE, |failure| failure.show());
    let code = if code == exit::DONE { far } else { code };
    if args.json {
        let more = json!({
            "tables": published, "partial-tables": partial, "outside": ToleranceArgs::json(&outside),
            "log": log_path.as_ref().map(|path| path.display().to_string()),
        });
        print_report(&plan, &report, more, code)?;
    }
    Ok(code)
}

/// Refuses a run whose results could not be published, or whose tables could not be made, before hours are spent on it.
fn can_end(args: &Args, plan: &Plan, store: &Store) -> Result<(), Failure> {
    // Nodes that a search has not chosen yet cannot be asked for: then all outputs may be wanted.
    let wanted = args.of.wanted(plan).unwrap_or_else(|_| every_node(plan));
    if !args.replace && plan.outputs.iter().any(|output| wanted.contains(&output.node)) {
        Place::of(plan, &args.of.pipeline).must_be_ours(store, plan)?;
    }
    match readiness::prechecks(plan).next() {
        Some((node, error)) => {
            Err(Failure::new(readiness::exit_code(&error), format!("{}: {error}", node.name), error.hint()))
        }
        None => Ok(()),
    }
}

/// How nodes are computed.
fn options(args: &Args, targets: Vec<NodeId>, gpus: Vec<usize>, cancel: &'static AtomicBool) -> RunOptions<'static> {
    let (cores, memory) = (args.machine.cores(), args.machine.memory());
    let (fail_fast, commands) = (args.fail_fast, args.allow_commands);
    RunOptions { targets, cores, gpus, memory, fail_fast, commands, force: Vec::new(), cancel }
}

/// Prints what happened as one JSON object.
fn print_report(plan: &Plan, report: &RunReport, more: Value, code: u8) -> Result<(), Failure> {
    let mut object = json!({"version": 1, "pipeline": plan.pipeline, "profile": plan.profile});
    let fields = serde_json::to_value(report).map_err(|e| Failure::unexpected(e.to_string()))?;
    if let (Some(all), Value::Object(fields), Value::Object(more)) = (object.as_object_mut(), fields, more) {
        all.extend(fields);
        all.extend(more);
        all.insert("absent-data".into(), overview::absent_json(plan));
        all.insert("exit-code".into(), json!(code));
    }
    print_json(&object)
}

/// What came of searches.
enum Searched {
    /// All have ended, and this is the plan with what they chose.
    Done(Box<Plan>),
    /// The run stops here with an exit code.
    Stopped(u8),
}

/// Runs the trials of searches, round by round, until all have ended. A trial that fails costs itself alone.
fn searched(args: &Args, registry: &Registry, catalogue: &Catalogue) -> Result<Searched, Failure> {
    let mut before = Vec::new();
    loop {
        let plan = args.of.plan(catalogue, registry, &args.force)?;
        let searches = args.of.searches(&plan);
        let trials = plan.open_trials(&searches);
        if trials.is_empty() || args.dry_run {
            return Ok(Searched::Done(Box::new(plan)));
        }
        if before.is_empty() {
            can_end(args, &plan, &args.of.pipeline.store.look()?)?;
        }
        let keys: Vec<ArtifactKey> = trials.iter().map(|id| plan.node(*id).key).collect();
        if keys == before {
            return Err(Failure::unexpected("trials of a search have neither results nor failures after they ran"));
        }
        before = keys;
        if !args.quiet {
            let open = searches.iter().filter(|at| !plan.searches[**at].ended).count();
            let (trials, open) = (plural(trials.len(), "trial", "trials"), plural(open, "search", "searches"));
            note(&format!("Search: {trials} of {open}"));
        }
        let (report, log) = round(args, registry, catalogue, (&plan, trials))?;
        let ended = |failed: &FailedNode| failed.failure.kind == FailureKind::Lasting;
        let stops = args.fail_fast && !report.failures.is_empty();
        if report.interrupted || stops || !report.failures.iter().all(ended) {
            let of_failures = report.failures.iter().map(|f| code_of(f.failure.kind)).max().unwrap_or(exit::DONE);
            let code = if report.interrupted { exit::INTERRUPTED } else { of_failures };
            if args.json {
                print_report(&plan, &report, json!({"tables": [], "partial-tables": [], "log": log}), code)?;
            }
            return Ok(Searched::Stopped(code));
        }
    }
}

/// Runs trials, and records those that failed and always will. Returns what happened, and where the log of it is.
fn round(
    args: &Args,
    registry: &Registry,
    catalogue: &Catalogue,
    (plan, targets): (&Plan, Vec<NodeId>),
) -> Result<(RunReport, Option<String>), Failure> {
    let pipeline = &args.of.pipeline;
    let looked = pipeline.store.look()?;
    let gpus = device::gpus(pipeline.device_request(&plan.device), cuda())?;
    let states = demand(plan, &looked, &targets, &[]);
    let commands = permission::granted(args.allow_commands, (plan, &states), pipeline, (catalogue, registry))?;
    readiness::verify_data(plan, &states, catalogue, &pipeline.data)?;
    let cancel = interruptible();
    let (store, log) = open(args, looked, &plan.pipeline, true)?;
    let place = Place::of(plan, pipeline);
    let needs = publishing::needs(plan, &targets);
    let begun = UnfinishedRun::new(&plan.pipeline, place.folder.as_deref(), place.file.clone(), args.of.words(), needs);
    store.begin_run(&begun, &publishing::needs(plan, &every_node(plan)))?;
    let options = RunOptions { commands, ..options(args, targets, gpus, cancel) };
    let (log_path, log) = log.unzip();
    let _in_use = store.hold()?;
    let report = watched(args, (plan, registry), &options, &told(args, log), &store)?;
    for failed in report.failures.iter().filter(|failed| failed.failure.kind == FailureKind::Lasting) {
        store.remember_failure(&failed.key, &failed.failure.errors.join(": "))?;
    }
    Ok((report, log_path.map(|path| path.display().to_string())))
}

/// Computes what is missing, and shows it on stderr: while it happens on a terminal, in lines elsewhere.
fn watched(
    args: &Args,
    (plan, registry): (&Plan, &Registry),
    options: &RunOptions,
    log: &dyn EventSink,
    store: &Store,
) -> Result<RunReport, RunError> {
    let style = Style::for_stderr(args.verbose, args.quiet);
    let terminal = Page::stderr().is_some();
    if args.live && !terminal {
        note("note: stderr is no terminal that lines can be drawn on again; --live does nothing");
    }
    if !terminal || args.no_live || args.quiet {
        return execute(plan, store, options, &Tee(vec![&Terminal::stderr(style), log]));
    }
    let live = Live::stderr(style);
    let wanted = &options.targets;
    let tables = |failed: &Failures| so_far::tables((plan, registry), wanted, &args.of.pipeline.store, failed).ok();
    live.during(tables, || execute(plan, store, options, &Tee(vec![&live, log])))
}

/// Where the events of a run go.
type Log = Box<dyn std::io::Write + Send>;

/// The log of a run, which begins with what was asked for.
fn told(args: &Args, log: Option<File>) -> JsonLines<Log> {
    let log = JsonLines::new(log.map_or_else(|| Box::new(std::io::sink()) as Log, |log| Box::new(log)));
    let pipeline = &args.of.pipeline;
    log.event(&Event::RunAsked {
        file: std::fs::canonicalize(&pipeline.file).ok().and_then(|path| path.to_str().map(str::to_owned)),
        profile: pipeline.profile.clone(),
        set: pipeline.set.clone(),
        device: pipeline.device.as_ref().map(ToString::to_string),
        words: args.of.words(),
    });
    log
}

/// Opens the store and the log of the run. A store that cannot be written to will do where there is nothing to compute: then
/// there is no log.
fn open(
    args: &Args,
    looked: Store,
    pipeline: &str,
    computes: bool,
) -> Result<(Store, Option<(PathBuf, File)>), Failure> {
    let opened = Store::open(&args.of.pipeline.store.artifacts)
        .and_then(|store| Ok((store.create_run_log(pipeline)?, store)))
        .map(|(log, store)| (store, Some(log)));
    match opened {
        Err(error) if error.is_unwritable() && !computes && looked.is_store() => {
            if !args.quiet {
                note(&format!("note: {}", cannot_write(&error)));
            }
            Ok((looked, None))
        }
        opened => Ok(opened?),
    }
}

fn cannot_write(error: &StoreError) -> String {
    let why = crate::run::causes(error).join(": ");
    format!("{why}; everything is there already, nothing is published")
}

/// Returns a plan for what can be made without the nodes that failed, and its targets. A failed run costs its cell, not the
/// table; but where a run was stopped, what is missing has not failed, and neither has a forced one whose result is there.
fn do_without_failed(
    plan: &Plan,
    registry: &Registry,
    report: &RunReport,
    options: &RunOptions,
    store: &Store,
) -> Option<(Plan, Vec<NodeId>)> {
    if options.fail_fast || report.interrupted || report.failed_by(FailureKind::Store) {
        return None;
    }
    let why = |f: &FailedNode| format!("{} failed: {}", f.node, f.failure.errors.first().map_or("", |e| e));
    let stage = |f: &FailedNode| plan.nodes.iter().find(|node| node.key == f.key).map_or("", |node| node.stage.name);
    let lost = report.failures.iter().filter(|f| !store.has(&f.key, stage(f)));
    let rest = plan.without(registry, &lost.map(|f| (f.key, why(f))).collect());
    let targets = outputs::partial(plan, &rest).filter(|id| options.targets.contains(id)).collect::<Vec<_>>();
    (!targets.is_empty()).then_some((rest, targets))
}

/// Prints every requested output that is in the store, and publishes it. Returns the published files.
fn publish(
    (plan, registry): (&Plan, &Registry),
    store: &Store,
    wanted: &[NodeId],
    place: &Place,
    args: &Args,
) -> Result<Vec<String>, Failure> {
    let stored = Stored { plan, store, words: args.of.pipeline.words() };
    let published = if store.is_writable() { place.publish(&stored, wanted) } else { Ok(None) };
    // Shown even where it cannot be published.
    let mut printed = Vec::new();
    for output in plan.outputs.iter().filter(|o| wanted.contains(&o.node) && !args.json) {
        let files = outputs::files(plan, output, store)?.unwrap_or_default();
        printed.extend(outputs::for_people(plan, output, &files, Page::stdout())?);
    }
    print(&printed.join("\n"))?;
    let Some((folder, names)) = published? else { return Ok(Vec::new()) };
    place.renew_report(&stored, &args.of.pipeline, registry)?;
    if !args.quiet {
        note(&format!("Published {} in {}", names.join(", "), folder.display()));
    }
    Ok(names.iter().map(|n| folder.join(n).display().to_string()).collect())
}
