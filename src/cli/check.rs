//! `ppgnn check`: validates a pipeline without touching data or the store.

use super::failure::Failure;
use super::project::PipelineArgs;
use super::{exit, print, print_json};
use crate::plan::{self, Surroundings};

/// Check pipeline files without computing anything
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let pipeline = args.pipeline.pipeline()?;
    // Digests only matter for keys, and nobody sees the keys here.
    let around = Surroundings {
        stages: ppgnn_stages::STAGES,
        profile: String::new(),
        digest: &|path| Ok(path.display().to_string()),
    };
    let plan = plan::build(&pipeline, &around)?;
    if args.json {
        print_json(&serde_json::json!({
            "version": 1, "pipeline": plan.pipeline, "valid": true,
            "points": pipeline.sweep.points.len(), "nodes": plan.nodes.len(), "tables": plan.tables.len(),
        }))?;
    } else {
        print(&format!(
            "{}: valid; {} points, {} nodes, {} tables\n",
            args.pipeline.file.display(),
            pipeline.sweep.points.len(),
            plan.nodes.len(),
            plan.tables.len()
        ))?;
    }
    Ok(exit::DONE)
}
