//! `--set` options: `path=value`, or `stage[name=value].parameter=value` for the points that match.
//!
//! A name in brackets is an axis of the sweep or a parameter of the stage; several are separated by `,` and all must
//! match, several values of one by `|`, of which one must. What is not of this form is refused, never guessed.

use std::ops::Range;

use serde_json::Value;

/// An option taken apart. Places are bytes of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOption {
    /// What is set, such as `train.lr` or `datasets.mine.nodes`, without conditions.
    pub path: String,
    /// Where the path stands, conditions included.
    pub at: Range<usize>,
    /// Which points are meant; all if there are none.
    pub only: Vec<Condition>,
    /// Where the value stands.
    pub value: Range<usize>,
}

/// One condition: a name, and the values of it that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// An axis or a parameter, and where it stands.
    pub name: (String, Range<usize>),
    /// Values, and where they stand.
    pub values: Vec<(String, Range<usize>)>,
}

/// What is expected, for messages.
pub const EXPECTED: &str = "expected `path=value`, such as `train.lr=0.05`, or `train[model=gcn].lr=0.05`";

impl SetOption {
    /// Takes an option apart; `None` if it is not of the form.
    pub fn parse(text: &str) -> Option<Self> {
        let stage = text.find(['[', '=', '.'])?;
        if !text[stage..].starts_with('[') {
            let end = text.find('=').filter(|end| *end > 0)?;
            return Some(Self { path: text[..end].into(), at: 0..end, only: Vec::new(), value: end + 1..text.len() });
        }
        let close = stage + text[stage..].find("].")?;
        let end = close + text[close..].find('=')?;
        let param = &text[close + 2..end];
        if stage == 0 || param.is_empty() {
            return None;
        }
        let mut only = Vec::new();
        for (at, part) in pieces(text, stage + 1..close, ',') {
            let (name, _) = part.split_once('=').filter(|(name, values)| !name.is_empty() && !values.is_empty())?;
            let first = at.start + name.len() + 1;
            let values = pieces(text, first..at.end, '|').map(|(at, value)| (value.to_owned(), at)).collect();
            only.push(Condition { name: (name.to_owned(), at.start..at.start + name.len()), values });
        }
        Some(Self { path: format!("{}.{param}", &text[..stage]), at: 0..end, only, value: end + 1..text.len() })
    }

    /// Writes what is set and where, the same however it was spelled.
    fn place(&self) -> String {
        let mut conditions: Vec<String> = self.only.iter().map(Condition::canonical).collect();
        conditions.sort_unstable();
        conditions.dedup();
        match (self.path.split_once('.'), conditions.is_empty()) {
            (Some((stage, param)), false) => format!("{stage}[{}].{param}", conditions.join(",")),
            _ => self.path.clone(),
        }
    }
}

impl Condition {
    fn canonical(&self) -> String {
        let mut values: Vec<&str> = self.values.iter().map(|(value, _)| value.as_str()).collect();
        values.sort_unstable();
        values.dedup();
        format!("{}={}", self.name.0, values.join("|"))
    }
}

/// Returns options in a form that says what they mean: of several for one place the last, in an order of their own, with
/// values as they are understood (`5e-2` is `0.05`). Where one path leads into another, their order has a meaning and stays.
pub fn canonical(options: &[String]) -> Vec<String> {
    let read = options.iter().map(|text| match SetOption::parse(text) {
        Some(option) => (option.place(), value_text(&text[option.value.clone()])),
        None => (text.clone(), String::new()),
    });
    let mut settings: Vec<(String, String)> = Vec::new();
    for (place, value) in read {
        settings.retain(|(there, _)| *there != place);
        settings.push((place, value));
    }
    let leads_into = |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    let nested = settings.iter().any(|(outer, _)| settings.iter().any(|(inner, _)| leads_into(outer, inner)));
    if !nested {
        settings.sort_unstable();
    }
    settings.into_iter().map(|(place, value)| format!("{place}={value}")).collect()
}

/// A value as it is understood: text as it is, anything else as JSON.
fn value_text(written: &str) -> String {
    let written = if written.is_empty() { "null" } else { written };
    match serde_yaml::from_str::<Value>(written) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => written.to_owned(),
    }
}

/// The parts of a range between separators, with their places.
fn pieces(text: &str, range: Range<usize>, separator: char) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = range.start;
    text[range].split(separator).map(move |part| {
        let at = start..start + part.len();
        start = at.end + separator.len_utf8();
        (at, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_path_and_a_value() {
        let option = SetOption::parse("train.lr=a=b").unwrap();
        assert_eq!((option.path.as_str(), option.at, option.value, option.only.len()), ("train.lr", 0..8, 9..12, 0));
        assert_eq!(SetOption::parse("datasets.my[set].nodes=3").unwrap().path, "datasets.my[set].nodes");
        for wrong in
            ["", "train.lr", "=3", "train[model=gcn]=3", "train[model].lr=3", "[model=gcn].lr=3", "train[a=].b=1"]
        {
            assert_eq!(SetOption::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn conditions_stand_in_brackets() {
        let text = "train[model=gcn|gpr-gnn,load.dataset=texas].lr=[1, 2]";
        let option = SetOption::parse(text).unwrap();
        assert_eq!((option.path.as_str(), &text[option.value.clone()]), ("train.lr", "[1, 2]"));
        let [model, dataset] = &option.only[..] else { panic!("{option:?}") };
        assert_eq!((model.name.0.as_str(), &text[model.name.1.clone()]), ("model", "model"));
        for (value, at) in model.values.iter().chain(&dataset.values) {
            assert_eq!(*value, text[at.clone()]);
        }
        assert_eq!((model.values.len(), dataset.values[0].0.as_str()), (2, "texas"));
    }

    #[test]
    fn spelling_and_order_do_not_count() {
        let of = |options: &[&str]| canonical(&options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["train.lr=5e-2", "evd.k=8"]), ["evd.k=8", "train.lr=0.05"]);
        assert_eq!(of(&["evd.k=8", "train.lr=0.050"]), of(&["train.lr=0.05", "evd.k=8"]));
        assert_eq!(of(&["evd.k=8", "evd.k=9"]), ["evd.k=9"]);
        assert_eq!(of(&["train[b=1,a=y|x].lr=1"]), of(&["train[a=x|y,b=1].lr=1"]));
        assert_ne!(of(&["train[a=x].lr=1"]), of(&["train[a=y].lr=1"]));
        assert_eq!(of(&["load.names={b: 1, a: 2}"]), ["load.names={\"b\":1,\"a\":2}"]);
        // What is set inside of the other depends on which one comes first.
        assert_ne!(of(&["datasets.a={}", "datasets.a.n=1"]), of(&["datasets.a.n=1", "datasets.a={}"]));
    }
}
