//! `ppgnn trust`: which folders have pipelines that may start commands.

use std::path::PathBuf;

use super::failure::Failure;
use super::trusted::Trusted;
use super::{exit, note, print};

/// Let the pipelines of a folder start commands
///
/// A pipeline may train with a program of its own (`model: command`). `ppgnn run` starts it with --allow-commands, or if
/// the pipeline, what it extends and the files of the command are in a trusted folder, at any depth. Without a folder,
/// the trusted ones are listed.
#[derive(clap::Args)]
pub struct Args {
    /// Folder to trust
    folder: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long, requires = "folder")]
    remove: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let mut trusted = Trusted::read()?;
    match &args.folder {
        None => print(&trusted.folders().map(|folder| format!("{}\n", folder.display())).collect::<String>())?,
        Some(folder) => {
            let folder = trusted.set(folder, !args.remove)?;
            let may = if args.remove { "may start no commands any more" } else { "may start commands" };
            note(&format!("pipelines in {} {may}", folder.display()));
        }
    }
    Ok(exit::DONE)
}
