//! How long the rest of a run will take, corrected by how the nodes that have ended compare with what was expected of them.

use std::time::{Duration, Instant};

use super::simulate::Price;
use crate::forecast::Range;

/// How often it is told at most.
const EVERY: Duration = Duration::from_secs(1);
/// How much of the time of a run looking ahead may take: a part in this many.
const SHARE: u32 = 50;
/// Seconds that must have been computed until what they took counts as much as what was expected.
const PATIENCE: f64 = 5.0;

/// Seconds that were expected and taken so far.
pub(super) struct TimeLeft {
    expected: f64,
    taken: f64,
    next: Instant,
}

impl TimeLeft {
    pub(super) fn new(begun: Instant) -> Self {
        Self { expected: 0.0, taken: 0.0, next: begun + EVERY }
    }

    /// A node has ended.
    pub(super) fn done(&mut self, expected: f64, taken: f64) {
        self.expected += expected;
        self.taken += taken;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// It was told: the next time is the later the longer the look ahead took.
    pub(super) fn told(&mut self, begun: Instant) {
        let now = Instant::now();
        self.next = now + EVERY.max((now - begun) * SHARE);
    }

    /// Returns the seconds left, and the share of the work that is done.
    pub(super) fn corrected(&self, rest: &Price) -> (Range, f64) {
        let factor = (self.taken + PATIENCE) / (self.expected + PATIENCE);
        let Range { low, expected, high } = rest.wall;
        let left = Range { low: low * factor, expected: expected * factor, high: high * factor };
        let all = self.taken + rest.work.expected * factor;
        (left, if all > 0.0 { self.taken / all } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_take_twice_as_long_double_what_is_left() {
        let rest = Price { wall: Range::around(10.0, 0.1), work: Range::around(20.0, 0.1), ..Price::default() };
        let mut left = TimeLeft::new(Instant::now());
        let (before, share) = left.corrected(&rest);
        assert_eq!((before.expected, share), (10.0, 0.0));
        for _ in 0..100 {
            left.done(1.0, 2.0);
        }
        let (after, share) = left.corrected(&rest);
        assert!((19.0..20.0).contains(&after.expected) && after.low < after.expected, "{after:?}");
        assert!((0.8..0.9).contains(&share), "200 s of about 240: {share}");
    }

    #[test]
    fn it_is_told_once_a_second_and_less_often_where_looking_takes_long() {
        let begun = Instant::now();
        let mut left = TimeLeft::new(begun);
        assert!(!left.is_due(begun) && left.is_due(begun + EVERY));
        left.told(begun - Duration::from_secs(1));
        assert!(!left.is_due(Instant::now() + Duration::from_secs(30)));
    }
}
