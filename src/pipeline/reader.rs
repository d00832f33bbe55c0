//! `Reader`: takes values out of a tree, and reports each one that is not what it should be at its place.

use ppgnn_stages::contract::params::{describe, nearest_help};
use serde_json::Value;

use super::problem::Problems;
use super::source::Span;
use super::yaml::{Data, Key, Node};

/// Reads parts of a document. Every kind of document adds its own methods.
pub struct Reader<'p> {
    /// What was found so far.
    pub problems: &'p mut Problems,
}

impl Reader<'_> {
    /// Returns the entries of a mapping; an absent or empty one has none, anything else is a problem.
    pub fn map<'n>(&mut self, node: Option<&'n Node>) -> &'n [(Key, Node)] {
        let Some(node) = node.filter(|n| !n.is_null()) else { return &[] };
        if !matches!(node.data, Data::Map(_)) {
            self.expected(node, "a mapping");
        }
        node.entries()
    }

    /// Returns the items of a list; an absent or empty one has none, anything else is a problem.
    pub fn list<'n>(&mut self, node: Option<&'n Node>) -> &'n [Node] {
        let Some(node) = node.filter(|n| !n.is_null()) else { return &[] };
        if let Data::List(items) = &node.data {
            return items;
        }
        self.expected(node, "a list");
        &[]
    }

    /// Returns a text; a number or a truth value is one too.
    pub fn text(&mut self, node: &Node) -> Option<Key> {
        let name = match &node.data {
            Data::Scalar(Value::String(text)) => text.clone(),
            Data::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))) => scalar.to_string(),
            _ => {
                self.expected(node, "text");
                return None;
            }
        };
        Some(Key { name, span: node.span.clone() })
    }

    /// Returns one text or a list of texts.
    pub fn texts(&mut self, node: Option<&Node>) -> Vec<Key> {
        node.map(one_or_many).unwrap_or_default().iter().filter_map(|n| self.text(n)).collect()
    }

    /// Returns an entry of a mapping, or reports that it is missing.
    pub fn required<'n>(&mut self, node: &'n Node, field: &str, help: Option<String>) -> Option<&'n Node> {
        let found = node.get(field);
        if found.is_none() {
            self.problems.add(&start(&node.span), format!("missing `{field}`"), help);
        }
        found
    }

    /// Reports every name of a mapping that is not known.
    pub fn only(&mut self, node: &Node, known: &[&str], what: &str) {
        for (key, _) in node.entries().iter().filter(|(k, _)| !known.contains(&k.name.as_str())) {
            let help = nearest_help(&key.name, known.iter().copied());
            self.problems.add(&key.span, format!("{what} has no `{}`", key.name), Some(help));
        }
    }

    /// Reports a value that is not what it should be.
    pub fn expected(&mut self, node: &Node, what: &str) {
        self.problems.add(&node.span, format!("expected {what}, found {}", describe(&node.value())), None);
    }
}

/// Returns the items of a list; anything else stands for itself.
pub fn one_or_many(node: &Node) -> &[Node] {
    if let Data::List(items) = &node.data { items } else { std::slice::from_ref(node) }
}

/// The place where something begins.
fn start(span: &Span) -> Span {
    Span { source: span.source, range: span.range.start..span.range.end.min(span.range.start + 1) }
}
