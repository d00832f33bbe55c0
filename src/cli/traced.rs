//! A cell of a table and everything behind it: what `trace` tells of one, and a report of all.

mod shown;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::kinds::{Cell, Metric, PlainTable, Table};
use serde_json::{Map, Value, json};

use super::artifacts::Artifacts;
use super::evidence::{Evidence, Settings};
use super::failure::Failure;
use super::outputs;
use super::project::{StoreArgs, shell_word};
use super::stored::Stored;
use crate::plan::{ArtifactKey, Node, NodeId, Output};

/// Targets of a command that are written one by one; of more, the table is the target.
const MOST_TARGETS: usize = 8;

/// A table as far as its runs are there, whose cells can be traced.
pub struct TracedTable<'s, 'p> {
    stored: &'s Stored<'p>,
    output: &'p Output,
    settings: Settings<'s>,
    planned: Planned<'p>,
    /// Its key, if all of it is in the store.
    key: Option<ArtifactKey>,
    /// Nothing if none of its runs is there.
    table: Option<Table>,
    plain: Option<PlainTable>,
}

impl<'s, 'p> TracedTable<'s, 'p> {
    /// Reads a table of a plan, or makes it of the runs that are there.
    pub fn of(
        stored: &'s Stored<'p>,
        output: &'p Output,
        store: &StoreArgs,
        registry: &'s Registry,
    ) -> Result<Self, Failure> {
        let node = stored.plan.node(output.node);
        let key = stored.has(output.node).then_some(node.key);
        let table = match key {
            Some(_) => Some(stored.load::<Table>(output.node)?),
            None => so_far(stored, output, store, registry)?,
        };
        let plain = table.as_ref().map(|table| table.plain("bold", "underlined"));
        Ok(Self { stored, output, settings: Settings::new(registry), planned: Planned::of(node), key, table, plain })
    }

    /// Finds a row by its label.
    pub fn row(&self, name: &str) -> Result<usize, Failure> {
        place("row", &self.planned.rows, Some(name), &self.output.name)
    }

    /// Finds a column by its label; the only one, if none is named.
    pub fn column(&self, name: Option<&str>) -> Result<usize, Failure> {
        place("column", &self.planned.columns, name, &self.output.name)
    }

    /// The labels of a row and of a column.
    pub fn labels(&self, row: usize, column: usize) -> [&str; 2] {
        [&self.planned.rows[row], &self.planned.columns[column]]
    }

    /// The table, if any of its runs is there.
    pub fn table(&self) -> Option<(&Table, &PlainTable)> {
        self.table.as_ref().zip(self.plain.as_ref())
    }

    /// The key of the table, if all of it is in the store.
    pub fn key(&self) -> Option<ArtifactKey> {
        self.key
    }

    /// Gathers everything behind the cell at a place.
    pub fn cell(&self, row: usize, column: usize) -> Result<Traced<'_>, Failure> {
        let Self { stored, output, planned, .. } = self;
        let (plan, node) = (stored.plan, stored.plan.node(output.node));
        let cell = self.table.as_ref().and_then(|table| table.cell(row, column));
        let expected = planned.runs(node, row, column);
        let runs: Vec<NodeId> = match cell {
            None => expected.clone(),
            Some(cell) => {
                let of_key = |key: &String| expected.iter().copied().find(|id| plan.node(*id).key.to_string() == *key);
                cell.runs.iter().filter_map(of_key).collect()
            }
        };
        let evidence = Evidence::of(stored, &runs, planned.metric().as_ref(), &self.settings)?;
        let absent = cell.is_none().then(|| {
            let of_table = self.table.as_ref().and_then(|table| table.absent(row, column));
            let of_plan = planned.entry("absent", row, column).and_then(|cell| cell["why"].as_str().map(str::to_owned));
            let failed = evidence.runs.iter().find_map(|run| run.failed.clone());
            failed
                .or(of_table.map(|absent| absent.why.clone()))
                .or(of_plan)
                .unwrap_or_else(|| outputs::NOT_YET.to_owned())
        });
        let shown = self.plain.as_ref().and_then(|table| table.rows.get(row)?.cells.get(column));
        Ok(Traced {
            of: self,
            row: &planned.rows[row],
            column: &planned.columns[column],
            at: column,
            cell,
            shown: shown.map(|cell| cell.value.as_str()).unwrap_or_default(),
            absent,
            commands: Commands::of(stored, output, &expected, &runs),
            evidence,
        })
    }
}

/// The table of the runs that are there, made as `ppgnn table` makes it; nothing if none is.
fn so_far(stored: &Stored, output: &Output, store: &StoreArgs, registry: &Registry) -> Result<Option<Table>, Failure> {
    let rest = stored.plan.without(registry, &outputs::not_there(stored.plan, stored.store));
    if rest.node(output.node).inputs.is_empty() {
        return Ok(None);
    }
    Artifacts::new(&rest, store.look()?)?.get(output.node).map(Some)
}

/// A cell and what is behind it.
pub struct Traced<'t> {
    of: &'t TracedTable<'t, 't>,
    row: &'t str,
    column: &'t str,
    /// Place of its column.
    at: usize,
    cell: Option<&'t Cell>,
    /// As the table shows it.
    shown: &'t str,
    /// Why there is no value.
    absent: Option<String>,
    evidence: Evidence,
    commands: Commands,
}

impl Traced<'_> {
    /// Why there is no value, if there is none.
    pub fn absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }

    /// The command that computes the cell.
    pub fn compute(&self) -> &str {
        &self.commands.compute
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
