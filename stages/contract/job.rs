//! What a running stage can see.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::again::{Again, How, Timed};
use super::checkpoint;
use super::device::Device;
use super::{Artifact, Row, StageError};

/// One input artifact: its key and the folder that holds it.
#[derive(Clone, Debug)]
pub struct InputDir {
    /// Name of the slot.
    pub slot: &'static str,
    /// Key of the artifact, for results that say what they were made from.
    pub key: String,
    /// Folder to load it from.
    pub dir: PathBuf,
    /// What was remarked on it and on what it was made from, see [`Job::remark`].
    pub remarks: Vec<String>,
}

/// What a running stage may see: its inputs, how many threads it has, whether it should stop.
///
/// Nothing here that is absent from the key may change a byte of the output. A seed is a parameter, never a part
/// of the job.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The artifacts in the slots, in slot order.
    pub inputs: &'a [InputDir],
    /// How many threads the stage may use.
    pub threads: usize,
    /// What to compute on, for a stage that says [`Stage::ON_DEVICE`](super::Stage::ON_DEVICE); such a stage has a GPU for itself.
    pub device: Device,
    /// Where progress goes.
    pub progress: &'a dyn ProgressSink,
    /// Set when the stage should give up.
    pub cancel: &'a AtomicBool,
    /// The row that the checked parameters chose, if the stage chooses; [`StageDef::run`](super::StageDef::run) hands it over.
    pub chosen: Option<Chosen<'a, dyn Row>>,
    /// The rows that the stage [uses](super::Stage::USES) all of.
    pub used: &'a [&'static dyn Row],
    /// A folder for checkpoints of a stage that takes minutes; `None` where nothing is kept, such as in tests.
    ///
    /// It belongs to the key of the node, is there when the stage starts, and holds what earlier attempts left in it,
    /// however they ended. It is deleted when the artifact is in the store; what a forced run finds is always empty.
    /// One process at a time has it. What is in it is not to be trusted: it may be half-written, so the stage verifies
    /// it ([`crate::contract::checkpoint`] helps), and starts over where it cannot be used. Nothing found there may change a byte
    /// of the output.
    pub scratch: Option<&'a Path>,
    /// Computes again what a stage [measures](super::Stage::MEASURES).
    pub again: Option<&'a dyn Again>,
    /// Whether parts of the result (splits) are to be computed one after the other where they could be computed side by side,
    /// so that each can be measured. It changes no byte on a CPU.
    pub one_by_one: bool,
    /// Whether programs of the user's may be started: a stage whose parameters name some fails without it.
    pub commands: bool,
    /// Time between two checkpoints, about; a stage that finds them expensive waits longer. Zero asks for as many as there can
    /// be, whatever they cost.
    pub checkpoint_every: Duration,
}

impl<'a> Job<'a> {
    /// A job outside a run: one CPU thread, no inputs, no progress sink, no checkpoints.
    pub fn alone(cancel: &'a AtomicBool) -> Self {
        let device = Device::Cpu;
        Self {
            inputs: &[],
            threads: 1,
            device,
            progress: &Quiet,
            cancel,
            scratch: None,
            again: None,
            one_by_one: false,
            commands: false,
            checkpoint_every: checkpoint::EVERY,
            chosen: None,
            used: &[],
        }
    }

    /// Returns the row of the stage's [choice](super::Choice), with its parameters.
    ///
    /// # Errors
    /// [`StageError::Unusable`] in a stage that does not choose from the table of `R`.
    pub fn chosen<R: Row>(&self) -> Result<Chosen<'a, R>, StageError> {
        of_table(self.chosen)
    }

    /// Lists the rows that the stage [uses](super::Stage::USES) all of, built-in ones first.
    pub fn used<R: Row>(&self) -> Vec<&'static R> {
        self.used.iter().filter_map(|row| row.of_type()).collect()
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

    /// Computes again everything that a stage of this name has made of what is measured.
    ///
    /// # Errors
    /// What the stage reports; [`StageError::Unusable`] in a stage that does not [measure](super::Stage::MEASURES).
    pub fn again(&self, stage: &str, how: How) -> Result<Vec<Timed>, StageError> {
        let nothing = || StageError::Unusable { what: "nothing can be computed again here".into(), hint: None };
        self.again.ok_or_else(nothing)?.again(stage, how)
    }

    /// Reports progress. Cheap enough to call once per epoch.
    pub fn progress(&self, progress: &Progress) {
        self.progress.progress(progress);
    }

    /// Reports a fact about how the result is being computed that is not part of it; the last value of a name counts.
    ///
    /// Such facts differ from run to run, so they are kept beside the artifact and never in its files. By convention
    /// `memory` is in bytes, a name that ends in `seconds` is a duration, and anything else is a count. [`EARLIER_SECONDS`] counts as
    /// time that the node has taken.
    pub fn measured(&self, name: &'static str, value: f64) {
        self.progress.measured(name, value);
    }

    /// Notes on what the result is being computed, such as the name of a GPU. It is kept beside the artifact, as what is measured.
    pub fn noted(&self, name: &'static str, text: &str) {
        self.progress.noted(name, text);
    }

    /// Tells people about something in the result that is probably not what they want. The result says it as well.
    pub fn warn(&self, message: &str) {
        self.progress.warning(message);
    }

    /// Tells people about something that every result which stands on this one must say as well: a table has it as a footnote.
    ///
    /// It must follow from parameters and inputs alone, as the result itself does.
    pub fn remark(&self, message: &str) {
        self.progress.remark(message);
    }

    /// Keeps lines with the result, though they are no part of it: what a program of the user's has written to stderr.
    pub fn said(&self, lines: &[String]) {
        self.progress.said(lines);
    }

    /// Returns an error if the run was interrupted; long loops call this once per step.
    ///
    /// # Errors
    /// [`StageError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<(), StageError> {
        if self.cancel.load(Ordering::Relaxed) { Err(StageError::Cancelled) } else { Ok(()) }
    }
}

/// The name under which a stage that goes on from checkpoints says how long the attempts took that left them.
pub const EARLIER_SECONDS: &str = "earlier-seconds";

/// A row that parameters chose, with the parameters of its own that were written beside it, checked.
pub struct Chosen<'a, R: ?Sized + 'static> {
    /// The row.
    pub row: &'static R,
    /// Its parameters, defaults filled in.
    pub params: &'a Value,
}

impl<R: ?Sized> Clone for Chosen<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Copy for Chosen<'_, R> {}

/// Returns a chosen row as one of its table.
pub(super) fn of_table<R: Row>(chosen: Option<Chosen<'_, dyn Row>>) -> Result<Chosen<'_, R>, StageError> {
    let chosen = chosen.and_then(|chosen| Some(Chosen { row: chosen.row.of_type()?, params: chosen.params }));
    chosen.ok_or_else(|| StageError::Unusable { what: "the stage has chosen no row of this table".into(), hint: None })
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
    /// Takes lines that are kept, see [`Job::said`].
    fn said(&self, _lines: &[String]) {}
    /// Takes a note, see [`Job::noted`].
    fn noted(&self, _name: &'static str, _text: &str) {}
    /// Takes a warning, see [`Job::warn`].
    fn warning(&self, _message: &str) {}
    /// Takes a remark, see [`Job::remark`].
    fn remark(&self, message: &str) {
        self.warning(message);
    }
}

/// A progress sink that drops everything.
pub struct Quiet;

impl ProgressSink for Quiet {
    fn progress(&self, _: &Progress) {}
}
