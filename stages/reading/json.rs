//! Reads JSON as a stream, straight into its final form, without a tree of values in between.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::error::Category;

use super::source;
use super::watched::{MEMBER_LIMIT, Steps, Watched};
use crate::contract::{Job, StageError};

/// Reads a file with one value, which `seed` takes in.
///
/// # Errors
/// When the file is not JSON, or not what `seed` expects; [`StageError::Cancelled`].
pub fn read<S, T>(path: &Path, job: &Job, seed: S) -> Result<T, StageError>
where
    S: for<'de> DeserializeSeed<'de, Value = T>,
{
    let file = source::open(path)?;
    let total = file.metadata().map_or(0, |about| about.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let watched = Watched::new(file.take(MEMBER_LIMIT), Steps::new(job, total, name));
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, watched));
    let read = seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| match job.check_cancelled() {
        Err(stopped) => stopped,
        Ok(()) => source::foreign(path, "a JSON file").unwrap_or_else(|| problem(path, &error)),
    })
}

fn problem(path: &Path, error: &serde_json::Error) -> StageError {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let (what, hint) = match error.classify() {
        Category::Io => (format!("cannot be read: {text}"), None),
        Category::Eof => (format!("is cut off: {text}"), Some("download it again".to_owned())),
        Category::Syntax => (format!("is not JSON: {text}"), None),
        Category::Data => (text.to_owned(), None),
    };
    let place = format!("{}, line {}, column {}", path.display(), error.line(), error.column());
    StageError::Data { place, what, hint }
}

/// A list whose items go to `take` one by one, with their place. Its value is their number.
pub struct List<T, F> {
    take: F,
    item: PhantomData<T>,
}

impl<T, F: FnMut(usize, T) -> Result<(), String>> List<T, F> {
    /// Hands over the items of a list.
    pub fn new(take: F) -> Self {
        Self { take, item: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(usize, T) -> Result<(), String>> DeserializeSeed<'de> for List<T, F> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(usize, T) -> Result<(), String>> Visitor<'de> for List<T, F> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<usize, A::Error> {
        let mut at = 0;
        while let Some(item) = items.next_element()? {
            (self.take)(at, item).map_err(A::Error::custom)?;
            at += 1;
        }
        Ok(at)
    }
}
