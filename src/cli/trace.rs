//! `ppgnn trace`: everything behind one cell of a table.

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::project::{PipelineArgs, every_node};
use super::stored::Stored;
use super::traced::TracedTable;
use super::{exit, note, outputs, print, print_json, targets};
use crate::plan::{Output, Plan};

/// Show everything behind one cell of a table
///
/// Rows and columns are named as the table shows them. Lists the runs behind the cell with their splits, seeds, chosen epochs and values; every
/// setting, those that are not the default apart; how the cell was picked, or its settings searched; digests of the data files; every
/// artifact that the runs are made of (eigenpairs among them) with stage, version, key and numeric profile; footnotes; and the
/// commands that compute the cell again and export its runs. Nothing is computed. A cell that is absent, or has not been computed
/// yet, says why, with exit code 4.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Row of the table
    #[arg(value_name = "ROW")]
    row: String,
    /// Column of the table; may be left out where there is one only
    #[arg(value_name = "COLUMN")]
    column: Option<String>,
    /// Table (default: the only one of the pipeline)
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let asked = |plan: &Plan| {
        args.table.as_ref().map_or_else(|| every_node(plan), |name| targets::asked(plan, std::slice::from_ref(name)))
    };
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &asked)?;
    let store = args.pipeline.store.look()?;
    let stored = Stored { plan: &plan, store: &store, words: args.pipeline.words() };
    let output = output(&plan, args.table.as_deref())?;
    let table = TracedTable::of(&stored, output, &args.pipeline.store, registry)?;
    let traced = table.cell(table.row(&args.row)?, table.column(args.column.as_deref())?)?;
    let code = if traced.absent().is_none() { exit::DONE } else { exit::DATA };
    if args.json {
        print_json(&traced.json(code))?;
    } else {
        print(&traced.text())?;
        if let Some(why) = traced.absent() {
            note(&format!("error: this cell has no value: {why}"));
            note(&format!("hint: `{}` computes what can be computed", traced.compute()));
        }
    }
    Ok(code)
}

/// The table that is meant.
fn output<'p>(plan: &'p Plan, name: Option<&str>) -> Result<&'p Output, Failure> {
    let tables: Vec<&Output> = plan.outputs.iter().filter(|output| outputs::is_table(plan, output)).collect();
    match (name, &tables[..]) {
        (Some(name), _) => outputs::named(&tables, name),
        (None, [only]) => Ok(only),
        (None, []) => Err(Failure::usage("the pipeline has no tables", Some("add `tables:` to the file"))),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|output| output.name.as_str()).collect();
            let message = format!("the pipeline has {} tables", names.len());
            Err(Failure::usage(message, Some(&format!("name one with --table: {}", names.join(", ")))))
        }
    }
}
