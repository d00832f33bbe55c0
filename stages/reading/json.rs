//! Reads JSON as a stream, straight into its final form, without a tree of values in between.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::source;
use super::watched::{MEMBER_LIMIT, Steps, Watched};
use crate::contract::{Job, StageError};

/// What takes in the entries of an object.
pub trait Object {
    /// What is expected in its place, such as `an object with a list`.
    const EXPECTED: &'static str;
    /// Takes the value of one key.
    ///
    /// # Errors
    /// When the value is not what is expected.
    fn entry<'de, A: MapAccess<'de>>(&mut self, key: &str, entries: &mut A) -> Result<(), A::Error>;
}

/// Reads a file with one object.
///
/// # Errors
/// When the file is not JSON, or not what `object` expects; [`StageError::Cancelled`].
pub fn read<T: Object>(path: &Path, job: &Job, object: T) -> Result<T, StageError> {
    let file = source::open(path)?;
    let total = file.metadata().map_or(0, |about| about.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let watched = Watched::new(file.take(MEMBER_LIMIT), Steps::new(job, total, name));
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, watched));
    let read = json.deserialize_map(Entries(object)).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| match job.check_cancelled() {
        Err(stopped) => stopped,
        Ok(()) => source::foreign(path, "a JSON file").unwrap_or_else(|| problem(path, &error)),
    })
}

fn problem(path: &Path, error: &serde_json::Error) -> StageError {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let place = format!("{}, line {}, column {}", path.display(), error.line(), error.column());
    match error.classify() {
        Category::Io => StageError::data(place, format!("cannot be read: {text}")),
        Category::Eof => StageError::data(place, format!("is cut off: {text}")).with_hint("write or download it again"),
        Category::Syntax => StageError::data(place, format!("is not JSON: {text}")),
        Category::Data => StageError::data(place, text),
    }
}

struct Entries<T>(T);

impl<'de, T: Object> Visitor<'de> for Entries<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<T, A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            self.0.entry(&key, &mut entries)?;
        }
        Ok(self.0)
    }
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
