//! `ppgnn plan`: shows every node, whether it is in the store, and if not, why.

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::project::{PipelineArgs, StoreArgs};
use super::{overview, targets};

/// Show what a run would compute, reuse, and why
///
/// Every node is a `hit` (in the store), a `miss` (to be computed) or `absent` (not in the store, and not needed by
/// anything that has to be computed). Nothing is computed and nothing is written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Nodes, stages or tables to plan for (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let store = args.store.look()?;
    let wanted = if args.targets.is_empty() { plan.leaves() } else { targets::find(&plan, &args.targets)? };
    overview::show(&plan, &store, &wanted, &[], args.json)
}
