//! `ppgnn report`: everything that is known of a pipeline's results, as one HTML file.

use std::path::PathBuf;

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::project::PipelineArgs;
use super::publishing::Place;
use super::reporting::Reporting;
use super::stored::Stored;
use super::{exit, print};

/// Write a report of a pipeline's results as one HTML file
///
/// Tables with what is behind every cell, figures, searches, data sets with their warnings, settings, the graph of stages, versions and
/// commands. The file needs no network and no other file. Nothing is computed: what is not in the store yet is said to be missing.
/// `run` writes the same report beside the tables.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Where to write it (default: report.html beside the published tables; `-` for stdout)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let looked = args.pipeline.store.look()?;
    let stored = Stored { plan: &plan, store: &looked, words: args.pipeline.words() };
    let reporting = Reporting::new(&stored, &args.pipeline, registry);
    let html = reporting.report()?.html();
    match &args.output {
        Some(path) if path.as_os_str() == "-" => print(&html)?,
        Some(path) => {
            let cannot = |e| Failure::usage(format!("cannot write `{}`: {e}", path.display()), None);
            std::fs::write(path, html).map_err(cannot)?;
            print(&format!("{}\n", path.display()))?;
        }
        None => {
            let path = Place::of(&plan, &args.pipeline).put_report(&args.pipeline.store.open()?, &plan, html)?;
            print(&format!("{}\n", path.display()))?;
        }
    }
    Ok(exit::DONE)
}
