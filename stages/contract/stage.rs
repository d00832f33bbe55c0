//! What a stage is, and the row that the engine sees of it.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};

use super::params::{self, Checked, Params, Problem, Variant};
use super::{Artifact, Crate, Estimate, Job, Kind, Known, Measures, Registry, Row, RowsFn, Sizes, StageError, Term};

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
    /// The crate it comes from; a program that adds a stage of its own must name it.
    const CRATE: Crate = Crate::BUILT_IN;
    /// What the stage consumes.
    const INPUTS: &'static [Slot];
    /// The parameter that names a row of a table (a model, a format) whose own parameters are written next to it.
    const CHOICE: Option<Choice> = None;
    /// The table that the stage uses all rows of.
    const USES: Option<Uses> = None;
    /// The parameter whose smaller values ask for a slice of what a larger one gives.
    const SHARED: Option<Shared> = None;
    /// The file that a data set has for the stage.
    const FROM_DATASET: Option<FromDataset> = None;
    /// What the stage measures, if it does: it then runs alone, and its key says on which machine.
    const MEASURES: Option<Measures> = None;
    /// Whether the stage computes on [`Job::device`]; its key then says on what. Others always use the CPU.
    const ON_DEVICE: bool = false;
    /// Files of the output that are published for people, each with an ending of its own: `table.md` of a node that is
    /// published as `main` is copied to `main.md`. Markdown is printed after a run as well.
    const PUBLISHES: &'static [&'static str] = &[];
    /// The kinds of work that it does, for [`Stage::estimate`].
    const TERMS: &'static [Term] = &[];
    /// Parameters as written by a person.
    type Params: Params;
    /// What the stage produces.
    type Output: Artifact;

    /// Computes the output.
    ///
    /// # Errors
    /// Any [`StageError`]; nothing of a failed stage reaches the store.
    fn run(params: &Self::Params, job: &Job) -> Result<Self::Output, StageError>;

    /// Says what the stage will make and take, from parameters and sizes of inputs. Nothing is computed and nothing large is
    /// read: this is asked for every node of a plan. A stage that says nothing is expected to take as long as it did before.
    fn estimate(_params: &Self::Params, _known: &Known) -> Estimate {
        Estimate::default()
    }

    /// Says what must fail, as far as it can be known before the stage runs.
    ///
    /// # Errors
    /// What running the stage would report later.
    fn fits(_params: &Self::Params, _known: &Known) -> Result<(), StageError> {
        Ok(())
    }

    /// Looks at what the parameters name (a file outside the store) before anything runs, so that a mistake in it is told
    /// before hours of work that lead to this stage. The job has no inputs yet.
    ///
    /// # Errors
    /// What running the stage would report later.
    fn precheck(_params: &Self::Params, _job: &Job) -> Result<(), StageError> {
        Ok(())
    }

    /// Returns parameters for a result without some inputs of a slot that takes many, or `None` where all are needed. The
    /// result must say what it lacks. The other inputs move up.
    fn without(_params: Self::Params, _lost: &[Lost]) -> Option<Self::Params> {
        None
    }
}

/// An input that could not be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its place in its slot, from 0.
    pub place: usize,
    /// Why.
    pub why: String,
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

    /// Returns whether it takes what is of a kind.
    pub fn takes(&self, kind: Kind) -> bool {
        self.kind == Kind::ANY || self.kind == kind
    }
}

/// The parameter that names a row of a table, such as `model` in `train`.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Name of the parameter.
    pub param: &'static str,
    /// Lists the rows it chooses from.
    pub rows: RowsFn,
}

impl Choice {
    /// A parameter that names one of the rows `R`; the stage takes it with [`Job::chosen`].
    pub const fn of<R: Row>(param: &'static str) -> Self {
        Self { param, rows: rows_of::<R> }
    }

    /// A parameter that names one of the rows `R` or `S`, which stand in two tables because stages take them differently. A
    /// table must [reserve](Row::reserved) the names that the other one has.
    pub const fn of_either<R: Row, S: Row>(param: &'static str) -> Self {
        Self { param, rows: |registry| [rows_of::<R>(registry), rows_of::<S>(registry)].concat() }
    }
}

/// A table that a stage uses all rows of, such as the scores of `evaluate`. Added rows are in its keys; the stage takes the
/// rows with [`Job::used`].
#[derive(Clone, Copy)]
pub struct Uses {
    /// Lists the rows.
    pub rows: RowsFn,
    /// Completes the schema of the stage's parameters, where they name such rows.
    pub schema: fn(&mut Value, &Registry),
    /// The rows that checked parameters name, if the stage uses these alone.
    pub named: Option<fn(&Value) -> Vec<String>>,
}

impl Uses {
    /// Uses the rows `R`.
    pub const fn of<R: Row>(schema: fn(&mut Value, &Registry)) -> Self {
        Self { rows: rows_of::<R>, schema, named: None }
    }

    /// Uses those of the rows `R` that the parameters name; the others are not in its keys.
    pub const fn named<R: Row>(schema: fn(&mut Value, &Registry), named: fn(&Value) -> Vec<String>) -> Self {
        Self { rows: rows_of::<R>, schema, named: Some(named) }
    }
}

fn rows_of<R: Row>(registry: &Registry) -> Vec<&'static dyn Row> {
    registry.rows::<R>().map(|row| row as &dyn Row).collect()
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

/// Says that data sets have files for a stage, by name, so that a pipeline chooses one by its name (`embedding: poincare`). The
/// planner puts the file of the data set that the stage's input was loaded from in the place of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromDataset {
    /// Where a data set lists the files: a mapping from names to paths.
    pub field: &'static str,
    /// What a pipeline writes instead of `param`.
    pub choice: &'static str,
    /// The parameter that is the file.
    pub param: &'static str,
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
    /// The crate it comes from.
    pub from: Crate,
    /// What it consumes.
    pub inputs: &'static [Slot],
    /// What it produces.
    pub output: Kind,
    /// The table its choice parameter picks from, if it has one.
    pub choice: Option<Choice>,
    /// The table it uses all rows of, if there is one.
    pub uses: Option<Uses>,
    /// The parameter whose smaller values ask for a slice, if it has one.
    pub shared: Option<Shared>,
    /// The file that a data set has for it, if it can have one.
    pub from_dataset: Option<FromDataset>,
    /// What it measures, if it does.
    pub measures: Option<Measures>,
    /// Whether it computes on [`Job::device`].
    pub on_device: bool,
    /// Files of its output that are published.
    pub publishes: &'static [&'static str],
    /// The kinds of work that it does.
    pub terms: &'static [Term],
    own_schema: fn() -> &'static Value,
    parse: fn(Map<String, Value>) -> Result<Value, Vec<Problem>>,
    precheck: fn(&Checked) -> Result<(), StageError>,
    estimate: fn(&Checked, &Known) -> Estimate,
    fits: fn(&Checked, &Known) -> Result<(), StageError>,
    sizes: fn(&Path) -> Sizes,
    without: fn(&Checked, &[Lost]) -> Option<Value>,
    run: fn(&Checked, &Job, &Path) -> Result<(), StageError>,
}

impl StageDef {
    /// The row of `S`.
    pub const fn of<S: Stage>() -> Self {
        Self {
            name: S::NAME,
            about: S::ABOUT,
            version: S::VERSION,
            from: S::CRATE,
            inputs: S::INPUTS,
            output: S::Output::KIND,
            choice: S::CHOICE,
            uses: S::USES,
            shared: S::SHARED,
            from_dataset: S::FROM_DATASET,
            measures: S::MEASURES,
            on_device: S::ON_DEVICE,
            publishes: S::PUBLISHES,
            terms: S::TERMS,
            own_schema: params::schema::<S::Params>,
            parse: params::parse::<S::Params>,
            precheck: precheck::<S>,
            estimate: estimate::<S>,
            fits: fits::<S>,
            sizes: S::Output::sizes,
            without: without::<S>,
            run: run_and_save::<S>,
        }
    }

    /// Returns the JSON Schema of the stage's own parameters (without those of its choice).
    pub fn own_schema(&self, registry: &Registry) -> Cow<'static, Value> {
        let mut schema = Cow::Borrowed((self.own_schema)());
        self.uses.iter().for_each(|uses| (uses.schema)(schema.to_mut(), registry));
        schema
    }

    /// Returns the schemas of those of its own parameters that a person writes, by name; the planner fills in those that are
    /// marked as `x-planned`.
    pub fn written_by_hand(&self, registry: &Registry) -> Map<String, Value> {
        let schema = self.own_schema(registry);
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        properties.into_iter().filter(|(_, of)| of.get("x-planned").is_none()).collect()
    }

    /// Returns the rows of the stage's choice; empty if it has none.
    pub fn variants(&self, registry: &Registry) -> Vec<&'static Variant> {
        let rows = self.choice.map(|choice| (choice.rows)(registry)).unwrap_or_default();
        rows.into_iter().map(Row::variant).collect()
    }

    /// Checks parameters as written: names, types, ranges, defaults. The only way to a [`Checked`].
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn check(&self, registry: &Registry, written: &Map<String, Value>) -> Result<Checked, Vec<Problem>> {
        let choice = self.choice.map(|choice| (choice.param, (choice.rows)(registry)));
        let used = self.uses.map(|uses| (uses.rows)(registry)).unwrap_or_default();
        let mut checked = params::check(&self.own_schema(registry), self.parse, choice, used, written)?;
        self.uses.and_then(|uses| uses.named).into_iter().for_each(|named| checked.use_named(named));
        Ok(checked)
    }

    /// Looks at what the parameters name, before anything runs.
    ///
    /// # Errors
    /// What running the stage would report later.
    pub fn precheck(&self, params: &Checked) -> Result<(), StageError> {
        (self.precheck)(params)
    }

    /// Says what a node will make and take, see [`Stage::estimate`].
    pub fn estimate(&self, params: &Checked, known: &Known) -> Estimate {
        (self.estimate)(params, known)
    }

    /// Says what must fail, see [`Stage::fits`].
    ///
    /// # Errors
    /// What running the stage would report later.
    pub fn fits(&self, params: &Checked, known: &Known) -> Result<(), StageError> {
        (self.fits)(params, known)
    }

    /// Says how large a result in a folder is.
    pub fn sizes(&self, dir: &Path) -> Sizes {
        (self.sizes)(dir)
    }

    /// Returns parameters for a result without some inputs of its first slot, if the stage can do without.
    pub fn without(&self, registry: &Registry, params: &Checked, lost: &[Lost]) -> Option<Checked> {
        let Value::Object(written) = (self.without)(params, lost)? else { return None };
        self.check(registry, &written).ok()
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
    let cancel = AtomicBool::new(false);
    S::precheck(&checked.own()?, &Job { chosen: checked.chosen(), used: checked.used(), ..Job::alone(&cancel) })
}

fn estimate<S: Stage>(checked: &Checked, known: &Known) -> Estimate {
    let known = Known { chosen: checked.chosen(), used: checked.used(), ..*known };
    // Only parameters that were not checked do not fit, and nothing can be said of those.
    checked.own().map_or_else(|_| Estimate::default(), |params| S::estimate(&params, &known))
}

fn fits<S: Stage>(checked: &Checked, known: &Known) -> Result<(), StageError> {
    S::fits(&checked.own()?, &Known { chosen: checked.chosen(), used: checked.used(), ..*known })
}

fn without<S: Stage>(checked: &Checked, lost: &[Lost]) -> Option<Value> {
    serde_json::to_value(S::without(checked.own().ok()?, lost)?).ok()
}

fn run_and_save<S: Stage>(checked: &Checked, job: &Job, dir: &Path) -> Result<(), StageError> {
    if let Some(line) = checked.commands().first().filter(|_| !job.commands) {
        let hint = Some("`ppgnn run --allow-commands` starts the commands of a pipeline".into());
        return Err(StageError::Command { what: format!("`{line}` may not be started here"), hint, said: None });
    }
    let params: S::Params = checked.own()?;
    let job = Job { chosen: checked.chosen(), used: checked.used(), ..*job };
    let output = S::run(&params, &job)?;
    job.check_cancelled()?;
    output.save(dir)?;
    match S::PUBLISHES.iter().find(|file| !dir.join(file).is_file()) {
        None => Ok(()),
        Some(file) => Err(StageError::Unusable {
            what: format!("stage `{}` publishes `{file}`, which its output did not write", S::NAME),
            hint: None,
        }),
    }
}
