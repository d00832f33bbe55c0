//! A table of either kind: its columns by name, its rows one at a time.

use std::path::{Path, PathBuf};

use csv::ByteRecord;

use super::parquet::{self, Parquet};
use super::text::{self, Bounded};
use crate::contract::params;
use crate::contract::{Job, StageError};
use crate::reading::source;

/// An open table.
pub struct Table {
    /// Where it is.
    pub path: PathBuf,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Rows,
}

/// The rows of a table, not yet read.
pub enum Rows {
    /// Text.
    Text(csv::Reader<Bounded>),
    /// Parquet.
    Parquet(Parquet),
}

/// Which columns to read, and in which order a row has them.
pub struct Wanted {
    /// Columns that are read as text.
    pub texts: Vec<usize>,
    /// Columns that must hold finite numbers.
    pub numbers: Vec<usize>,
    /// What to do about a column that holds something else.
    pub hint: Option<&'static str>,
}

/// What a row of text is called.
const LINE: &str = "line";

/// One row.
pub struct Row<'r> {
    /// Where the table is.
    pub path: &'r Path,
    /// What a row is called where it stands: `line` or `row`.
    unit: &'static str,
    /// The number of the line or row.
    pub at: u64,
    /// The texts, as they were asked for.
    pub texts: ByteRecord,
    /// The numbers, as they were asked for.
    pub numbers: Vec<f32>,
}

impl Row<'_> {
    /// Forgets the row before this one.
    pub fn begin(&mut self, at: u64) {
        self.at = at;
        self.texts.clear();
        self.numbers.clear();
    }

    /// Where another row stands, in words.
    pub fn other(&self, at: u64) -> String {
        format!("{} {at}", self.unit)
    }

    /// A text, as it was asked for; spaces around a field of a text file do not count.
    pub fn text(&self, at: usize) -> &[u8] {
        let text = self.texts.get(at).unwrap_or_default();
        if self.unit == LINE { text.trim_ascii() } else { text }
    }

    /// An error about one field.
    pub fn error(&self, column: &str, what: impl Into<String>) -> StageError {
        StageError::data(format!("{}, {} {}, column `{column}`", self.path.display(), self.unit, self.at), what)
    }
}

impl Wanted {
    /// An error about a field that is no number.
    pub fn no_number(&self, row: &Row, column: &str, what: String) -> StageError {
        let error = row.error(column, what);
        if let Some(hint) = self.hint { error.with_hint(hint) } else { error }
    }
}

impl Table {
    /// Opens a table and reads its header.
    ///
    /// # Errors
    /// When the extension is not that of a table, or the file cannot be read or is something else.
    pub fn open(path: &Path, separator: Option<u8>) -> Result<Self, StageError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let (plain, packed) = name.strip_suffix(".gz").map_or((name.as_str(), false), |plain| (plain, true));
        let extension = plain.rsplit_once('.').map_or("", |(_, extension)| extension);
        let file = source::open_as(path, "a table")?;
        let separator = match (extension, packed) {
            ("parquet" | "pq", false) => return parquet::open(path, source::read(path, parquet::FILE_LIMIT)?),
            ("csv", _) => Some(separator.unwrap_or(b',')),
            ("tsv", _) => Some(separator.unwrap_or(b'\t')),
            ("txt", _) => separator,
            _ => {
                let what = "is not known to be a table, expected the extension .csv, .tsv or .txt (each also .gz) or \
                            .parquet";
                return Err(StageError::data(path.display(), what));
            }
        };
        if packed { text::unpack(path, file, separator) } else { text::open(path, file, separator, u64::MAX) }
    }

    /// Finds the column that a parameter names.
    ///
    /// # Errors
    /// When there is none or more than one.
    pub fn column(&self, param: &str, name: &str) -> Result<usize, StageError> {
        let columns = &self.columns[..];
        let mut found = (0..).zip(columns).filter(|(_, column)| *column == name).map(|(at, _)| at);
        let about = |what: String| StageError::data(self.path.display(), what);
        match (found.next(), found.next()) {
            (Some(at), None) => return Ok(at),
            (Some(_), Some(_)) => return Err(about(format!("has more than one column `{name}`"))),
            (None, _) => {}
        }
        let names = || columns.iter().map(String::as_str);
        let help = match (params::nearest(name, names()), columns) {
            (_, [one]) => format!("its only column is `{one}`: is `separator` right?"),
            (Some(near), _) => {
                let list = params::list(names().take(24));
                format!("did you mean `{near}`? its columns are {list}")
            }
            (None, _) => params::nearest_help(name, names()),
        };
        Err(about(format!("has no column `{name}`")).with_hint(format!("{help}; the parameter `{param}` names it")))
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// When a row is not as the header says, a number is none, or `each` refuses.
    pub fn read(
        self,
        wanted: &Wanted,
        job: &Job,
        each: impl FnMut(&Row) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let Self { path, columns, rows } = self;
        let row = |unit| Row { path: &path, unit, at: 0, texts: ByteRecord::new(), numbers: Vec::new() };
        match rows {
            Rows::Text(reader) => text::read(reader, &columns, wanted, job, row(LINE), each),
            Rows::Parquet(parquet) => parquet.read(&columns, wanted, job, row("row"), each),
        }
    }
}
