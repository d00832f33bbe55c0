//! How a batch leaves resume points, and how one goes on from them.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result as TensorResult, Tensor};

use super::{Batch, Lane, Run};
use crate::contract::StageError;
use crate::kinds::TrainedSplit;
use crate::models::ops::{AsTensor, lane_values};
use crate::train::point::{Going, Point, Tensors};

impl<'r> Batch<'r> {
    /// Builds the model for some splits, which go on where resume points say if all of them have one.
    pub fn resumed(run: &'r Run<'r>, splits: &[usize]) -> Result<Self, StageError> {
        let mut batch = Self::new(run, splits)?;
        let points: Option<Vec<_>> = splits.iter().map(|split| run.points.read(*split)).collect();
        let points = points.filter(|points| points.iter().all(|point| batch.fits(point)));
        let Some(points) = points else { return Ok(batch) };
        let (mut results, mut going) = (Vec::new(), Vec::new());
        for point in points {
            results.push(point.result);
            going.extend(point.going);
        }
        let together = going.windows(2).all(|pair| pair[0].together() == pair[1].together());
        if together && going.len() == splits.len() {
            batch.go_on(results, going)?;
        }
        Ok(batch)
    }

    /// Leaves a resume point of every lane.
    pub(super) fn leave_points(&self) -> Result<(), StageError> {
        for (i, lane) in self.lanes.iter().enumerate() {
            // Before the first evaluation nothing is kept, and there is little to lose.
            if !lane.history.is_empty() {
                let (result, going) = (self.result(lane, lane.history.clone(), i)?, self.going(lane, i)?);
                self.run.points.write(lane.split, &result, Some(&going));
            }
        }
        Ok(())
    }

    /// What a lane needs to go on; it is the `i`-th of the tensors.
    fn going(&self, lane: &Lane, i: usize) -> Result<Going, StageError> {
        let (mut weights, mut moments) = (Tensors::new(), BTreeMap::new());
        for weight in &self.weights {
            let (name, now) = (weight.named.name.to_string(), weight.named.param.tensor());
            if let Some((steps, [first, second])) = weight.adam.as_ref().and_then(|adam| adam.state()) {
                moments.insert(name.clone(), (steps, [lane_values(first, i)?, lane_values(second, i)?]));
            }
            weights.insert(name, (now.dims()[1..].to_vec(), lane_values(&now, i)?));
        }
        Ok(Going {
            epoch: self.epoch,
            train_loss: lane.train_loss,
            last_finite: lane.last_finite,
            weights,
            moments,
            streams: self.streams.positions(i),
        })
    }

    /// Returns whether a point can be one of this run: names, shapes, and a history that leads to the epoch that is kept.
    pub fn fits(&self, point: &Point) -> bool {
        let (result, data, params) = (&point.result, &self.run.data, self.run.params);
        let mut lane = Lane::new(self.run, point.split);
        for epoch in &result.history {
            if lane.ends.is_some() || epoch.further.len() != self.run.watched.further.len() {
                return false;
            }
            lane.enter(self.run, epoch.clone());
        }
        let hidden = result.hidden.iter().map(|(name, (shape, _))| (name.as_str(), shape.first()));
        result.history.len() <= params.epochs
            && lane.kept.is_some_and(|(best, _)| Some(best) == result.best_epoch)
            && result.logits.len() == data.nodes * data.classes
            && hidden.eq(self.hidden.keys().map(|name| (*name, Some(&data.nodes))))
            && self.has(&result.weights)
            && match &point.going {
                None => lane.ends.is_some() || result.history.len() == params.epochs,
                Some(going) => {
                    lane.ends.is_none()
                        && going.epoch == result.history.len() + 1
                        && going.epoch <= params.epochs
                        && self.has(&going.weights)
                        && self.has_moments(going)
                }
            }
    }

    /// Returns whether tensors are those of the model.
    fn has(&self, tensors: &Tensors) -> bool {
        let fits = |(shape, _): &(Vec<usize>, Vec<f32>), now: &Tensor| shape[..] == now.dims()[1..];
        let mut named = self.weights.iter().map(|weight| (&*weight.named.name, weight.named.param.tensor()));
        tensors.len() == self.weights.len()
            && named.all(|(name, now)| tensors.get(name).is_some_and(|there| fits(there, &now)))
    }

    /// Returns whether every moment belongs to a trained tensor and fills it.
    fn has_moments(&self, going: &Going) -> bool {
        let trained = self.weights.iter().filter(|weight| weight.adam.is_some());
        let trained: BTreeMap<_, _> = trained.map(|weight| (&*weight.named.name, weight)).collect();
        going.moments.iter().all(|(name, (steps, moments))| {
            let size = going.weights.get(name).map(|(_, values)| values.len());
            let full = moments.iter().all(|moment| Some(moment.len()) == size);
            trained.contains_key(name.as_str()) && full && *steps > 0
        })
    }

    /// Goes on from what [`Batch::fits`] has found to fit, lane by lane.
    fn go_on(&mut self, results: Vec<TrainedSplit>, going: Vec<Going>) -> TensorResult<()> {
        let to = (self.run.data.dtype(), self.run.data.device());
        let Some(epoch) = going.first().map(|going| going.epoch) else { return Ok(()) };
        self.epoch = epoch;
        for weight in &mut self.weights {
            let (name, shape) = (&*weight.named.name, weight.named.param.tensor().dims()[1..].to_vec());
            let of = |tensors: &Tensors| tensors.get(name).map(|(_, values)| values.clone()).unwrap_or_default();
            weight.named.param.set(&stack(going.iter().map(|going| of(&going.weights)), &shape, to)?)?;
            weight.kept = Some(stack(results.iter().map(|result| of(&result.weights)), &shape, to)?);
            let moments = |at: usize| {
                let of_lanes =
                    going.iter().filter_map(|going| going.moments.get(name).map(|(_, both)| both[at].clone()));
                stack(of_lanes, &shape, to)
            };
            let steps = going.first().and_then(|going| going.moments.get(name)).map(|(steps, _)| *steps);
            if let (Some(adam), Some(steps)) = (&mut weight.adam, steps) {
                adam.resume(steps, [moments(0)?, moments(1)?]);
            }
        }
        let logits = results.iter().map(|result| result.logits.clone());
        self.logits = Some(stack(logits, &[self.run.data.nodes, self.run.data.classes], to)?);
        for (name, kept) in &mut self.hidden {
            let of = results.iter().filter_map(|result| result.hidden.get(*name));
            let shape = of.clone().next().map(|(shape, _)| shape.clone()).unwrap_or_default();
            *kept = Some(stack(of.map(|(_, values)| values.clone()), &shape, to)?);
        }
        for ((lane, result), going) in self.lanes.iter_mut().zip(results).zip(&going) {
            for epoch in result.history {
                lane.enter(self.run, epoch);
            }
            (lane.train_loss, lane.last_finite) = (going.train_loss, going.last_finite);
        }
        self.streams.resume(epoch as u64, going.into_iter().map(|going| going.streams));
        Ok(())
    }
}

/// Puts the values of all lanes into one tensor.
fn stack(
    lanes: impl Iterator<Item = Vec<f32>>,
    shape: &[usize],
    (dtype, device): (DType, &Device),
) -> TensorResult<Tensor> {
    let (mut count, mut all) = (0, Vec::new());
    for values in lanes {
        count += 1;
        all.extend(values);
    }
    Tensor::from_vec(all, [&[count], shape].concat(), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}
