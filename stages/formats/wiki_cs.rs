//! The JSON file of Wiki-CS, `data.json`.
//!
//! | key | content |
//! | --- | --- |
//! | `features` | nodes × features, lists of numbers |
//! | `labels` | nodes, whole numbers |
//! | `links` | nodes lists of neighbours: an edge from the node to each of them, as stored |
//! | `train_masks`, `val_masks`, `stopping_masks` | splits × nodes, lists of truth values |
//! | `test_mask` | nodes, truth values: the test nodes of every split |
//!
//! Split s trains on `train_masks[s]`. The publisher has two sets to validate on: one to choose the epoch
//! (`stopping_masks`) and one to choose the configuration (`val_masks`). Here one part does both, and the parameter
//! `validation` says which nodes it has. The default is `val-masks` alone, because that is what common loaders call the
//! validation mask; `both` takes the two together. Masks are all there or not at all. The published file has 20 splits;
//! `split` with `method: file` takes the first `count` of them.

mod lists;

use schemars::JsonSchema;
use serde::de::{Error, IgnoredAny, MapAccess};
use serde::{Deserialize, Serialize};

use self::lists::{Lists, Truth};
use super::{Format, labelled};
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::reading::json::{self, List, Object};
use crate::reading::parts::{PartNames, PartsBuilder};
use crate::reading::watched::MOST_CLASSES;

/// Parameters of `wiki-cs`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The file. It counts by its content, not by its path.
    pub path: FilePath,
    /// Which nodes validate.
    #[serde(default)]
    pub validation: Validation,
}

impl params::Params for Params {}

/// Which nodes validate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Validation {
    /// Those of `val_masks`, which the publisher chooses configurations on.
    #[default]
    ValMasks,
    /// Those of `stopping_masks`, which the publisher chooses the epoch on.
    StoppingMasks,
    /// Those of either.
    Both,
}

impl Validation {
    fn masks(self) -> &'static [&'static str] {
        match self {
            Self::ValMasks => &["val_masks"],
            Self::StoppingMasks => &["stopping_masks"],
            Self::Both => &["val_masks", "stopping_masks"],
        }
    }
}

/// The format.
pub struct WikiCs;

impl Format for WikiCs {
    const NAME: &'static str = "wiki-cs";
    const ABOUT: &'static str = "The JSON file of Wiki-CS";
    const VERSION: u32 = 1;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let raw = json::read(&params.path.0, job, Raw::default())?;
        raw.graph(params.validation).map_err(|what| StageError::data(params.path.0.display(), what))
    }
}

/// What stands in the file, not yet compared.
#[derive(Default)]
struct Raw {
    seen: Vec<&'static str>,
    features: Vec<f32>,
    widths: Vec<usize>,
    labels: Vec<u32>,
    edges: Vec<(u32, u32)>,
    links: usize,
    masks: Vec<Mask>,
}

/// One of the keys with masks. A test mask counts as one split.
struct Mask {
    name: &'static str,
    lengths: Vec<usize>,
    inside: Vec<(usize, usize)>,
}

/// The one mask that all splits share.
const TEST: &str = "test_mask";
const PARTS: PartNames = [("train", Part::Train), ("val", Part::Val), ("test", Part::Test)];
const KEYS: [&str; 7] = ["features", "labels", "links", "train_masks", "val_masks", "stopping_masks", TEST];

impl Object for Raw {
    const EXPECTED: &'static str = "an object with `features`, `labels` and `links`";

    fn entry<'de, A: MapAccess<'de>>(&mut self, key: &str, entries: &mut A) -> Result<(), A::Error> {
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
            return entries.next_value::<IgnoredAny>().map(drop);
        };
        if self.seen.contains(&key) {
            return Err(A::Error::custom(format!("`{key}` is there twice")));
        }
        self.seen.push(key);
        match key {
            "features" => self.widths = entries.next_value_seed(Lists::new(|n, f, x| self.feature(n, f, x)))?,
            "labels" => drop(entries.next_value_seed(List::new(|node, label| self.label(node, label)))?),
            "links" => self.links = entries.next_value_seed(Lists::new(|a, _, b| self.link(a, b)))?.len(),
            _ => {
                let mut inside = Vec::new();
                let mut mark = |split, node, Truth(truth)| {
                    inside.extend(truth.then_some((split, node)));
                    Ok(())
                };
                let lengths = if key == TEST {
                    vec![entries.next_value_seed(List::new(|node, truth| mark(0, node, truth)))?]
                } else {
                    entries.next_value_seed(Lists::new(mark))?
                };
                self.masks.push(Mask { name: key, lengths, inside });
            }
        }
        Ok(())
    }
}

impl Raw {
    #[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
    fn feature(&mut self, node: usize, feature: usize, x: f64) -> Result<(), String> {
        let value = x as f32;
        if !value.is_finite() {
            return Err(format!("feature {feature} of node {node}: `{x}` is not a finite 32-bit number"));
        }
        self.features.push(value);
        Ok(())
    }

    fn label(&mut self, node: usize, label: i64) -> Result<(), String> {
        let class = u32::try_from(label).ok().filter(|class| *class < MOST_CLASSES);
        self.labels.push(class.ok_or_else(|| {
            format!("label {label} of node {node} is not a class, expected 0 to {}", MOST_CLASSES - 1)
        })?);
        Ok(())
    }

    fn link(&mut self, from: usize, to: i64) -> Result<(), String> {
        // Whether there is such a node is known when the whole file has been read.
        let edge = u32::try_from(from).ok().zip(u32::try_from(to).ok());
        self.edges.push(edge.ok_or_else(|| format!("neighbour {to} of node {from} is not a node"))?);
        Ok(())
    }

    fn graph(self, validation: Validation) -> Result<Graph, String> {
        if let Some(absent) = KEYS[..3].iter().find(|key| !self.seen.contains(key)) {
            return Err(format!("has no `{absent}`"));
        }
        let nodes = self.labels.len();
        let counts = [("features", self.widths.len()), ("links", self.links)];
        if let Some((key, found)) = counts.into_iter().find(|(_, found)| *found != nodes) {
            return Err(format!("`{key}` has {found} nodes, expected {nodes}, as many as `labels`"));
        }
        let Some(cols) = self.widths.first().copied() else {
            return Err("has no nodes, expected at least one".into());
        };
        if cols == 0 {
            return Err("`features` has no features, expected at least one".into());
        }
        if let Some((node, found)) = self.widths.iter().enumerate().find(|(_, found)| **found != cols) {
            return Err(format!("`features` has {found} numbers for node {node}, expected {cols}, as for node 0"));
        }
        if let Some((from, to)) = self.edges.iter().find(|(_, to)| *to as usize >= nodes) {
            return Err(format!("`links`: neighbour {to} of node {from} is not a node, expected 0 to {}", nodes - 1));
        }
        let masks = splits(&self.masks, validation, nodes)?;
        let features = Features::Dense(Matrix { rows: nodes, cols, data: self.features });
        Ok(labelled(self.edges, features, self.labels, masks))
    }
}

fn splits(masks: &[Mask], validation: Validation, nodes: usize) -> Result<Option<Splits>, String> {
    if masks.is_empty() {
        return Ok(None);
    }
    let named = |name: &'static str| {
        let given = masks.iter().find(|mask| mask.name == name);
        given.ok_or_else(|| format!("has `{}` but no `{name}`, expected all masks or none", masks[0].name))
    };
    let validation = validation.masks().iter().map(|name| (*name, Part::Val));
    let used = [("train_masks", Part::Train)].into_iter().chain(validation).chain([(TEST, Part::Test)]);
    let mut parts = Vec::new();
    for (name, part) in used {
        let mask = named(name)?;
        if let Some((split, found)) = mask.lengths.iter().enumerate().find(|(_, found)| **found != nodes) {
            let at = if name == TEST { String::new() } else { format!(" in split {split}") };
            return Err(format!("`{name}` has {found} nodes{at}, expected {nodes}"));
        }
        let splits = mask.lengths.len();
        if part == Part::Train {
            if splits == 0 {
                return Err("`train_masks` has no splits, expected at least one or no masks at all".into());
            }
            parts = vec![PartsBuilder::new(nodes, PARTS); splits];
        } else if name != TEST && splits != parts.len() {
            return Err(format!("`{name}` has {splits} splits, expected {}, as many as `train_masks`", parts.len()));
        }
        for &(split, node) in &mask.inside {
            let chosen = if name == TEST { 0..parts.len() } else { split..split + 1 };
            for split in chosen {
                parts[split].put(node, part).map_err(|other| {
                    format!(
                        "`{name}`: node {node} of split {split} is a {other} node as well, expected one part per node"
                    )
                })?;
            }
        }
    }
    Ok(Some(Splits { parts: parts.into_iter().map(PartsBuilder::finish).collect() }))
}

#[cfg(test)]
mod tests;
