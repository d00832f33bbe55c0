//! `ppgnn plan`: shows every node, whether it is in the store, and if not, why.

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::overview;
use super::targets::TargetArgs;

/// Show what a run would compute, reuse, and why
///
/// Every node is a `hit` (in the store), a `miss` (to be computed) or `absent` (not in the store, and not needed by
/// anything that has to be computed). Nothing is computed and nothing is written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: TargetArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.of.pipeline.plan(registry)?;
    overview::show(&plan, &args.of.pipeline.store.look()?, &args.of.wanted(&plan)?, &[], args.json)
}
