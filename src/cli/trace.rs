//! `ppgnn trace`: everything behind one cell of a table.

mod shown;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::kinds::{Cell, Metric, Table};
use serde_json::{Map, Value, json};

use super::artifacts::Artifacts;
use super::evidence::Evidence;
use super::failure::Failure;
use super::project::{PipelineArgs, every_node, shell_word};
use super::stored::Stored;
use super::{exit, note, outputs, print, print_json, targets};
use crate::plan::{ArtifactKey, Node, NodeId, Output, Plan};

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

/// Targets of a command that are written one by one; of more, the table is the target.
const MOST_TARGETS: usize = 8;

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let asked = |plan: &Plan| {
        args.table.as_ref().map_or_else(|| every_node(plan), |name| targets::asked(plan, std::slice::from_ref(name)))
    };
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &asked)?;
    let store = args.pipeline.store.look()?;
    let stored = Stored { plan: &plan, store: &store, words: args.pipeline.words() };
    let output = output(&plan, args.table.as_deref())?;
    let traced = Traced::of(&stored, output, args, registry)?;
    let code = if traced.absent.is_none() { exit::DONE } else { exit::DATA };
    if args.json {
        print_json(&traced.json(code))?;
    } else {
        print(&traced.text())?;
        if let Some(why) = &traced.absent {
            note(&format!("error: this cell has no value: {why}"));
            note(&format!("hint: `{}` computes what can be computed", traced.commands.compute));
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

/// What the plan says of a table, whatever has been computed.
struct Planned<'p> {
    params: &'p Map<String, Value>,
    rows: Vec<String>,
    columns: Vec<String>,
    /// Whether the table shows facts, and whether these are its columns.
    of_facts: bool,
    by_fact: bool,
}

impl<'p> Planned<'p> {
    fn of(node: &'p Node) -> Self {
        let params = node.params.all();
        let labels = |param: &str| -> Vec<String> {
            let labels = params.get(param).and_then(Value::as_array).into_iter().flatten();
            labels.filter_map(|label| label.as_str().map(str::to_owned)).collect()
        };
        let columns = labels("columns");
        let facts = params.get("facts").and_then(Value::as_array).into_iter().flatten();
        let facts: Vec<String> = facts.flat_map(fact_labels).collect();
        let of_facts = !facts.is_empty();
        // Where the sweep gives no columns, the facts are the columns.
        let by_fact = of_facts && columns.iter().all(String::is_empty);
        Self { params, rows: labels("rows"), columns: if by_fact { facts } else { columns }, of_facts, by_fact }
    }

    /// The entry of a cell in a list of cells.
    fn entry(&self, list: &str, row: usize, column: usize) -> Option<&'p Value> {
        let column = if self.by_fact { 0 } else { column };
        let is_it = |cell: &&Value| cell["row"] == json!(row) && cell["column"] == json!(column);
        self.params.get(list)?.as_array()?.iter().find(is_it)
    }

    /// The runs that a cell should have, of all configurations that it could show.
    fn runs(&self, node: &Node, row: usize, column: usize) -> Vec<NodeId> {
        let candidates = self.entry("cells", row, column).and_then(|cell| cell.get("candidates")?.as_array());
        let places = candidates.into_iter().flatten().filter_map(Value::as_array).flatten();
        let places = places.filter_map(|place| usize::try_from(place.as_u64()?).ok());
        let mut runs = Vec::new();
        for run in places.filter_map(|place| node.inputs.get(place)).map(|edge| edge.node) {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }

    fn metric(&self) -> Option<Metric> {
        let text = self.params.get("metric").and_then(Value::as_str).filter(|_| !self.of_facts);
        text.and_then(|text| text.parse().ok())
    }
}

/// The labels of a fact as a table names it: its name, or labels with a name for each.
fn fact_labels(fact: &Value) -> Vec<String> {
    match fact {
        Value::Object(labelled) => labelled.keys().cloned().collect(),
        name => name.as_str().map(str::to_owned).into_iter().collect(),
    }
}

/// The place of a row or a column; of the only one, if none is named.
fn place(what: &str, labels: &[String], name: Option<&str>, table: &str) -> Result<usize, Failure> {
    let Some(name) = name else {
        let message = format!("table `{table}` has {} {what}s, and none is named", labels.len());
        return if labels.len() == 1 { Ok(0) } else { Err(Failure::usage(message, Some(&labels.join(", ")))) };
    };
    labels.iter().position(|label| label == name).ok_or_else(|| {
        let hint = nearest_help(name, labels.iter().map(String::as_str));
        Failure::usage(format!("table `{table}` has no {what} `{name}`"), Some(&hint))
    })
}

/// A cell and what is behind it.
struct Traced<'p> {
    plan: &'p Plan,
    output: &'p Output,
    row: String,
    column: String,
    /// None in a table of facts.
    metric: Option<Metric>,
    /// Place of its column.
    at: usize,
    /// The table as far as its runs are there; nothing if none is.
    table: Option<Table>,
    /// The key of the table, if all of it is in the store.
    key: Option<ArtifactKey>,
    cell: Option<Cell>,
    /// As the table shows it.
    shown: String,
    /// Why there is no value.
    absent: Option<String>,
    evidence: Evidence,
    commands: Commands,
}

impl<'p> Traced<'p> {
    fn of(stored: &Stored<'p>, output: &'p Output, args: &Args, registry: &Registry) -> Result<Self, Failure> {
        let (plan, node) = (stored.plan, stored.plan.node(output.node));
        let planned = Planned::of(node);
        let row = place("row", &planned.rows, Some(&args.row), &output.name)?;
        let column = place("column", &planned.columns, args.column.as_deref(), &output.name)?;
        let key = stored.has(output.node).then_some(node.key);
        let table = match key {
            Some(_) => Some(stored.load::<Table>(output.node)?),
            None => so_far(stored, output, args, registry)?,
        };
        let cell = table.as_ref().and_then(|table| table.cell(row, column)).cloned();
        let expected = planned.runs(node, row, column);
        let runs: Vec<NodeId> = match &cell {
            None => expected.clone(),
            Some(cell) => {
                let of_key = |key: &String| expected.iter().copied().find(|id| plan.node(*id).key.to_string() == *key);
                cell.runs.iter().filter_map(of_key).collect()
            }
        };
        let evidence = Evidence::of(stored, &runs, planned.metric().as_ref(), registry)?;
        let absent = cell.is_none().then(|| {
            let of_table = table.as_ref().and_then(|table| table.absent(row, column)).map(|absent| absent.why.clone());
            let of_plan = planned.entry("absent", row, column).and_then(|cell| cell["why"].as_str().map(str::to_owned));
            let failed = evidence.runs.iter().find_map(|run| run.failed.clone());
            failed.or(of_table).or(of_plan).unwrap_or_else(|| outputs::NOT_YET.to_owned())
        });
        let plain = table.as_ref().map(|table| table.plain("", ""));
        let shown = plain.as_ref().and_then(|table| table.rows.get(row)?.cells.get(column));
        Ok(Self {
            plan,
            output,
            row: planned.rows[row].clone(),
            column: planned.columns[column].clone(),
            metric: planned.metric(),
            at: column,
            shown: shown.map(|cell| cell.value.clone()).unwrap_or_default(),
            commands: Commands::of(stored, output, &expected, &runs),
            table,
            key,
            cell,
            absent,
            evidence,
        })
    }
}

/// The table of the runs that are there, made as `ppgnn table` makes it; nothing if none is.
fn so_far(stored: &Stored, output: &Output, args: &Args, registry: &Registry) -> Result<Option<Table>, Failure> {
    let rest = stored.plan.without(registry, &outputs::not_there(stored.plan, stored.store));
    if rest.node(output.node).inputs.is_empty() {
        return Ok(None);
    }
    Artifacts::new(&rest, args.pipeline.store.look()?)?.get(output.node).map(Some)
}

/// Commands that a person can type.
struct Commands {
    /// Computes the cell.
    compute: String,
    /// Exports its runs.
    export: String,
    /// Prints the table.
    table: String,
}

impl Commands {
    fn of(stored: &Stored, output: &Output, expected: &[NodeId], shown: &[NodeId]) -> Self {
        let targets = |nodes: &[NodeId]| {
            let names = nodes.iter().map(|id| shell_word(&stored.plan.node(*id).name.to_string()));
            let several = !nodes.is_empty() && nodes.len() <= MOST_TARGETS;
            if several { names.collect::<Vec<_>>().join(" ") } else { shell_word(&output.name) }
        };
        let words = &stored.words;
        Self {
            compute: format!("ppgnn run {words} {}", targets(expected)),
            export: format!("ppgnn export runs {words} {}", targets(shown)),
            table: format!("ppgnn table {words} {}", shell_word(&output.name)),
        }
    }
}
