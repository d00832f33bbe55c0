//! `--fail-outside N`: whether the cells of tables are as near to published values as is asked for.
//!
//! Only cells with a published mean and spread are judged. What is further away is a result like any other, shown and published;
//! the exit code says so, for scripts and continuous integration.

use ppgnn_stages::kinds::{Cell, Reference, Table};
use serde_json::{Value, json};

use super::exit;
use super::failure::Failure;
use super::{note, outputs};
use crate::plan::{NodeId, Plan};
use crate::store::Store;

/// How near results have to be.
#[derive(clap::Args)]
pub struct ToleranceArgs {
    /// Exit with code 6 if a cell of the tables is further than N published standard deviations from the published value
    #[arg(long, value_name = "N", value_parser = deviations)]
    fail_outside: Option<f64>,
}

/// Reads a number of standard deviations.
fn deviations(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| "expected a number of standard deviations, such as 2".to_owned())
}

/// A cell that is too far from its published value.
pub struct Outside {
    table: String,
    row: String,
    column: String,
    ours: String,
    published: String,
    deviations: f64,
}

impl Outside {
    fn json(&self) -> Value {
        let Self { table, row, column, ours, published, deviations } = self;
        json!({
            "table": table, "row": row, "column": column, "ours": ours, "published": published, "deviations": deviations,
        })
    }
}

impl ToleranceArgs {
    /// Whether anything is to be judged.
    pub fn is_given(&self) -> bool {
        self.fail_outside.is_some()
    }

    /// Returns the cells of the requested tables in the store that are too far away.
    pub fn outside_of(&self, (plan, store): (&Plan, &Store), wanted: &[NodeId]) -> Result<Vec<Outside>, Failure> {
        let mut tables = Vec::new();
        for output in plan.outputs.iter().filter(|o| wanted.contains(&o.node) && self.is_given()) {
            let files = outputs::files(plan, output, store)?.unwrap_or_default();
            tables.extend(outputs::table(plan, output, &files)?.map(|table| (output.name.clone(), table)));
        }
        Ok(self.outside(&tables))
    }

    /// Returns the cells of some tables, each with its name, that are too far away. Says so if there was nothing to compare.
    pub fn outside(&self, tables: &[(String, Table)]) -> Vec<Outside> {
        let Some(most) = self.fail_outside else { return Vec::new() };
        let cells = || tables.iter().flat_map(|(name, table)| table.cells.iter().map(move |cell| (name, table, cell)));
        let judged: Vec<_> =
            cells().filter_map(|(name, table, cell)| Some((name, table, cell, apart(cell)?))).collect();
        if judged.is_empty() {
            note("warning: no cell has a published value with a spread; --fail-outside has nothing to compare");
        }
        let far = judged.into_iter().filter(|(.., apart)| *apart > most);
        far.map(|(name, table, cell, deviations)| told(name, table, cell, deviations)).collect()
    }

    /// The failure that cells are too far away, if there are any.
    pub fn failure(&self, outside: &[Outside]) -> Option<Failure> {
        let most = self.fail_outside.filter(|_| !outside.is_empty())?;
        let are = if outside.len() == 1 { "cell is" } else { "cells are" };
        let mut message = format!(
            "{} {are} further than {most} published standard deviations from the published value",
            outside.len()
        );
        for Outside { table, row, column, ours, published, deviations } in outside {
            message +=
                &format!("\n  {table}: {row}, {column}: {ours} against {published}, {deviations:.1} deviations away");
        }
        let hint =
            "the tables are complete all the same; `ppgnn trace` and the notes of the cells say what a cell is made of";
        Some(Failure::new(exit::OUTSIDE, message, Some(hint)))
    }

    /// The same for `--json`.
    pub fn json(outside: &[Outside]) -> Value {
        outside.iter().map(Outside::json).collect()
    }
}

/// How many published deviations a cell is away.
fn apart(cell: &Cell) -> Option<f64> {
    cell.reference.as_ref()?.deviations(cell.mean)
}

fn told(name: &str, table: &Table, cell: &Cell, deviations: f64) -> Outside {
    let label = |labels: &[String], at: usize| labels.get(at).cloned().unwrap_or_default();
    let show = |x: f64| table.shown_number(cell.column, x);
    let printed =
        |of: fn(&Reference) -> Option<f64>| cell.reference.as_ref().and_then(of).map_or_else(String::new, show);
    Outside {
        table: name.to_owned(),
        row: label(&table.rows, cell.row),
        column: label(&table.columns, cell.column),
        ours: show(cell.mean),
        published: format!("{} ± {}", printed(|of| of.mean), printed(|of| of.std)),
        deviations,
    }
}
