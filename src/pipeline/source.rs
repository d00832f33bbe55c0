//! Where a value was written: the files behind a pipeline, and spans inside them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One text behind a pipeline: a file, or an option of the command line.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name shown to people.
    pub name: String,
    /// Folder that relative paths written in it start from.
    pub folder: PathBuf,
    /// The text.
    pub text: Arc<str>,
}

/// A place in a source, as a range of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Position of the source in [`Sources`].
    pub source: usize,
    /// Bytes.
    pub range: Range<usize>,
}

/// All texts behind a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
}

impl Sources {
    /// Adds a text and returns its position.
    pub fn add(&mut self, name: impl Into<String>, folder: &Path, text: &str) -> usize {
        self.push(Source { name: name.into(), folder: folder.to_owned(), text: text.into() })
    }

    /// Adds a source and returns its position.
    pub fn push(&mut self, source: Source) -> usize {
        self.all.push(source);
        self.all.len() - 1
    }

    /// Adds all sources of another list and returns the position of the first.
    pub fn append(&mut self, others: Sources) -> usize {
        let first = self.all.len();
        self.all.extend(others.all);
        first
    }

    /// Returns a source.
    pub fn get(&self, source: usize) -> Option<&Source> {
        self.all.get(source)
    }

    /// Returns the folder that relative paths in a source start from.
    pub fn folder(&self, span: &Span) -> &Path {
        self.get(span.source).map_or(Path::new("."), |s| &s.folder)
    }

    /// Returns name, line and column of a place, both counted from 1.
    pub fn position(&self, span: &Span) -> (String, usize, usize) {
        let Some(source) = self.get(span.source) else { return (String::new(), 0, 0) };
        let before = source.text.get(..span.range.start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (source.name.clone(), line, column)
    }
}
