//! From YAML text to a tree of values that know where they stand.
//!
//! `serde_yaml` reads the values and is the judge of syntax; an event parser over the same text says where each value
//! stands, which `serde_yaml` does not tell. Nothing after this file knows YAML.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, Span as Marks};
use serde_json::{Map, Number, Value};

use super::problem::Problems;
use super::source::{Sources, Span};

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// Where it stands.
    pub span: Span,
}

/// A name in a mapping and its place.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// A value as written.
#[derive(Clone, Debug)]
pub enum Data {
    /// Null, a truth value, a number or a text.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order written.
    Map(Vec<(Key, Node)>),
}

impl Node {
    /// Returns the value without places.
    pub fn value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::List(items) => Value::Array(items.iter().map(Node::value).collect()),
            Data::Map(entries) => {
                Value::Object(entries.iter().map(|(k, v)| (k.name.clone(), v.value())).collect::<Map<_, _>>())
            }
        }
    }

    /// Returns an entry of a mapping.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries().iter().find(|(k, _)| k.name == name).map(|(_, v)| v)
    }

    /// Returns the entries of a mapping; nothing for other values.
    pub fn entries(&self) -> &[(Key, Node)] {
        if let Data::Map(entries) = &self.data { entries } else { &[] }
    }

    /// Moves the value, with everything in it, to another source.
    pub fn move_to(&mut self, source: usize) {
        self.span.source = source;
        match &mut self.data {
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|item| item.move_to(source)),
            Data::Map(entries) => {
                for (key, value) in entries {
                    key.span.source = source;
                    value.move_to(source);
                }
            }
        }
    }

    /// Returns whether the value is null or absent.
    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Scalar(Value::Null))
    }
}

/// Reads a text that was added to `sources` at `source`. Problems are collected; `None` means nothing usable came out.
pub fn read(sources: &Sources, source: usize, problems: &mut Problems) -> Option<Node> {
    let text = sources.get(source)?.text.clone();
    let locator = Locator { source, bytes: byte_offsets(&text) };
    let place = locator.document(&text, problems)?;
    let value = match serde_yaml::from_str::<serde_yaml::Value>(&text).and_then(|mut v| v.apply_merge().map(|()| v)) {
        Ok(value) => value,
        Err(error) => {
            // The locator has reported duplicate names at their own place; serde_yaml puts them at the first line.
            if problems.is_empty() {
                let at = error.location().map_or(0, |l| l.index().min(text.len()));
                let span = Span { source, range: at..(at + 1).min(text.len()) };
                problems.add(&span, format!("not valid YAML: {error}"), None);
            }
            return None;
        }
    };
    join(value, &place, problems)
}

/// Places in the shape of the document.
struct Place {
    span: Span,
    /// Items of a list, whose keys say nothing, or entries of a mapping.
    inner: Vec<(Key, Place)>,
}

struct Locator {
    source: usize,
    bytes: Vec<usize>,
}

impl Locator {
    fn document(&self, text: &str, problems: &mut Problems) -> Option<Place> {
        use Event::{DocumentEnd, DocumentStart, Nothing, StreamEnd, StreamStart};
        let mut events = match Parser::new_from_str(text).collect::<Result<Vec<_>, _>>() {
            Ok(events) => events,
            Err(error) => {
                let span = self.span(&Marks::new(*error.marker(), *error.marker()));
                return problems.refuse(&span, format!("not valid YAML: {}", error.info()), None);
            }
        };
        events.retain(|(e, _)| !matches!(e, StreamStart | StreamEnd | DocumentStart(_) | DocumentEnd | Nothing));
        let mut events = events.into_iter();
        let Some((event, marks)) = events.next() else {
            let span = Span { source: self.source, range: 0..0 };
            return problems.refuse(&span, "the file is empty", Some("a pipeline file starts with `ppgnn: 1`".into()));
        };
        Some(self.place(event, marks, &mut events, problems))
    }

    fn place<'t>(
        &self,
        event: Event<'t>,
        marks: Marks,
        rest: &mut impl Iterator<Item = (Event<'t>, Marks)>,
        problems: &mut Problems,
    ) -> Place {
        let mut span = self.span(&marks);
        let mut inner: Vec<(Key, Place)> = Vec::new();
        match event {
            Event::SequenceStart(..) => {
                while let Some((event, marks)) = rest.next().filter(|(e, _)| *e != Event::SequenceEnd) {
                    let item = self.place(event, marks, rest, problems);
                    inner.push((Key { name: String::new(), span: item.span.clone() }, item));
                }
            }
            Event::MappingStart(..) => {
                let mut names = HashSet::new();
                while let Some((event, marks)) = rest.next().filter(|(e, _)| *e != Event::MappingEnd) {
                    let name = if let Event::Scalar(text, ..) = &event { text.to_string() } else { String::new() };
                    let key = Key { name, span: self.place(event, marks, rest, problems).span };
                    if !names.insert(key.name.clone()) {
                        let message = format!("duplicate key `{}`", key.name);
                        problems.add(&key.span, message, Some("remove one of them".into()));
                    }
                    let Some((event, marks)) = rest.next() else { break };
                    inner.push((key, self.place(event, marks, rest, problems)));
                }
                if let Some((first, _)) = inner.first() {
                    span.range.start = span.range.start.min(first.span.range.start);
                }
            }
            _ => {}
        }
        span.range.end = inner.last().map_or(span.range.end, |(_, last)| last.span.range.end);
        Place { span, inner }
    }

    fn span(&self, marks: &Marks) -> Span {
        let byte = |chars: usize| self.bytes.get(chars).or(self.bytes.last()).copied().unwrap_or(0);
        Span { source: self.source, range: byte(marks.start.index())..byte(marks.end.index()) }
    }
}

/// The event parser counts characters; excerpts need bytes.
fn byte_offsets(text: &str) -> Vec<usize> {
    text.char_indices().map(|(i, _)| i).chain([text.len()]).collect()
}

/// Puts values and places together. Where the shapes differ (an alias stands for a whole subtree, a merge key for
/// several entries), the place of the enclosing value serves.
fn join(value: serde_yaml::Value, place: &Place, problems: &mut Problems) -> Option<Node> {
    let Place { span, inner } = place;
    let unplaced = Place { span: span.clone(), inner: Vec::new() };
    let data = match value {
        serde_yaml::Value::Null => Data::Scalar(Value::Null),
        serde_yaml::Value::Bool(b) => Data::Scalar(b.into()),
        serde_yaml::Value::String(s) => Data::Scalar(s.into()),
        serde_yaml::Value::Number(n) => Data::Scalar(Value::Number(number(&n, span, problems)?)),
        serde_yaml::Value::Sequence(items) => {
            let at = |i| inner.get(i).map_or(&unplaced, |(_, place)| place);
            Data::List(items.into_iter().enumerate().map(|(i, v)| join(v, at(i), problems)).collect::<Option<_>>()?)
        }
        serde_yaml::Value::Mapping(entries) => {
            let mut joined = Vec::new();
            for (i, (name, value)) in entries.into_iter().enumerate() {
                let name = text_of(&name, span, problems)?;
                // Only a merge key can have moved an entry from its place.
                let near = inner.get(i).filter(|(k, _)| k.name == name);
                let found = near.or_else(|| inner.iter().find(|(k, _)| k.name == name));
                let (key_span, place) = found.map_or((span, &unplaced), |(k, place)| (&k.span, place));
                joined.push((Key { name, span: key_span.clone() }, join(value, place, problems)?));
            }
            Data::Map(joined)
        }
        serde_yaml::Value::Tagged(tagged) => {
            let message = format!("the tag `{}` is not supported", tagged.tag);
            return problems.refuse(span, message, Some("remove it".into()));
        }
    };
    Some(Node { data, span: span.clone() })
}

fn number(n: &serde_yaml::Number, span: &Span, problems: &mut Problems) -> Option<Number> {
    let number = n
        .as_u64()
        .map(Number::from)
        .or_else(|| n.as_i64().map(Number::from))
        .or_else(|| n.as_f64().and_then(Number::from_f64));
    let help = || Some("write a finite number".into());
    number.or_else(|| problems.refuse(span, format!("`{n}` is not a finite number"), help()))
}

fn text_of(name: &serde_yaml::Value, span: &Span, problems: &mut Problems) -> Option<String> {
    match name {
        serde_yaml::Value::String(s) => Some(s.clone()),
        serde_yaml::Value::Bool(b) => Some(b.to_string()),
        serde_yaml::Value::Number(n) => Some(n.to_string()),
        _ => problems.refuse(span, "a key in a mapping must be a plain word", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn parse(text: &str) -> (Option<Node>, Problems, Sources) {
        let mut sources = Sources::default();
        let source = sources.add("x.yaml", Path::new("."), text);
        let mut problems = Problems::default();
        let node = read(&sources, source, &mut problems);
        (node, problems, sources)
    }

    fn messages(text: &str) -> String {
        let (_, problems, sources) = parse(text);
        problems.finish(&sources).unwrap_err().to_string()
    }

    #[test]
    fn values_know_their_line_and_column() {
        let (node, _, sources) = parse("a: 1\nb:\n  - x\n  - é: 2.5\n    z: yes\n");
        let node = node.unwrap();
        assert_eq!(node.value(), json!({"a": 1, "b": ["x", {"é": 2.5, "z": "yes"}]}));
        let Data::List(items) = &node.get("b").unwrap().data else { panic!("a list") };
        assert_eq!(sources.position(&items[1].get("z").unwrap().span), ("x.yaml".into(), 5, 8));
    }

    #[test]
    fn aliases_and_merge_keys_work() {
        let (node, ..) = parse("base: &b {x: 1}\none: *b\ntwo:\n  <<: *b\n  y: 2\n");
        assert_eq!(node.unwrap().value(), json!({"base": {"x": 1}, "one": {"x": 1}, "two": {"y": 2, "x": 1}}));
    }

    #[test]
    fn every_duplicate_is_reported_where_it_stands() {
        assert_eq!(
            messages("a: 1\nb: 2\na: 3\nb: 4\n"),
            "x.yaml:3:1: duplicate key `a`\nx.yaml:4:1: duplicate key `b`"
        );
    }

    #[test]
    fn broken_yaml_is_placed() {
        assert!(messages("a: [1, 2\nb: 3\n").starts_with("x.yaml:2:"), "{}", messages("a: [1, 2\nb: 3\n"));
        assert!(messages("").contains("empty"));
        assert!(messages("a: .nan\n").contains("not a finite number"));
        assert!(messages("a: !include x\n").contains("tag"));
    }
}
