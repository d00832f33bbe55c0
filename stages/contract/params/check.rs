//! Checks values against the schema that their declaration gives, down into mappings and lists, and reports every problem.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::Row;
use super::words::words;
use super::{Bytes, Checked, CommandLine, Problem, Variant, describe, expectation, list, nearest, nearest_help};

type Parse = fn(Map<String, Value>) -> Result<Value, Vec<Problem>>;

/// Checks a stage's parameters, those of its chosen row among them. `choice` is the parameter that chooses and the rows,
/// `used` the rows that the stage uses all of.
pub(in crate::contract) fn check(
    own_schema: &Value,
    own_parse: Parse,
    choice: Option<(&'static str, Vec<&'static dyn Row>)>,
    used: Vec<&'static dyn Row>,
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
                // Without a known row it is unknown whether the name belongs to it.
                if row.is_some() || chooser.is_none() {
                    problems.push(unknown(name, own_schema, row, &rows));
                }
                continue;
            }
        };
        match conform(schema, value, name) {
            Ok(value) => drop(part.insert(name.clone(), value)),
            Err(found) => problems.extend(found),
        }
    }
    for (schema, part) in [(Some(own_schema), &own), (row_schema, &of_row)] {
        // What is wrong with the choice itself was said above.
        let others = schema.into_iter().flat_map(|s| missing(s, part, ""));
        problems.extend(others.filter(|p| chooser.is_none_or(|param| param != p.param)));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let own = own_parse(own)?;
    let mut checked = Checked { own, used, ..Checked::default() };
    if let Some(row) = row {
        checked.chosen = Some((row, (row.variant().parse)(of_row)?));
    }
    let of_row = checked.chosen.iter().map(|(row, params)| (row.variant().schema(), params));
    for (schema, params) in std::iter::once((own_schema, &checked.own)).chain(of_row) {
        checked.files.extend(file_params(schema));
        checked.texts.extend(marked(schema, "x-text"));
        checked.limits.extend(marked(schema, "x-limit"));
        commands(schema, params, &mut checked.commands);
        checked.all.extend(params.as_object().cloned().unwrap_or_default());
    }
    let all = &checked.all;
    checked.files.retain(|f| all.get(f).is_some_and(|v| v.is_string() || v.is_array()));
    Ok(checked)
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
    let row_schema = row.map(Variant::schema);
    let known: Vec<&str> = names(own_schema).chain(row_schema.into_iter().flat_map(names)).collect();
    if let (Some(row), false) = (row, owners.is_empty()) {
        let near = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`? "));
        return Problem::name(name, format!("`{}` has no parameter `{name}`", row.name)).with_help(format!(
            "{}`{name}` belongs to {}; in a sweep, set it under `when` for those points only",
            near.unwrap_or_default(),
            list(owners.into_iter())
        ));
    }
    Problem::name(name, format!("unknown parameter `{name}`")).with_help(nearest_help(name, known.iter().copied()))
}

/// A value that does not fit, at a path of names of mappings and its own; empty inside of a list, whose entries have none.
fn wrong(path: &str, message: String) -> Vec<Problem> {
    let message = if path.is_empty() { message } else { format!("`{path}`: {message}") };
    vec![Problem::value(path, message)]
}

/// The path of a name in the mapping at `path`.
fn inside(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A name of the mapping at a path that is `unknown` or `missing`.
fn wrong_name(path: &str, name: &str, what: &str, help: String) -> Problem {
    let path = inside(path, name);
    let message = format!("{what} parameter `{path}`");
    Problem::name(path, message).with_help(help)
}

fn missing(schema: &Value, part: &Map<String, Value>, path: &str) -> Vec<Problem> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let absent = required.filter(|name| !part.contains_key(*name)).map(|name| {
        let about = property(schema, name).and_then(|p| p.get("description")).and_then(Value::as_str).unwrap_or("");
        wrong_name(path, name, "missing", format!("{name}: {about}"))
    });
    absent.collect()
}

pub(crate) fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

pub(crate) fn names(schema: &Value) -> impl Iterator<Item = &str> + Clone {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|p| p.keys().map(String::as_str))
}

/// Returns the names of the parameters that are files, in the schema's order.
pub(crate) fn file_params(schema: &Value) -> Vec<String> {
    marked(schema, "x-file")
}

/// Returns the first parameter that holds a file somewhere inside, where nobody would look for it.
pub(crate) fn nested_file(schema: &Value) -> Option<String> {
    fn inside(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.contains_key("x-file") || map.values().any(inside),
            Value::Array(items) => items.iter().any(inside),
            _ => false,
        }
    }
    let hidden = |name: &&str| property(schema, name).is_some_and(|p| !has_mark(p, "x-file") && inside(p));
    names(schema).find(hidden).map(str::to_owned)
}

/// Returns the names of the parameters whose type has a mark, in the schema's order.
fn marked(schema: &Value, mark: &str) -> Vec<String> {
    names(schema).filter(|name| property(schema, name).is_some_and(|p| has_mark(p, mark))).map(str::to_owned).collect()
}

/// Collects the command lines in a value, wherever in it they stand.
fn commands(schema: &Value, value: &Value, found: &mut Vec<CommandLine>) {
    if schema.get("x-command").is_some() {
        return found.extend(CommandLine::deserialize(value).ok());
    }
    shapes(schema).into_iter().for_each(|shape| commands(shape, value, found));
    if let (Some(items), Some(entries)) = (schema.get("items"), value.as_array()) {
        entries.iter().for_each(|entry| commands(items, entry, found));
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        property(schema, name).into_iter().for_each(|of| commands(of, inner, found));
    }
}

/// A marked parameter or a list of such, alone or as one of the shapes of an optional parameter.
fn has_mark(schema: &Value, mark: &str) -> bool {
    let own = |s: &Value| s.get(mark).is_some() || s.get("items").is_some_and(|i| i.get(mark).is_some());
    own(schema) || shapes(schema).iter().any(|s| own(s))
}

pub(super) fn shapes(schema: &Value) -> Vec<&Value> {
    ["oneOf", "anyOf"].iter().filter_map(|k| schema.get(*k)?.as_array()).flatten().collect()
}

/// The types that a schema allows; none if it does not say.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        one => one.and_then(Value::as_str).into_iter().collect(),
    }
}

/// Returns the value at `path` as the schema wants it (`1e2` is a fine integer), or everything that is wrong with it.
fn conform(schema: &Value, value: &Value, path: &str) -> Result<Value, Vec<Problem>> {
    let wanted = || wrong(path, format!("expected {}, found {}", expectation(schema), describe(value)));
    if let Some(constant) = schema.get("const") {
        return if constant == value { Ok(value.clone()) } else { Err(wanted()) };
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return if allowed.contains(value) { Ok(value.clone()) } else { Err(misspelt(schema, value, path)) };
    }
    let shapes = shapes(schema);
    if !shapes.is_empty() {
        return conform_to_one(schema, &shapes, value, path);
    }
    let types = types(schema);
    if types.is_empty() {
        return Ok(value.clone());
    }
    let value = types.iter().find_map(|t| as_type(t, value)).ok_or_else(wanted)?;
    match value {
        Value::Number(n) if !in_range(schema, n.as_f64().unwrap_or(f64::NAN)) => Err(wanted()),
        Value::String(text) if schema.get("x-bytes").is_some() => {
            text.parse::<Bytes>().map(|_| Value::String(text)).map_err(|what| wrong(path, what))
        }
        Value::Array(items) => conform_entries(schema, items, path),
        Value::Object(fields) => conform_fields(schema, &fields, path),
        other => Ok(other),
    }
}

/// A value that may have one of several shapes. What is wrong inside of a mapping is said if only one shape is a mapping.
fn conform_to_one(schema: &Value, shapes: &[&Value], value: &Value, path: &str) -> Result<Value, Vec<Problem>> {
    let each = shapes.iter().map(|s| conform(s, value, path));
    let (fitting, mut flawed): (Vec<_>, Vec<_>) = each.partition(Result::is_ok);
    if let Some(fits) = fitting.into_iter().next() {
        return fits;
    }
    let mut mappings = (0..shapes.len()).filter(|s| value.is_object() && shapes[*s].get("properties").is_some());
    match (mappings.next(), mappings.next()) {
        (Some(only), None) => flawed.swap_remove(only),
        _ => Err(misspelt(schema, value, path)),
    }
}

fn conform_entries(schema: &Value, items: Vec<Value>, path: &str) -> Result<Value, Vec<Problem>> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let (count, least, most) = (items.len() as u64, bound("minItems"), bound("maxItems"));
    if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
        let wanted = match (least, most) {
            (Some(least), Some(most)) if least == most => format!("{least} entries"),
            (Some(least), _) if count < least => format!("at least {least} entries"),
            _ => format!("at most {} entries", most.unwrap_or(count)),
        };
        return Err(wrong(path, format!("expected {wanted}, found {count}")));
    }
    let Some(item_schema) = schema.get("items") else { return Ok(Value::Array(items)) };
    let (mut fine, mut problems) = (Vec::with_capacity(items.len()), Vec::new());
    for (at, item) in (1..).zip(&items) {
        match conform(item_schema, item, "") {
            Ok(item) => fine.push(item),
            Err(found) => problems.extend(found.iter().flat_map(|p| wrong(path, format!("entry {at}: {}", p.message)))),
        }
    }
    if problems.is_empty() { Ok(Value::Array(fine)) } else { Err(problems) }
}

fn conform_fields(schema: &Value, fields: &Map<String, Value>, path: &str) -> Result<Value, Vec<Problem>> {
    let (mut fine, mut problems) = (Map::new(), Vec::new());
    let others = schema.get("additionalProperties");
    for (name, value) in fields {
        let found = match property(schema, name).or(others.filter(|s| s.is_object())) {
            Some(of_field) => conform(of_field, value, &inside(path, name)),
            None if others == Some(&Value::Bool(false)) => {
                Err(vec![wrong_name(path, name, "unknown", nearest_help(name, names(schema)))])
            }
            None => Ok(value.clone()),
        };
        match found {
            Ok(value) => drop(fine.insert(name.clone(), value)),
            Err(found) => problems.extend(found),
        }
    }
    problems.extend(missing(schema, fields, path));
    if problems.is_empty() { Ok(Value::Object(fine)) } else { Err(problems) }
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

/// Says what was expected, and the nearest word if it is one of several words.
fn misspelt(schema: &Value, value: &Value, path: &str) -> Vec<Problem> {
    let expected = format!("expected {}, found {}", expectation(schema), describe(value));
    let near = value.as_str().and_then(|word| nearest(word, words(schema).into_iter()));
    wrong(path, near.map_or(expected.clone(), |near| format!("{expected}; did you mean `{near}`?")))
}
