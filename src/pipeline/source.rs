//! Where a value was written: the files behind a pipeline, and spans inside them.

use std::fmt;
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

    /// Lists the texts that are files; others are built in, or options of the command line.
    pub fn files(&self) -> Vec<PathBuf> {
        self.all.iter().map(|source| PathBuf::from(&source.name)).filter(|path| path.is_file()).collect()
    }

    /// Returns the folder that relative paths in a source start from.
    pub fn folder(&self, span: &Span) -> &Path {
        self.get(span.source).map_or(Path::new("."), |s| &s.folder)
    }

    /// Returns the positions of places, in the order of the places. Every text is read once, whatever their number.
    pub fn positions<'s>(&self, spans: impl Iterator<Item = &'s Span>) -> Vec<Position> {
        let mut order: Vec<(usize, &Span)> = spans.enumerate().collect();
        let nowhere = Position { name: "".into(), line: 0, column: 0 };
        let mut positions = vec![nowhere; order.len()];
        order.sort_by_key(|(_, span)| (span.source, span.range.start));
        for of_source in order.chunk_by(|(_, a), (_, b)| a.source == b.source) {
            let Some(source) = self.get(of_source[0].1.source) else { continue };
            let (mut at, name): (_, Arc<str>) = (0, source.name.as_str().into());
            let (mut line, mut column) = (1, 1);
            for (place, span) in of_source {
                for c in source.text.get(at..span.range.start).unwrap_or("").chars() {
                    (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
                }
                at = span.range.start.max(at);
                positions[*place] = Position { name: Arc::clone(&name), line, column };
            }
        }
        positions
    }

    /// Returns the position of one place.
    pub fn position(&self, span: &Span) -> (String, usize, usize) {
        let all = self.positions(std::iter::once(span));
        all.into_iter().next().map_or_else(Default::default, |p| (p.name.to_string(), p.line, p.column))
    }
}

/// A place for people: shown as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the source.
    pub name: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.line, self.column)
    }
}

impl Source {
    /// Returns the length of the line that a place begins in, in bytes.
    pub(super) fn line_length(&self, span: &Span) -> usize {
        let (before, after) = self.text.split_at_checked(span.range.start).unwrap_or((&self.text, ""));
        before.len() - before.rfind('\n').map_or(0, |end| end + 1) + after.find('\n').unwrap_or(after.len())
    }
}
