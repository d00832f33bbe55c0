//! Problems in pipeline files, collected so that a person sees all of a phase at once, each at its place.

use std::fmt;

use miette::{Diagnostic, NamedSource, SourceSpan};

use super::source::{Sources, Span};

/// What kind of problem it is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The pipeline is invalid.
    Invalid,
    /// A file that the pipeline names is missing or unreadable.
    Data,
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
        if !self.found.contains(&problem) {
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
        self.problems.iter().all(|p| p.kind == ProblemKind::Data)
    }

    /// Returns the problems as diagnostics with an excerpt of the text.
    pub fn diagnostics(&self) -> impl Iterator<Item = ProblemReport> {
        self.problems.iter().map(|problem| {
            let (name, line, column) = self.sources.position(&problem.span);
            let text = self.sources.get(problem.span.source).map(|s| s.text.to_string()).unwrap_or_default();
            ProblemReport {
                message: problem.message.clone(),
                help: problem.help.clone(),
                text: NamedSource::new(&name, text),
                span: problem.span.range.clone().into(),
                place: format!("{name}:{line}:{column}"),
            }
        })
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let (name, line, column) = self.sources.position(&problem.span);
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{name}:{line}:{column}: {}", problem.message)?;
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
    text: NamedSource<String>,
    #[label(primary)]
    span: SourceSpan,
    /// `file:line:column`.
    pub place: String,
}
