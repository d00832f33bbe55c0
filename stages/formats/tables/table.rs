//! A table of either kind: its columns by name, its rows one at a time.

use std::path::Path;

use csv::ByteRecord;

use super::parquet::Parquet;
use super::text::{self, Text};
use crate::contract::params;
use crate::contract::{Job, StageError};
use crate::reading::source;

/// An open table.
pub enum Table {
    /// Text with a header.
    Text(Text),
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

/// One row.
pub struct Row<'r> {
    path: &'r Path,
    unit: &'static str,
    at: u64,
    texts: &'r ByteRecord,
    /// The numbers, as they were asked for.
    pub numbers: &'r [f32],
}

impl<'r> Row<'r> {
    /// The row at a `line` or `row` (that is `unit`) of the file.
    pub fn new(path: &'r Path, (unit, at): (&'static str, u64), texts: &'r ByteRecord, numbers: &'r [f32]) -> Self {
        Self { path, unit, at, texts, numbers }
    }

    /// Where it stands.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where another row stands, in words.
    pub fn other(&self, at: u64) -> String {
        format!("{} {at}", self.unit)
    }

    /// A text, as it was asked for, without spaces around it.
    pub fn text(&self, at: usize) -> &'r [u8] {
        self.texts.get(at).unwrap_or_default().trim_ascii()
    }

    /// An error about one field.
    pub fn error(&self, column: &str, what: impl Into<String>, hint: Option<String>) -> StageError {
        let place = format!("{}, {} {}, column `{column}`", self.path.display(), self.unit, self.at);
        StageError::Data { place, what: what.into(), hint }
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
        let file = source::open(path)?;
        if let Some(foreign) = source::foreign(path, "a table") {
            return Err(foreign);
        }
        let separator = match (extension, packed) {
            ("parquet" | "pq", false) => return Parquet::open(path, file).map(Self::Parquet),
            ("csv", _) => text::Separator::Is(separator.unwrap_or(b',')),
            ("tsv", _) => text::Separator::Is(separator.unwrap_or(b'\t')),
            ("txt", _) => separator.map_or(text::Separator::TabOrComma, text::Separator::Is),
            _ => {
                let what = "is not known to be a table, expected the extension .csv, .tsv or .txt (each also .gz) or \
                            .parquet";
                return Err(StageError::data(path.display(), what));
            }
        };
        let text = if packed { Text::unpack(path, file, separator) } else { Text::new(path, file, separator) };
        text.map(Self::Text)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Text(text) => text.path(),
            Self::Parquet(parquet) => parquet.path(),
        }
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        match self {
            Self::Text(text) => text.columns(),
            Self::Parquet(parquet) => parquet.columns(),
        }
    }

    /// Finds the column that a parameter names.
    ///
    /// # Errors
    /// When there is none or more than one.
    pub fn column(&self, param: &str, name: &str) -> Result<usize, StageError> {
        let columns = self.columns();
        let mut found = (0..).zip(columns).filter(|(_, column)| *column == name).map(|(at, _)| at);
        let place = self.path().display().to_string();
        match (found.next(), found.next()) {
            (Some(at), None) => return Ok(at),
            (Some(_), Some(_)) => {
                return Err(StageError::data(place, format!("has more than one column `{name}`")));
            }
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
        let hint = Some(format!("{help}; the parameter `{param}` names it"));
        Err(StageError::Data { place, what: format!("has no column `{name}`"), hint })
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
        match self {
            Self::Text(text) => text.read(wanted, job, each),
            Self::Parquet(parquet) => parquet.read(wanted, job, each),
        }
    }
}
