//! Parameters: declared once as a Rust struct, checked, documented and completed from that one declaration.
//!
//! The struct's JSON Schema (types, ranges, defaults, doc comments) is the single source for `ppgnn schema`,
//! `ppgnn list` and the checks here. The checks are our own and not a schema validator's, because a person needs the
//! nearest known name, the model a stray parameter belongs to, and all problems at once.
//!
//! A parameter of type [`FilePath`] names a file outside the store: it counts by the file's content, never by its path.

use std::any::TypeId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Chosen, Crate, Row, StageError};

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
    /// The optional slots that this row needs.
    pub needs: &'static [&'static str],
    /// Whether it can be computed on a GPU, in a stage that computes on a device.
    pub gpu: bool,
    schema: fn() -> &'static Value,
    parse: fn(Map<String, Value>) -> Result<Value, Vec<Problem>>,
}

impl Variant {
    /// A row whose own parameters are `P`.
    pub const fn of<P: Params>(name: &'static str, about: &'static str, version: u32, from: Crate) -> Self {
        Self { name, about, version, from, needs: &[], gpu: true, schema: schema::<P>, parse: parse::<P> }
    }

    /// Returns the JSON Schema of the row's own parameters.
    pub fn schema(&self) -> &'static Value {
        (self.schema)()
    }
}

/// A path to a file outside the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-file" = true))]
pub struct FilePath(pub PathBuf);

/// A number of bytes, written with its unit: `512MiB`, `4GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("x-bytes" = true, "pattern" = "^[0-9]+(MiB|GiB|TiB)$"))]
pub struct Bytes(pub u64);

/// Units of [`Bytes`], the largest first.
const UNITS: [(&str, u64); 3] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)];

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = UNITS.iter().find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        let (unit, size) = whole.unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = UNITS.iter().find_map(|(unit, size)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            count.checked_mul(*size).filter(|bytes| *bytes > 0)
        });
        parsed.map(Self).ok_or_else(|| {
            format!("`{text}` is not a size, expected a whole number above 0 and MiB, GiB or TiB, such as `4GiB`")
        })
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What is wrong with one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The parameter, in kebab-case; empty if the problem is not about one.
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
#[derive(Clone, Debug)]
pub struct Checked {
    own: Value,
    /// The row of the stage's choice, and its parameters.
    chosen: Option<(&'static dyn Row, Value)>,
    all: Map<String, Value>,
    files: Vec<String>,
}

impl Checked {
    /// Returns all parameters, defaults filled in, as one flat map.
    pub fn all(&self) -> &Map<String, Value> {
        &self.all
    }
    /// Returns what is known of the chosen row, if the stage chooses.
    pub fn variant(&self) -> Option<&'static Variant> {
        self.chosen.as_ref().map(|(row, _)| row.variant())
    }
    /// Returns the optional slots that the chosen row needs.
    pub fn needs(&self) -> &'static [&'static str] {
        self.variant().map_or(&[], |variant| variant.needs)
    }
    /// Returns the parameters that name files, with the files; a list of files has one entry a file.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().flat_map(|name| {
            let value = self.all.get(name);
            let items =
                value.and_then(Value::as_array).map_or_else(|| value.into_iter().collect(), |v| v.iter().collect());
            let items: Vec<&Value> = items;
            items.into_iter().filter_map(move |v| Some((name.as_str(), Path::new(v.as_str()?))))
        })
    }
    /// Returns the parameters that name files, with `f` of every file in place of its path.
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
    pub(super) fn chosen(&self) -> Option<Chosen<'_, dyn Row>> {
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
/// Kept once made: a schema is asked for once a node, and generating one costs more than planning the node.
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

type Parse = fn(Map<String, Value>) -> Result<Value, Vec<Problem>>;

/// Checks a stage's parameters, those of its chosen row among them. `choice` is the parameter that chooses and the rows.
pub(super) fn check(
    own_schema: &Value,
    own_parse: Parse,
    choice: Option<(&'static str, Vec<&'static dyn Row>)>,
    written: &Map<String, Value>,
) -> Result<Checked, Vec<Problem>> {
    let mut problems = Vec::new();
    let (chooser, rows) = choice.map_or((None, Vec::new()), |(param, rows)| (Some(param), rows));
    let row = chooser.and_then(|param| chosen(param, &rows, own_schema, written, &mut problems));
    let row_schema = row.map(|r| r.variant().schema());
    let mut own = Map::new();
    let mut of_row = Map::new();
    for (name, value) in written {
        if row.is_none() && chooser.is_some_and(|param| param == name) {
            continue;
        }
        let (schema, part) = match (property(own_schema, name), row_schema.and_then(|s| property(s, name))) {
            (Some(schema), _) => (schema, &mut own),
            (None, Some(schema)) => (schema, &mut of_row),
            (None, None) => {
                // Without a known row nobody can say whether the name belongs to it.
                if row.is_some() || chooser.is_none() {
                    problems.push(unknown(name, own_schema, row, &rows));
                }
                continue;
            }
        };
        match conform(schema, value) {
            Ok(value) => {
                part.insert(name.clone(), value);
            }
            Err(message) => problems.push(Problem::value(name, format!("`{name}`: {message}"))),
        }
    }
    for (schema, part) in [(Some(own_schema), &own), (row_schema, &of_row)] {
        // What is wrong with the choice itself was said above.
        let others = schema.into_iter().flat_map(|s| missing(s, part));
        problems.extend(others.filter(|p| chooser.is_none_or(|param| param != p.param)));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut files = file_params(own_schema);
    let own = own_parse(own)?;
    let mut all = own.as_object().cloned().unwrap_or_default();
    let mut chosen = None;
    if let Some(row) = row {
        files.extend(file_params(row.variant().schema()));
        let params = (row.variant().parse)(of_row)?;
        all.extend(params.as_object().cloned().unwrap_or_default());
        chosen = Some((row, params));
    }
    files.retain(|f| all.get(f).is_some_and(|v| v.is_string() || v.is_array()));
    Ok(Checked { own, chosen, all, files })
}

/// Finds the row that the choice parameter names, or its default.
fn chosen(
    param: &'static str,
    rows: &[&'static dyn Row],
    own_schema: &Value,
    written: &Map<String, Value>,
    problems: &mut Vec<Problem>,
) -> Option<&'static dyn Row> {
    let known = || rows.iter().map(|r| r.variant().name);
    let problem = match written.get(param).or_else(|| property(own_schema, param)?.get("default")) {
        None => {
            Problem::value(param, format!("missing parameter `{param}`")).with_help(format!("one of {}", list(known())))
        }
        Some(Value::String(name)) => match rows.iter().find(|r| r.variant().name == name) {
            Some(row) => return Some(*row),
            None => Problem::value(param, format!("unknown {param} `{name}`")).with_help(nearest_help(name, known())),
        },
        Some(other) => Problem::value(param, format!("expected the name of a {param}, found {}", describe(other)))
            .with_help(format!("one of {}", list(known()))),
    };
    problems.push(problem);
    None
}

fn unknown(name: &str, own_schema: &Value, row: Option<&dyn Row>, rows: &[&dyn Row]) -> Problem {
    let variants = rows.iter().map(|r| r.variant());
    let owners: Vec<_> = variants.filter(|v| property(v.schema(), name).is_some()).map(|v| v.name).collect();
    let row = row.map(Row::variant);
    if let (Some(row), false) = (row, owners.is_empty()) {
        return Problem::name(name, format!("`{}` has no parameter `{name}`", row.name)).with_help(format!(
            "`{name}` belongs to {}; in a sweep, set it under `when` for those points only",
            list(owners.into_iter())
        ));
    }
    let row_schema = row.map(Variant::schema);
    let known: Vec<&str> = names(own_schema).chain(row_schema.into_iter().flat_map(names)).collect();
    Problem::name(name, format!("unknown parameter `{name}`")).with_help(nearest_help(name, known.iter().copied()))
}

fn missing<'s>(schema: &'s Value, part: &Map<String, Value>) -> impl Iterator<Item = Problem> + use<'s> {
    let absent: Vec<_> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|name| !part.contains_key(*name))
        .collect();
    absent.into_iter().map(move |name| {
        let about = property(schema, name).and_then(|p| p.get("description")).and_then(Value::as_str).unwrap_or("");
        Problem::name(name, format!("missing parameter `{name}`")).with_help(format!("{name}: {about}"))
    })
}

fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

fn names(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|p| p.keys().map(String::as_str))
}

/// Returns the names of the parameters that are files, in the schema's order.
pub(crate) fn file_params(schema: &Value) -> Vec<String> {
    names(schema).filter(|name| property(schema, name).is_some_and(is_file)).map(str::to_owned).collect()
}

/// A file parameter or a list of files, alone or as one of the shapes of an optional parameter.
fn is_file(schema: &Value) -> bool {
    let own = |s: &Value| s.get("x-file").is_some() || s.get("items").is_some_and(|i| i.get("x-file").is_some());
    own(schema) || shapes(schema).iter().any(|s| own(s))
}

fn shapes(schema: &Value) -> Vec<&Value> {
    ["oneOf", "anyOf"].iter().filter_map(|k| schema.get(*k)?.as_array()).flatten().collect()
}

/// Returns `value` as the schema wants it (`1e2` is a fine integer), or what was expected instead.
fn conform(schema: &Value, value: &Value) -> Result<Value, String> {
    let wanted = || format!("expected {}, found {}", expectation(schema), describe(value));
    if let Some(constant) = schema.get("const") {
        return if constant == value { Ok(value.clone()) } else { Err(wanted()) };
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return if allowed.contains(value) { Ok(value.clone()) } else { Err(spelling(schema, value, wanted())) };
    }
    let shapes = shapes(schema);
    if !shapes.is_empty() {
        let mut fitting = shapes.iter().filter_map(|s| conform(s, value).ok());
        return fitting.next().ok_or_else(|| spelling(schema, value, wanted()));
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(value.clone()),
    };
    let value = types.iter().find_map(|t| as_type(t, value)).ok_or_else(wanted)?;
    match &value {
        Value::Number(n) if !in_range(schema, n.as_f64().unwrap_or(f64::NAN)) => Err(wanted()),
        Value::String(text) if schema.get("x-bytes").is_some() => text.parse::<Bytes>().map(|_| value.clone()),
        Value::Array(items) => {
            let Some(item_schema) = schema.get("items") else { return Ok(value) };
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            if (items.len() as u64) < least {
                return Err(format!("expected at least {least} entries, found {}", items.len()));
            }
            let items: Result<Vec<_>, _> = items
                .iter()
                .enumerate()
                .map(|(i, item)| conform(item_schema, item).map_err(|e| format!("entry {}: {e}", i + 1)))
                .collect();
            items.map(Value::Array)
        }
        _ => Ok(value),
    }
}

fn as_type(wanted: &str, value: &Value) -> Option<Value> {
    let fits = match (wanted, value) {
        ("integer", Value::Number(n)) => {
            if let Some(whole) = n.as_f64().filter(|x| n.is_f64() && x.fract() == 0.0 && x.abs() < 9e15) {
                #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
                return Some(Value::from(whole as i64));
            }
            !n.is_f64()
        }
        ("number", Value::Number(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("null", Value::Null) => true,
        _ => false,
    };
    fits.then(|| value.clone())
}

fn in_range(schema: &Value, x: f64) -> bool {
    let bound = |k: &str| schema.get(k).and_then(Value::as_f64);
    x.is_finite()
        && bound("minimum").is_none_or(|b| x >= b)
        && bound("maximum").is_none_or(|b| x <= b)
        && bound("exclusiveMinimum").is_none_or(|b| x > b)
        && bound("exclusiveMaximum").is_none_or(|b| x < b)
}

fn spelling(schema: &Value, value: &Value, otherwise: String) -> String {
    let (Some(word), words) = (value.as_str(), words(schema)) else { return otherwise };
    match nearest(word, words.iter().copied()) {
        Some(near) => format!("{otherwise}; did you mean `{near}`?"),
        None => otherwise,
    }
}

/// The words a schema allows, if it is a choice of words.
fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let constants = shapes(schema)
        .into_iter()
        .flat_map(|s| s.get("const").into_iter().chain(s.get("enum").and_then(Value::as_array).into_iter().flatten()));
    listed.chain(constants).filter_map(Value::as_str).collect()
}

/// Says in words what a schema accepts.
pub fn expectation(schema: &Value) -> String {
    let words = words(schema);
    if !words.is_empty() {
        return format!("one of {}", list(words.into_iter()));
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).filter(|t| *t != "null").collect(),
        _ => vec!["value"],
    };
    let noun = match types.first() {
        Some(&"integer") => "a whole number",
        Some(&"number") => "a number",
        Some(&"string") if schema.get("x-bytes").is_some() => "a size such as `4GiB`",
        Some(&"string") => "text",
        Some(&"boolean") => "`true` or `false`",
        Some(&"array") => {
            let items = schema.get("items").map_or("values".into(), expectation);
            return format!("a list (each: {items})");
        }
        _ => "a mapping",
    };
    let bound = |k: &str| schema.get(k).and_then(Value::as_f64);
    let low =
        bound("minimum").map(|b| format!("at least {b}")).or(bound("exclusiveMinimum").map(|b| format!("above {b}")));
    // The schema of a sized integer ends at its type's largest value, which tells a person nothing.
    let high = bound("maximum")
        .filter(|b| *b < 4e9)
        .map(|b| format!("at most {b}"))
        .or(bound("exclusiveMaximum").map(|b| format!("below {b}")));
    match (low, high) {
        (Some(l), Some(h)) => format!("{noun} {l} and {h}"),
        (Some(b), None) | (None, Some(b)) => format!("{noun} {b}"),
        (None, None) => noun.to_owned(),
    }
}

/// Says in words what a value is.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("`{n}`"),
        Value::String(s) => format!("text `{s}`"),
        Value::Array(a) => format!("a list of {}", a.len()),
        Value::Object(_) => "a mapping".into(),
    }
}

/// Returns the known name nearest to `word`, if one is near enough to be meant.
pub fn nearest<'n>(word: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    known
        .map(|k| (strsim::damerau_levenshtein(&word, &k.to_lowercase()), k))
        .filter(|(distance, k)| *distance <= 1 + word.len().max(k.len()) / 4 || (word.len() > 2 && k.contains(&word)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// A longer list helps nobody to choose.
const MOST_LISTED: usize = 24;

/// Suggests the nearest known name, or lists what there is.
pub fn nearest_help<'n>(word: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let more = known.clone().count().saturating_sub(MOST_LISTED);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("known: {}{rest}", list(known.take(MOST_LISTED)))
        }
    }
}

/// Writes names as `a`, `b`, `c`.
pub fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}
