//! A table of facts: sizes, seconds. No fact is better than another, so nothing is tested or marked.

use std::collections::BTreeSet;

use super::params::reasons;
use super::published::references;
use super::{AbsentSpec, CellSpec, Params};
use crate::contract::{Artifact, Job, StageError};
use crate::kinds::{Absent, Cell, Facts, ShownFact, Spread, Table};
use crate::math::stats::{self, Divisor};

/// The slot of the facts.
pub(super) const SLOT: &str = "facts";
/// Digits after the point at most, however small a duration is.
const MOST_DIGITS: usize = 6;

/// A run: its key and its facts.
struct Run {
    key: String,
    facts: Facts,
}

/// Makes the table.
pub(super) fn table(params: &Params, job: &Job) -> Result<Table, StageError> {
    let mut runs = Vec::new();
    for input in job.all(SLOT) {
        runs.push(Run { key: input.key.clone(), facts: Facts::load(&input.dir)? });
    }
    let columns: Vec<(&str, &str)> = params.fact_columns();
    // Where the facts are the columns, every run has a whole row of them.
    let columns_of = |column: usize| if params.has_columns() { column..column + 1 } else { 0..columns.len() };
    let (mut cells, mut absent) = (Vec::new(), Vec::new());
    for spec in &params.cells {
        for column in columns_of(spec.column) {
            match cell(params, spec, column, columns[column].1, &runs) {
                Ok(cell) => cells.push(cell),
                Err(why) => absent.push(Absent { row: spec.row, column, why, reference: None }),
            }
        }
    }
    for AbsentSpec { row, column, why } in &params.absent {
        let of_row = columns_of(*column).map(|column| Absent { row: *row, column, why: why.clone(), reference: None });
        absent.extend(of_row);
    }
    if let Some(row) = &params.relative_to {
        divide(params, row, &mut cells, &mut absent);
    }
    if params.average {
        average(columns.len() - 1, &mut cells);
    }
    cells.sort_by_key(|c| (c.row, c.column));
    absent.sort_by_key(|a| (a.row, a.column));
    let facts = columns.iter().enumerate().map(|(column, (_, name))| ShownFact {
        name: (*name).to_owned(),
        digits: digits(params, name, cells.iter().filter(|cell| cell.column == column)),
    });
    let mut table = Table {
        title: params.title.clone(),
        facts: facts.collect(),
        relative_to: params.relative_to.clone(),
        std: params.std,
        digits: params.digits,
        row_title: params.row_title.clone(),
        column_title: params.column_title.clone(),
        rows: params.rows.clone(),
        columns: columns.iter().map(|(label, _)| (*label).to_owned()).collect(),
        reference_title: params.reference_title.clone(),
        notes: params.notes.clone(),
        pooled: params.pooled.clone(),
        absent,
        cells,
        ..Table::default()
    };
    let published = references(params, &[])?;
    table.set_references(|row, column| published.get(&(row, column)).cloned());
    Ok(table)
}

/// Makes a cell of the values of all its runs, or says why there is none.
fn cell(params: &Params, spec: &CellSpec, column: usize, name: &str, runs: &[Run]) -> Result<Cell, String> {
    let candidate = spec.candidates.first().map_or(&[][..], Vec::as_slice);
    let of_cell: Vec<&Run> = candidate.iter().filter_map(|run| runs.get(*run)).collect();
    let mut values = Vec::new();
    for run in &of_cell {
        let found = run.facts.get(name);
        values.extend(found.ok_or_else(|| {
            format!("no fact {name}, there are {}", run.facts.names().collect::<Vec<_>>().join(", "))
        })?);
    }
    let mean = stats::mean(&values).ok_or_else(|| format!("{name} is not defined here"))?;
    let missing: Vec<String> = spec.whys(0).map(str::to_owned).collect();
    let mut notes = spec.notes.clone();
    if !missing.is_empty() {
        let of = missing.len() + candidate.len();
        notes.push(format!("{} of {of} runs missing: {}", missing.len(), reasons(missing.iter().map(String::as_str))));
    }
    let all_alike = values.iter().all(|value| *value == values[0]);
    Ok(Cell {
        row: spec.row,
        column,
        mean,
        std: if all_alike { None } else { stats::std(&values, divisor(params)) },
        n: values.len(),
        values,
        runs: of_cell.iter().map(|run| run.key.clone()).collect(),
        notes,
        missing,
        ..Cell::default()
    })
}

/// Divides every cell by the mean of one row.
fn divide(params: &Params, row: &str, cells: &mut Vec<Cell>, absent: &mut Vec<Absent>) {
    let Some(by) = params.rows.iter().position(|label| label == row) else { return };
    let means: Vec<(usize, f64)> =
        cells.iter().filter(|cell| cell.row == by && cell.mean != 0.0).map(|cell| (cell.column, cell.mean)).collect();
    cells.retain_mut(|cell| {
        let Some((_, mean)) = means.iter().find(|(column, _)| *column == cell.column) else {
            let why = format!("{row} has no value to divide by");
            absent.push(Absent { row: cell.row, column: cell.column, why, reference: None });
            return false;
        };
        cell.values.iter_mut().for_each(|value| *value /= mean);
        cell.mean /= mean;
        cell.std = cell.std.map(|std| std / mean);
        true
    });
}

/// Adds the mean of every row in a last column, over the columns in which every row with any value has one.
fn average(last: usize, cells: &mut Vec<Cell>) {
    let rows: BTreeSet<usize> = cells.iter().map(|cell| cell.row).collect();
    let is_full = |column: &usize| rows.iter().all(|row| cells.iter().any(|c| (c.row, c.column) == (*row, *column)));
    let full: Vec<usize> = (0..last).filter(is_full).collect();
    let of_row = |row: usize| {
        let values = || cells.iter().filter(|cell| cell.row == row && full.contains(&cell.column));
        let means: Vec<f64> = values().map(|cell| cell.mean).collect();
        let runs = values().flat_map(|cell| cell.runs.iter().cloned()).collect();
        let notes = vec![format!("mean over {} of {last} columns", full.len())];
        let (row, column, n) = (row, last, means.len());
        Some(Cell { row, column, mean: stats::mean(&means)?, n, values: means, runs, notes, ..Cell::default() })
    };
    let averages: Vec<Cell> = rows.iter().filter_map(|row| of_row(*row)).collect();
    cells.extend(averages);
}

fn divisor(params: &Params) -> Divisor {
    match params.std {
        Spread::Population => Divisor::Population,
        Spread::Sample => Divisor::Sample,
    }
}

/// Digits after the point: none for counts, enough for two of the smallest duration.
fn digits<'c>(params: &Params, name: &str, cells: impl Iterator<Item = &'c Cell>) -> usize {
    let cells: Vec<&Cell> = cells.collect();
    if cells.iter().flat_map(|cell| &cell.values).all(|value| value.fract() == 0.0) {
        return 0;
    }
    if !name.ends_with("seconds") || params.relative_to.is_some() {
        return params.digits;
    }
    let least = cells.iter().map(|cell| cell.mean).filter(|mean| *mean > 0.0).fold(f64::INFINITY, f64::min);
    (params.digits..MOST_DIGITS).find(|digits| least * 10f64.powi(*digits as i32) >= 10.0).unwrap_or(MOST_DIGITS)
}
