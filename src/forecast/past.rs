//! Nodes that ran before, read from the manifests of a store: what they took, and what they teach stages.

use std::collections::BTreeMap;
use std::rc::Rc;

use ppgnn_stages::contract::{Past, Term};
use serde_json::Value;

use super::fit::Measurement;
use super::machine::machine;
use crate::history::Recall;
use crate::plan::Node;
use crate::store::{Manifest, Store};

/// What a node had to do, and what it took.
struct Record {
    variant: Option<String>,
    profile: String,
    inputs: Vec<(String, String)>,
    seconds: f64,
    threads: usize,
    /// Seconds that its terms say, alone and shared, and how many threads share them.
    said: (f64, f64, f64),
}

/// Earlier nodes of one stage, newest first.
#[derive(Default)]
pub struct OfStage {
    /// As stages see them.
    pub(super) past: Vec<Past>,
    records: Vec<Record>,
}

/// Nodes that ran before, by stage; each stage is read when it is first asked for.
pub struct PastRuns {
    by_stage: BTreeMap<&'static str, Rc<OfStage>>,
}

impl PastRuns {
    /// Nothing ran before.
    pub fn none() -> Self {
        Self { by_stage: BTreeMap::new() }
    }

    /// Reads what the stages of some nodes did before.
    pub fn of<'n>(store: &Store, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let (recall, mut by_stage) = (Recall::new(store), BTreeMap::new());
        for node in nodes {
            by_stage.entry(node.stage.name).or_insert_with(|| {
                let manifests = recall.of_stage(node.stage.name);
                let facts = |m: &Manifest| facts(store, m, node.stage.name);
                Rc::new(OfStage {
                    past: manifests.iter().map(|m| past(m, facts(m))).collect(),
                    records: manifests.iter().filter_map(|m| Record::of(m, node.stage.terms)).collect(),
                })
            });
        }
        Self { by_stage }
    }

    /// Returns what a stage did before.
    pub(super) fn stage(&self, name: &str) -> Rc<OfStage> {
        self.by_stage.get(name).map(Rc::clone).unwrap_or_default()
    }
}

fn past(manifest: &Manifest, facts: Value) -> Past {
    let of = &manifest.ingredients;
    Past {
        variant: of.variant.as_ref().map(|row| row.name.clone()),
        params: of.params.clone(),
        inputs: inputs(manifest),
        measured: manifest.measured.clone(),
        facts,
    }
}

fn inputs(manifest: &Manifest) -> Vec<(String, String)> {
    manifest.ingredients.inputs.iter().map(|input| (input.slot.clone(), input.key.to_string())).collect()
}

/// `facts.json` of an artifact, if there is one of a reasonable size.
fn facts(store: &Store, manifest: &Manifest, stage: &str) -> Value {
    const MOST: u64 = 1 << 20;
    let small = manifest.files.iter().any(|file| file.name == "facts.json" && file.size <= MOST);
    let dir = small.then(|| store.folder(&manifest.key, stage)).flatten();
    let read = dir.and_then(|dir| std::fs::read(dir.join("facts.json")).ok());
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

impl Record {
    /// What a manifest tells; nothing of another machine, and nothing where it does not say what there was to do.
    fn of(manifest: &Manifest, terms: &[Term]) -> Option<Self> {
        let cost = manifest.cost.as_ref().filter(|cost| cost.machine == machine())?;
        let amounts = cost.work.iter().map(|(name, amount)| (name.as_str(), *amount));
        Some(Self {
            variant: manifest.ingredients.variant.as_ref().map(|row| row.name.clone()),
            profile: manifest.ingredients.profile.clone(),
            inputs: inputs(manifest),
            seconds: manifest.seconds,
            threads: manifest.threads,
            said: said(terms, amounts, cost.threads),
        })
    }
}

/// Seconds that the start of any node takes.
const START: f64 = 1e-3;
/// Seconds of a node whose stage says nothing about itself.
const UNSAID: f64 = 1.0;

/// Returns the seconds that terms say for some amounts: alone, shared, and how many threads share them.
pub(super) fn said<'t>(
    terms: &[Term],
    amounts: impl Iterator<Item = (&'t str, f64)>,
    threads: Option<f64>,
) -> (f64, f64, f64) {
    let (mut alone, mut shared, mut any) = (START, 0.0, false);
    for (name, amount) in amounts {
        let Some(term) = terms.iter().find(|term| term.name == name) else { continue };
        *(if term.shared { &mut shared } else { &mut alone }) += term.seconds * amount;
        any = true;
    }
    let threads = threads.unwrap_or(f64::INFINITY).max(1.0);
    if any { (alone, shared, threads) } else { (UNSAID, 0.0, threads) }
}

/// Returns all of them with so many threads.
pub(super) fn with_threads((alone, shared, most): (f64, f64, f64), threads: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of threads is small")]
    let sharing = (threads.max(1) as f64).min(most);
    alone + shared / sharing
}

impl OfStage {
    /// Lists what earlier nodes took, compared with a node that is to run with so many threads.
    pub(super) fn measurements(&self, node: &Node, threads: usize) -> impl Iterator<Item = Measurement> {
        let variant = node.ingredients.variant.as_ref().map(|row| row.name.as_str());
        let own: Vec<(&str, String)> =
            node.ingredients.inputs.iter().map(|input| (input.slot.as_str(), input.key.to_string())).collect();
        let same_backend =
            |record: &&Record| record.profile.split('-').next() == node.ingredients.profile.split('-').next();
        self.records.iter().filter(same_backend).map(move |record| {
            let is_same = |(slot, key): &&(&str, String)| {
                record.inputs.iter().any(|(there, other)| there == slot && other == key)
            };
            #[expect(clippy::cast_precision_loss, reason = "a number of inputs is small")]
            let share = own.iter().filter(is_same).count() as f64 / own.len().max(1) as f64;
            Measurement {
                seconds: record.seconds,
                said: with_threads(record.said, record.threads),
                same_variant: record.variant.as_deref() == variant,
                same_threads: record.threads == threads,
                same_inputs: share,
            }
        })
    }
}
