//! Looks at a plan node by node: sizes from the store where a result is there, else as its stage expects them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use ppgnn_stages::contract::profile::backend_of;
use ppgnn_stages::contract::{Estimate, Known, KnownInput, Sizes, StageError, Sureness};

use super::expected::{Expected, Fault, FaultKind, Need};
use super::fit::fit;
use super::memory::{Allowed, BASE};
use super::past::{PastRuns, said, with_threads};
use crate::plan::{Node, NodeId, Plan};
use crate::store::Store;

/// How much wider a range is where sizes are estimated or guessed (standard deviation of the logarithm).
const ESTIMATED: f64 = 0.1;
const GUESSED: f64 = 0.7;

/// What is known of the result of a node.
#[derive(Default)]
struct Looked {
    sizes: Sizes,
    /// Its folder, if it is in the store.
    dir: Option<PathBuf>,
}

/// What the nodes of a plan that have to be computed will take.
pub struct Forecast<'p> {
    plan: &'p Plan,
    store: &'p Store,
    past: PastRuns,
    allowed: Option<Allowed>,
    /// Threads that a node will usually have.
    threads: usize,
    looked: RefCell<Vec<Option<Rc<Looked>>>>,
    expected: Vec<Option<Expected>>,
}

impl<'p> Forecast<'p> {
    /// Looks at the nodes that are to be computed on so many cores. `misses` says of every node whether it is.
    pub fn new(plan: &'p Plan, store: &'p Store, misses: &[bool], cores: usize, allowed: Option<Allowed>) -> Self {
        let wanted: Vec<NodeId> = plan.iter().map(|(id, _)| id).filter(|id| misses.get(id.0) == Some(&true)).collect();
        let past = PastRuns::of(store, wanted.iter().map(|id| plan.node(*id)));
        let threads = if wanted.len() > cores { 1 } else { cores };
        let looked = RefCell::new(vec![None; plan.nodes.len()]);
        let expected = vec![None; plan.nodes.len()];
        let mut forecast = Self { plan, store, past, allowed, threads, looked, expected };
        wanted.into_iter().for_each(|id| forecast.price(id));
        forecast
    }

    /// Returns what a node will take; `None` of one that is not to be computed.
    pub fn expected(&self, id: NodeId) -> Option<&Expected> {
        self.expected.get(id.0)?.as_ref()
    }

    /// Returns the nodes that are to be computed, with what they take.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Expected)> {
        self.plan.iter().filter_map(|(id, _)| Some((id, self.expected(id)?)))
    }

    /// Lists the nodes that must fail, without those that wait for one that does.
    pub fn faults(&self) -> Vec<(NodeId, &Fault)> {
        let (mut lost, mut found) = (vec![false; self.plan.nodes.len()], Vec::new());
        for (id, expected) in self.iter() {
            let waits = self.plan.node(id).inputs.iter().any(|edge| lost[edge.node.0]);
            lost[id.0] = waits || expected.fault.is_some();
            found.extend(expected.fault.as_ref().filter(|_| !waits).map(|fault| (id, fault)));
        }
        found
    }

    /// Returns whether a node must fail for a reason of its own: nothing that it waits for does.
    pub fn is_cause(&self, id: NodeId) -> bool {
        self.expected(id).is_some_and(|expected| expected.fault.is_some()) && !self.waits_for_fault(id)
    }

    fn waits_for_fault(&self, id: NodeId) -> bool {
        let fails = |id: NodeId| self.expected(id).is_some_and(|e| e.fault.is_some() || self.waits_for_fault(id));
        self.plan.node(id).inputs.iter().any(|edge| fails(edge.node))
    }

    /// Looks at a node that was thought to be in the store, and has to be computed.
    pub fn add(&mut self, id: NodeId) {
        if self.expected(id).is_none() {
            self.price(id);
        }
    }

    /// Takes note that a result is in the store now: what was expected of it is known. Returns the nodes that read it, of which
    /// more is known therefore.
    pub fn made(&mut self, id: NodeId, dependants: &[NodeId]) -> Vec<NodeId> {
        self.looked.borrow_mut()[id.0] = None;
        let reads = |reader: &&NodeId| {
            let node = self.plan.node(**reader);
            let sized = |slot: &str| !node.takes_many(slot);
            let expected = self.expected(**reader);
            expected.is_some_and(|e| !e.settled) && node.inputs.iter().any(|edge| edge.node == id && sized(edge.slot))
        };
        let readers: Vec<NodeId> = dependants.iter().filter(reads).copied().collect();
        for reader in &readers {
            self.looked.borrow_mut()[reader.0] = None;
            self.price(*reader);
        }
        readers
    }

    /// What is known of the result of a node.
    fn look(&self, id: NodeId) -> Rc<Looked> {
        if let Some(looked) = &self.looked.borrow()[id.0] {
            return Rc::clone(looked);
        }
        let node = self.plan.node(id);
        let dir = self.store.folder(&node.key, node.stage.name);
        let sizes = self.with_known(id, |known| self.estimate(node, known).sizes);
        let stored = dir.as_ref().map_or_else(Sizes::default, |dir| node.stage.sizes(dir));
        let looked = Rc::new(Looked { sizes: sizes.overlaid(stored), dir });
        self.looked.borrow_mut()[id.0] = Some(Rc::clone(&looked));
        looked
    }

    /// What the stage says; of one that says nothing about its result, that it is like an input of the same kind.
    fn estimate(&self, node: &Node, known: &Known) -> Estimate {
        let mut estimate = node.stage.estimate(&node.params, known);
        let alike = node.inputs.iter().zip(known.inputs);
        let mut alike = alike.filter(|(edge, _)| self.plan.node(edge.node).stage.output == node.stage.output);
        if estimate.sizes == Sizes::default()
            && let Some((_, input)) = alike.next()
        {
            estimate.sizes = input.sizes.clone().at_most(Sureness::About);
        }
        estimate
    }

    /// Hands what is known of the inputs of a node to `f`.
    fn with_known<T>(&self, id: NodeId, f: impl FnOnce(&Known) -> T) -> T {
        let node = self.plan.node(id);
        let looked: Vec<Option<Rc<Looked>>> =
            node.inputs.iter().map(|edge| (!node.takes_many(edge.slot)).then(|| self.look(edge.node))).collect();
        let inputs: Vec<KnownInput> = node
            .inputs
            .iter()
            .zip(&looked)
            .map(|(edge, looked)| KnownInput {
                slot: edge.slot,
                key: self.plan.node(edge.node).key.to_string(),
                sizes: looked.as_ref().map_or_else(Sizes::default, |looked| looked.sizes.clone()),
                dir: looked.as_ref().and_then(|looked| looked.dir.as_deref()),
            })
            .collect();
        let of_stage = self.past.stage(node.stage.name);
        f(&Known { backend: backend_of(&node.ingredients.profile), past: &of_stage.past, ..Known::of(&inputs) })
    }

    /// Says what a node will take.
    fn price(&mut self, id: NodeId) {
        let node = self.plan.node(id);
        let (estimate, fits, settled) = self.with_known(id, |known| {
            let settled = known.inputs.iter().all(|input| input.dir.is_some() || node.takes_many(input.slot));
            (self.estimate(node, known), node.stage.fits(&node.params, known), settled)
        });
        let work = &estimate.work;
        let amounts = || work.amounts.iter().map(|(name, amount)| (*name, amount.value));
        let said = said(node.stage.terms, amounts(), Some(work.threads.value));
        let of_stage = self.past.stage(node.stage.name);
        let scale = fit(with_threads(said, self.threads), of_stage.measurements(node, self.threads));
        let unsaid = work.amounts.is_empty();
        let of_sizes = match work.sure() {
            _ if unsaid => 0.0,
            Sureness::Exact => 0.0,
            Sureness::About => ESTIMATED,
            Sureness::Guess => GUESSED,
        };
        let need = Need::of(&estimate.memory, work.threads);
        let fault = fits.err().map(|error| Fault::of(&error)).or_else(|| self.too_large(&need));
        self.expected[id.0] = Some(Expected {
            seconds: (said.0 * scale.factor, said.1 * scale.factor),
            threads: said.2,
            spread: (scale.spread.powi(2) + of_sizes * of_sizes + work.spread.powi(2)).sqrt(),
            guess: scale.guess || (!unsaid && work.sure() == Sureness::Guess),
            need,
            notes: estimate.notes,
            fault,
            work: amounts().map(|(name, amount)| (name.to_owned(), amount)).collect(),
            settled,
        });
    }

    /// Refuses what cannot fit, whatever runs beside it. A guess refuses nothing: when the sizes are known, it is asked again.
    fn too_large(&self, need: &Need) -> Option<Fault> {
        let most = self.allowed?.most;
        let bytes = need.bytes(1).saturating_add(BASE);
        if need.guess || bytes <= most {
            return None;
        }
        let what = format!("it needs about {} of memory, and {} are allowed", gigabytes(bytes), gigabytes(most));
        let remedy = need.remedy.iter().cloned().chain(["use a machine with more memory".to_owned()]);
        let hint = format!("{}; `--memory SIZE` allows another size", remedy.collect::<Vec<_>>().join(", or "));
        Some(Fault { what, hint: Some(hint), kind: FaultKind::Machine })
    }
}

impl Fault {
    fn of(error: &StageError) -> Self {
        let kind = if matches!(error, StageError::Data { .. }) { FaultKind::Data } else { FaultKind::Stage };
        Self { what: error.to_string(), hint: error.hint().map(str::to_owned), kind }
    }
}

/// A size that decides, for people.
fn gigabytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
    let gigabytes = bytes as f64 / 1e9;
    format!("{gigabytes:.1} GB")
}
