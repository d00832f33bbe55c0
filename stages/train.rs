//! The stage `train`: one model configuration, trained on every split of a graph.
//!
//! Full batch, Adam with coupled weight decay. An epoch is: forward in training mode and loss on the training nodes;
//! backward; optimiser step at the epoch's learning rate; one forward in evaluation mode, from which the validation metrics
//! come; keep the epoch if it is the best so far; stop by the windowed rule. The loss is the mean cross-entropy
//! over the training nodes plus the model's own penalty. A class that no training node has is allowed: its logits are
//! trained by the other classes alone.
//!
//! All splits share graph, features and eigenvectors, so they train together, as lanes of batches: one pass over the graph
//! serves all lanes of a batch, and the evaluation of an epoch rides with the training pass of the next, because both use
//! the same weights. A split that has stopped leaves its batch. Each has its own random streams, named by seed, split and
//! purpose, and no kernel mixes lanes or sums in an order that depends on their number: a split's result has the same
//! bytes in any batch, and for any number of threads.
//!
//! There are as many batches as threads, each with its thread, which helps the others once its own is done; more where a
//! batch would not fit the cache or the memory: the largest activation of a batch, which the model declares, stays below
//! `ACTIVATIONS` bytes.
//!
//! A run of more than a minute leaves resume points in the scratch folder of its job, a file per split: the next attempt goes on
//! from them with the same bytes, whatever its batches.
//!
//! On a GPU there is one batch, or as few as stay below `ACTIVATIONS_ON_GPU` bytes, one after the other. Everything stays
//! there but one read per epoch: losses and scores of all lanes, and the logits if another metric decides. Masks differ from those of the CPU, and a split's result
//! has the same bytes in the same batch, not in any batch: cuBLAS chooses its kernels by shape.

mod batch;
mod estimate;
mod fits;
mod point;
mod points;
mod resume;
mod stops;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use candle_core::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::{self, CommandDef, Task};
use crate::contract::params::from_checked;
use crate::contract::{Choice, Chosen, Estimate, Job, Kind, Known, Progress, Slot, Stage, StageError, Term, Uses};
use crate::kinds::{Epoch, Metric, Nodes, Operator, Scale, ScoreDef, Splits, Trained, TrainedSplit, ValMetric};
use crate::models::{Card, GraphParts, GraphView, ModelDef, explained};
use crate::optim::StepDecay;
use batch::Batch;
use points::Points;

/// Bytes that the largest activation of a batch may take. Larger blocks are no faster, since wide layers are computed lane
/// by lane, and the system's allocator would hand them back after every step.
const ACTIVATIONS: usize = 24 << 20;
/// The same on a GPU, which is the faster the more lanes there are, where nobody knows the card: of one of 8 GB. A card that is
/// there has the memory that it has.
const ACTIVATIONS_ON_GPU: usize = 512 << 20;
/// How many tensors of that size a pass keeps on a GPU, about.
const HELD: usize = 10;
/// Epochs between progress reports.
const REPORT_EVERY: usize = 10;

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
    /// Stop when `stop-on` is worse than its mean over this many epochs before; 0 never stops early.
    #[serde(default = "default::window")]
    pub window: usize,
    /// Which epoch is kept: the first with the best value of this validation metric.
    #[serde(default = "default::select")]
    pub select: ValMetric,
    /// The validation metric that `window` watches.
    // Not in the key unless it is another one: results without it stay what they are.
    #[serde(default = "default::stop_on", skip_serializing_if = "is_val_loss")]
    pub stop_on: ValMetric,
    /// Whether activations inside the model are stored with the logits, for models that name some.
    // Not in the key unless it is asked for: results without it stay what they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_hidden: bool,
}

impl Params {
    fn schedule(&self) -> StepDecay {
        StepDecay { lr: self.lr, factor: self.lr_decay, every: self.lr_decay_every }
    }
}

fn is_val_loss(metric: &ValMetric) -> bool {
    *metric == default::stop_on()
}

mod default {
    use crate::kinds::ValMetric;

    pub fn select() -> ValMetric {
        ValMetric::of("accuracy")
    }
    pub fn stop_on() -> ValMetric {
        ValMetric::of("loss")
    }
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

impl crate::contract::params::Params for Params {}

/// Trains a model on every split.
pub struct Train;

impl Stage for Train {
    const NAME: &'static str = "train";
    const ABOUT: &'static str = "Trains one model configuration on every split";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[
        Slot::one("operator", Kind("operator")),
        Slot::one("nodes", Kind("nodes")),
        Slot::one("splits", Kind("splits")),
        Slot::optional("spectrum", Kind("spectrum")),
        Slot::optional("second-operator", Kind("operator")),
        Slot::optional("projection", Kind("projection")),
        Slot::optional("hops", Kind("hops")),
        Slot::optional("relations", Kind("relations")),
        Slot::optional("pretrained", Kind("trained")),
    ];
    const CHOICE: Option<Choice> = Some(Choice::of_either::<ModelDef, CommandDef>("model"));
    const USES: Option<Uses> = Some(Uses::named::<ScoreDef>(Metric::complete_schema_of, |params| {
        let named = ["select", "stop-on"].into_iter().filter_map(|name| params.get(name)?.as_str());
        named.filter_map(|metric| Some(metric.parse::<ValMetric>().ok()?.metric().score.clone())).collect()
    }));
    const ON_DEVICE: bool = true;
    const TERMS: &'static [Term] = &estimate::TERMS;
    type Params = Params;
    type Output = Trained;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        estimate::estimate(params, known)
    }

    fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
        fits::fits(params, known)
    }

    fn run(params: &Params, job: &Job) -> Result<Trained, StageError> {
        let (operator, nodes): (Operator, Nodes) = (job.input("operator")?, job.input("nodes")?);
        let splits = job.input("splits")?;
        if let Ok(command) = job.chosen::<CommandDef>() {
            fits::check_splits(&nodes.labels, &splits)?;
            fits::must_name_hidden(params, &[])?;
            let training = serde_json::to_value(params).unwrap_or_default();
            let task =
                Task { operator: &operator, nodes: &nodes, splits: &splits, seed: params.seed, training: &training };
            return command::train(&task, &from_checked(command.params)?, job);
        }
        let (spectrum, second_operator) = (job.optional("spectrum")?, job.optional("second-operator")?);
        let (projection, hops) = (job.optional("projection")?, job.optional("hops")?);
        let (relations, pretrained) = (job.optional("relations")?, job.optional("pretrained")?);
        let parts = GraphParts {
            operator: &operator,
            nodes: &nodes,
            spectrum: spectrum.as_ref(),
            second_operator: second_operator.as_ref(),
            projection: projection.as_ref(),
            hops: hops.as_ref(),
            relations: relations.as_ref(),
        };
        train(params, parts, pretrained.as_ref(), &splits, job)
    }
}

/// Everything that the splits share.
struct Run<'a> {
    params: &'a Params,
    model: Chosen<'a, ModelDef>,
    data: GraphView,
    labels: &'a [u32],
    splits: &'a Splits,
    /// Weights to start from, for the models that do.
    pretrained: Option<&'a Trained>,
    job: &'a Job<'a>,
    /// Where the tensors are.
    card: Card,
    watched: Watched,
    points: Points<'a>,
    /// The splits that have ended.
    finished: Mutex<Vec<Finished>>,
    epochs_done: AtomicU64,
    /// The lowest split that has failed.
    first_failed: AtomicUsize,
}

/// The end of one split.
struct Finished {
    split: usize,
    result: Result<TrainedSplit, StageError>,
    /// Whether it is in its resume point.
    kept: bool,
}

fn train(
    params: &Params,
    parts: GraphParts,
    pretrained: Option<&Trained>,
    splits: &Splits,
    job: &Job,
) -> Result<Trained, StageError> {
    let run = Run { pretrained, ..Run::new(params, parts, splits, job)? };
    let watched = run.watched.further.iter().map(|row| ValMetric::of(row.variant.name).to_string()).collect();
    let (nodes, classes) = (parts.nodes.len(), parts.nodes.classes);
    Ok(Trained { nodes, classes, splits: run.all_splits()?, watched })
}

/// The validation metrics that decide while training: on which epoch is kept, and on when to stop.
struct Watched {
    select: Watch,
    stop: Watch,
    /// Those that are neither loss nor accuracy, which are always there.
    further: Vec<&'static ScoreDef>,
}

/// One of them: where its value stands in an epoch, and which values are better.
#[derive(Clone, Copy)]
struct Watch {
    place: Place,
    scale: Scale,
}

#[derive(Clone, Copy)]
enum Place {
    Loss,
    Accuracy,
    Further(usize),
}

impl Watched {
    fn new(params: &Params, scores: &[&'static ScoreDef]) -> Result<Self, StageError> {
        let mut further: Vec<&'static ScoreDef> = Vec::new();
        let mut watch = |metric: &ValMetric| {
            let score = metric.metric().score.as_str();
            let place = match score {
                "loss" => Place::Loss,
                "accuracy" => Place::Accuracy,
                _ => {
                    let is_it = |row: &&ScoreDef| row.variant.name == score;
                    let row = scores.iter().copied().find(is_it).ok_or_else(|| {
                        let what = format!("there is no metric `{metric}`");
                        StageError::unusable(what, "`ppgnn list metrics` lists them")
                    })?;
                    let at = further.iter().position(is_it);
                    Place::Further(at.unwrap_or_else(|| {
                        further.push(row);
                        further.len() - 1
                    }))
                }
            };
            Ok::<_, StageError>(Watch { place, scale: metric.metric().scale(scores) })
        };
        let select = watch(&params.select)?;
        // Without a window nothing is watched.
        let stop = if params.window == 0 { select } else { watch(&params.stop_on)? };
        Ok(Self { select, stop, further })
    }
}

impl Watch {
    /// Returns a number that is the larger the better.
    fn worth(self, epoch: &Epoch) -> f64 {
        self.scale.worth(match self.place {
            Place::Loss => epoch.val_loss,
            Place::Accuracy => epoch.val_accuracy,
            Place::Further(at) => epoch.further.get(at).copied().unwrap_or(f64::NAN),
        })
    }
}

impl<'a> Run<'a> {
    fn new(
        params: &'a Params,
        parts: GraphParts<'a>,
        splits: &'a Splits,
        job: &'a Job<'a>,
    ) -> Result<Self, StageError> {
        fits::check_splits(&parts.nodes.labels, splits)?;
        let model: Chosen<ModelDef> = job.chosen()?;
        fits::must_name_hidden(params, model.row.hidden)?;
        let card = Card::open(job.device)?;
        card.notes.iter().for_each(|(name, text)| job.noted(name, text));
        Ok(Self {
            params,
            model,
            data: GraphView::new(parts, DType::F32, card.device.clone())?,
            card,
            labels: &parts.nodes.labels,
            splits,
            pretrained: None,
            job,
            watched: Watched::new(params, &job.used())?,
            points: Points::new(job),
            finished: Mutex::default(),
            epochs_done: AtomicU64::new(0),
            first_failed: AtomicUsize::new(usize::MAX),
        })
    }

    fn all_splits(&self) -> Result<Vec<TrainedSplit>, StageError> {
        // A GPU takes one batch after the other: each fills it.
        let side_by_side = !self.data.on_gpu() && !self.job.one_by_one;
        let workers = if side_by_side { self.job.threads.max(1) } else { 1 };
        let batches = self.go_on(batches(self.splits.len(), workers, self.largest_batch()?))?;
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            let mut clock = self.points.clock();
            while lock(&failed).is_none() {
                let Some(splits) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let begun = Instant::now();
                if let Err(error) = Batch::resumed(self, splits).and_then(|batch| batch.train(&mut clock)) {
                    lock(&failed).get_or_insert(self.explained(error, splits.len()));
                }
                if self.job.one_by_one {
                    self.tell_time(begun.elapsed().as_secs_f64());
                }
            }
        };
        // In the pool that the stage runs in: a thread whose batches are done takes over parts of the others' products.
        rayon::scope(|scope| (0..workers.min(batches.len())).for_each(|_| scope.spawn(|_| work())));
        lock(&failed).take().map_or(Ok(()), Err)?;
        let mut finished = std::mem::take(&mut *lock(&self.finished));
        finished.sort_by_key(|finished| finished.split);
        finished.into_iter().map(|finished| finished.result.map_err(|error| self.explained(error, 1))).collect()
    }

    /// Returns how many lanes a batch may have, by the largest activation that the model declares.
    fn largest_batch(&self) -> Result<usize, StageError> {
        if self.job.one_by_one {
            return Ok(1);
        }
        let lane = self.model.widest(&self.data)? * self.data.dtype().size_in_bytes();
        let room = match self.card.memory {
            Some(memory) => memory / HELD,
            None if self.data.on_gpu() => ACTIVATIONS_ON_GPU,
            None => ACTIVATIONS,
        };
        Ok((room / lane.max(1)).max(1))
    }

    /// Says what an error of a GPU means.
    fn explained(&self, error: StageError, lanes: usize) -> StageError {
        let StageError::Tensor(error) = error else { return error };
        let widest = self.model.widest(&self.data).unwrap_or(0) * self.data.dtype().size_in_bytes();
        let (model, widest) = (&self.params.model, widest >> 20);
        let doing = format!(
            "while `{model}` trains `{lanes}` splits together on `{}` (the largest tensor of a split takes {widest} MiB)",
            self.job.device
        );
        let smaller =
            "lower the sizes of the model (such as `hidden`), train fewer splits at a time (`count` of `split`), ";
        explained(error, &doing, smaller)
    }

    /// Tells what the split that has ended last took. An epoch is a training pass with the evaluation of what it starts from.
    fn tell_time(&self, seconds: f64) {
        let epochs = lock(&self.finished).last().and_then(|last| Some(last.result.as_ref().ok()?.history.len()));
        self.job.measured("split-seconds", seconds);
        if let Some(epochs) = epochs.filter(|epochs| *epochs > 0) {
            self.job.measured("epochs", epochs as f64);
            self.job.measured("epoch-seconds", seconds / epochs as f64);
        }
    }

    /// Tells how far a batch has come: the last epochs of its lanes.
    fn report<'e>(&self, epoch: usize, lanes: impl Iterator<Item = Option<&'e Epoch>>) {
        let (mut count, mut loss, mut accuracy) = (0u64, 0.0, 0.0);
        for lane in lanes.flatten() {
            (count, loss, accuracy) = (count + 1, loss + lane.train_loss, accuracy + lane.val_accuracy);
        }
        let done = self.epochs_done.fetch_add(count, Ordering::Relaxed) + count;
        if epoch.is_multiple_of(REPORT_EVERY) {
            let of = count.max(1) as f64;
            let note =
                format!("epoch {epoch}, {count} splits: loss {:.3}, val {:.1} %", loss / of, 100.0 * accuracy / of);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts splits into batches of about equal size: one for every thread, or more if they are too large then.
fn batches(splits: usize, threads: usize, largest: usize) -> Vec<Vec<usize>> {
    let count = threads.min(splits).max(splits.div_ceil(largest)).max(1);
    (0..count).map(|b| (b * splits / count..(b + 1) * splits / count).collect()).collect()
}
