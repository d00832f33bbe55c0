//! How a run goes on from the resume points of an earlier one, and leaves its own.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::batch::Batch;
use super::point::Point;
use super::{Finished, Run, lock};
use crate::contract::{EARLIER_SECONDS, Progress, StageError};
use crate::kinds::TrainedSplit;

/// What an earlier run has left.
#[derive(Default)]
struct Found {
    /// Splits that have stopped.
    done: usize,
    /// The epoch from which the split goes on that has most to do.
    epoch: Option<usize>,
    seconds: f64,
}

impl Run<'_> {
    /// Takes the splits out of batches that an earlier run has finished, and cuts batches so that all splits of one go on from
    /// the same epoch. The order stays, so on a GPU the batches are those of a run that was never interrupted.
    pub(super) fn go_on(&self, batches: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>, StageError> {
        let (mut found, mut model, mut groups) = (Found::default(), None, Vec::new());
        for batch in batches {
            let mut together: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for split in batch {
                let Some(point) = self.points.read(split) else {
                    together.entry((0, Vec::new())).or_default().push(split);
                    continue;
                };
                // Built for nothing but its shapes.
                let model = match &mut model {
                    Some(model) => model,
                    none => none.insert(Batch::new(self, &[split])?),
                };
                let at = if model.fits(&point) { self.found(point, &mut found) } else { Some((0, Vec::new())) };
                if let Some(at) = at {
                    together.entry(at).or_default().push(split);
                }
            }
            groups.extend(together.into_values());
        }
        if found.done > 0 || found.epoch.is_some() {
            self.points.go_on_after(found.seconds);
            self.job.measured(EARLIER_SECONDS, found.seconds);
            self.report_found(&found);
        }
        Ok(groups)
    }

    /// Counts a point. Returns where its split goes on; nothing if it has stopped.
    fn found(&self, point: Point, found: &mut Found) -> Option<(usize, Vec<i32>)> {
        found.seconds = found.seconds.max(point.seconds);
        let Some(going) = point.going else {
            found.done += 1;
            self.epochs_done.fetch_add(self.params.epochs as u64, Ordering::Relaxed);
            lock(&self.finished).push(Finished { split: point.split, result: Ok(point.result), kept: true });
            return None;
        };
        self.epochs_done.fetch_add(point.result.history.len() as u64, Ordering::Relaxed);
        found.epoch = Some(found.epoch.map_or(going.epoch, |epoch| epoch.min(going.epoch)));
        Some(going.together())
    }

    fn report_found(&self, Found { done, epoch, .. }: &Found) {
        let epoch = epoch.map(|epoch| format!(" from epoch {epoch}")).unwrap_or_default();
        let note = format!("continues{epoch}, {done} of {} splits are done", self.splits.len());
        let done = self.epochs_done.load(Ordering::Relaxed);
        self.job.progress(&Progress { done, total: self.total_epochs(), note });
    }

    /// Takes the end of a split.
    pub(super) fn finish(&self, split: usize, result: Result<TrainedSplit, StageError>) {
        lock(&self.finished).push(Finished { split, result, kept: false });
    }

    /// Leaves the results of splits that have ended since this was done last.
    pub(super) fn leave_finished(&self) {
        for finished in lock(&self.finished).iter_mut().filter(|finished| !finished.kept) {
            if let Ok(result) = &finished.result {
                finished.kept = self.points.write(finished.split, result, None);
            }
        }
    }
}
