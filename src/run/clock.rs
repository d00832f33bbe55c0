//! `Clock`: time that counts as computing. A program that was stopped (Ctrl-Z, `kill -STOP`, a frozen container) computed
//! nothing meanwhile.
//!
//! Nobody tells a program that it was stopped. But a thread that looks at the clock every tenth of a second and finds that much
//! more has passed was not running, and neither were the others. A suspended machine stops the monotonic clock itself.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(100);
/// A gap that no busy machine explains: a sleeping thread is woken within milliseconds even there.
const GAP: Duration = Duration::from_secs(1);

/// Time since it was made, without what the program was stopped for.
pub(super) struct Clock {
    seen: Mutex<Seen>,
}

struct Seen {
    begun: Instant,
    last: Instant,
    stopped: Duration,
    /// Whether somebody looks regularly; otherwise a gap means nothing.
    watched: bool,
}

impl Clock {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { seen: Mutex::new(Seen { begun: now, last: now, stopped: Duration::ZERO, watched: false }) }
    }

    /// Returns the time that counts.
    pub(super) fn now(&self) -> Duration {
        let mut seen = self.seen();
        // Looked at under the lock, so that no look is older than the last one.
        seen.at(Instant::now())
    }

    /// Looks at the clock until the other end of the channel is gone.
    pub(super) fn watch(&self, ended: &Receiver<()>) {
        let watched = |watched: bool| {
            self.now();
            self.seen().watched = watched;
        };
        watched(true);
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            self.now();
        }
        watched(false);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn at(&mut self, now: Instant) -> Duration {
        let gap = now - self.last;
        if self.watched && gap >= GAP {
            tracing::info!(seconds = gap.as_secs_f64(), "the program was stopped");
            // The tick that was due anyway is not part of it.
            self.stopped += gap - TICK;
        }
        self.last = now;
        now - self.begun - self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_two_looks_does_not_count_if_somebody_was_looking() {
        let clock = Clock::new();
        let mut seen = clock.seen();
        let begun = seen.begun;
        let mut after = |seconds: f64| seen.at(begun + Duration::from_secs_f64(seconds)).as_secs_f64();
        assert_eq!(after(5.0), 5.0, "nobody looked");
        seen.watched = true;
        let mut after = |seconds: f64| seen.at(begun + Duration::from_secs_f64(seconds)).as_secs_f64();
        assert_eq!(after(5.9), 5.9);
        let counted = after(65.9);
        assert!((counted - 6.0).abs() < 1e-6, "{counted}");
        assert!((after(66.4) - 6.5).abs() < 1e-6);
    }
}
