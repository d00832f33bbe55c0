//! Where resume points of a run are, and when they are written.
//!
//! There is one file per split, which is replaced as a whole: a split's result does not depend on its batch, so a run that
//! goes on may have other threads and batches. A split that has stopped leaves its result, and is not trained again. A file
//! that is damaged, or that does not fit, counts as absent.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::point::{Going, Point, decode, encode};
use crate::contract::{Job, checkpoint};
use crate::kinds::TrainedSplit;

/// Points may take this share of the time at most: one that took a second is followed by none for this many seconds.
const PAUSE: u32 = 200;

/// A run that is stopped leaves points if so large a part of the usual time has passed since the last: one in this many.
const WORTH: u32 = 10;

/// The resume points of a run.
pub(super) struct Points<'a> {
    folder: Option<&'a Path>,
    every: Duration,
    begun: Instant,
    /// Seconds of the runs that left the points that were found.
    earlier: OnceLock<f64>,
}

impl<'a> Points<'a> {
    pub fn new(job: &Job<'a>) -> Self {
        let (folder, every) = (job.scratch, job.checkpoint_every);
        Self { folder, every, begun: Instant::now(), earlier: OnceLock::new() }
    }

    /// Reads what was left of a split.
    pub fn read(&self, split: usize) -> Option<Point> {
        let point = decode(&checkpoint::read(&self.path(split)?)?)?;
        (point.split == split).then_some(point)
    }

    /// Writes what is left of a split; without `going` it has stopped. Returns whether it is on disk: a disk that is full
    /// costs the point, not the result.
    pub fn write(&self, split: usize, result: &TrainedSplit, going: Option<&Going>) -> bool {
        let Some(path) = self.path(split) else { return false };
        let seconds = self.begun.elapsed().as_secs_f64() + self.earlier.get().copied().unwrap_or(0.0);
        checkpoint::write(&path, &[&encode(split, seconds, result, going)]).is_ok()
    }

    /// Counts the time of the runs before this one.
    pub fn go_on_after(&self, seconds: f64) {
        self.earlier.get_or_init(|| seconds);
    }

    /// Starts the clock of a thread.
    pub fn clock(&self) -> Clock {
        let now = Instant::now();
        Clock { every: self.every, left: now, due: self.folder.map(|_| now + self.every) }
    }

    fn path(&self, split: usize) -> Option<PathBuf> {
        Some(self.folder?.join(format!("split-{split}.point")))
    }
}

/// Says when points are due. Every thread has its own, which goes on from batch to batch.
pub(super) struct Clock {
    every: Duration,
    /// When points were left last, or the clock started.
    left: Instant,
    /// None where nothing is kept.
    due: Option<Instant>,
}

impl Clock {
    /// Runs `leave` if points are due.
    pub fn tick<E>(&mut self, leave: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let begun = Instant::now();
        if self.due.is_none_or(|due| begun < due) {
            return Ok(());
        }
        leave()?;
        self.left = Instant::now();
        self.due = Some(self.left + pause(self.every, begun.elapsed()));
        Ok(())
    }

    /// Runs `leave` before a run stops that is to go on later, unless too little would be lost to be worth it.
    pub fn stop<E>(&self, leave: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.due.is_some() && self.left.elapsed() * WORTH >= self.every { leave() } else { Ok(()) }
    }
}

/// How long to wait after points that took that long.
fn pause(every: Duration, took: Duration) -> Duration {
    if every.is_zero() { every } else { every.max(took * PAUSE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_points_are_rare() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(pause(seconds(60.0), seconds(0.1)), seconds(60.0));
        assert_eq!(pause(seconds(60.0), seconds(2.0)), seconds(400.0));
        assert_eq!(pause(Duration::ZERO, seconds(2.0)), Duration::ZERO);
    }

    #[test]
    fn points_are_left_when_they_are_due_and_only_where_something_is_kept() {
        let ticks = |every, folder: bool| {
            let now = Instant::now();
            let mut clock = Clock { every, left: now, due: folder.then(|| now + every) };
            let mut left = 0;
            let mut leave = || {
                left += 1;
                Ok::<_, ()>(())
            };
            (0..5).for_each(|_| clock.tick(&mut leave).unwrap());
            left
        };
        assert_eq!(ticks(Duration::ZERO, true), 5);
        assert_eq!(ticks(Duration::ZERO, false), 0);
        assert_eq!(ticks(Duration::from_secs(3600), true), 0);
    }

    #[test]
    fn a_run_that_is_stopped_leaves_points_if_they_are_worth_it() {
        let now = Instant::now();
        let leaves = |ago: u64, kept: bool| {
            let left = now.checked_sub(Duration::from_secs(ago)).unwrap();
            let clock = Clock { every: Duration::from_secs(60), left, due: kept.then_some(now) };
            let mut leaves = false;
            let leave = || {
                leaves = true;
                Ok::<_, ()>(())
            };
            clock.stop(leave).unwrap();
            leaves
        };
        assert!(leaves(7, true) && !leaves(2, true) && !leaves(7, false));
    }
}
