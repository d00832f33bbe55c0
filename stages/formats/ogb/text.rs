//! Lines of gzip-compressed text, as a stream.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use crate::contract::{Job, StageError};
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

    /// Hands every line that is not empty to `take`, which says what is wrong with it.
    ///
    /// # Errors
    /// When the member is damaged or too large, or `take` refuses; [`StageError::Cancelled`].
    pub fn each(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), StageError> {
        let mut line = Vec::new();
        while self.next(&mut line)? {
            take(&line).map_err(|what| self.error(what))?;
        }
        Ok(())
    }

    /// Reads the next line that is not empty; `false` after the last.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, StageError> {
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
    fn error(&self, what: impl Into<String>) -> StageError {
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
        match error.kind() {
            ErrorKind::UnexpectedEof => self.error("is cut off").with_hint("write or download it again"),
            _ if self.bytes == 0 => self.error(format!("is not compressed by gzip, or damaged: {error}")),
            _ => self.error(format!("is damaged: {error}")).with_hint("write or download it again"),
        }
    }
}
