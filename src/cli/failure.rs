//! Why a command failed: message, causes, hints, exit code.

use std::io::IsTerminal;

use miette::{GraphicalReportHandler, GraphicalTheme};
use serde_json::{Value, json};

use super::{exit, note};
use crate::pipeline::PipelineError;
use crate::run::{FailureKind, NodeFailure, RunError, causes};
use crate::store::StoreError;

/// Problems with a pipeline that are shown with their excerpts: about a screenful.
const MOST_SHOWN: usize = 8;

/// A failed command.
pub struct Failure {
    code: u8,
    text: String,
    /// Problems with a pipeline, each with its place.
    problems: Vec<Value>,
}

impl Failure {
    /// A failure with a message and, perhaps, what to do about it.
    pub fn new(code: u8, message: impl AsRef<str>, hint: Option<&str>) -> Self {
        let mut text = format!("error: {}", message.as_ref());
        if let Some(hint) = hint {
            text.push_str(&format!("\nhint: {hint}"));
        }
        Self { code, text, problems: Vec::new() }
    }

    /// Wrong usage.
    pub fn usage(message: impl AsRef<str>, hint: Option<&str>) -> Self {
        Self::new(exit::USAGE, message, hint)
    }

    /// Something that should not happen.
    pub fn unexpected(message: impl AsRef<str>) -> Self {
        Self::new(exit::UNEXPECTED, message, None)
    }

    /// Returns what went wrong, without hints.
    pub fn message(&self) -> String {
        let first = self.text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    }

    /// Returns what to do about it, if anything is known.
    pub fn hint(&self) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix("hint: "))
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns it for `--json`.
    pub fn json(&self) -> Value {
        json!({"version": 1, "exit-code": self.code, "error": self.text.trim_end(), "problems": self.problems})
    }

    /// Shows it on stderr and returns the exit code.
    pub fn show(&self) -> u8 {
        note(self.text.trim_end());
        self.code
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        let fancy = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let theme = if fancy { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_context_lines(1);
        let mut text = String::new();
        for report in error.diagnostics(MOST_SHOWN) {
            if !report.has_excerpt() {
                text.push_str(&format!("  {}:\n", report.place));
            }
            if handler.render_report(&mut text, &report).is_err() {
                text.push_str(&format!("{}: {report}", report.place));
            }
            text.push('\n');
        }
        let count = error.problems.len();
        let plural = if count == 1 { "" } else { "s" };
        if count > MOST_SHOWN {
            text.push_str(&format!("… and {} more; `ppgnn check FILE --json` lists all\n", count - MOST_SHOWN));
        }
        text.push_str(&format!("error: {count} problem{plural}; nothing was run"));
        let problems = error.placed().map(|(problem, at)| {
            let (file, line, column) = (&*at.name, at.line, at.column);
            json!({"file": file, "line": line, "column": column, "message": problem.message, "help": problem.help})
        });
        Self { code: if error.is_data() { exit::DATA } else { exit::INVALID }, problems: problems.collect(), text }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(exit::STORE, causes(&error).join(": "), error.hint())
    }
}

impl From<NodeFailure> for Failure {
    fn from(failure: NodeFailure) -> Self {
        Self::new(code_of(failure.kind), failure.errors.join(": "), failure.hint.as_deref())
    }
}

/// Returns the exit code of a failed node. Of several, the largest says most.
pub fn code_of(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Data => exit::DATA,
        FailureKind::Stage | FailureKind::Lasting | FailureKind::Panic => exit::FAILED,
        FailureKind::Store => exit::STORE,
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::NoSuchNode { .. } => Self::unexpected(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_node_is_shown_with_all_its_causes() {
        let errors = vec!["loss is not a number".into(), "division by zero".into()];
        let failure = Failure::from(NodeFailure { kind: FailureKind::Stage, errors, hint: Some("lower `lr`".into()) });
        assert_eq!(failure.text, "error: loss is not a number: division by zero\nhint: lower `lr`");
        assert_eq!((failure.code, failure.message()), (exit::FAILED, "loss is not a number: division by zero".into()));
    }
}
