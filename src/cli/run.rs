//! `ppgnn run`: computes what is not in the store, and publishes what the pipeline is for.

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::device::cuda;
use serde_json::json;

use super::failure::{Failure, code_of};
use super::interrupt::interruptible;
use super::outputs::{self, OutputFile};
use super::project::PipelineArgs;
use super::stored::Stored;
use super::targets::{self, TargetArgs};
use super::{device, exit, note, overview, print, print_json, readiness, runs};
use crate::plan::{NodeId, Plan, file_name};
use crate::report::{JsonLines, Style, Tee, Terminal};
use crate::run::{RunOptions, execute};
use crate::store::{ArtifactRef, PublishedOutput, PublishedRun, Source, Store};

/// Compute what is not in the store, publish the tables and print them
///
/// Nodes that are in the store are reused. Independent nodes run in parallel on up to -j cores; with GPUs (--device),
/// each GPU trains one node at a time. A failed node stops only what depends on it, unless --fail-fast is given. Ctrl-C
/// stops cleanly; finished nodes are kept. Tables are published under <artifacts>/results/<pipeline>/ and printed to stdout.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: TargetArgs,
    /// Show what would run, and run nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Number of cores to use (default: all)
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Compute these nodes even if they are in the store; may be repeated
    #[arg(long, value_name = "TARGET")]
    force: Vec<String>,
    /// Stop at the first failure
    #[arg(long, conflicts_with = "keep_going")]
    fail_fast: bool,
    /// Continue with everything that does not depend on a failed node (the default)
    #[arg(short = 'k', long)]
    keep_going: bool,
    /// Print one JSON object at the end instead of the tables
    #[arg(long)]
    pub(super) json: bool,
    /// Show a line for every node, including reused ones
    #[arg(short, long)]
    verbose: bool,
    /// Show nothing but results and failures
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let pipeline = &args.of.pipeline;
    let catalogue = pipeline.catalogue();
    let plan = pipeline.plan_with(&catalogue, registry)?;
    let (wanted, force) = (args.of.wanted(&plan)?, targets::find(&plan, &args.force)?);
    if args.dry_run {
        return overview::show(&plan, &pipeline.store.look()?, &wanted, &force, args.json);
    }
    let gpus = device::gpus(pipeline.device_request(&plan.device), cuda())?;
    let store = pipeline.store.open()?;
    readiness::verify_data(&plan, &store, (&wanted, &force), &catalogue, &pipeline.data)?;
    if let Some((node, error)) = readiness::prechecks(&plan).next() {
        return Err(Failure::new(exit::DATA, format!("{}: {error}", node.name), error.hint()));
    }
    for absence in plan.absent.iter().filter(|_| !args.quiet) {
        note(&format!("Left out: {}\n    hint: {}", absence.what(), absence.remedy()));
    }
    let (log_path, log) = store.create_run_log(&plan.pipeline)?;
    let machine = std::thread::available_parallelism().map_or(1, usize::from);
    let cancel = interruptible();
    let options = RunOptions {
        targets: wanted.clone(),
        cores: args.jobs.map_or(machine, usize::from),
        gpus,
        fail_fast: args.fail_fast,
        force,
        cancel,
    };
    let terminal = Terminal::stderr(Style::for_stderr(args.verbose, args.quiet));
    let json_lines = JsonLines::new(log);
    // Held until all is published, so that nothing that it needs is deleted in between.
    let _in_use = store.hold()?;
    let report = execute(&plan, &store, &options, &Tee(vec![&terminal, &json_lines]))?;
    let published = publish(&plan, &store, &wanted, args)?;
    let of_failures = report.failures.iter().map(|f| code_of(f.failure.kind)).max().unwrap_or(exit::DONE);
    let code = if report.interrupted { exit::INTERRUPTED } else { of_failures };
    if args.json {
        let mut object = json!({"version": 1, "pipeline": plan.pipeline, "profile": plan.profile});
        let fields = serde_json::to_value(&report).map_err(|e| Failure::unexpected(e.to_string()))?;
        if let (Some(all), serde_json::Value::Object(fields)) = (object.as_object_mut(), fields) {
            all.extend(fields);
            all.insert("tables".into(), json!(published));
            all.insert("absent-data".into(), overview::absent_json(&plan));
            all.insert("log".into(), json!(log_path));
            all.insert("exit-code".into(), json!(code));
        }
        print_json(&object)?;
    }
    Ok(code)
}

/// Publishes every requested output that is in the store, and prints Markdown. Returns the published files.
fn publish(plan: &Plan, store: &Store, wanted: &[NodeId], args: &Args) -> Result<Vec<String>, Failure> {
    let overrides = overrides(plan, &args.of.pipeline);
    let folder = beside(plan, &overrides);
    let mut run = PublishedRun { overrides, ..PublishedRun::default() };
    let stored = Stored { plan, store, words: args.of.pipeline.words() };
    let mut printed = Vec::new();
    for output in plan.outputs.iter().filter(|o| wanted.contains(&o.node)) {
        let Some(files) = outputs::files(plan, output, store)? else { continue };
        let markdown = files.iter().filter(|f| f.ending == "md" && !args.json);
        printed.extend(markdown.map(OutputFile::text).collect::<Result<Vec<_>, _>>()?);
        let files = files.into_iter().map(|f| (f.ending, Source::Artifact(f.path)));
        let files = files.chain(runs::files(&stored, output.node)?);
        let files = files.map(|(ending, source)| (format!("{}.{ending}", output.name), source)).collect();
        let behind = plan.ancestors(&[output.node]);
        let needs = plan.iter().filter(|(id, _)| behind[id.0]).map(|(_, n)| ArtifactRef::new(n.stage.name, n.key));
        run.outputs.push(PublishedOutput {
            name: output.name.clone(),
            key: plan.node(output.node).key,
            needs: needs.collect(),
            files,
        });
    }
    if run.outputs.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = run.outputs.iter().flat_map(|o| o.files.iter().map(|(name, _)| name.clone())).collect();
    let folder = store.publish(&plan.pipeline, folder.as_deref(), run)?;
    print(&printed.join("\n"))?;
    if !args.quiet {
        note(&format!("Published {} in {}", names.join(", "), folder.display()));
    }
    Ok(names.iter().map(|n| folder.join(n).display().to_string()).collect())
}

/// What the command line changes in the results: a device with another backend than the file's, and `--set` options.
fn overrides(plan: &Plan, args: &PipelineArgs) -> Vec<String> {
    let [asked, of_file] = [args.device_request(&plan.device), &plan.device].map(|d| device::backend(d, cuda()));
    let device = (asked != of_file).then(|| format!("device={asked}"));
    device.into_iter().chain(args.set.iter().cloned()).collect()
}

/// The folder beside the pipeline's own results for a run that was changed on the command line: named by profile and
/// overrides, so that it never replaces the results of the unchanged file.
fn beside(plan: &Plan, overrides: &[String]) -> Option<String> {
    let mut words = plan.profile.iter().chain(overrides).map(String::as_str).peekable();
    words.peek()?;
    Some(file_name(words, ","))
}
