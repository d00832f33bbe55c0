//! Lines of gzip-compressed text, as a stream.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use crate::contract::{Job, StageError};
use crate::reading::text::{number, shown};
use crate::reading::watched::{MEMBER_LIMIT, Steps, Watched};

/// The longest line in bytes: room for some fifty thousand numbers.
pub const LINE_LIMIT: u64 = 1 << 20;

/// The lines of a member of a zip.
pub struct Lines<'z, R: Read> {
    place: String,
    job: Job<'z>,
    reader: BufReader<MultiGzDecoder<Watched<'z, io::Take<R>>>>,
    number: u64,
    bytes: u64,
}

impl<'z, R: Read> Lines<'z, R> {
    /// Decodes a member that is compressed by gzip; `size` is what the zip says of its length, for progress alone.
    pub fn new(place: String, member: R, size: u64, job: &Job<'z>) -> Self {
        let note = place.rsplit('/').next().unwrap_or_default().trim_end_matches('`');
        let watched = Watched::new(member.take(MEMBER_LIMIT), Steps::new(job, size, note));
        let reader = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(watched));
        Self { place, job: *job, reader, number: 0, bytes: 0 }
    }

    /// Reads the next line that is not empty; `false` after the last.
    ///
    /// # Errors
    /// When the member is damaged or too large, or [`StageError::Cancelled`].
    pub fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, StageError> {
        loop {
            self.job.check_cancelled()?;
            line.clear();
            self.number += 1;
            let read = self.reader.by_ref().take(LINE_LIMIT + 1).read_until(b'\n', line);
            let read = read.map_err(|e| self.broken(&e))? as u64;
            self.bytes += read;
            if self.bytes > MEMBER_LIMIT {
                return Err(self.error(format!("decodes to more than {MEMBER_LIMIT} bytes")));
            }
            if read > LINE_LIMIT {
                return Err(self.error(format!("is longer than {LINE_LIMIT} bytes, expected a line of numbers")));
            }
            line.truncate(line.trim_ascii_end().len());
            if read == 0 || !line.is_empty() {
                return Ok(read > 0);
            }
        }
    }

    /// An error on the line that was read last.
    pub fn error(&self, what: impl Into<String>) -> StageError {
        StageError::data(format!("{}, line {}", self.place, self.number), what)
    }

    /// An error about the whole member.
    pub fn about(&self, what: impl Into<String>) -> StageError {
        StageError::data(&self.place, what)
    }

    fn broken(&self, error: &io::Error) -> StageError {
        if let Err(stopped) = self.job.check_cancelled() {
            return stopped;
        }
        let (what, hint) = match error.kind() {
            ErrorKind::UnexpectedEof => ("is cut off".into(), Some("download it again".to_owned())),
            _ if self.bytes == 0 => (format!("is not compressed by gzip, or damaged: {error}"), None),
            _ => (format!("is damaged: {error}"), Some("download it again".to_owned())),
        };
        StageError::Data { place: format!("{}, line {}", self.place, self.number), what, hint }
    }
}

/// A field as text, without space around it.
pub fn field(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.trim_ascii()).ok()
}

/// Appends the numbers of a line.
///
/// # Errors
/// What the first field is that is no finite number.
pub fn numbers(line: &[u8], into: &mut Vec<f32>) -> Result<(), String> {
    for (at, text) in line.split(|b| *b == b',').enumerate() {
        match number(text) {
            Some(x) => into.push(x),
            None => return Err(format!("feature {at}: `{}` is not a finite 32-bit number", shown(text))),
        }
    }
    Ok(())
}
