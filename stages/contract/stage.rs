//! What a stage is, and the row that the engine sees of it.

use std::path::Path;

use serde_json::{Map, Value};

use super::params::{self, Checked, Params, Problem, Variant};
use super::{Artifact, Job, Kind, StageError};

/// One kind of computation a pipeline can contain.
///
/// See the [module documentation](super) for a complete implementation.
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
    /// Files of the output that are published for people, each with an ending of its own: `table.md` of a node that is
    /// published as `main` is copied to `main.md`. Markdown is printed after a run as well.
    const PUBLISHES: &'static [&'static str] = &[];
    /// Looks at what the parameters name (a file outside the store) before anything runs, so that a mistake in it is told
    /// before hours of work that lead to this stage.
    const PRECHECK: Option<Precheck<Self::Params>> = None;
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

/// Looks at what parameters name, before anything runs.
pub type Precheck<P> = fn(&P) -> Result<(), StageError>;

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
    /// Files of its output that are published.
    pub publishes: &'static [&'static str],
    own_schema: fn() -> &'static Value,
    parse: fn(Map<String, Value>) -> Result<Value, Vec<Problem>>,
    precheck: fn(&Checked) -> Result<(), StageError>,
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
            publishes: S::PUBLISHES,
            own_schema: params::schema::<S::Params>,
            parse: params::parse::<S::Params>,
            precheck: precheck::<S>,
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

    /// Looks at what the parameters name, before anything runs.
    ///
    /// # Errors
    /// What running the stage would report later.
    pub fn precheck(&self, params: &Checked) -> Result<(), StageError> {
        (self.precheck)(params)
    }

    /// Runs the stage and saves its output into the empty folder `dir`.
    ///
    /// # Errors
    /// Whatever the stage or the disk reports.
    pub fn run(&self, params: &Checked, job: &Job, dir: &Path) -> Result<(), StageError> {
        (self.run)(params, job, dir)
    }
}

fn precheck<S: Stage>(checked: &Checked) -> Result<(), StageError> {
    S::PRECHECK.map_or(Ok(()), |look| look(&checked.own()?))
}

fn run_and_save<S: Stage>(checked: &Checked, job: &Job, dir: &Path) -> Result<(), StageError> {
    let params: S::Params = checked.own()?;
    let job = Job { variant: checked.variant_params(), ..*job };
    let output = S::run(&params, &job)?;
    job.check_cancelled()?;
    Ok(output.save(dir)?)
}
