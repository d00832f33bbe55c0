//! Training on one split: the epoch loop, the loss, and the choice of the epoch that is kept.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result as TensorResult, Tensor};
use candle_nn::ops::log_softmax;

use super::{Run, Select};
use crate::contract::StageError;
use crate::kinds::{Epoch, Part, TrainedSplit};
use crate::models::{Mode, Model, Streams};
use crate::optim::{Adam, StepDecay, WindowedStop};

impl Run<'_> {
    /// Trains on one split.
    pub(super) fn split(&self, index: usize) -> Result<TrainedSplit, StageError> {
        let p = self.params;
        let mut streams = Streams::new(p.seed, index);
        let model = self.model.build(self.job.variant, &self.data, &mut streams)?;
        let mut training = Mode::Train(streams);
        let fit = Fit::new(&self.splits.nodes(index, Part::Train), self.labels, self.data.classes, self.data.dtype())?;
        let val = self.splits.nodes(index, Part::Val);
        let mut adam = Adam::new(model.groups(), p.weight_decay);
        let schedule = StepDecay { lr: p.lr, factor: p.lr_decay, every: p.lr_decay_every };
        let mut stop = WindowedStop::new(p.window);
        let mut kept: Option<Kept> = None;
        let mut history = Vec::new();

        for epoch in 0..p.epochs {
            self.job.check_cancelled()?;
            let loss = fit.loss(model.as_ref(), &model.forward(&self.data, &mut training)?)?;
            let train_loss = loss.to_dtype(DType::F64)?.to_scalar::<f64>()?;
            finite(train_loss, "training", index, epoch)?;
            adam.step(&loss.backward()?, schedule.at(epoch))?;

            let logits = model.forward(&self.data, &mut Mode::Eval)?.detach();
            let logits = logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
            let (val_loss, val_accuracy) = score(&logits, self.data.classes, &val, self.labels);
            finite(val_loss, "validation", index, epoch)?;
            let now = Epoch { train_loss, val_loss, val_accuracy };
            history.push(now);
            if kept.as_ref().is_none_or(|best| p.select.prefers(&now, &best.scores)) {
                kept = Some(Kept { epoch, scores: now, logits, weights: weights(model.as_ref())? });
            }
            self.report(index, epoch, train_loss, val_accuracy);
            if stop.observe(val_loss) {
                break;
            }
        }
        self.report_end(index, history.len());
        let kept = kept.ok_or_else(|| StageError::unusable("no epoch was run", "`epochs` must be at least 1"))?;
        Ok(TrainedSplit { best_epoch: kept.epoch, logits: kept.logits, weights: kept.weights, history })
    }
}

/// Shape and values of every weight by name.
type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

struct Kept {
    epoch: usize,
    scores: Epoch,
    logits: Vec<f32>,
    weights: Weights,
}

impl Select {
    /// Strict, so the first of equally good epochs stays.
    fn prefers(self, now: &Epoch, best: &Epoch) -> bool {
        match self {
            Self::ValAccuracy => now.val_accuracy > best.val_accuracy,
            Self::ValLoss => now.val_loss < best.val_loss,
        }
    }
}

/// The loss on the training nodes of a split.
struct Fit {
    nodes: Tensor,
    /// −1/|T| where a training node has its class, 0 elsewhere: training nodes × classes.
    targets: Tensor,
}

impl Fit {
    fn new(nodes: &[u32], labels: &[u32], classes: usize, dtype: DType) -> TensorResult<Self> {
        let share = -1.0 / nodes.len() as f64;
        let class = |i: &u32| labels.get(*i as usize).copied();
        let rows = nodes.iter().flat_map(|i| {
            let class = class(i);
            (0u32..).take(classes).map(move |c| if class == Some(c) { share } else { 0.0 })
        });
        let targets = Tensor::from_iter(rows, &Device::Cpu)?.reshape((nodes.len(), classes))?.to_dtype(dtype)?;
        Ok(Self { nodes: Tensor::new(nodes, &Device::Cpu)?, targets })
    }

    fn loss(&self, model: &dyn Model, logits: &Tensor) -> TensorResult<Tensor> {
        let log_probabilities = log_softmax(&logits.index_select(&self.nodes, 0)?, 1)?;
        let cross_entropy = (log_probabilities * &self.targets)?.sum_all()?;
        match model.penalty()? {
            Some(penalty) => cross_entropy + penalty,
            None => Ok(cross_entropy),
        }
    }
}

/// Returns mean cross-entropy and accuracy of some nodes; of equal logits the lowest class is the prediction.
pub(super) fn score(logits: &[f32], classes: usize, nodes: &[u32], labels: &[u32]) -> (f64, f64) {
    let (mut loss, mut right) = (0.0, 0usize);
    for &node in nodes {
        let node = node as usize;
        let row = &logits[node * classes..(node + 1) * classes];
        let label = labels[node] as usize;
        let mut top = 0;
        for (class, logit) in row.iter().enumerate() {
            if *logit > row[top] {
                top = class;
            }
        }
        right += usize::from(top == label);
        let max = f64::from(row[top]);
        let sum: f64 = row.iter().map(|x| (f64::from(*x) - max).exp()).sum();
        loss += sum.ln() + max - f64::from(row[label]);
    }
    let count = nodes.len().max(1) as f64;
    (loss / count, right as f64 / count)
}

fn weights(model: &dyn Model) -> TensorResult<Weights> {
    let groups = model.groups();
    let vars = groups.iter().flat_map(|g| &g.vars);
    vars.map(|(name, var)| {
        let values = var.as_detached_tensor().to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(((*name).to_owned(), (var.dims().to_vec(), values)))
    })
    .collect()
}

fn finite(loss: f64, which: &str, split: usize, epoch: usize) -> Result<(), StageError> {
    if loss.is_finite() {
        return Ok(());
    }
    Err(StageError::numeric(
        format!("the {which} loss of split `{split}` is `{loss}` in epoch `{epoch}`"),
        "the weights have diverged: lower `lr`, or check the features for huge values",
    ))
}
