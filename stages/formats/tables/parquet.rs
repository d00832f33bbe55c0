//! Tables in Parquet form. Only the columns that are used are read.
//!
//! The decoder is polars. It trusts files more than we do, so what a file claims is compared with its size first (the
//! headers of pages in [`pages`]), and a panic inside the decoder is a damaged file.

use std::fs::File;
use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::ByteRecord;
use polars::prelude::{
    ArrowDataType, ChunkedArray, DataFrame, DataType, Float32Type, ParallelStrategy, ParquetReader, PolarsResult,
    SerReader, StringChunked,
};

use super::pages;
use super::table::{Row, Wanted};
use crate::contract::{Job, StageError};

/// The most bytes of a file.
const FILE_LIMIT: u64 = 4 << 30;
/// The most values that are read from a file.
const VALUE_LIMIT: usize = 1 << 30;
/// The most rows a byte of the file can stand for. Packed sequences of numbers come to some hundreds.
const ROWS_A_BYTE: usize = 4096;

/// An open table.
pub struct Parquet {
    path: PathBuf,
    bytes: Arc<[u8]>,
    reader: ParquetReader<Cursor<Arc<[u8]>>>,
    columns: Vec<String>,
    types: Vec<ArrowDataType>,
    most_rows: usize,
}

impl Parquet {
    /// Reads the footer, which describes the columns.
    ///
    /// # Errors
    /// When the file cannot be read or is not Parquet.
    pub fn open(path: &Path, file: File) -> Result<Self, StageError> {
        let mut bytes = Vec::new();
        let read = file.take(FILE_LIMIT + 1).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 > FILE_LIMIT => {
                Err(StageError::data(path.display(), format!("has more than {FILE_LIMIT} bytes")))
            }
            Ok(_) => Self::new(path, bytes),
            Err(e) => Err(StageError::data(path.display(), format!("cannot be read: {e}"))),
        }
    }

    /// Reads the footer of a file in memory.
    ///
    /// # Errors
    /// When it is not Parquet.
    pub fn new(path: &Path, bytes: Vec<u8>) -> Result<Self, StageError> {
        if !bytes.starts_with(b"PAR1") {
            return Err(StageError::data(path.display(), "is not a Parquet file, which its extension says"));
        }
        if !bytes.ends_with(b"PAR1") {
            return Err(damaged(path, "is cut off: a Parquet file ends with `PAR1`"));
        }
        let bytes: Arc<[u8]> = bytes.into();
        let most_rows = bytes.len().saturating_mul(ROWS_A_BYTE);
        let (reader, schema) = guarded(path, || {
            let mut reader = ParquetReader::new(Cursor::new(bytes.clone())).read_parallel(ParallelStrategy::None);
            // Without the notes of the writing library, the types are those of the file itself: a categorical column
            // is text.
            let mut metadata = Arc::unwrap_or_clone(reader.get_metadata()?.clone());
            metadata.key_value_metadata = None;
            reader.set_metadata(Arc::new(metadata));
            let schema = reader.schema()?;
            Ok((reader, schema))
        })?;
        let columns = schema.iter_names().map(ToString::to_string).collect();
        let types = schema.iter_values().map(|field| field.dtype.clone()).collect();
        Ok(Self { path: path.to_owned(), bytes, reader, columns, types, most_rows })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// When a column has another type, a number is none, or `each` refuses.
    pub fn read(
        mut self,
        wanted: &Wanted,
        job: &Job,
        mut each: impl FnMut(&Row) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        for at in &wanted.texts {
            self.check_type(*at, false, wanted)?;
        }
        for at in &wanted.numbers {
            self.check_type(*at, true, wanted)?;
        }
        let rows = guarded(&self.path, || self.reader.num_rows())?;
        let used: Vec<usize> = wanted.texts.iter().chain(&wanted.numbers).copied().collect();
        if rows > self.most_rows || rows.saturating_mul(used.len()) > VALUE_LIMIT {
            return Err(StageError::data(self.path.display(), format!("claims {rows} rows, which is too many")));
        }
        for at in &used {
            self.check_pages(*at, rows)?;
        }
        let Self { path, reader, columns, .. } = self;
        let name = |at: usize| columns.get(at).cloned().unwrap_or_default();
        let frame = guarded(&path, || reader.with_columns(Some(used.iter().map(|at| name(*at)).collect())).finish())?;
        let texts = pick(&path, &frame, wanted.texts.iter().map(|at| name(*at)), texts)?;
        let numbers = pick(&path, &frame, wanted.numbers.iter().map(|at| name(*at)), numbers)?;
        drop(frame);
        let lengths = texts.iter().map(|column| column.len()).chain(numbers.iter().map(|column| column.len()));
        if lengths.into_iter().any(|length| length != rows) {
            return Err(damaged(&path, "has columns of different lengths"));
        }
        let (mut fields, mut values) = (ByteRecord::new(), Vec::new());
        for at in 0..rows {
            let place = ("row", at as u64 + 1);
            fields.clear();
            texts.iter().for_each(|column| fields.push_field(column.get(at).unwrap_or_default().as_bytes()));
            values.clear();
            for (column, index) in numbers.iter().zip(&wanted.numbers) {
                let refuse = |what: String| {
                    let hint = wanted.hint.map(str::to_owned);
                    Row::new(&path, place, &fields, &[]).error(&name(*index), what, hint)
                };
                match column.get(at) {
                    Some(value) if value.is_finite() => values.push(value),
                    Some(value) => return Err(refuse(format!("`{value}` is not a finite 32-bit number"))),
                    None => return Err(refuse("is empty, expected a number".into())),
                }
            }
            each(&Row::new(&path, place, &fields, &values))?;
            if at % 4096 == 0 {
                job.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// Refuses what the pages of a column cannot hold.
    fn check_pages(&mut self, at: usize, rows: usize) -> Result<(), StageError> {
        let Some(name) = self.columns.get(at) else { return Ok(()) };
        let metadata = guarded(&self.path, || self.reader.get_metadata().cloned())?;
        let mut left = rows;
        for group in &metadata.row_groups {
            left = left
                .checked_sub(group.num_rows())
                .ok_or_else(|| damaged(&self.path, format!("claims {rows} rows, but more in its groups of rows")))?;
            for column in group.columns_under_root_iter(name).into_iter().flatten() {
                let range = guarded(&self.path, || Ok(column.byte_range()))?;
                let range = usize::try_from(range.start).unwrap_or(usize::MAX)..usize::try_from(range.end).unwrap_or(0);
                let checked = self.bytes.get(range).ok_or("is beyond the end of the file");
                let checked = checked.and_then(|bytes| pages::check(bytes, group.num_rows()));
                checked.map_err(|what| damaged(&self.path, format!("column `{name}` {what}")))?;
            }
        }
        Ok(())
    }

    /// Refuses what has no meaning here, before the decoder meets it.
    fn check_type(&self, at: usize, number: bool, wanted: &Wanted) -> Result<(), StageError> {
        use ArrowDataType as T;
        let Some(found) = self.types.get(at) else { return Ok(()) };
        let hint = match found {
            T::Boolean | T::Int32 | T::Int64 | T::UInt32 | T::UInt64 | T::Float32 | T::Float64 => return Ok(()),
            T::Utf8 | T::LargeUtf8 | T::Utf8View if !number => return Ok(()),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => wanted.hint.unwrap_or("store the column as numbers"),
            _ if number => wanted.hint.unwrap_or("store the column as int32, int64, float32, float64 or bool"),
            _ => "store the column as text, int32, int64, float32, float64 or bool",
        };
        let column = self.columns.get(at).map_or("", String::as_str);
        let expected = if number { "numbers" } else { "text or numbers" };
        Err(StageError::Data {
            place: format!("{}, column `{column}`", self.path.display()),
            what: format!("has type {found:?}, expected {expected}"),
            hint: Some(hint.to_owned()),
        })
    }
}

/// Turns columns of a frame into one type.
fn pick<T>(
    path: &Path,
    frame: &DataFrame,
    names: impl Iterator<Item = String>,
    turn: fn(&DataFrame, &str) -> PolarsResult<T>,
) -> Result<Vec<T>, StageError> {
    names.map(|name| guarded(path, || turn(frame, &name))).collect()
}

fn texts(frame: &DataFrame, name: &str) -> PolarsResult<StringChunked> {
    Ok(frame.column(name)?.cast(&DataType::String)?.rechunk().str()?.clone())
}

fn numbers(frame: &DataFrame, name: &str) -> PolarsResult<ChunkedArray<Float32Type>> {
    Ok(frame.column(name)?.cast(&DataType::Float32)?.rechunk().f32()?.clone())
}

/// Runs a part of the decoder.
fn guarded<T>(path: &Path, decode: impl FnOnce() -> PolarsResult<T>) -> Result<T, StageError> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(e)) => Err(damaged(path, format!("cannot be decoded: {e}"))),
        Err(_) => Err(damaged(path, "cannot be decoded")),
    }
}

fn damaged(path: &Path, what: impl Into<String>) -> StageError {
    StageError::Data {
        place: path.display().to_string(),
        what: what.into(),
        hint: Some("the file may be damaged or cut off: write or download it again".to_owned()),
    }
}
