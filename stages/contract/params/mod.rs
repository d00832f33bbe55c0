//! Parameters: declared once as a Rust struct, checked, documented and completed from that one declaration.
//!
//! The struct's JSON Schema (types, ranges, defaults, doc comments) is the single source for `ppgnn schema`,
//! `ppgnn list` and the checks here. The checks are our own and not a schema validator's, because messages name the
//! nearest known name, the model a stray parameter belongs to, and all problems at once.
//!
//! A parameter of type [`FilePath`] names a file outside the store: it counts by the file's content, never by its path.

mod check;
#[cfg(test)]
mod tests;
mod types;
mod words;

use std::any::TypeId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Chosen, Crate, Row, StageError};
pub(super) use check::check;
pub(crate) use check::{file_params, names, nested_file, property};
pub use types::{Bytes, CommandLine, DropoutRate, FilePath, NoParams, TextPath};
pub use words::{describe, expectation, list, nearest, nearest_help};

/// Parameters as written by a person: a plain struct with defaults.
///
/// Derive `Serialize`, `Deserialize` and `JsonSchema`, with `#[serde(rename_all = "kebab-case", deny_unknown_fields)]`;
/// ranges are `#[schemars(range(min = …, max = …))]`, documentation is the doc comment.
pub trait Params: Serialize + DeserializeOwned + JsonSchema + 'static {
    /// Checks what no single field can say. Runs once, before planning.
    ///
    /// # Errors
    /// Every problem found.
    fn check(&self) -> Result<(), Vec<Problem>> {
        Ok(())
    }

    /// Fills in defaults that depend on other fields, so that leaving one out and writing it give the same key.
    #[must_use]
    fn complete(self) -> Self {
        self
    }
}

/// Returns the optional slots that a row needs with its checked parameters.
pub type NeedsFn = fn(&Value) -> &'static [&'static str];

/// A row of a table that a stage chooses from: a model of `train`, a format of `load`.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Name used in pipeline files, in kebab-case.
    pub name: &'static str,
    /// One sentence without a period.
    pub about: &'static str,
    /// Enters the key of every node that uses this row: raised whenever its bytes may change.
    pub version: u32,
    /// The crate it comes from.
    pub from: Crate,
    /// The optional slots that this row needs, with some of its parameters at least.
    pub needs: &'static [&'static str],
    /// Those that it needs with the parameters at hand.
    pub needs_with: NeedsFn,
    /// Whether it can be computed on a GPU, in a stage that computes on a device.
    pub gpu: bool,
    schema: fn() -> &'static Value,
    parse: fn(Map<String, Value>) -> Result<Value, Vec<Problem>>,
}

impl Variant {
    /// A row whose own parameters are `P`.
    pub const fn of<P: Params>(name: &'static str, about: &'static str, version: u32, from: Crate) -> Self {
        let (needs, needs_with): (_, NeedsFn) = (&[], |_| &[]);
        Self { name, about, version, from, needs, needs_with, gpu: true, schema: schema::<P>, parse: parse::<P> }
    }

    /// Returns the JSON Schema of the row's own parameters.
    pub fn schema(&self) -> &'static Value {
        (self.schema)()
    }

    /// Returns the optional slots that the row needs as it is; with other parameters it may need others of [`Variant::needs`].
    pub fn usual_needs(&self) -> &'static [&'static str] {
        (self.parse)(Map::new()).map_or(self.needs, |params| (self.needs_with)(&params))
    }
}

/// What is wrong with one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The parameter, in kebab-case; inside a mapping by its path, such as `masks.train`. Empty if the problem is not about
    /// one.
    pub param: String,
    /// Whether the name itself is the problem, not its value.
    pub about_name: bool,
    /// What is wrong, as a lowercase fragment.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// A problem with a parameter's value.
    pub fn value(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), about_name: false, message: message.into(), help: None }
    }
    /// A problem with a parameter's name.
    pub fn name(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), about_name: true, message: message.into(), help: None }
    }
    /// Adds what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Parameters that were checked: every name known, every value in range, every default filled in.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    own: Value,
    /// The row of the stage's choice, and its parameters.
    chosen: Option<(&'static dyn Row, Value)>,
    /// The rows that the stage uses.
    used: Vec<&'static dyn Row>,
    all: Map<String, Value>,
    files: Vec<String>,
    /// Those of the files that are small texts.
    texts: Vec<String>,
    /// The programs that the stage would run, with their arguments.
    commands: Vec<CommandLine>,
    /// The parameters that bound a computation and change nothing in its result.
    limits: Vec<String>,
}

impl Checked {
    /// Returns all parameters, defaults filled in, as one flat map.
    pub fn all(&self) -> &Map<String, Value> {
        &self.all
    }
    /// Returns the parameters that may change a byte of the result: all but those that are marked as `x-limit`.
    pub fn decisive(&self) -> Map<String, Value> {
        let all = self.all.iter().filter(|(name, _)| !self.limits.contains(name));
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
    /// Returns the programs of the user's that the stage would run.
    pub fn commands(&self) -> &[CommandLine] {
        &self.commands
    }
    /// Returns what is known of the chosen row, if the stage chooses.
    pub fn variant(&self) -> Option<&'static Variant> {
        self.chosen.as_ref().map(|(row, _)| row.variant())
    }
    /// Keeps those of the used rows that the stage's own parameters name.
    pub(super) fn use_named(&mut self, named: fn(&Value) -> Vec<String>) {
        let names = named(&self.own);
        self.used.retain(|row| names.iter().any(|name| name == row.variant().name));
    }
    /// Returns the rows that the stage uses.
    pub fn used(&self) -> &[&'static dyn Row] {
        &self.used
    }
    /// Returns the optional slots that the chosen row needs.
    pub fn needs(&self) -> &'static [&'static str] {
        self.chosen.as_ref().map_or(&[], |(row, params)| (row.variant().needs_with)(params))
    }
    /// Returns the parameters that name files, with the files; a list of files has one entry per file.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().flat_map(|name| {
            let items = match self.all.get(name) {
                Some(Value::Array(items)) => items.as_slice(),
                one => one.map(std::slice::from_ref).unwrap_or_default(),
            };
            items.iter().filter_map(move |v| Some((name.as_str(), Path::new(v.as_str()?))))
        })
    }
    /// Returns whether a parameter that names a file is a [`TextPath`].
    pub fn is_text(&self, param: &str) -> bool {
        self.texts.iter().any(|name| name == param)
    }
    /// Returns the parameters that name files, with `f` of every file instead of its path.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn map_files<E>(&self, mut f: impl FnMut(&str, &Path) -> Result<Value, E>) -> Result<Map<String, Value>, E> {
        let mut mapped = Map::new();
        for name in &self.files {
            let value = match self.all.get(name) {
                Some(Value::String(path)) => f(name, Path::new(path))?,
                Some(Value::Array(paths)) => {
                    let paths = paths.iter().filter_map(Value::as_str);
                    Value::Array(paths.map(|path| f(name, Path::new(path))).collect::<Result<_, E>>()?)
                }
                _ => continue,
            };
            mapped.insert(name.clone(), value);
        }
        Ok(mapped)
    }
    /// Replaces the path of every file by `f` of it.
    ///
    /// # Errors
    /// The first parameter whose path is not UTF-8, and the path: parameters are text.
    pub fn rebase(&mut self, mut f: impl FnMut(&str, &Path) -> PathBuf) -> Result<(), (String, PathBuf)> {
        let moved = self.map_files(|name, path| {
            let path = f(name, path);
            path.to_str().map(Value::from).ok_or_else(|| (name.to_owned(), path.clone()))
        })?;
        let of_row = self.chosen.as_mut().map(|(_, params)| params);
        for part in [Some(&mut self.own), of_row].into_iter().flatten().filter_map(Value::as_object_mut) {
            for (name, path) in &moved {
                part.get_mut(name).into_iter().for_each(|value| value.clone_from(path));
            }
        }
        self.all.extend(moved);
        Ok(())
    }
    /// Returns the chosen row with its own parameters, if the stage chooses.
    pub fn chosen(&self) -> Option<Chosen<'_, dyn Row>> {
        self.chosen.as_ref().map(|(row, params)| Chosen { row: *row, params })
    }
    pub(crate) fn own<P: DeserializeOwned>(&self) -> Result<P, StageError> {
        from_checked(&self.own)
    }
}

/// Turns checked parameters back into their struct.
///
/// # Errors
/// Only if `value` did not come out of a check for `P`.
pub fn from_checked<P: DeserializeOwned>(value: &Value) -> Result<P, StageError> {
    P::deserialize(value).map_err(|e| StageError::Unusable { what: format!("parameters do not fit: {e}"), hint: None })
}

/// Returns the JSON Schema of `P`, without references.
///
/// Kept once made: a schema is needed once per node, and generating one costs more than planning the node.
pub fn schema<P: Params>() -> &'static Value {
    static CACHE: LazyLock<Mutex<HashMap<TypeId, &'static Value>>> = LazyLock::new(Mutex::default);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.entry(TypeId::of::<P>()).or_insert_with(|| {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        });
        Box::leak(Box::new(settings.into_generator().into_root_schema_for::<P>().to_value()))
    })
}

/// Reads `P` from values that passed the schema, checks it as a whole, and writes it back with defaults filled in.
pub(crate) fn parse<P: Params>(written: Map<String, Value>) -> Result<Value, Vec<Problem>> {
    let parsed: P =
        serde_json::from_value(Value::Object(written)).map_err(|e| vec![Problem::value("", e.to_string())])?;
    parsed.check()?;
    serde_json::to_value(parsed.complete()).map_err(|e| vec![Problem::value("", e.to_string())])
}
