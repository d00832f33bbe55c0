//! Reads the three kinds of pickle that Planetoid's files are, as untrusted input.
//!
//! | kind | how Python 2 wrote it (protocol 2) |
//! | --- | --- |
//! | sparse matrix | `scipy.sparse.csr.csr_matrix` with `_shape`, `indptr`, `indices` and `data` |
//! | array | `numpy.ndarray` of i4, i8, f4 or f8 in either byte order, stored by rows or by columns |
//! | dictionary of lists | `collections.defaultdict(list)` with whole numbers as keys and in the lists |
//!
//! A pickle is a program, and Python's own reader lets it call anything. Here [`machine`] understands the few opcodes
//! and classes of these files, refuses every other by name, and executes nothing. Pickles of Python 3 spell strings,
//! bytes and classes with other opcodes and are refused.

mod machine;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use self::machine::{Machine, Object, Value};
use crate::contract::StageError;
use crate::math::csr::{Csr, RowBuilder};
use crate::reading::npz::Array;
use crate::reading::number::{BadValue, Number};
use crate::reading::source;

/// The largest file that is read.
const FILE_LIMIT: u64 = 1 << 30;
/// The most columns of a sparse matrix: nothing in the file has to back up what it says.
const MOST_COLUMNS: usize = 1 << 20;

/// Reads a sparse matrix: rows sorted by column, without zeros.
///
/// # Errors
/// When the file is not such a pickle, its parts do not fit together, or a column occurs twice in a row.
pub fn sparse(path: &Path) -> Result<Csr<f32>, StageError> {
    read(path, sparse_from)
}

/// Reads an array. `convert` sees every number with its row and column and says what it becomes.
///
/// # Errors
/// When the file is not such a pickle, or `convert` refuses.
pub fn array<T: Copy>(
    path: &Path,
    convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Array<T>, StageError> {
    read(path, |bytes| array_from(bytes, convert))
}

/// Reads a dictionary of lists, in ascending order of its keys.
///
/// # Errors
/// When the file is not such a pickle, or a key or a list occurs twice.
pub fn lists(path: &Path) -> Result<Vec<(i32, Vec<i32>)>, StageError> {
    read(path, lists_from)
}

fn read<T>(path: &Path, from: impl FnOnce(&[u8]) -> Result<T, BadValue>) -> Result<T, StageError> {
    let bytes = source::read(path, FILE_LIMIT)?;
    from(&bytes).map_err(|bad| {
        let foreign = if bytes.first() == Some(&0x80) { None } else { source::foreign(path, "a pickle") };
        let hint =
            "only pickles that Python 2 wrote are read; the file may also be damaged: write or download it again";
        foreign.unwrap_or_else(|| bad.error(path.display()).with_hint(hint))
    })
}

/// Runs the pickle; its value is an object.
fn run(bytes: &[u8]) -> Result<(Machine<'_>, Value<'_>), BadValue> {
    let mut machine = Machine::new(bytes);
    match machine.run()? {
        root @ Value::Object(_) => Ok((machine, root)),
        _ => Err(whole("holds a single value, expected a matrix, an array or a dictionary of lists")),
    }
}

/// A problem with the file as a whole.
fn whole(what: impl Into<String>) -> BadValue {
    BadValue::new("", what)
}

fn unexpected(machine: &Machine, root: Value, expected: &str) -> BadValue {
    whole(format!("holds {}, expected {expected}", machine.object_of(root).map_or("nothing", Object::about)))
}

fn sparse_from(bytes: &[u8]) -> Result<Csr<f32>, BadValue> {
    let (machine, root) = run(bytes)?;
    let Some(Object::Sparse(Some(parts))) = machine.object_of(root) else {
        return Err(unexpected(&machine, root, "a sparse matrix (csr_matrix)"));
    };
    let (rows, cols) = (parts.rows, parts.cols);
    if cols > MOST_COLUMNS {
        return Err(whole(format!("has {cols} columns, expected at most {MOST_COLUMNS}")));
    }
    for (name, part) in [("indptr", &parts.indptr), ("indices", &parts.indices), ("data", &parts.data)] {
        if part.header.shape.len() != 1 {
            return Err(whole(format!("`{name}` does not have one dimension")));
        }
    }
    let indptr = parts.indptr.decode(|at, _, start| match start {
        Number::Whole(start) => usize::try_from(start).map_err(|_| row(at, format!("starts at entry {start}"))),
        Number::Float(_) => Err(row(at, "starts at a fraction")),
    })?;
    let bound = u32::try_from(cols).unwrap_or(u32::MAX);
    let indices = parts.indices.decode(|at, _, column| {
        column.below(bound).ok_or_else(|| {
            let what = format!("column {column} does not exist, expected 0 to {}", cols.saturating_sub(1));
            BadValue::new(format_args!("entry {at}"), what)
        })
    })?;
    let values = parts.data.decode(|at, _, number| number.finite(format_args!("entry {at}")))?;
    if indptr.len().checked_sub(1) != Some(rows) || indices.len() != values.len() {
        let (starts, columns, values) = (indptr.len(), indices.len(), values.len());
        return Err(whole(format!("has {rows} rows, but {starts} row starts, {columns} columns and {values} values")));
    }
    assemble(cols, &indptr, &indices, &values)
}

/// Sorts every row by column and leaves zeros out.
fn assemble(cols: usize, starts: &[usize], columns: &[u32], values: &[f32]) -> Result<Csr<f32>, BadValue> {
    if starts.first() != Some(&0) || starts.last() != Some(&columns.len()) {
        return Err(whole(format!("its rows do not begin at entry 0 and end at entry {}", columns.len())));
    }
    let mut rows = RowBuilder::default();
    for (at, ends) in starts.windows(2).enumerate() {
        let range = ends[0]..ends[1];
        let (Some(columns), Some(values)) = (columns.get(range.clone()), values.get(range)) else {
            return Err(row(at, format!("reaches from entry {} to entry {}", ends[0], ends[1])));
        };
        let mut entries: Vec<(u32, f32)> = columns.iter().copied().zip(values.iter().copied()).collect();
        rows.add(&mut entries).map_err(|column| row(at, format!("has column {column} twice")))?;
    }
    rows.finish(cols).ok_or_else(|| whole("its rows do not fit together"))
}

fn row(at: usize, what: impl Into<String>) -> BadValue {
    BadValue::new(format_args!("row {at}"), what)
}

fn array_from<T: Copy>(
    bytes: &[u8],
    convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Array<T>, BadValue> {
    let (machine, root) = run(bytes)?;
    let Some(Object::Array(Some(array))) = machine.object_of(root) else {
        return Err(unexpected(&machine, root, "an array (ndarray)"));
    };
    Ok(Array { shape: array.header.shape.clone(), values: array.decode(convert)? })
}

fn lists_from(bytes: &[u8]) -> Result<Vec<(i32, Vec<i32>)>, BadValue> {
    let (machine, root) = run(bytes)?;
    let Some(Object::Lists(entries)) = machine.object_of(root) else {
        return Err(unexpected(&machine, root, "a dictionary of lists (defaultdict)"));
    };
    let mut entries = entries.clone();
    entries.sort_unstable();
    let wrong = |key: i32, what: String| Err(BadValue::new(format_args!("key {key}"), what));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return wrong(pair[0].0, "occurs twice".into());
    }
    // A list that many keys share would make many times more of the file than it holds.
    let mut shared: Vec<_> = entries.iter().map(|(key, list)| (*list, *key)).collect();
    shared.sort_unstable();
    if let Some(pair) = shared.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return wrong(pair[1].1, format!("has the very list of key {}, expected one of its own", pair[0].1));
    }
    let list = |id: usize| match machine.object_of(Value::Object(id)) {
        Some(Object::List(list)) => list.clone(),
        _ => Vec::new(),
    };
    Ok(entries.into_iter().map(|(key, id)| (key, list(id))).collect())
}
