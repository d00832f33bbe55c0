//! The program, to which a program of a user's own can add models, formats, metrics and stages before it starts.

use std::ffi::OsString;
use std::process::ExitCode;

use ppgnn_stages::contract::{Refused, Registry, Stage, StageDef};
use ppgnn_stages::formats::{Format, FormatDef};
use ppgnn_stages::kinds::{Score, ScoreDef};
use ppgnn_stages::models::{Build, ModelDef, PlainModel};
use ppgnn_stages::tensor::threads;

use crate::cli::{self, exit};

/// The command line of `ppgnn`, with what a program of a user's own adds to it.
///
#[doc = include_str!("../docs/extending.md")]
pub struct Program {
    registry: Registry,
    refused: Vec<Refused>,
}

impl Default for Program {
    fn default() -> Self {
        Self::new()
    }
}

impl Program {
    /// The program with what is built in.
    pub fn new() -> Self {
        Self { registry: ppgnn_stages::built_in(), refused: Vec::new() }
    }

    /// Adds a model, for `model` of `train`.
    #[must_use]
    pub fn model<M: Build>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &ModelDef::of::<M>() }).err());
        self
    }

    /// Adds a model in plain form, for `model` of `train`.
    #[must_use]
    pub fn plain_model<M: PlainModel>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &ModelDef::plain::<M>() }).err());
        self
    }

    /// Adds a format or generator, for `format` of `load`.
    #[must_use]
    pub fn format<F: Format>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &FormatDef::of::<F>() }).err());
        self
    }

    /// Adds a score, which gives one metric per part: `evaluate` computes them, tables show them.
    #[must_use]
    pub fn metric<S: Score>(mut self) -> Self {
        self.refused.extend(self.registry.add_row(const { &ScoreDef::of::<S>() }).err());
        self
    }

    /// Adds a stage.
    #[must_use]
    pub fn stage<S: Stage>(mut self) -> Self {
        self.refused.extend(self.registry.add_stage(const { &StageDef::of::<S>() }).err());
        self
    }

    /// Returns what the program knows, to resolve and plan pipelines without the command line.
    ///
    /// # Errors
    /// Every addition that is refused.
    pub fn registry(&self) -> Result<&Registry, &[Refused]> {
        if self.refused.is_empty() { Ok(&self.registry) } else { Err(&self.refused) }
    }

    /// Does what the arguments of the process say, and returns the exit code. A refused addition is wrong
    /// usage: nothing is done. Call it first in `main`: candle is told to start no threads of its own, which is possible while
    /// there is one thread only.
    pub fn run(self) -> ExitCode {
        threads::leave_to_callers();
        ExitCode::from(self.main(std::env::args_os()))
    }

    /// Does what these arguments say, such as `["run", "mine.yaml"]`, and returns the exit code.
    pub fn run_with<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> u8 {
        self.main(std::iter::once("ppgnn".into()).chain(args.into_iter().map(Into::into)))
    }

    fn main(self, args: impl IntoIterator<Item = OsString>) -> u8 {
        match self.registry() {
            Ok(registry) => cli::main(registry, args),
            Err(refused) => {
                refused.iter().for_each(|refused| cli::note(&format!("error: {refused}")));
                exit::USAGE
            }
        }
    }
}
