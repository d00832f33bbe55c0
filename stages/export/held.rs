//! What a file of the store holds, without knowing what it is for: names, types, shapes and the first values.

use std::path::Path;

use super::{Frame, Values};
use crate::contract::ArtifactError;
use crate::kinds::files::{TensorsRead, read_json};

/// How many values are shown.
const FIRST: usize = 4;

/// A tensor, a column or a field of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// Type and shape.
    pub form: String,
    /// The first values.
    pub first: String,
}

/// Lists what a file holds: tensors, columns or fields; nothing of a file of another kind.
///
/// # Errors
/// When the file cannot be read.
pub fn held(path: &Path) -> Result<Vec<Held>, ArtifactError> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("safetensors") => tensors(path),
        Some("parquet") => Ok(columns(&Frame::read_parquet(path)?)),
        Some("json") => Ok(fields(&read_json(path)?)),
        _ => Ok(Vec::new()),
    }
}

fn tensors(path: &Path) -> Result<Vec<Held>, ArtifactError> {
    let file = TensorsRead::open(path)?;
    let of_name = |name: String| {
        let (form, first) = file.summary(&name, FIRST)?;
        Ok(Held { name, form, first })
    };
    file.names()?.into_iter().map(of_name).collect()
}

fn columns(frame: &Frame) -> Vec<Held> {
    let held = |name: &str| {
        let values = frame.column(name)?;
        let form = match values {
            Values::Text(_) => "text",
            Values::Number(_) => "number",
            Values::Whole(_) => "whole number",
            Values::Flag(_) => "true or false",
        };
        let first = (0..frame.rows().min(FIRST)).map(|row| values.text(row).unwrap_or_default());
        let first = shown(first.collect(), frame.rows());
        Some(Held { name: name.to_owned(), form: format!("{form}, {}", frame.rows()), first })
    };
    frame.names().filter_map(held).collect()
}

fn fields(value: &serde_json::Value) -> Vec<Held> {
    use serde_json::Value;
    let held = |(name, value): (&String, &Value)| {
        let (form, first) = match value {
            Value::Array(items) => {
                let first = items.iter().take(FIRST).map(short).collect();
                (format!("list of {}", items.len()), shown(first, items.len()))
            }
            Value::Object(_) => ("object".to_owned(), short(value)),
            Value::String(_) => ("text".to_owned(), short(value)),
            Value::Number(_) => ("number".to_owned(), short(value)),
            Value::Bool(_) => ("true or false".to_owned(), short(value)),
            Value::Null => ("nothing".to_owned(), String::new()),
        };
        Held { name: name.clone(), form, first }
    };
    value.as_object().map(|fields| fields.iter().map(held).collect()).unwrap_or_default()
}

fn short(value: &serde_json::Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}…", text.chars().take(59).collect::<String>()) } else { text }
}

/// The first values, and dots if there are more.
pub(crate) fn shown(first: Vec<String>, all: usize) -> String {
    let more = if all > first.len() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}
