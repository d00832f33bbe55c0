//! `ppgnn completions`: prints a completion script for a shell.

use clap::CommandFactory;

use super::failure::Failure;
use super::{Cli, exit, print};

/// Print a completion script for a shell
#[derive(clap::Args)]
pub struct Args {
    /// Shell to write it for
    shell: clap_complete::Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ppgnn", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(exit::DONE)
}
