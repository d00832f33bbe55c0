//! `ppgnn data`: lists, fetches, imports, verifies and describes known data sets.

mod describe;
mod fetch;
mod import;
mod list;
mod verify;

use std::path::PathBuf;
use std::rc::Rc;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;

use super::failure::Failure;
use super::project::DataArgs;
use super::{exit, note, print, print_as, print_json};
use crate::catalogue::{self, Catalogue, DataFile, Hold, Manifest};

/// List, fetch, import, verify or describe data sets
///
/// A data set is described by a manifest: its files, where the publisher hosts them, their digests, and how they are
/// loaded. Manifests of the common data sets are built in; those in `pipelines/datasets/` of the current folder add to
/// them and override them by name. The data itself is kept in the data directory, with one folder per data set, outside
/// of any project.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    data: DataArgs,
    /// Print one JSON object
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List data sets: graph size, file size, and whether the files are here
    ///
    /// Only the presence and size of files are checked; `ppgnn data verify` reads them.
    List,
    Fetch(fetch::Args),
    Import(import::Args),
    Verify(verify::Args),
    Describe(describe::Args),
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let catalogue = args.data.catalogue(None);
    let context = DataContext { catalogue, dir: args.data.data_dir.clone(), json: args.json };
    match &args.command {
        Command::List => list::run(&context),
        Command::Fetch(args) => fetch::run(args, &context),
        Command::Import(args) => import::run(args, &context),
        Command::Verify(args) => verify::run(args, &context),
        Command::Describe(args) => describe::run(args, &context, registry),
    }
}

/// The known data sets and the directory they are kept in.
struct DataContext {
    catalogue: Catalogue,
    dir: PathBuf,
    json: bool,
}

impl DataContext {
    /// The manifests of some names, each once.
    fn named(&self, names: &[String]) -> Result<Vec<Rc<Manifest>>, Failure> {
        let mut found: Vec<Rc<Manifest>> = Vec::new();
        for name in names {
            let Some(manifest) = self.catalogue.get(name) else {
                let known = self.catalogue.names();
                let hint = nearest_help(name, known.iter().map(String::as_str));
                return Err(Failure::usage(format!("there is no data set `{name}`"), Some(&hint)));
            };
            if !found.iter().any(|m| m.name == *name) {
                found.push(manifest?);
            }
        }
        Ok(found)
    }

    /// The manifests of some names; without names, all that fit.
    fn chosen(&self, names: &[String], fits: impl Fn(&Manifest) -> bool) -> Result<Vec<Rc<Manifest>>, Failure> {
        if !names.is_empty() {
            return self.named(names);
        }
        let all = self.named(&self.catalogue.names())?;
        Ok(all.into_iter().filter(|manifest| fits(manifest)).collect())
    }

    /// Where a file of a data set is, or belongs.
    fn path(&self, manifest: &Manifest, file: &DataFile) -> PathBuf {
        manifest.root(&self.dir).join(&file.path)
    }

    /// The right to write into the directory.
    fn hold(&self) -> Result<Hold, Failure> {
        let waiting = || note(&format!("Waiting for another process that is writing to {}", self.dir.display()));
        catalogue::hold(&self.dir, waiting).map_err(|error| {
            let hint = Some("choose a writable folder with --data-dir or PPGNN_DATA_DIR");
            Failure::new(exit::DATA, format!("cannot write into `{}`: {error}", self.dir.display()), hint)
        })
    }
}

/// `texas/splits/a.npz`, for people.
fn title(manifest: &Manifest, file: &DataFile) -> String {
    format!("{}/{}", manifest.name, file.path.display())
}

/// `1 file`, `12 files`.
fn files_text(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}
