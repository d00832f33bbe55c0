//! Data sets: those that the file describes, and known ones that it only names.
//!
//! An entry under `datasets` is a set of parameters of `load`, and of files for other stages
//! ([`FromDataset`](ppgnn_stages::contract::FromDataset)). With `dataset: other` it starts from another one; an entry
//! without `format` that has the name of a known data set starts from that. Relative paths keep starting from the folder
//! of the text that they are written in; those of a known data set start from its folder with data.

use std::collections::HashMap;

use ppgnn_stages::contract::params::nearest_help;

use super::known::Known;
use super::problem::Problems;
use super::source::{Sources, Span};
use super::yaml::{Data, Key, Node};

/// The stage that data sets are parameters of.
pub const DATASET_STAGE: &str = "load";
/// The parameter that names a data set.
pub const DATASET_PARAM: &str = "dataset";

/// Every data set that a pipeline uses.
#[derive(Default)]
pub struct Datasets {
    /// Parameters of `load`, and files for other stages, by name; every entry stands where it was written.
    pub all: Vec<(Key, Node)>,
    /// Which known data set an entry starts from.
    pub known: HashMap<String, String>,
    /// Names that are known without the pipeline.
    pub names: Vec<String>,
    /// Publishers' pages of known data sets that cannot be fetched.
    pub by_hand: HashMap<String, String>,
}

impl Datasets {
    /// Finds an entry.
    pub fn get(&self, name: &str) -> Option<&(Key, Node)> {
        self.all.iter().find(|(k, _)| k.name == name)
    }
}

/// Fills in what entries start from, and adds the known data sets among `named`.
pub fn resolve<'n>(
    own: &[(Key, Node)],
    named: impl Iterator<Item = &'n str>,
    known: &dyn Known,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Datasets {
    let mut resolver = Resolver { own, known, read: HashMap::new(), by_hand: HashMap::new(), sources, problems };
    let mut datasets = Datasets { names: known.datasets(), ..Datasets::default() };
    for (key, node) in own {
        let (entries, from) = resolver.entries(key, node, 0);
        datasets.known.extend(from.map(|from| (key.name.clone(), from)));
        datasets.all.push((key.clone(), Node { data: Data::Map(entries), span: node.span.clone() }));
    }
    for name in named {
        if datasets.get(name).is_none()
            && let Some((key, entries)) = resolver.of_known(name)
        {
            datasets.known.insert(name.to_owned(), name.to_owned());
            let span = key.span.clone();
            datasets.all.push((key, Node { data: Data::Map(entries), span }));
        }
    }
    datasets.by_hand = resolver.by_hand;
    datasets
}

type Entries = Vec<(Key, Node)>;

struct Resolver<'r> {
    own: &'r [(Key, Node)],
    known: &'r dyn Known,
    /// Known data sets that were read already.
    read: HashMap<String, Option<(Key, Entries)>>,
    by_hand: HashMap<String, String>,
    sources: &'r mut Sources,
    problems: &'r mut Problems,
}

impl Resolver<'_> {
    /// Returns the entries of a data set with those it starts from, and the known data set at the start.
    fn entries(&mut self, key: &Key, node: &Node, depth: usize) -> (Entries, Option<String>) {
        let own = node.entries();
        let base = own.iter().find(|(k, _)| k.name == DATASET_PARAM).map(|(_, n)| n);
        let (base_entries, from) = match base {
            Some(base) => self.base(key, base, depth),
            None if node.get("format").is_some() => (Vec::new(), None),
            None => self.of_known(&key.name).map_or((Vec::new(), None), |(_, e)| (e, Some(key.name.clone()))),
        };
        let mut all: Entries =
            base_entries.into_iter().filter(|(k, _)| !own.iter().any(|(o, _)| o.name == k.name)).collect();
        let removes = |n: &Node| n.is_null() && from.is_some();
        all.extend(own.iter().filter(|(k, n)| k.name != DATASET_PARAM && !removes(n)).cloned());
        (all, from)
    }

    fn base(&mut self, key: &Key, base: &Node, depth: usize) -> (Entries, Option<String>) {
        let name = base.value().as_str().map_or(base.value().to_string(), str::to_owned);
        let other = self.own.iter().find(|(k, _)| k.name == name && k.name != key.name);
        if let Some((other, node)) = other {
            if depth > self.own.len() {
                let message = format!("data set `{}` starts from itself", key.name);
                self.problems.add(&base.span, message, Some("remove one `dataset` of the cycle".into()));
                return (Vec::new(), None);
            }
            return self.entries(other, node, depth + 1);
        }
        if let Some((_, entries)) = self.of_known(&name) {
            return (entries, Some(name));
        }
        let names: Vec<String> = self
            .own
            .iter()
            .map(|(k, _)| k.name.clone())
            .filter(|n| *n != key.name)
            .chain(self.known.datasets())
            .collect();
        let help = nearest_help(&name, names.iter().map(String::as_str));
        self.problems.add(&base.span, format!("unknown data set `{name}`"), Some(help));
        (Vec::new(), None)
    }

    /// Returns the parameters of a known data set, which belong to a source of their own.
    fn of_known(&mut self, name: &str) -> Option<(Key, Entries)> {
        if let Some(read) = self.read.get(name) {
            return read.clone();
        }
        let read = self.known.dataset(name).map(|found| match found {
            Ok(known) => {
                self.by_hand.extend(known.by_hand.map(|page| (name.to_owned(), page)));
                let source = self.sources.push(known.source);
                let mut params = Node { data: Data::Map(known.params), span: Span { source, range: 0..0 } };
                params.move_to(source);
                (Key { name: name.to_owned(), span: params.span.clone() }, params.entries().to_vec())
            }
            Err(error) => {
                self.problems.adopt(error, self.sources);
                (Key { name: name.to_owned(), span: Span::default() }, Vec::new())
            }
        });
        self.read.insert(name.to_owned(), read.clone());
        read
    }
}
