//! Tables in Parquet form. Only the columns that are used are read. A column of lists of numbers, such as an embedding,
//! counts as several numbers, as many in every row.
//!
//! The decoder is polars. It trusts files more than we do, so what a file claims is compared with its size first (the
//! headers of pages in [`pages`]), and a panic inside the decoder is a damaged file.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use polars::prelude::{
    ArrowDataType, DataFrame, DataType, Float32Chunked, ListChunked, ParallelStrategy, ParquetReader, PolarsResult,
    SerReader, StringChunked,
};

use super::pages;
use super::table::{Row, Rows, Table, Wanted};
use crate::contract::{Job, StageError};

/// The most bytes of a file.
pub const FILE_LIMIT: u64 = 4 << 30;
/// The most values that are read from a file.
const VALUE_LIMIT: usize = 1 << 30;
/// The most rows a byte of the file can stand for. Packed sequences of numbers come to some hundreds.
const ROWS_A_BYTE: usize = 4096;

/// The rows of an open table.
pub struct Parquet {
    bytes: Arc<[u8]>,
    reader: ParquetReader<Cursor<Arc<[u8]>>>,
    types: Vec<ArrowDataType>,
}

/// Reads the footer of a file in memory, which describes the columns.
///
/// # Errors
/// When it is not Parquet.
pub fn open(path: &Path, bytes: Vec<u8>) -> Result<Table, StageError> {
    if !bytes.starts_with(b"PAR1") {
        return Err(StageError::data(path.display(), "is not a Parquet file, which its extension says"));
    }
    if !bytes.ends_with(b"PAR1") {
        return Err(damaged(path, "is cut off: a Parquet file ends with `PAR1`"));
    }
    let bytes: Arc<[u8]> = bytes.into();
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
    let rows = Rows::Parquet(Parquet { bytes, reader, types });
    Ok(Table { path: path.to_owned(), columns, rows })
}

impl Parquet {
    /// Reads all rows.
    ///
    /// # Errors
    /// When a column has another type, a number is none, or `each` refuses.
    pub fn read(
        mut self,
        columns: &[String],
        wanted: &Wanted,
        job: &Job,
        mut row: Row,
        mut each: impl FnMut(&Row) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let path = row.path;
        let used: Vec<usize> = wanted.texts.iter().chain(&wanted.numbers).copied().collect();
        for (place, at) in used.iter().enumerate() {
            self.check_type(path, (*at, &columns[*at]), place >= wanted.texts.len(), wanted)?;
        }
        let rows = guarded(path, || self.reader.num_rows())?;
        let most_rows = self.bytes.len().saturating_mul(ROWS_A_BYTE);
        if rows > most_rows || rows.saturating_mul(used.len()) > VALUE_LIMIT {
            return Err(StageError::data(path.display(), format!("claims {rows} rows, which is too many")));
        }
        let mut listed = 0;
        for at in &used {
            self.check_pages(path, (*at, &columns[*at]), rows, &mut listed)?;
        }
        let names = |of: &[usize]| of.iter().map(|at| columns[*at].clone()).collect::<Vec<_>>();
        let frame = guarded(path, || self.reader.with_columns(Some(names(&used))).finish())?;
        let texts = pick(path, &frame, &names(&wanted.texts), texts)?;
        let numbers = pick(path, &frame, &names(&wanted.numbers), numbers)?;
        drop(frame);
        let mut lengths = texts.iter().map(|column| column.len()).chain(numbers.iter().map(Column::len));
        if lengths.any(|length| length != rows) {
            return Err(damaged(path, "has columns of different lengths"));
        }
        for at in 0..rows {
            row.begin(at as u64 + 1);
            texts.iter().for_each(|column| row.texts.push_field(column.get(at).unwrap_or_default().as_bytes()));
            for (column, index) in numbers.iter().zip(&wanted.numbers) {
                let added = column.add(at, &mut row.numbers);
                added.map_err(|what| wanted.no_number(&row, &columns[*index], what))?;
            }
            each(&row)?;
            if at % 4096 == 0 {
                job.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// Refuses what the pages of a column cannot hold. `listed` counts the values in lists, of all columns.
    fn check_pages(
        &mut self,
        path: &Path,
        (at, name): (usize, &str),
        rows: usize,
        listed: &mut usize,
    ) -> Result<(), StageError> {
        let metadata = guarded(path, || self.reader.get_metadata().cloned())?;
        let list = self.types.get(at).is_some_and(|found| item(found).is_some());
        let mut left = rows;
        for group in &metadata.row_groups {
            left = left
                .checked_sub(group.num_rows())
                .ok_or_else(|| damaged(path, format!("claims {rows} rows, but more in its groups of rows")))?;
            for column in group.columns_under_root_iter(name).into_iter().flatten() {
                let range = guarded(path, || Ok(column.byte_range()))?;
                let range = usize::try_from(range.start).unwrap_or(usize::MAX)..usize::try_from(range.end).unwrap_or(0);
                let checked = self.bytes.get(range).ok_or("is beyond the end of the file");
                let mut most = group.num_rows();
                if list {
                    // A list holds any number of values, but no more than the column says that it has.
                    most = usize::try_from(column.num_values()).unwrap_or(usize::MAX);
                    *listed = listed.saturating_add(most);
                    if *listed > VALUE_LIMIT.min(self.bytes.len().saturating_mul(ROWS_A_BYTE)) {
                        let what = format!("column `{name}` claims {listed} values, which is too many");
                        return Err(StageError::data(path.display(), what));
                    }
                }
                let checked = checked.and_then(|bytes| pages::check(bytes, most));
                checked.map_err(|what| damaged(path, format!("column `{name}` {what}")))?;
            }
        }
        Ok(())
    }

    /// Refuses what has no meaning here, before the decoder meets it.
    fn check_type(
        &self,
        path: &Path,
        (at, column): (usize, &str),
        number: bool,
        wanted: &Wanted,
    ) -> Result<(), StageError> {
        use ArrowDataType as T;
        let Some(found) = self.types.get(at) else { return Ok(()) };
        let hint = match found {
            found if is_number(found) => return Ok(()),
            T::Utf8 | T::LargeUtf8 | T::Utf8View if !number => return Ok(()),
            _ if number && item(found).is_some_and(is_number) => return Ok(()),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => wanted.hint.unwrap_or("store the column as numbers"),
            _ if number => {
                wanted.hint.unwrap_or("store the column as int32, int64, float32, float64, bool or lists of these")
            }
            _ => "store the column as text, int32, int64, float32, float64 or bool",
        };
        let expected = if number { "numbers" } else { "text or numbers" };
        let place = format!("{}, column `{column}`", path.display());
        Err(StageError::data(place, format!("has type {found:?}, expected {expected}")).with_hint(hint))
    }
}

/// Turns columns of a frame into one type.
fn pick<T>(
    path: &Path,
    frame: &DataFrame,
    names: &[String],
    turn: fn(&DataFrame, &str) -> PolarsResult<T>,
) -> Result<Vec<T>, StageError> {
    names.iter().map(|name| guarded(path, || turn(frame, name))).collect()
}

fn texts(frame: &DataFrame, name: &str) -> PolarsResult<StringChunked> {
    let column = frame.column(name)?;
    let texts = column.cast(&DataType::String)?.rechunk().str()?.clone();
    if !column.dtype().is_float() {
        return Ok(texts);
    }
    // What data frame libraries write where there is nothing.
    Ok(texts.iter().map(|text| text.filter(|text| *text != "NaN")).collect())
}

fn numbers(frame: &DataFrame, name: &str) -> PolarsResult<Column> {
    let column = frame.column(name)?;
    if !column.dtype().is_list() {
        return Ok(Column::Numbers(column.cast(&DataType::Float32)?.rechunk().f32()?.clone()));
    }
    let lists = column.cast(&DataType::List(Box::new(DataType::Float32)))?.rechunk().list()?.clone();
    let values = lists.get_inner().f32()?.clone();
    Ok(Column::lists(lists, values))
}

/// The items of a list.
fn item(found: &ArrowDataType) -> Option<&ArrowDataType> {
    use ArrowDataType as T;
    match found {
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) => Some(&item.dtype),
        _ => None,
    }
}

fn is_number(found: &ArrowDataType) -> bool {
    use ArrowDataType as T;
    matches!(found, T::Boolean | T::Int32 | T::Int64 | T::UInt32 | T::UInt64 | T::Float32 | T::Float64)
}

/// A column of numbers.
enum Column {
    /// One in every row.
    Numbers(Float32Chunked),
    /// Several in every row, `width` of them: the lists, and their items one after another.
    Lists { lists: ListChunked, values: Float32Chunked, width: Option<usize> },
}

impl Column {
    fn lists(lists: ListChunked, values: Float32Chunked) -> Self {
        let width = range(&lists, 0).map(|range| range.len());
        Self::Lists { lists, values, width }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(column) => column.len(),
            Self::Lists { lists, .. } => lists.len(),
        }
    }

    /// Adds what row `at` has.
    fn add(&self, at: usize, numbers: &mut Vec<f32>) -> Result<(), String> {
        let (column, range, place) = match self {
            Self::Numbers(column) => (column, at..at + 1, None),
            Self::Lists { lists, values, width } => {
                let range = range(lists, at).ok_or("is empty, expected a list of numbers")?;
                match (width, range.len()) {
                    (_, 0) => return Err("is an empty list, expected numbers".into()),
                    (Some(width), found) if *width != found => {
                        return Err(format!("has {found} numbers, expected {width} as in row 1"));
                    }
                    _ => {}
                }
                (values, range.clone(), Some(range.start))
            }
        };
        for at in range {
            let item = || place.map_or_else(String::new, |start| format!("item {}: ", at - start));
            match column.get(at) {
                Some(value) if value.is_finite() => numbers.push(value),
                Some(value) => return Err(format!("{}`{value}` is not a finite 32-bit number", item())),
                None => return Err(format!("{}is empty, expected a number", item())),
            }
        }
        Ok(())
    }
}

/// Where the items of a row are; `None` if it has no list.
fn range(lists: &ListChunked, at: usize) -> Option<std::ops::Range<usize>> {
    let array = lists.downcast_iter().next().filter(|array| at < array.offsets().len_proxy())?;
    let there = array.validity().is_none_or(|valid| valid.get_bit(at));
    let (start, end) = array.offsets().start_end(at);
    there.then_some(start..end)
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
    StageError::data(path.display(), what).with_hint("the file may be damaged or cut off: write or download it again")
}
