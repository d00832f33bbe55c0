//! Untrusted text: lines one at a time in one buffer, numbers, and words for messages.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::contract::{Job, StageError};

/// The longest line. Those of the published files have 5 KB.
const LINE_LIMIT: u64 = 16 << 20;

/// The lines of a file. Line ends are `\n` or `\r\n`; the last line may lack one, and blank lines may follow it.
pub struct Lines<'p, R> {
    path: &'p Path,
    reader: R,
    line: Vec<u8>,
    number: usize,
}

impl<'p, R: BufRead> Lines<'p, R> {
    /// Starts before the first line.
    pub fn new(path: &'p Path, reader: R) -> Self {
        Self { path, reader, line: Vec::new(), number: 0 }
    }

    /// Reads the header, and makes sure that it is one: data there would be lost silently.
    ///
    /// # Errors
    /// When the first line is missing or starts with a number.
    pub fn header(&mut self, expected: &str) -> Result<(), StageError> {
        let starts_with_number = match self.next()? {
            Some(line) => line.trim_ascii_start().first().is_some_and(u8::is_ascii_digit),
            None => return Err(self.about_file(format!("has no lines, expected the header `{expected}`"))),
        };
        if starts_with_number {
            return Err(self.error(format!("is not a header, expected `{expected}`")));
        }
        Ok(())
    }

    /// Reads a header of just these words; `<TAB>` stands for a tab.
    ///
    /// # Errors
    /// When the first line is missing or another.
    pub fn exact_header(&mut self, expected: &str) -> Result<(), StageError> {
        let found = match self.next()? {
            Some(line) if line == expected.replace("<TAB>", "\t").as_bytes() => return Ok(()),
            Some(line) => shown(line),
            None => return Err(self.about_file(format!("has no lines, expected the header `{expected}`"))),
        };
        Err(self.error(format!("is `{found}`, expected the header `{expected}`")))
    }

    /// Hands every line to `take`, which says what is wrong with it.
    ///
    /// # Errors
    /// When the file cannot be read, a line is too long, a blank line is not at the end, or `take` refuses;
    /// [`StageError::Cancelled`].
    pub fn each(&mut self, job: &Job, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), StageError> {
        while let Some(line) = self.next()? {
            take(line).map_err(|what| self.error(what))?;
            if self.number.is_multiple_of(1024) {
                job.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// Reads the next line, without its end; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<&[u8]>, StageError> {
        if !self.fill()? {
            return Ok(None);
        }
        if text(&self.line).is_empty() {
            let blank = self.number;
            while self.fill()? {
                if !text(&self.line).is_empty() {
                    return Err(self.error_at(blank, "is blank, expected blank lines at the end alone"));
                }
            }
            return Ok(None);
        }
        Ok(Some(text(&self.line)))
    }

    fn fill(&mut self) -> Result<bool, StageError> {
        self.line.clear();
        self.number += 1;
        let read = self.reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut self.line);
        match read {
            Ok(read) if read as u64 >= LINE_LIMIT => {
                Err(self.error_at(self.number, format!("is longer than {LINE_LIMIT} bytes")))
            }
            Ok(read) => Ok(read > 0),
            Err(e) => Err(self.error_at(self.number, format!("cannot be read: {e}"))),
        }
    }

    /// An error about the line that was read last.
    pub fn error(&self, what: impl Into<String>) -> StageError {
        let error = self.error_at(self.number, what);
        // A whole file ends with the end of a line.
        let whole = self.line.ends_with(b"\n");
        let hint = "it is the last line: the file may be cut off; write or download it again";
        if whole { error } else { error.with_hint(hint) }
    }

    /// An error about an earlier line.
    pub fn error_at(&self, line: usize, what: impl Into<String>) -> StageError {
        StageError::data(format!("{}, line {line}", self.path.display()), what)
    }

    /// An error about no line in particular.
    pub fn about_file(&self, what: impl Into<String>) -> StageError {
        StageError::data(self.path.display(), what)
    }
}

fn text(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads a whole number below `bound`.
pub fn whole(word: &[u8], bound: u32) -> Option<u32> {
    std::str::from_utf8(word.trim_ascii()).ok()?.parse().ok().filter(|n| *n < bound)
}

/// Reads a number that 32 bits can hold.
pub fn number(word: &[u8]) -> Option<f32> {
    std::str::from_utf8(word.trim_ascii()).ok()?.parse().ok().filter(|x: &f32| x.is_finite())
}

/// A word for a message: what cannot be printed is replaced, and what is long is cut.
pub fn shown(word: &[u8]) -> String {
    const MOST: usize = 40;
    let text = String::from_utf8_lossy(word.get(..4 * MOST).unwrap_or(word).trim_ascii()).into_owned();
    let printed = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let more = if text.chars().count() > MOST { "…" } else { "" };
    text.chars().take(MOST).map(printed).chain(more.chars()).collect()
}
