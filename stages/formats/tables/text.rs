//! Tables in text form, as a stream: memory holds one row, and no row may be larger than [`ROW_LIMIT`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, Terminator};
use flate2::read::MultiGzDecoder;

use super::table::{Row, Rows, Table, Wanted};
use crate::contract::{Job, StageError};
use crate::reading::text::{number, shown};

/// The most bytes of a row; more are taken for a quote that is not closed.
const ROW_LIMIT: u64 = 16 << 20;
/// The most bytes that a packed table may hold, whatever it was packed to.
const UNPACKED_LIMIT: u64 = 4 << 30;
const CHUNK: usize = 1 << 16;

/// Gives no more than it may, so that neither a row nor a packed file can fill memory.
pub struct Bounded {
    source: Box<dyn BufRead>,
    of_row: u64,
    of_file: u64,
    ended: bool,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.of_row == 0 {
            return Err(io::Error::other(format!("more than {ROW_LIMIT} bytes in one row; is a quote not closed?")));
        }
        if self.of_file == 0 {
            return Err(io::Error::other(format!("more than {UNPACKED_LIMIT} bytes when unpacked")));
        }
        let most = self.of_row.min(self.of_file).min(buffer.len() as u64);
        let buffer = buffer.get_mut(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or_default();
        let read = self.source.read(buffer)?;
        self.of_row -= read as u64;
        self.of_file -= read as u64;
        self.ended = read == 0;
        Ok(read)
    }
}

/// Opens a table that is packed with gzip.
///
/// # Errors
/// As [`open`], and when it is not packed.
pub fn unpack(path: &Path, file: File, separator: Option<u8>) -> Result<Table, StageError> {
    let mut packed = BufReader::with_capacity(CHUNK, file);
    match packed.fill_buf() {
        Ok([0x1f, 0x8b, ..]) => open(path, MultiGzDecoder::new(packed), separator, UNPACKED_LIMIT),
        Ok(_) => Err(StageError::data(path.display(), "is not packed with gzip, which its extension .gz says")),
        Err(e) => Err(StageError::data(path.display(), format!("cannot be read: {e}"))),
    }
}

/// Opens a table of at most `limit` bytes and reads its header. Without a separator, it is a tab if the header has one, else
/// a comma.
///
/// # Errors
/// When it cannot be read or is not text.
pub fn open(path: &Path, source: impl Read + 'static, separator: Option<u8>, limit: u64) -> Result<Table, StageError> {
    let mut source = BufReader::with_capacity(CHUNK, source);
    let start = source.fill_buf().map_err(|e| StageError::data(path.display(), format!("cannot be read: {e}")))?;
    if let Some(other) = not_text(start) {
        return Err(StageError::data(path.display(), format!("is {other}, expected text")));
    }
    let header = start.split(|b| *b == b'\n').next().unwrap_or_default();
    let separator = separator.unwrap_or(if header.contains(&b'\t') { b'\t' } else { b',' });
    // Lines end with `\n` alone here: a `\r` before it is trimmed off with the spaces, and lines are counted right.
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .terminator(Terminator::Any(b'\n'))
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(CHUNK)
        .from_reader(Bounded { source: Box::new(source), of_row: ROW_LIMIT, of_file: limit, ended: false });
    let mut record = ByteRecord::new();
    if !next(&mut reader, &mut record).map_err(|what| StageError::data(path.display(), what))? {
        return Err(StageError::data(path.display(), "has no header, expected the names of its columns"));
    }
    let columns = record.iter().map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()).collect();
    Ok(Table { path: path.to_owned(), columns, rows: Rows::Text(reader) })
}

/// Reads all rows.
///
/// # Errors
/// When a row is not as the header says, a number is none, or `each` refuses.
pub fn read(
    mut reader: csv::Reader<Bounded>,
    columns: &[String],
    wanted: &Wanted,
    job: &Job,
    mut row: Row,
    mut each: impl FnMut(&Row) -> Result<(), StageError>,
) -> Result<(), StageError> {
    let mut record = ByteRecord::new();
    for round in 1u64.. {
        let place = |line: u64| format!("{}, line {line}", row.path.display());
        match next(&mut reader, &mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(what) => return Err(StageError::data(place(reader.position().line()), what)),
        }
        let line = start_line(&reader, &record);
        if record.len() != columns.len() {
            let s = if record.len() == 1 { "" } else { "s" };
            let what = format!("has {} field{s}, expected {} as in the header", record.len(), columns.len());
            return Err(StageError::data(place(line), what));
        }
        row.begin(line);
        wanted.texts.iter().for_each(|at| row.texts.push_field(record.get(*at).unwrap_or_default()));
        for at in &wanted.numbers {
            let number = value(record.get(*at).unwrap_or_default());
            row.numbers.push(number.map_err(|what| wanted.no_number(&row, &columns[*at], what))?);
        }
        each(&row)?;
        if round % 4096 == 0 {
            job.check_cancelled()?;
        }
    }
    Ok(())
}

/// Reads the next row that is not blank; false at the end.
fn next(reader: &mut csv::Reader<Bounded>, record: &mut ByteRecord) -> Result<bool, String> {
    loop {
        reader.get_mut().of_row = ROW_LIMIT;
        if !reader.read_byte_record(record).map_err(|e| match e.into_kind() {
            csv::ErrorKind::Io(e) => format!("cannot be read: {e}"),
            other => format!("cannot be read: {other:?}"),
        })? {
            return Ok(false);
        }
        let blank = record.len() == 1 && record.as_slice().trim_ascii().is_empty();
        if !blank {
            return Ok(true);
        }
    }
}

/// The line on which the row starts that was read last. The reader stands at the next line, unless it had to meet the
/// end of the file to end the row; quoted fields may hold more lines.
fn start_line(reader: &csv::Reader<Bounded>, record: &ByteRecord) -> u64 {
    let inside = record.as_slice().iter().filter(|b| **b == b'\n').count() as u64;
    let behind = inside + u64::from(!reader.get_ref().ended);
    reader.position().line().saturating_sub(behind).max(1)
}

/// What a file is that is no text, if that can be seen.
fn not_text(start: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 5] = [
        (b"PAR1", "a Parquet file"),
        (b"PK\x03\x04", "a zip file or a spreadsheet"),
        (b"\x1f\x8b", "a file packed with gzip"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    let found = known.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| name);
    found.or_else(|| start.iter().take(4096).any(|b| *b == 0).then_some("binary data"))
}

/// Reads a feature. Most are one digit.
fn value(field: &[u8]) -> Result<f32, String> {
    if let [digit @ b'0'..=b'9'] = field {
        return Ok(f32::from(digit - b'0'));
    }
    let field = field.trim_ascii();
    if field.eq_ignore_ascii_case(b"true") {
        return Ok(1.0);
    }
    if field.eq_ignore_ascii_case(b"false") {
        return Ok(0.0);
    }
    number(field).ok_or_else(|| match field {
        b"" => "is empty, expected a number".to_owned(),
        _ => format!("`{}` is not a finite 32-bit number", shown(field)),
    })
}
