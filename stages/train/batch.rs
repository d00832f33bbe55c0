//! Training of one batch: the epoch loop, the choice of the epoch that is kept, and the lanes that leave.

mod resume;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candle_core::{Result as TensorResult, Tensor};

use super::Run;
use super::fits::undefined;
use super::points::Clock;
use crate::contract::StageError;
use crate::kinds::{Epoch, Part, ScoreDef, TrainedSplit, Undefined};
use crate::models::ops::{AsTensor, Gradients, LaneScore, Sides, Tape, Targets, keep_lanes, lane_values, score_pass};
use crate::models::{BatchStreams, Input, Model, Named, Output, Weights};
use crate::optim::{Adam, Settings, WindowedStop};

/// The lanes of a batch that still train, and their state.
pub(super) struct Batch<'r> {
    run: &'r Run<'r>,
    /// The pass that comes next.
    epoch: usize,
    lanes: Vec<Lane>,
    streams: BatchStreams,
    model: Box<dyn Model>,
    weights: Vec<Weight>,
    /// Logits of the kept epochs, lanes × nodes × classes; none before the first evaluation.
    logits: Option<Tensor>,
    /// Activations of the kept epochs by name, if they are wanted.
    hidden: BTreeMap<&'static str, Option<Tensor>>,
    train: Targets,
    val: Targets,
}

/// A tensor of the model, of all lanes.
struct Weight {
    named: Named,
    /// None where the model changes it itself.
    adam: Option<Adam>,
    /// The values of the kept epochs.
    kept: Option<Tensor>,
}

/// One split.
struct Lane {
    split: usize,
    stop: WindowedStop,
    history: Vec<Epoch>,
    /// The epoch that is kept, and what it is worth.
    kept: Option<(usize, f64)>,
    /// Loss of the last training pass, whose evaluation is still to come.
    train_loss: f64,
    /// The last loss that was a number.
    last_finite: Option<f64>,
    ends: Option<End>,
}

/// Why a lane leaves.
enum End {
    Stopped,
    Failed(StageError),
    /// A split before it has failed, so its result is not wanted.
    Unwanted,
}

impl<'r> Batch<'r> {
    /// Builds the model for some splits.
    pub fn new(run: &'r Run<'r>, splits: &[usize]) -> Result<Self, StageError> {
        let mut streams = BatchStreams::new(run.params.seed, splits, run.data.device());
        let weights = Weights::new(streams.lanes(), run.data.dtype(), run.data.device().clone());
        let mut weights = weights.with_pretrained(run.pretrained);
        let model = run.model.build(&run.data, &mut weights)?;
        let weights = weights.into_named().into_iter();
        let weights = weights.map(|named| Weight { adam: named.rule.map(Adam::new), named, kept: None }).collect();
        let hidden = run.model.row.hidden.iter().filter(|_| run.params.keep_hidden).map(|name| (*name, None)).collect();
        let labels: Arc<[u32]> = run.labels.into();
        let targets = |part| Targets::new(labels.clone(), splits.iter().map(|s| run.splits.nodes(*s, part)).collect());
        let further: Arc<[&'static ScoreDef]> = run.watched.further.as_slice().into();
        Ok(Self {
            run,
            epoch: 0,
            lanes: splits.iter().map(|split| Lane::new(run, *split)).collect(),
            streams,
            model,
            weights,
            logits: None,
            hidden,
            train: targets(Part::Train),
            val: targets(Part::Val).scored_by(further),
        })
    }

    /// Trains until every lane has ended, and leaves resume points now and then.
    pub fn train(mut self, clock: &mut Clock) -> Result<(), StageError> {
        while self.next_epoch(clock)? {}
        Ok(())
    }

    /// Goes on by one epoch, after leaving resume points if they are due. Returns whether a lane is left.
    pub fn next_epoch(&mut self, clock: &mut Clock) -> Result<bool, StageError> {
        let leave = || {
            self.run.leave_finished();
            self.leave_points()
        };
        if let Err(stopped) = self.run.job.check_cancelled() {
            clock.stop(leave)?;
            return Err(stopped);
        }
        clock.tick(leave)?;
        self.pass()?;
        Ok(!self.lanes.is_empty())
    }

    /// Makes the pass of one epoch: it evaluates the weights that the epoch before has left, and trains unless that was the last.
    fn pass(&mut self) -> Result<(), StageError> {
        let (epoch, epochs) = (self.epoch, self.run.params.epochs);
        self.epoch += 1;
        let sides = match epoch {
            0 => Sides::Train,
            _ if epoch == epochs => Sides::Eval,
            _ => Sides::Both,
        };
        let (tape, data) = (Tape::new(sides), &self.run.data);
        let x = Input::new(&data.features, &tape);
        let mut output = self.model.forward(data, &x, &mut self.streams.pass(sides))?;
        let (train, val) = (sides.train().then_some(&self.train), sides.evaluate().then_some(&self.val));
        let scores = score_pass(&output.logits, train, output.term.as_ref(), val)?;
        if let Some(name) = self.hidden.keys().find(|name| output.hidden.iter().all(|(n, _)| n != *name)) {
            let what = format!("`{}` names the activation `{name}`, which it does not return", self.run.params.model);
            return Err(StageError::Unusable { what, hint: None });
        }
        if let Some(scores) = scores.val {
            self.keep(&output, epoch - 1, &scores)?;
        }
        // Memory that the way back can use again.
        output.hidden.clear();
        let Some((losses, gradient)) = scores.train else {
            // The lanes that are left have run all epochs.
            self.lanes.iter_mut().for_each(|lane| lane.ends = lane.ends.take().or(Some(End::Stopped)));
            return self.leave();
        };
        if self.lanes.iter().all(|lane| lane.ends.is_some()) {
            return self.leave();
        }
        let mut from = vec![(output.logits.main().clone(), gradient)];
        if let Some(term) = output.term {
            from.push((term.clone(), term.ones_like()?));
        }
        for (lane, loss) in self.lanes.iter_mut().zip(losses) {
            lane.train_loss = loss;
            lane.must_be_finite(self.run, loss, "training", epoch);
        }
        let gradients = tape.back(from)?;
        self.step(&gradients, epoch)?;
        self.leave()
    }

    /// Enters the scores of an epoch, keeps it where it is the best so far, and ends lanes that stop early.
    fn keep(&mut self, output: &Output, epoch: usize, scores: &[LaneScore]) -> TensorResult<()> {
        let Some(logits) = output.logits.eval() else { return Ok(()) };
        let mut best = Vec::new();
        for (i, (lane, score)) in self.lanes.iter_mut().zip(scores).enumerate() {
            lane.must_be_finite(self.run, score.loss, "validation", epoch);
            if lane.ends.is_some() {
                continue;
            }
            let further = match lane.further(self.run, &score.further) {
                Ok(further) => further,
                Err(error) => {
                    lane.fails(self.run, error);
                    continue;
                }
            };
            let now =
                Epoch { train_loss: lane.train_loss, val_loss: score.loss, val_accuracy: score.accuracy, further };
            if lane.enter(self.run, now) {
                best.push(i);
            }
        }
        if !best.is_empty() {
            keep_lanes(&mut self.logits, logits, &best)?;
            for weight in &mut self.weights {
                keep_lanes(&mut weight.kept, &weight.named.param.tensor().detach(), &best)?;
            }
            for (name, activation) in &output.hidden {
                if let (Some(kept), Some(activation)) = (self.hidden.get_mut(name), activation.eval()) {
                    keep_lanes(kept, activation, &best)?;
                }
            }
        }
        let scored = self.lanes.iter().filter(|lane| lane.history.len() == epoch + 1);
        self.run.report(epoch, scored.map(|lane| lane.history.last()));
        Ok(())
    }

    fn step(&mut self, gradients: &Gradients, epoch: usize) -> TensorResult<()> {
        let p = self.run.params;
        let settings = Settings { lr: p.lr, lr_now: p.schedule().at(epoch), weight_decay: p.weight_decay };
        for weight in &mut self.weights {
            let var = weight.named.param.var();
            if let Some(adam) = &mut weight.adam
                && let Some(gradient) = gradients.of(var.as_tensor())?
            {
                adam.step(&var, &gradient, settings)?;
            }
            weight.named.param.commit()?;
        }
        Ok(())
    }

    /// Takes the lanes that have ended out of the batch.
    fn leave(&mut self) -> Result<(), StageError> {
        if self.lanes.iter().all(|lane| lane.ends.is_none()) {
            return Ok(());
        }
        let mut stays = Vec::new();
        for (i, mut lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            let Some(end) = lane.ends.take() else {
                stays.push(i);
                self.lanes.push(lane);
                continue;
            };
            self.run.report_end(lane.split, lane.history.len());
            match end {
                End::Stopped => {
                    let history = std::mem::take(&mut lane.history);
                    self.run.finish(lane.split, self.result(&lane, history, i));
                }
                End::Failed(error) => self.run.finish(lane.split, Err(error)),
                End::Unwanted => {}
            }
        }
        self.streams.keep(&stays);
        if stays.is_empty() {
            return Ok(());
        }
        let rows: Vec<u32> = stays.iter().filter_map(|i| u32::try_from(*i).ok()).collect();
        let rows = Tensor::new(rows, self.run.data.device())?;
        let select = |kept: &mut Option<Tensor>| -> TensorResult<()> {
            if let Some(tensor) = kept {
                *tensor = tensor.index_select(&rows, 0)?;
            }
            Ok(())
        };
        for weight in &mut self.weights {
            weight.named.param.set(&weight.named.param.tensor().detach().index_select(&rows, 0)?)?;
            weight.adam.as_mut().map_or(Ok(()), |adam| adam.select(&rows))?;
            select(&mut weight.kept)?;
        }
        select(&mut self.logits)?;
        self.hidden.values_mut().try_for_each(select)?;
        (self.train, self.val) = (self.train.select(&stays), self.val.select(&stays));
        Ok(())
    }

    /// What a lane with this history has kept; it is the `i`-th of the tensors.
    fn result(&self, lane: &Lane, history: Vec<Epoch>, i: usize) -> Result<TrainedSplit, StageError> {
        let no_epoch = || StageError::unusable("no epoch was run", "`epochs` must be at least 1");
        let (best_epoch, _) = lane.kept.ok_or_else(no_epoch)?;
        let named = |(name, kept): (&str, &Option<Tensor>)| {
            let kept = kept.as_ref().ok_or_else(no_epoch)?;
            Ok((name.to_owned(), (kept.dims()[1..].to_vec(), lane_values(kept, i)?)))
        };
        let weights = self.weights.iter().map(|weight| named((&weight.named.name, &weight.kept)));
        let hidden = self.hidden.iter().map(|(name, kept)| named((name, kept)));
        Ok(TrainedSplit {
            best_epoch: Some(best_epoch),
            logits: lane_values(self.logits.as_ref().ok_or_else(no_epoch)?, i)?,
            weights: weights.collect::<Result<_, StageError>>()?,
            hidden: hidden.collect::<Result<_, StageError>>()?,
            history,
        })
    }
}

impl Lane {
    fn new(run: &Run, split: usize) -> Self {
        Self {
            split,
            stop: WindowedStop::new(run.params.window),
            history: Vec::new(),
            kept: None,
            train_loss: f64::NAN,
            last_finite: None,
            ends: None,
        }
    }

    /// Enters the next epoch, and ends if the rule says so. Returns whether the epoch is the one to keep.
    fn enter(&mut self, run: &Run, now: Epoch) -> bool {
        let (worth, stop) = (run.watched.select.worth(&now), run.watched.stop.worth(&now));
        // Strict, so the first of equally good epochs stays.
        let best = self.kept.is_none_or(|(_, best)| worth > best);
        if best {
            self.kept = Some((self.history.len(), worth));
        }
        self.history.push(now);
        if self.stop.observe(-stop) {
            self.ends = Some(End::Stopped);
        }
        best
    }

    /// Returns the metrics that decide, which must be defined.
    fn further(&self, run: &Run, scores: &[Result<f64, Undefined>]) -> Result<Vec<f64>, StageError> {
        let value = |(row, score): (&&ScoreDef, &Result<f64, Undefined>)| {
            let finite = |value: f64| if value.is_finite() { Ok(value) } else { Err(format!("it is `{value}`")) };
            let value = score.clone().map_err(|why| why.to_string()).and_then(finite);
            value.map_err(|why| undefined(row, self.split, &why))
        };
        run.watched.further.iter().zip(scores).map(value).collect()
    }

    fn fails(&mut self, run: &Run, error: StageError) {
        run.first_failed.fetch_min(self.split, Ordering::Relaxed);
        self.ends = Some(End::Failed(error));
    }

    /// A loss that is not finite ends this split, and all after it: the failure that is reported is that of the first
    /// split that fails, whichever splits ride together.
    fn must_be_finite(&mut self, run: &Run, loss: f64, which: &str, epoch: usize) {
        if self.ends.is_some() {
            return;
        }
        if !loss.is_finite() {
            let before =
                self.last_finite.map_or("there was none before".to_owned(), |last| format!("`{last:.4}` before"));
            let (split, lr) = (self.split, run.params.schedule().at(epoch));
            let error = StageError::numeric(
                format!(
                    "the {which} loss of split `{split}` is `{loss}` in epoch `{epoch}` ({before}; learning rate `{lr}`)"
                ),
                "the weights have diverged: lower `lr`, or check the features for huge values",
            );
            self.fails(run, error);
            return;
        }
        self.last_finite = Some(loss);
        if run.first_failed.load(Ordering::Relaxed) < self.split {
            self.ends = Some(End::Unwanted);
        }
    }
}
