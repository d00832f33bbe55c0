//! The contract between the engine and the science.
//!
//! A stage is a pure function: checked parameters and input artifacts go in, one artifact comes out. Its author
//! writes constants and one function ([`Stage`]); the engine sees a plain row of data and function pointers
//! ([`StageDef`]). A stage cannot read YAML, look at the cache, print, or know its neighbours.
//!
//! ```
//! use ppgnn_stages::contract::{Artifact, ArtifactError, Job, Kind, Slot, Stage, StageDef, StageError};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// A number on disk.
//! struct Count(u64);
//!
//! impl Artifact for Count {
//!     const KIND: Kind = Kind("count");
//!     fn save(&self, dir: &std::path::Path) -> Result<(), ArtifactError> {
//!         let path = dir.join("count");
//!         std::fs::write(&path, self.0.to_string()).map_err(|e| ArtifactError::io(&path, e))
//!     }
//!     fn load(dir: &std::path::Path) -> Result<Self, ArtifactError> {
//!         let path = dir.join("count");
//!         let text = std::fs::read_to_string(&path).map_err(|e| ArtifactError::io(&path, e))?;
//!         text.parse().map(Count).map_err(|_| ArtifactError::malformed(&path, "a number"))
//!     }
//! }
//!
//! /// Parameters of `add`.
//! #[derive(Default, Serialize, Deserialize, JsonSchema)]
//! #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
//! struct Params {
//!     /// How much to add.
//!     by: u64,
//! }
//! impl ppgnn_stages::params::Params for Params {}
//!
//! struct Add;
//! impl Stage for Add {
//!     const NAME: &'static str = "add";
//!     const ABOUT: &'static str = "Adds a number to a count";
//!     const VERSION: u32 = 1;
//!     const INPUTS: &'static [Slot] = &[Slot::one("to", Kind("count"))];
//!     type Params = Params;
//!     type Output = Count;
//!     fn run(params: &Params, job: &Job) -> Result<Count, StageError> {
//!         let Count(to) = job.input("to")?;
//!         Ok(Count(to + params.by))
//!     }
//! }
//! static STAGES: &[StageDef] = &[StageDef::of::<Add>()];
//! assert_eq!(STAGES[0].output, Kind("count"));
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use crate::device::Device;
use crate::params::{self, Checked, Params, Problem, Variant};

/// One kind of computation a pipeline can contain.
///
/// See the [module documentation](self) for a complete implementation.
pub trait Stage: 'static {
    /// Name used in pipeline files: a verb in kebab-case.
    const NAME: &'static str;
    /// One sentence without a period, for `ppgnn list stages` and the schema.
    const ABOUT: &'static str;
    /// Raised whenever the same inputs may produce different bytes.
    const VERSION: u32;
    /// What the stage consumes.
    const INPUTS: &'static [Slot];
    /// The parameter that names a row of a table (a model, a format) whose own parameters stand beside it.
    const CHOICE: Option<Choice> = None;
    /// The parameter whose smaller values ask for a slice of what a larger one gives.
    const SHARED: Option<Shared> = None;
    /// Whether the stage computes on [`Job::device`]; its key then says on what. Others always use the processor.
    const ON_DEVICE: bool = false;
    /// Parameters as written by a person.
    type Params: Params;
    /// What the stage produces.
    type Output: Artifact;

    /// Computes the output.
    ///
    /// # Errors
    /// Any [`StageError`]; nothing of a failed stage reaches the store.
    fn run(params: &Self::Params, job: &Job) -> Result<Self::Output, StageError>;
}

/// A value that can live in the store, as files in a folder of its own.
pub trait Artifact: Sized {
    /// What other stages call it.
    const KIND: Kind;
    /// Writes the value as files into the empty folder `dir`.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save(&self, dir: &Path) -> Result<(), ArtifactError>;
    /// Reads what [`Artifact::save`] wrote.
    ///
    /// # Errors
    /// When a file cannot be read, or does not hold what `save` writes.
    fn load(dir: &Path) -> Result<Self, ArtifactError>;
}

/// The kind of an artifact: the word that slots and outputs agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub &'static str);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How many artifacts a slot takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// One where the stage's choice [needs](Variant::needs) it, else none, even if the pipeline wires it.
    Optional,
    /// Any number, in a fixed order.
    Many,
}

/// A named input of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Name used under `inputs:`.
    pub name: &'static str,
    /// The kind it takes.
    pub kind: Kind,
    /// How many it takes.
    pub arity: Arity,
}

impl Slot {
    /// A slot that must be wired.
    pub const fn one(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, arity: Arity::One }
    }
    /// A slot that only some choices need.
    pub const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, arity: Arity::Optional }
    }
    /// A slot that takes a list.
    pub const fn many(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, arity: Arity::Many }
    }
}

/// The parameter that names a row of a table, such as `model` in `train`.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Name of the parameter.
    pub param: &'static str,
    /// The rows it chooses from.
    pub rows: fn() -> Vec<Variant>,
}

/// Says that the result for a smaller value of a parameter is a slice of the result for a larger one.
///
/// Of nodes that differ in nothing else, the one with the largest value runs as if it were alone. Each of the others gets
/// that one's output in `slot`, as its only input, and takes its slice from there. The planner alone fills the slot, so it
/// does not stand among the [inputs](Stage::INPUTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Name of the parameter, a number.
    pub param: &'static str,
    /// Name of the slot; the stage takes from it with [`Job::optional`].
    pub slot: &'static str,
}

/// What the engine sees of a stage: data and function pointers.
#[derive(Clone, Copy)]
pub struct StageDef {
    /// Name used in pipeline files.
    pub name: &'static str,
    /// One sentence about it.
    pub about: &'static str,
    /// Raised whenever the same inputs may produce different bytes.
    pub version: u32,
    /// What it consumes.
    pub inputs: &'static [Slot],
    /// What it produces.
    pub output: Kind,
    /// The table its choice parameter picks from, if it has one.
    pub choice: Option<Choice>,
    /// The parameter whose smaller values ask for a slice, if it has one.
    pub shared: Option<Shared>,
    /// Whether it computes on [`Job::device`].
    pub on_device: bool,
    own_schema: fn() -> &'static Value,
    parse: fn(Map<String, Value>) -> Result<Value, Vec<Problem>>,
    run: fn(&Checked, &Job, &Path) -> Result<(), StageError>,
}

impl StageDef {
    /// The row of `S`.
    pub const fn of<S: Stage>() -> Self {
        Self {
            name: S::NAME,
            about: S::ABOUT,
            version: S::VERSION,
            inputs: S::INPUTS,
            output: S::Output::KIND,
            choice: S::CHOICE,
            shared: S::SHARED,
            on_device: S::ON_DEVICE,
            own_schema: params::schema::<S::Params>,
            parse: params::parse::<S::Params>,
            run: run_and_save::<S>,
        }
    }

    /// Returns the JSON Schema of the stage's own parameters (without those of its choice).
    pub fn own_schema(&self) -> &'static Value {
        (self.own_schema)()
    }

    /// Returns the rows of the stage's choice; empty if it has none.
    pub fn variants(&self) -> Vec<Variant> {
        self.choice.map(|c| (c.rows)()).unwrap_or_default()
    }

    /// Checks parameters as written: names, types, ranges, defaults. The only way to a [`Checked`].
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn check(&self, written: &Map<String, Value>) -> Result<Checked, Vec<Problem>> {
        params::check((self.own_schema)(), self.parse, self.choice, written)
    }

    /// Runs the stage and saves its output into the empty folder `dir`.
    ///
    /// # Errors
    /// Whatever the stage or the disk reports.
    pub fn run(&self, params: &Checked, job: &Job, dir: &Path) -> Result<(), StageError> {
        (self.run)(params, job, dir)
    }
}

fn run_and_save<S: Stage>(checked: &Checked, job: &Job, dir: &Path) -> Result<(), StageError> {
    let params: S::Params = checked.own()?;
    let job = Job { variant: checked.variant_params(), ..*job };
    let output = S::run(&params, &job)?;
    job.check_cancelled()?;
    Ok(output.save(dir)?)
}

/// One input artifact: its key and the folder that holds it.
#[derive(Clone, Debug)]
pub struct InputDir {
    /// Name of the slot.
    pub slot: &'static str,
    /// Key of the artifact, for results that say what they were made from.
    pub key: String,
    /// Folder to load it from.
    pub dir: PathBuf,
}

/// What a running stage may see of the world: its inputs, how many threads it has, whether it should stop.
///
/// Nothing here that is absent from the key may change a byte of the output. A seed is a parameter, never a part
/// of the job.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The artifacts in the slots, in slot order.
    pub inputs: &'a [InputDir],
    /// How many threads the stage may use.
    pub threads: usize,
    /// What to compute on, for a stage that says [`Stage::ON_DEVICE`]; such a stage has a card for itself.
    pub device: Device,
    /// Where progress goes.
    pub progress: &'a dyn ProgressSink,
    /// Set when the stage should give up.
    pub cancel: &'a AtomicBool,
    /// Parameters of the chosen row, filled in by [`StageDef::run`].
    pub variant: &'a Value,
    /// A folder for checkpoints of a stage that takes minutes; `None` where nothing is kept, such as in tests.
    ///
    /// It belongs to the key of the node, is there when the stage starts, and holds what earlier attempts left in it,
    /// however they ended. It is deleted when the artifact is in the store; what a forced run finds is always empty.
    /// One process at a time has it. What is in it is not to be trusted: it may be half-written, so the stage verifies
    /// it ([`crate::checkpoint`] helps), and starts over where it cannot be used. Nothing found there may change a byte
    /// of the output.
    pub scratch: Option<&'a Path>,
}

impl<'a> Job<'a> {
    /// A job outside a run: one thread of the processor, no inputs, nobody to report to, nothing to go on from.
    pub fn alone(cancel: &'a AtomicBool) -> Self {
        let (device, variant) = (Device::Cpu, &Value::Null);
        Self { inputs: &[], threads: 1, device, progress: &Quiet, cancel, scratch: None, variant }
    }

    /// Loads the artifact in a slot that takes one.
    ///
    /// # Errors
    /// [`StageError::MissingInput`] if nothing is there; otherwise what loading reports.
    pub fn input<A: Artifact>(&self, slot: &'static str) -> Result<A, StageError> {
        let dir = self.inputs.iter().find(|i| i.slot == slot).ok_or(StageError::MissingInput { slot })?;
        Ok(A::load(&dir.dir)?)
    }

    /// Loads the artifact in an optional or shared slot, or `None` where nothing is there.
    ///
    /// # Errors
    /// What loading reports.
    pub fn optional<A: Artifact>(&self, slot: &'static str) -> Result<Option<A>, StageError> {
        self.inputs.iter().find(|i| i.slot == slot).map(|i| A::load(&i.dir)).transpose().map_err(Into::into)
    }

    /// Lists what is in a slot that takes many.
    pub fn all(&self, slot: &'static str) -> impl Iterator<Item = &'a InputDir> {
        self.inputs.iter().filter(move |i| i.slot == slot)
    }

    /// Reports progress. Cheap enough to call once an epoch.
    pub fn progress(&self, progress: &Progress) {
        self.progress.progress(progress);
    }

    /// Reports a fact about how the result is being computed that is not part of it; the last value of a name counts.
    ///
    /// Such facts differ from run to run, so they are kept beside the artifact and never in its files. By convention
    /// `memory` is in bytes, a name that ends in `seconds` is a duration, and anything else is a count.
    pub fn measured(&self, name: &'static str, value: f64) {
        self.progress.measured(name, value);
    }

    /// Returns an error if the run was interrupted; long loops call this once a step.
    ///
    /// # Errors
    /// [`StageError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<(), StageError> {
        if self.cancel.load(Ordering::Relaxed) { Err(StageError::Cancelled) } else { Ok(()) }
    }
}

/// How far a stage has come.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Steps there will be at most.
    pub total: u64,
    /// What the last step showed, such as `epoch 120 loss 0.412 val 81.3 %`.
    pub note: String,
}

/// Receives progress. Implemented by the engine; [`Quiet`] drops it.
pub trait ProgressSink: Sync {
    /// Takes one report.
    fn progress(&self, progress: &Progress);
    /// Takes a fact about the computation, see [`Job::measured`].
    fn measured(&self, _name: &'static str, _value: f64) {}
}

/// A progress sink that drops everything.
pub struct Quiet;

impl ProgressSink for Quiet {
    fn progress(&self, _: &Progress) {}
}

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
    /// Returns what a person can do about it, if that is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Data { hint, .. } | Self::Unusable { hint, .. } | Self::Numeric { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}

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
