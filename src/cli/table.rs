//! `ppgnn table`: prints tables from the store and computes nothing.

use clap::ValueEnum;
use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;

use super::failure::Failure;
use super::outputs::{self, OutputFile};
use super::project::PipelineArgs;
use super::{exit, print};
use crate::plan::{Output, Plan};

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
}

/// A format that tables are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Markdown
    Md,
    /// LaTeX with booktabs
    Tex,
    /// Comma-separated values, one line per cell
    Csv,
    /// JSON with all runs of each cell
    Json,
}

impl Format {
    /// What the names of files in the format end in.
    fn ending(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let store = args.pipeline.store.look()?;
    // Other outputs, such as figures, have no file of the format.
    let tables: Vec<&Output> = plan.outputs.iter().filter(|o| has_format(&plan, o, args.format)).collect();
    let wanted = match &args.name {
        None => tables,
        Some(name) => vec![find(&tables, name)?],
    };
    if wanted.is_empty() {
        return Err(Failure::usage("the pipeline has no tables", Some("add `tables:` to the file")));
    }
    let mut parts = Vec::new();
    for output in wanted {
        let Some(files) = outputs::files(&plan, output, &store)? else {
            let message = format!("table `{}` has not been computed", output.name);
            let hint = format!("run `ppgnn run {}`", args.pipeline.words());
            return Err(Failure::new(exit::DATA, message, Some(&hint)));
        };
        let of_format = files.iter().filter(|f| f.ending == args.format.ending());
        parts.extend(of_format.map(OutputFile::text).collect::<Result<Vec<_>, _>>()?);
    }
    print(&parts.join("\n"))?;
    Ok(exit::DONE)
}

fn has_format(plan: &Plan, output: &Output, format: Format) -> bool {
    let ending = format!(".{}", format.ending());
    plan.node(output.node).stage.publishes.iter().any(|file| file.ends_with(&ending))
}

fn find<'p>(tables: &[&'p Output], name: &str) -> Result<&'p Output, Failure> {
    tables.iter().copied().find(|o| o.name == name).ok_or_else(|| {
        let hint = nearest_help(name, tables.iter().map(|o| o.name.as_str()));
        Failure::usage(format!("the pipeline has no table `{name}`"), Some(&hint))
    })
}
