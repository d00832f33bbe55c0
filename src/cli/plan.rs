//! `ppgnn plan`: shows every node, whether it is in the store, and if not, why.

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::machine::MachineArgs;
use super::overview;
use super::targets::TargetArgs;

/// Show what a run would compute, reuse, and why
///
/// Every node is a `hit` (in the store), a `miss` (to be computed) or `absent` (not in the store, and not needed by
/// anything that has to be computed). Times are for the cores given, learned from what ran on this machine before; a time
/// with `?` is a guess. What is known to fail, and parameters that count only in part, stand below. Nothing is computed and
/// nothing is written.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: TargetArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let pipeline = &args.of.pipeline;
    let (plan, store) = (args.of.plan(&pipeline.catalogue(), registry, &[])?, pipeline.store.look()?);
    let device = pipeline.device_request(&plan.device);
    overview::show((&plan, &store), (&args.of.wanted(&plan)?, &[]), (&args.machine, device), args.json)
}
