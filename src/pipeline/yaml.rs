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
    let places = locator.places(&text, problems)?;
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
    join(value, &places, problems)
}

/// Places in the shape of the document.
enum Places {
    Leaf(Span),
    List(Span, Vec<Places>),
    Map(Span, Vec<(Key, Places)>),
}

impl Places {
    fn span(&self) -> &Span {
        match self {
            Places::Leaf(span) | Places::List(span, _) | Places::Map(span, _) => span,
        }
    }
}

struct Locator {
    source: usize,
    bytes: Vec<usize>,
}

impl Locator {
    fn places(&self, text: &str, problems: &mut Problems) -> Option<Places> {
        let mut events = Vec::new();
        for event in Parser::new_from_str(text) {
            match event {
                Ok((
                    Event::StreamStart
                    | Event::StreamEnd
                    | Event::DocumentStart(_)
                    | Event::DocumentEnd
                    | Event::Nothing,
                    _,
                )) => {}
                Ok(event) => events.push(event),
                Err(error) => {
                    let span = self.span(&Marks::new(*error.marker(), *error.marker()));
                    problems.add(&span, format!("not valid YAML: {}", error.info()), None);
                    return None;
                }
            }
        }
        let mut events = events.into_iter();
        match events.next() {
            Some((event, marks)) => Some(self.place(event, marks, &mut events, problems)),
            None => {
                let span = Span { source: self.source, range: 0..0 };
                problems.add(&span, "the file is empty", Some("a pipeline file starts with `ppgnn: 1`".into()));
                None
            }
        }
    }

    fn place<'t>(
        &self,
        event: Event<'t>,
        marks: Marks,
        rest: &mut impl Iterator<Item = (Event<'t>, Marks)>,
        problems: &mut Problems,
    ) -> Places {
        let mut span = self.span(&marks);
        match event {
            Event::SequenceStart(..) => {
                let mut items: Vec<Places> = Vec::new();
                while let Some((event, marks)) = rest.next().filter(|(e, _)| *e != Event::SequenceEnd) {
                    items.push(self.place(event, marks, rest, problems));
                }
                span.range.end = items.last().map_or(span.range.end, |i| i.span().range.end);
                Places::List(span, items)
            }
            Event::MappingStart(..) => {
                let mut entries: Vec<(Key, Places)> = Vec::new();
                let mut names = HashSet::new();
                while let Some((event, marks)) = rest.next().filter(|(e, _)| *e != Event::MappingEnd) {
                    let name = if let Event::Scalar(text, ..) = &event { text.to_string() } else { String::new() };
                    let key = Key { name, span: self.place(event, marks, rest, problems).span().clone() };
                    if !names.insert(key.name.clone()) {
                        problems.add(
                            &key.span,
                            format!("duplicate key `{}`", key.name),
                            Some("remove one of them".into()),
                        );
                    }
                    let Some((event, marks)) = rest.next() else { break };
                    let value = self.place(event, marks, rest, problems);
                    entries.push((key, value));
                }
                if let Some((first, _)) = entries.first() {
                    span.range.start = span.range.start.min(first.span.range.start);
                }
                span.range.end = entries.last().map_or(span.range.end, |(_, v)| v.span().range.end);
                Places::Map(span, entries)
            }
            _ => Places::Leaf(span),
        }
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
fn join(value: serde_yaml::Value, places: &Places, problems: &mut Problems) -> Option<Node> {
    let span = places.span().clone();
    let data = match value {
        serde_yaml::Value::Null => Data::Scalar(Value::Null),
        serde_yaml::Value::Bool(b) => Data::Scalar(b.into()),
        serde_yaml::Value::String(s) => Data::Scalar(s.into()),
        serde_yaml::Value::Number(n) => Data::Scalar(Value::Number(number(&n, &span, problems)?)),
        serde_yaml::Value::Sequence(items) => {
            let inner = if let Places::List(_, inner) = places { inner.as_slice() } else { &[] };
            let leaf = Places::Leaf(span.clone());
            let nodes = items.into_iter().enumerate().map(|(i, v)| join(v, inner.get(i).unwrap_or(&leaf), problems));
            Data::List(nodes.collect::<Option<_>>()?)
        }
        serde_yaml::Value::Mapping(entries) => {
            let inner = if let Places::Map(_, inner) = places { inner.as_slice() } else { &[] };
            let leaf = Places::Leaf(span.clone());
            let mut joined = Vec::new();
            for (i, (name, value)) in entries.into_iter().enumerate() {
                let name = text_of(&name, &span, problems)?;
                // Only a merge key can have moved an entry from its place.
                let near = inner.get(i).filter(|(k, _)| k.name == name);
                let place = near.or_else(|| inner.iter().find(|(k, _)| k.name == name));
                let key_span = place.map_or(&span, |(k, _)| &k.span).clone();
                let node = join(value, place.map_or(&leaf, |(_, p)| p), problems)?;
                joined.push((Key { name, span: key_span }, node));
            }
            Data::Map(joined)
        }
        serde_yaml::Value::Tagged(tagged) => {
            problems.add(&span, format!("the tag `{}` is not supported", tagged.tag), Some("remove it".into()));
            return None;
        }
    };
    Some(Node { data, span })
}

fn number(n: &serde_yaml::Number, span: &Span, problems: &mut Problems) -> Option<Number> {
    let number = n
        .as_u64()
        .map(Number::from)
        .or_else(|| n.as_i64().map(Number::from))
        .or_else(|| n.as_f64().and_then(Number::from_f64));
    if number.is_none() {
        problems.add(span, format!("`{n}` is not a finite number"), Some("write a finite number".into()));
    }
    number
}

fn text_of(name: &serde_yaml::Value, span: &Span, problems: &mut Problems) -> Option<String> {
    match name {
        serde_yaml::Value::String(s) => Some(s.clone()),
        serde_yaml::Value::Bool(b) => Some(b.to_string()),
        serde_yaml::Value::Number(n) => Some(n.to_string()),
        _ => {
            problems.add(span, "a key in a mapping must be a plain word", None);
            None
        }
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
