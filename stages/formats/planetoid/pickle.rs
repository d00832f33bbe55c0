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

use std::io::Read;
use std::path::Path;

use self::machine::{Array as PickledArray, Endian, Machine, Object, Scalar, Value};
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
pub fn array<T>(
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
    let place = path.display();
    let mut bytes = Vec::new();
    let file = source::open(path)?;
    if let Err(e) = file.take(FILE_LIMIT + 1).read_to_end(&mut bytes) {
        return Err(StageError::data(place, format!("cannot be read: {e}")));
    }
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(StageError::data(place, format!("is larger than {FILE_LIMIT} bytes")));
    }
    from(&bytes).map_err(|misfit| {
        let foreign = if bytes.first() == Some(&0x80) { None } else { source::foreign(path, "a pickle") };
        let place = if misfit.at.is_empty() { place.to_string() } else { format!("{place}, {}", misfit.at) };
        let hint =
            Some("only pickles that Python 2 wrote are read; the file may also be damaged: download it again".into());
        foreign.unwrap_or(StageError::Data { place, what: misfit.what, hint })
    })
}

/// Runs the pickle and returns the number of the object that it holds.
fn root(machine: &mut Machine) -> Result<usize, BadValue> {
    match machine.run()? {
        Value::Object(id) => Ok(id),
        _ => Err(whole("holds a single value, expected a matrix, an array or a dictionary of lists")),
    }
}

/// A problem with the file as a whole.
fn whole(what: impl Into<String>) -> BadValue {
    BadValue { at: String::new(), what: what.into() }
}

fn unexpected(machine: &Machine, id: usize, expected: &str) -> BadValue {
    whole(format!("holds {}, expected {expected}", machine.object(id).map_or("nothing", Object::about)))
}

fn sparse_from(bytes: &[u8]) -> Result<Csr<f32>, BadValue> {
    let mut machine = Machine::new(bytes);
    let id = root(&mut machine)?;
    let Some(Object::Sparse(Some(parts))) = machine.object(id) else {
        return Err(unexpected(&machine, id, "a sparse matrix (csr_matrix)"));
    };
    let (rows, cols) = (parts.rows, parts.cols);
    if cols > MOST_COLUMNS {
        return Err(whole(format!("has {cols} columns, expected at most {MOST_COLUMNS}")));
    }
    let part = |id, name| match machine.object(id) {
        Some(Object::Array(Some(array))) if array.cols.is_none() => Ok(array),
        _ => Err(whole(format!("`{name}` does not have one dimension"))),
    };
    let indptr = decode(part(parts.indptr, "indptr")?, |at, _, start| {
        let Number::Whole(start) = start else { return Err(row(at, "starts at a fraction")) };
        usize::try_from(start).map_err(|_| row(at, format!("starts at entry {start}")))
    })?;
    let indices = decode(part(parts.indices, "indices")?, |at, _, column| {
        let index = if let Number::Whole(c) = column { u32::try_from(c).ok() } else { None };
        index.filter(|c| (*c as usize) < cols).ok_or_else(|| BadValue {
            at: format!("entry {at}"),
            what: format!("column {column} does not exist, expected 0 to {}", cols.saturating_sub(1)),
        })
    })?;
    let values = decode(part(parts.data, "data")?, |at, _, number| finite(at, number))?;
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
    BadValue { at: format!("row {at}"), what: what.into() }
}

fn array_from<T>(
    bytes: &[u8],
    convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Array<T>, BadValue> {
    let mut machine = Machine::new(bytes);
    let id = root(&mut machine)?;
    let Some(Object::Array(Some(array))) = machine.object(id) else {
        return Err(unexpected(&machine, id, "an array (ndarray)"));
    };
    let shape = [array.rows].into_iter().chain(array.cols).collect();
    Ok(Array { shape, values: decode(array, convert)? })
}

fn lists_from(bytes: &[u8]) -> Result<Vec<(i32, Vec<i32>)>, BadValue> {
    let mut machine = Machine::new(bytes);
    let id = root(&mut machine)?;
    let Some(Object::Lists(entries)) = machine.object(id) else {
        return Err(unexpected(&machine, id, "a dictionary of lists (defaultdict)"));
    };
    let mut entries = entries.clone();
    entries.sort_unstable();
    let twice = |key: i32, what: &str| BadValue { at: format!("key {key}"), what: what.to_owned() };
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(twice(pair[0].0, "occurs twice"));
    }
    // A list that many keys share would make many times more of the file than it holds.
    let mut shared: Vec<_> = entries.iter().map(|(key, list)| (*list, *key)).collect();
    shared.sort_unstable();
    if let Some(pair) = shared.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(twice(pair[1].1, &format!("has the very list of key {}, expected one of its own", pair[0].1)));
    }
    let list = |id: usize| match machine.object(id) {
        Some(Object::List(list)) => list.clone(),
        _ => Vec::new(),
    };
    Ok(entries.into_iter().map(|(key, id)| (key, list(id))).collect())
}

/// Decodes all numbers in row-major order.
fn decode<T>(
    array: &PickledArray,
    mut convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Vec<T>, BadValue> {
    let (rows, cols, size) = (array.rows, array.cols.unwrap_or(1), array.scalar.size());
    let total = array.bytes.len() / size;
    let mut values = Vec::with_capacity(total);
    for at in 0..total {
        let (row, column) = (at / cols, at % cols);
        let stored = if array.by_column { column * rows + row } else { at };
        let bytes = array.bytes.get(stored * size..(stored + 1) * size).unwrap_or_default();
        values.push(convert(row, column, number(array.scalar, array.endian, bytes))?);
    }
    Ok(values)
}

fn number(scalar: Scalar, endian: Endian, bytes: &[u8]) -> Number {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    if endian == Endian::Big {
        wide[..scalar.size()].reverse();
    }
    let [a, b, c, d, ..] = wide;
    match scalar {
        Scalar::I4 => Number::Whole(i32::from_le_bytes([a, b, c, d]).into()),
        Scalar::I8 => Number::Whole(i64::from_le_bytes(wide).into()),
        Scalar::F4 => Number::Float(f32::from_le_bytes([a, b, c, d]).into()),
        Scalar::F8 => Number::Float(f64::from_le_bytes(wide)),
    }
}

fn finite(at: usize, number: Number) -> Result<f32, BadValue> {
    number.finite().ok_or_else(|| BadValue {
        at: format!("entry {at}"),
        what: format!("`{number}` is not a finite 32-bit number"),
    })
}
