//! Why a stage or an artifact failed.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a stage did not produce its output.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The run was interrupted.
    #[error("interrupted")]
    Cancelled,
    /// A required slot is empty.
    #[error("input `{slot}` is not wired")]
    MissingInput {
        /// The empty slot.
        slot: &'static str,
    },
    /// A file outside the store is missing, changed or not what it should be.
    #[error("{place}: {what}")]
    Data {
        /// File and position inside it.
        place: String,
        /// What is wrong, and what was expected.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The parameters and inputs are each fine but cannot be used together.
    #[error("{what}")]
    Unusable {
        /// What does not fit.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A computation left the range of numbers, or did not converge.
    #[error("{what}")]
    Numeric {
        /// What happened, and where.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A program of the user's failed, or its result cannot be used.
    #[error("{what}")]
    Command {
        /// The command, and what became of it.
        what: String,
        /// What to do about it.
        hint: Option<String>,
        /// The last that it said.
        #[source]
        said: Option<LastLines>,
    },
    /// A GPU refused.
    #[error("{what}")]
    Card {
        /// What happened, and where.
        what: String,
        /// What to do about it.
        hint: Option<String>,
        /// Whether the GPU cannot be used any more.
        lost: bool,
        /// What the driver said.
        source: Option<Box<candle_core::Error>>,
    },
    /// The tensor library refused an operation.
    #[error("tensor operation failed")]
    Tensor(#[from] candle_core::Error),
    /// An artifact could not be written or read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl StageError {
    /// A problem with data outside the store.
    pub fn data(place: impl fmt::Display, what: impl Into<String>) -> Self {
        Self::Data { place: place.to_string(), what: what.into(), hint: None }
    }
    /// Inputs and parameters that do not fit together.
    pub fn unusable(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unusable { what: what.into(), hint: Some(hint.into()) }
    }
    /// A numeric failure.
    pub fn numeric(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Numeric { what: what.into(), hint: Some(hint.into()) }
    }
    /// Adds what a person can do about it, to an error that has room for that.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Data { hint, .. } | Self::Unusable { hint, .. } | Self::Numeric { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }
    /// Returns what a person can do about it, if that is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Data { hint, .. }
            | Self::Unusable { hint, .. }
            | Self::Numeric { hint, .. }
            | Self::Command { hint, .. }
            | Self::Card { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}

/// The last lines that a program wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its last lines on stderr are:\n{}", .0.join("\n"))]
pub struct LastLines(pub Vec<String>);

/// Why an artifact could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The operating system refused.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file does not hold what it should.
    #[error("`{}` does not hold {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected in it.
        expected: String,
    },
}

impl ArtifactError {
    /// Wraps an error of the operating system.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
    /// Says what a file should have held.
    pub fn malformed(path: &Path, expected: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), expected: expected.into() }
    }
}
