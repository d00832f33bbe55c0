//! The stage `train`: one model configuration, trained on every split of a graph.
//!
//! Full batch, Adam with coupled weight decay. An epoch is: forward in training mode and loss on the training nodes;
//! backward; optimiser step at the epoch's learning rate; one forward in evaluation mode, from which validation loss and
//! accuracy come; keep the epoch if it is the best so far; stop by the windowed rule. The loss is the mean cross-entropy
//! over the training nodes plus the model's own penalty. A class that no training node has is allowed: its logits are
//! trained by the other classes alone.
//!
//! Splits are independent: each has its own random streams, named by seed, split and purpose, and they are trained side
//! by side where there are threads for it. The number of threads changes no byte of the result.

mod split;
#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use candle_core::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Choice, Job, Kind, Progress, Slot, Stage, StageError};
use crate::kinds::{Nodes, Operator, Part, Spectrum, Splits, Trained, TrainedSplit};
use crate::models::{self, GraphView, MODELS, ModelDef};
use crate::params::nearest_help;

/// Stored values of the features above which splits are trained one after the other, with all threads on each: every split trained at the
/// same time holds activations of the whole graph.
const LARGE: usize = 1 << 24;
/// Epochs between progress reports.
const REPORT_EVERY: usize = 10;

/// Which epoch is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The first epoch of the largest validation accuracy.
    #[default]
    ValAccuracy,
    /// The first epoch of the smallest validation loss.
    ValLoss,
}

/// Parameters of `train`; those of the model stand beside them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The model to train.
    pub model: String,
    /// Seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// Epochs at most.
    #[serde(default = "default::epochs")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub epochs: usize,
    /// Learning rate of the first epoch.
    #[serde(default = "default::lr")]
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0.0))]
    pub lr: f64,
    /// Weight decay, coupled with the gradient, of the groups that the model decays.
    #[serde(default = "default::weight_decay")]
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// What the learning rate is multiplied by every `lr-decay-every` epochs.
    #[serde(default = "default::lr_decay")]
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub lr_decay: f64,
    /// Epochs between two decays of the learning rate.
    #[serde(default = "default::lr_decay_every")]
    #[schemars(range(min = 1))]
    pub lr_decay_every: usize,
    /// Stop when the validation loss exceeds its mean over this many epochs before; 0 never stops early.
    #[serde(default = "default::window")]
    pub window: usize,
    /// Which epoch is kept.
    #[serde(default)]
    pub select: Select,
}

mod default {
    pub fn epochs() -> usize {
        1000
    }
    pub fn lr() -> f64 {
        0.01
    }
    pub fn weight_decay() -> f64 {
        5e-4
    }
    pub fn lr_decay() -> f64 {
        0.99
    }
    pub fn lr_decay_every() -> usize {
        50
    }
    pub fn window() -> usize {
        200
    }
}

impl crate::params::Params for Params {}

/// Trains a model on every split.
pub struct Train;

impl Stage for Train {
    const NAME: &'static str = "train";
    const ABOUT: &'static str = "Trains one model configuration on every split";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[
        Slot::one("operator", Kind("operator")),
        Slot::one("nodes", Kind("nodes")),
        Slot::one("splits", Kind("splits")),
        Slot::optional("spectrum", Kind("spectrum")),
    ];
    const CHOICE: Option<Choice> = Some(Choice { param: "model", rows: models::variants });
    type Params = Params;
    type Output = Trained;

    fn run(params: &Params, job: &Job) -> Result<Trained, StageError> {
        let spectrum: Option<Spectrum> = job.optional("spectrum")?;
        train(params, &job.input("operator")?, &job.input("nodes")?, &job.input("splits")?, spectrum.as_ref(), job)
    }
}

/// Everything that the splits share.
struct Run<'a> {
    params: &'a Params,
    model: &'static ModelDef,
    data: GraphView,
    labels: &'a [u32],
    splits: &'a Splits,
    job: &'a Job<'a>,
    epochs_done: AtomicU64,
}

fn train(
    params: &Params,
    operator: &Operator,
    nodes: &Nodes,
    splits: &Splits,
    spectrum: Option<&Spectrum>,
    job: &Job,
) -> Result<Trained, StageError> {
    check_splits(nodes.len(), splits)?;
    let model = find(&params.model)?;
    let data = GraphView::new(operator, nodes, spectrum, DType::F32)?;
    let classes = data.classes;
    let run = Run { params, model, data, labels: &nodes.labels, splits, job, epochs_done: AtomicU64::new(0) };
    Ok(Trained { nodes: nodes.len(), classes, splits: run.all_splits()? })
}

fn find(name: &str) -> Result<&'static ModelDef, StageError> {
    MODELS.iter().find(|m| m.variant.name == name).ok_or_else(|| {
        let known = MODELS.iter().map(|m| m.variant.name);
        StageError::unusable(format!("unknown model `{name}`"), nearest_help(name, known))
    })
}

fn check_splits(nodes: usize, splits: &Splits) -> Result<(), StageError> {
    if splits.is_empty() {
        return Err(StageError::unusable("there is no split to train on", "ask `split` for at least one split"));
    }
    for (i, row) in splits.parts.iter().enumerate() {
        if row.len() != nodes {
            return Err(StageError::unusable(
                format!("split `{i}` is of `{}` nodes, the graph has `{nodes}`", row.len()),
                "wire `splits` to a `split` of the same graph that is wired to `graph`",
            ));
        }
        for (part, name) in [(Part::Train, "training"), (Part::Val, "validation")] {
            if !row.contains(&part) {
                return Err(StageError::unusable(
                    format!("split `{i}` has no {name} node"),
                    "weights are fitted on training nodes and the epoch is chosen on validation nodes: give each a share",
                ));
            }
        }
    }
    Ok(())
}

impl Run<'_> {
    fn all_splits(&self) -> Result<Vec<TrainedSplit>, StageError> {
        let threads = self.job.threads.max(1);
        let side_by_side = if self.data.features.stored() > LARGE { 1 } else { threads.min(self.splits.len()) };
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results: Vec<_> = self.splits.parts.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = results.get(index) else { break };
                let result = self.split(index);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            }
        };
        // A pool a worker: in a shared one, a split that waits for a product could start on another split.
        let pools: Vec<_> = (0..side_by_side)
            .map(|worker| (threads + worker) / side_by_side)
            .map(|share| rayon::ThreadPoolBuilder::new().num_threads(share).build())
            .collect::<Result<_, _>>()
            .map_err(|e| StageError::Unusable { what: format!("cannot start `{threads}` threads: {e}"), hint: None })?;
        std::thread::scope(|scope| {
            for pool in &pools {
                scope.spawn(|| pool.install(work));
            }
        });
        // Splits are handed out in order, so the first failure by index is the same for any number of workers.
        let done = results.into_iter().map_while(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner));
        done.collect()
    }

    fn report(&self, split: usize, epoch: usize, train_loss: f64, val_accuracy: f64) {
        let done = self.epochs_done.fetch_add(1, Ordering::Relaxed) + 1;
        if epoch.is_multiple_of(REPORT_EVERY) {
            let note = format!(
                "split {}/{} epoch {epoch} loss {train_loss:.3} val {:.1} %",
                split + 1,
                self.splits.len(),
                100.0 * val_accuracy
            );
            self.job.progress(&Progress { done, total: self.total_epochs(), note });
        }
    }

    /// Counts the epochs that a stopped split will not run as done.
    fn report_end(&self, split: usize, epochs: usize) {
        let left = (self.params.epochs - epochs) as u64;
        let done = self.epochs_done.fetch_add(left, Ordering::Relaxed) + left;
        let note = format!("split {}/{} done after {epochs} epochs", split + 1, self.splits.len());
        self.job.progress(&Progress { done, total: self.total_epochs(), note });
    }

    fn total_epochs(&self) -> u64 {
        (self.splits.len() * self.params.epochs) as u64
    }
}
