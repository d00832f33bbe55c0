//! A space of parameters as written: `stage.parameter`, and what values to try.
//!
//! ```yaml
//! train.lr: [0.001, 0.01]                                                     # one of a list
//! train.order: { from: 1, to: 10 }                                            # whole numbers, since both ends are
//! train.eta: { from: 0.0, to: 1.0 }                                           # numbers
//! train.weight-decay: { from: 1.0e-6, to: 0.1, log: true }                    # ratios count instead of differences
//! train.alpha: { values: [0.1, 0.9], when: { train.init: [ppr, nppr] } }      # only where another parameter has one of some values
//! train.hidden: null                                                          # not searched, though an included space has it
//! ```

use serde_json::Value;

use super::problem::Problems;
use super::reader::{Reader, one_or_many};
use super::source::Span;
use super::yaml::{Data, Key, Node};
use crate::search::{Condition, Domain, Param, Space};

/// Parameters as written, and where; without a domain, it is one that is not searched.
pub(super) type Written = Vec<(Key, Option<Param>)>;

/// Lays parameters on others: those of the same name are replaced, and those without a domain removed.
pub(super) fn over(base: Written, written: Written) -> Written {
    let replaced = |key: &Key| written.iter().any(|(other, _)| other.name == key.name);
    let kept: Written = base.into_iter().filter(|(key, _)| !replaced(key)).collect();
    kept.into_iter().chain(written).filter(|(_, param)| param.is_some()).collect()
}

/// Makes a space of parameters; reports what is wrong with them, each at its place.
pub(super) fn space(written: &Written, whole: &Span, problems: &mut Problems) -> Option<Space> {
    let params = written.iter().filter_map(|(_, param)| param.clone()).collect();
    let faults = match Space::new(params) {
        Ok(space) => return Some(space),
        Err(faults) => faults,
    };
    for fault in faults {
        let place = written.iter().find(|(key, _)| key.name == fault.path).map_or(whole, |(key, _)| &key.span);
        let message = if fault.path.is_empty() { fault.message } else { format!("`{}` {}", fault.path, fault.message) };
        problems.add(place, message, Some(fault.help));
    }
    None
}

impl Reader<'_> {
    /// Reads the parameters of a space.
    pub(super) fn space(&mut self, node: Option<&Node>) -> Written {
        let mut written = Written::new();
        for setting in self.settings(node) {
            let path = format!("{}.{}", setting.stage, setting.param);
            let key = Key { name: path.clone(), span: setting.span };
            if setting.value.is_null() {
                written.push((key, None));
                continue;
            }
            let when = setting.value.get("when").and_then(|node| self.condition(node));
            if let Some(domain) = self.domain(&setting.value) {
                written.push((key, Some(Param { path, domain, when })));
            }
        }
        written
    }

    fn domain(&mut self, node: &Node) -> Option<Domain> {
        const EXPECTED: &str = "a list of values, `{from: 0.0, to: 1.0}` or `{values: [1, 2], when: {…}}`";
        if let Data::List(items) = &node.data {
            return Some(Domain::Choice(items.iter().map(Node::value).collect()));
        }
        if node.entries().is_empty() {
            self.expected(node, EXPECTED);
            return None;
        }
        self.only(node, &["from", "to", "log", "values", "when"], "a parameter of a space");
        if let Some(values) = node.get("values") {
            return Some(Domain::Choice(self.list(Some(values)).iter().map(Node::value).collect()));
        }
        let log = match node.get("log").map(Node::value) {
            None => false,
            Some(Value::Bool(log)) => log,
            Some(_) => {
                self.expected(node.get("log")?, "`true` or `false`");
                return None;
            }
        };
        let ends = [node.get("from"), node.get("to")].map(|end| end.map(Node::value));
        if let [Some(from), Some(to)] = ends.each_ref().map(|end| end.as_ref().and_then(Value::as_i64)) {
            return Some(Domain::Int { from, to, log });
        }
        match ends.each_ref().map(|end| end.as_ref().and_then(Value::as_f64)) {
            [Some(from), Some(to)] => Some(Domain::Float { from, to, log }),
            _ => {
                self.expected(node, EXPECTED);
                None
            }
        }
    }

    fn condition(&mut self, node: &Node) -> Option<Condition> {
        let mut settings = self.settings(Some(node));
        if settings.len() != 1 {
            self.expected(node, "one other parameter, such as `{train.init: [ppr, nppr]}`");
            return None;
        }
        let setting = settings.pop()?;
        let values = one_or_many(&setting.value).iter().map(Node::value).collect();
        Some(Condition { path: format!("{}.{}", setting.stage, setting.param), values })
    }
}
