//! What schemas accept and what values are, in words for a person.

use serde_json::Value;

use super::check::{shapes, types};

/// Says in words what a schema accepts.
pub fn expectation(schema: &Value) -> String {
    if let Some(said) = schema.get("x-expected").and_then(Value::as_str) {
        return said.to_owned();
    }
    let words = words(schema);
    if !words.is_empty() {
        return format!("one of {}", list(words.into_iter()));
    }
    let shapes = shapes(schema).into_iter().filter(|s| s.get("type").is_none_or(|t| t != "null"));
    let shapes: Vec<String> = shapes.map(expectation).collect();
    if !shapes.is_empty() {
        return shapes.join(" or ");
    }
    let noun = match types(schema).into_iter().find(|t| *t != "null") {
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("string") if schema.get("x-bytes").is_some() => "a size such as `4GiB`",
        Some("string") => "text",
        Some("boolean") => "`true` or `false`",
        Some("array") => {
            let items = schema.get("items").map_or("values".into(), expectation);
            return format!("a list (each: {items})");
        }
        _ => "a mapping",
    };
    let bound = |k: &str| schema.get(k).and_then(Value::as_f64);
    let low =
        bound("minimum").map(|b| format!("at least {b}")).or(bound("exclusiveMinimum").map(|b| format!("above {b}")));
    // The schema of a sized integer ends at its type's largest value, which is no useful information.
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

/// The words a schema allows, if it is a choice of words.
pub(super) fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let own = listed.chain(schema.get("const")).filter_map(Value::as_str);
    own.chain(shapes(schema).into_iter().flat_map(words)).collect()
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

/// The longest list that a hint shows.
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
