//! `ppgnn table`: prints tables from the store and computes nothing.

use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::contract::{Artifact, Registry};
use ppgnn_stages::kinds::Table;

use super::failure::Failure;
use super::project::{PipelineArgs, StoreArgs};
use super::{exit, print};
use crate::plan::{Plan, TableNode};
use crate::store::{Opened, Store};

/// Print a table of a pipeline from the store, without computing anything
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Table (default: all)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Format to print
    #[arg(long, value_enum, default_value = "md")]
    format: Format,
    #[command(flatten)]
    store: StoreArgs,
}

/// A format that tables are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown
    Md,
    /// LaTeX with booktabs
    Tex,
    /// Comma-separated values, one line a cell
    Csv,
    /// JSON with every run behind each cell
    Json,
}

impl Format {
    /// Writes a table in the format.
    pub fn write(self, table: &Table) -> Result<String, Failure> {
        Ok(match self {
            Self::Md => table.markdown(),
            Self::Tex => table.latex(),
            Self::Csv => table.csv(),
            Self::Json => table.json(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let store = args.store.look()?;
    let wanted = match &args.name {
        None => plan.tables.iter().collect(),
        Some(name) => vec![find(&plan, name)?],
    };
    if wanted.is_empty() {
        return Err(Failure::usage("the pipeline has no tables", Some("add `tables:` to the file")));
    }
    let mut parts = Vec::new();
    for table in wanted {
        let Some(read) = read(&plan, table, &store)? else {
            let message = format!("table `{}` has not been computed", table.name);
            let hint = format!("run `ppgnn run {}`", args.pipeline.words());
            return Err(Failure::new(exit::DATA, message, Some(&hint)));
        };
        parts.push(args.format.write(&read)?);
    }
    print(&parts.join("\n"))?;
    Ok(exit::DONE)
}

fn find<'p>(plan: &'p Plan, name: &str) -> Result<&'p TableNode, Failure> {
    plan.tables.iter().find(|t| t.name == name).ok_or_else(|| {
        let hint = nearest_help(name, plan.tables.iter().map(|t| t.name.as_str()));
        Failure::usage(format!("the pipeline has no table `{name}`"), Some(&hint))
    })
}

/// Reads a finished table, or `None` if it is not in the store.
pub fn read(plan: &Plan, table: &TableNode, store: &Store) -> Result<Option<Table>, Failure> {
    let node = plan.node(table.node);
    match store.open_artifact(&node.key, node.stage.name)? {
        Opened::Hit(entry) => Table::load(&entry.dir).map(Some).map_err(|e| Failure::unexpected(e.to_string())),
        Opened::Miss => Ok(None),
        Opened::Damaged { what, .. } => {
            super::note(&format!("warning: {} is damaged ({what})", node.name));
            Ok(None)
        }
    }
}
