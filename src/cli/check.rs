//! `ppgnn check`: validates a pipeline without touching data or the store.

use super::failure::Failure;
use super::project::PipelineArgs;
use super::{exit, print, print_json};
use crate::pipeline::Pipeline;
use crate::plan::{self, Plan, Surroundings};

/// Check pipeline files without computing anything
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let pipeline = args.pipeline.pipeline()?;
    let plan = build(&pipeline)?;
    // A profile that nobody has asked for yet should not be found broken on the day that somebody does.
    if args.pipeline.profile.is_none() {
        for profile in &pipeline.profiles {
            let with = PipelineArgs { profile: Some(profile.clone()), ..args.pipeline.clone() };
            build(&with.pipeline()?)?;
        }
    }
    let (points, nodes, tables) = (pipeline.sweep.points.len(), plan.nodes.len(), plan.tables.len());
    if args.json {
        print_json(&serde_json::json!({
            "version": 1, "pipeline": plan.pipeline, "valid": true, "points": points, "nodes": nodes, "tables": tables,
        }))?;
    } else {
        let file = args.pipeline.file.display();
        print(&format!("{file}: valid; points: {points}, nodes: {nodes}, tables: {tables}\n"))?;
    }
    Ok(exit::DONE)
}

/// Plans without digests: they only matter for keys, and nobody sees the keys here.
fn build(pipeline: &Pipeline) -> Result<Plan, Failure> {
    let around = Surroundings {
        stages: ppgnn_stages::STAGES,
        profile: String::new(),
        digest: &|path| Ok(path.display().to_string()),
    };
    Ok(plan::build(pipeline, &around)?)
}
