//! Compressed sparse rows as SciPy stores them: `shape`, `indptr`, `indices` and `data`, each behind a prefix.
//!
//! Row i holds entries `indptr[i]` to `indptr[i + 1]`; entry e stands in column `indices[e]` and has value `data[e]`.
//! Columns need not be sorted.

use super::{Expected, Npz, Numbers};
use crate::contract::{Job, StageError};
use crate::kinds::Features;
use crate::math::csr::RowBuilder;
use crate::reading::number::BadValue;

/// Sparse rows as stored.
pub struct StoredRows {
    prefix: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    indptr: Vec<usize>,
    indices: Vec<u32>,
    values: Option<Vec<f32>>,
}

impl StoredRows {
    /// Reads the members whose names begin with `prefix`. Without a member `data` every entry counts as 1.
    ///
    /// # Errors
    /// When a member is missing, damaged, or does not fit the others.
    pub fn read(file: &mut Npz, prefix: &'static str, most_cols: u32, job: &Job) -> Result<Self, StageError> {
        let (rows, cols) = shape(file, prefix, most_cols, job)?;
        let indptr = indptr(file, prefix, rows, job)?;
        let entries = indptr.last().copied().unwrap_or(0);
        let indices = indices(file, prefix, cols, entries, job)?;
        let values = values(file, prefix, entries, job)?;
        Ok(Self { prefix, rows, cols, indptr, indices, values })
    }

    /// The entries as (row, column), in the order of the file. An entry whose value is zero is none.
    pub fn edges(&self) -> Vec<(u32, u32)> {
        let rows = (0u32..).zip(self.indptr.windows(2));
        rows.flat_map(|(row, ends)| self.row(ends).map(move |(column, _)| (row, column))).collect()
    }

    /// The values of [`StoredRows::edges`]; none if all of them are 1.
    pub fn weights(&self) -> Option<Vec<f32>> {
        let values = self.values.as_ref()?.iter().copied().filter(|value| *value != 0.0);
        values.clone().any(|value| value != 1.0).then(|| values.collect())
    }

    /// The rows with their columns in order and without zeros.
    ///
    /// # Errors
    /// When a row has two entries in a column.
    pub fn features(&self, file: &Npz) -> Result<Features, StageError> {
        let (mut rows, mut row) = (RowBuilder::default(), Vec::new());
        for (node, ends) in self.indptr.windows(2).enumerate() {
            row.clear();
            row.extend(self.row(ends));
            rows.add(&mut row).map_err(|feature| {
                let what = format!("node {node} has feature {feature} twice, expected one value per feature");
                file.error(&format!("{}indices", self.prefix), what)
            })?;
        }
        let csr = rows.finish(self.cols).map(Features::Sparse);
        csr.ok_or_else(|| file.error(&format!("{}indptr", self.prefix), "is not a sparse matrix"))
    }

    fn row<'s>(&'s self, ends: &[usize]) -> impl Iterator<Item = (u32, f32)> + use<'s> {
        let range = ends[0]..ends[1];
        let value = |at: usize| self.values.as_ref().map_or(1.0, |values| values[at]);
        range.map(move |at| (self.indices[at], value(at))).filter(|(_, value)| *value != 0.0)
    }
}

fn shape(file: &mut Npz, prefix: &str, most_cols: u32, job: &Job) -> Result<(usize, usize), StageError> {
    let dims = &[("rows and columns", Some(2))];
    let expected = Expected { member: &format!("{prefix}shape"), dims, numbers: Numbers::Whole };
    let shape = file.read(&expected, job, |at, _, number| {
        let (word, most) = if at == 0 { ("rows", u32::MAX) } else { ("columns", most_cols) };
        number.below(most).filter(|n| *n > 0).map(|n| n as usize).ok_or_else(|| {
            let what = format!("has {number} {word}, expected 1 to {}", most - 1);
            BadValue::new(format_args!("number {at}"), what)
        })
    })?;
    Ok((shape.values[0], shape.values[1]))
}

fn indptr(file: &mut Npz, prefix: &str, rows: usize, job: &Job) -> Result<Vec<usize>, StageError> {
    let dims = &[("rows and one", Some(rows + 1))];
    let expected = Expected { member: &format!("{prefix}indptr"), dims, numbers: Numbers::Whole };
    let mut before = 0;
    let starts = file.read(&expected, job, |at, _, number| {
        let start = number.below(u32::MAX).filter(|n| if at == 0 { *n == 0 } else { *n >= before });
        before = start.ok_or_else(|| {
            let what = match at.checked_sub(1) {
                None => format!("the first row starts at {number}, expected 0"),
                Some(row) => {
                    format!("row {row} ends at {number}, expected at least {before}, where it starts, and below 2^32")
                }
            };
            BadValue::new(format_args!("number {at}"), what)
        })?;
        Ok(before as usize)
    })?;
    Ok(starts.values)
}

fn indices(file: &mut Npz, prefix: &str, cols: usize, entries: usize, job: &Job) -> Result<Vec<u32>, StageError> {
    let dims = &[("entries", Some(entries))];
    let expected = Expected { member: &format!("{prefix}indices"), dims, numbers: Numbers::Whole };
    let bound = u32::try_from(cols).unwrap_or(u32::MAX);
    let indices = file.read(&expected, job, |at, _, number| {
        number.below(bound).ok_or_else(|| {
            let what = format!("column {number} is outside the matrix, expected 0 to {}", bound - 1);
            BadValue::new(format_args!("entry {at}"), what)
        })
    })?;
    Ok(indices.values)
}

fn values(file: &mut Npz, prefix: &str, entries: usize, job: &Job) -> Result<Option<Vec<f32>>, StageError> {
    let member = format!("{prefix}data");
    if !file.has(&member) {
        return Ok(None);
    }
    let expected = Expected { member: &member, dims: &[("entries", Some(entries))], numbers: Numbers::Real };
    let values = file.read(&expected, job, |at, _, number| number.finite(format_args!("entry {at}")))?;
    Ok(Some(values.values))
}
