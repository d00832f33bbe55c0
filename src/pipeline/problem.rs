//! Problems in pipeline files, collected so that a person sees all of a phase at once, each at its place.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use miette::{Diagnostic, NamedSource, SourceSpan};

use super::source::{Position, Sources, Span};

/// What kind of problem it is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The pipeline is invalid.
    Invalid,
    /// A file that the pipeline names is missing or unreadable.
    Data,
    /// The files of a known data set are not here yet.
    Absent,
}

/// One problem at one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// Where it is.
    pub span: Span,
    /// What is wrong, as a lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Problems found so far.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    found: Vec<Problem>,
    /// The same, to tell what was found before.
    seen: HashSet<Problem>,
}

impl Problems {
    /// Adds a problem unless it was added before.
    pub fn add(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) {
        self.push(Problem { kind: ProblemKind::Invalid, span: span.clone(), message: message.into(), help });
    }

    /// Adds a problem with a file that the pipeline names.
    pub fn add_data(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) {
        self.push(Problem { kind: ProblemKind::Data, span: span.clone(), message: message.into(), help });
    }

    /// Adds a known data set whose files are not here yet.
    pub fn add_absent(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) {
        self.push(Problem { kind: ProblemKind::Absent, span: span.clone(), message: message.into(), help });
    }

    /// Takes over the problems of a document that was read on its own, with its texts.
    pub fn adopt(&mut self, error: PipelineError, sources: &mut Sources) {
        let first = sources.append(error.sources);
        for mut problem in error.problems {
            problem.span.source += first;
            self.push(problem);
        }
    }

    /// Adds a problem and returns nothing, in place of what it spoiled.
    pub fn refuse<T>(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) -> Option<T> {
        self.add(span, message, help);
        None
    }

    fn push(&mut self, problem: Problem) {
        if self.seen.insert(problem.clone()) {
            self.found.push(problem);
        }
    }

    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Ends a phase: an error with everything found, if anything was.
    ///
    /// # Errors
    /// All problems found so far.
    pub fn finish(self, sources: &Sources) -> Result<(), PipelineError> {
        if self.found.is_empty() { Ok(()) } else { Err(self.into_error(sources)) }
    }

    /// Returns the error with everything found so far.
    pub fn into_error(self, sources: &Sources) -> PipelineError {
        PipelineError { problems: self.found, sources: sources.clone() }
    }
}

/// A pipeline that cannot be used, with every problem of the phase that found it.
#[derive(Clone, Debug)]
pub struct PipelineError {
    /// The problems, in the order they were found.
    pub problems: Vec<Problem>,
    /// The texts they are in.
    pub sources: Sources,
}

impl PipelineError {
    /// Returns whether every problem is about missing data.
    pub fn is_data(&self) -> bool {
        self.problems.iter().all(|p| p.kind != ProblemKind::Invalid)
    }

    /// Returns whether nothing is missing but files of known data sets.
    pub fn is_absence(&self) -> bool {
        self.problems.iter().all(|p| p.kind == ProblemKind::Absent)
    }

    /// Returns every problem with name, line and column of its place, in time linear in the texts.
    pub fn placed(&self) -> impl Iterator<Item = (&Problem, Position)> {
        self.problems.iter().zip(self.sources.positions(self.problems.iter().map(|problem| &problem.span)))
    }

    /// Returns the first `most` problems as diagnostics with an excerpt of the text.
    pub fn diagnostics(&self, most: usize) -> impl Iterator<Item = ProblemReport> {
        self.placed().take(most).map(|(problem, position)| {
            let source = self.sources.get(problem.span.source);
            ProblemReport {
                message: problem.message.clone(),
                help: problem.help.clone(),
                // A line of a machine's making is no excerpt for people.
                text: source
                    .filter(|source| source.line_length(&problem.span) <= LONGEST_LINE)
                    .map(|source| NamedSource::new(&*position.name, Arc::clone(&source.text))),
                span: problem.span.range.clone().into(),
                place: position.to_string(),
            }
        })
    }
}

/// The longest line that is shown with a problem in it.
const LONGEST_LINE: usize = 300;

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (problem, position)) in self.placed().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{position}: {}", problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for PipelineError {}

/// One problem with the text around it, ready to be shown.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct ProblemReport {
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    text: Option<NamedSource<Arc<str>>>,
    #[label(primary)]
    span: SourceSpan,
    /// `file:line:column`.
    pub place: String,
}

impl ProblemReport {
    /// Returns whether the text around it is shown with it.
    pub fn has_excerpt(&self) -> bool {
        self.text.is_some()
    }
}
