//! What one node is expected to take.

use std::collections::BTreeMap;

use ppgnn_stages::contract::{Memory, Size, Sureness};

/// A range that holds the truth in about four of five cases, and what is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// What is expected.
    pub expected: f64,
    /// The upper end.
    pub high: f64,
}

impl Range {
    /// The range around `expected` with this standard deviation of the logarithm.
    pub fn around(expected: f64, spread: f64) -> Self {
        // Nine tenths of a normal distribution are below 1.28 standard deviations.
        let factor = (1.28 * spread).exp();
        Self { low: expected / factor, expected, high: expected * factor }
    }
}

/// Why a node must fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What is to blame.
    pub kind: FaultKind,
}

/// What is to blame for a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Data outside the store.
    Data,
    /// Parameters and inputs, on any machine.
    Stage,
    /// This machine.
    Machine,
}

/// Memory that a node takes at most, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Need {
    /// What all threads hold together.
    pub all: u64,
    /// What each thread holds besides.
    pub each: u64,
    /// How many threads do: further ones find nothing to do.
    pub threads: usize,
    /// Whether sizes that it is made of are guesses.
    pub guess: bool,
    /// What makes it smaller.
    pub remedy: Option<String>,
}

impl Need {
    /// Turns what a stage says into whole bytes.
    pub(super) fn of(memory: &Memory, threads: Size) -> Self {
        let (all, each) = memory.parts();
        Self {
            all: whole(all.value),
            each: whole(each.value),
            threads: usize::try_from(whole(threads.value)).unwrap_or(usize::MAX).max(1),
            guess: all.sure.min(each.sure) == Sureness::Guess,
            remedy: memory.remedy().map(str::to_owned),
        }
    }

    /// Returns the bytes that it takes with so many threads.
    pub fn bytes(&self, threads: usize) -> u64 {
        let each = u64::try_from(threads.min(self.threads).max(1)).unwrap_or(u64::MAX);
        self.all.saturating_add(self.each.saturating_mul(each))
    }
}

/// The nearest whole number that is not below, without a conversion that could truncate.
fn whole(value: f64) -> u64 {
    if value.is_nan() || value <= 0.0 {
        return 0;
    }
    std::time::Duration::try_from_secs_f64(value.ceil()).map_or(u64::MAX, |whole| whole.as_secs())
}

/// What one node is expected to take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Seconds that one thread alone works, and those that threads share.
    pub(super) seconds: (f64, f64),
    /// How many threads can share them.
    pub(super) threads: f64,
    /// What the seconds may be wrong by, as a standard deviation of the logarithm.
    pub spread: f64,
    /// Whether nothing like it ran before on this machine, or its size is not known.
    pub guess: bool,
    /// Memory.
    pub need: Need,
    /// What people should know before it runs.
    pub notes: Vec<String>,
    /// Why it must fail, if it must.
    pub fault: Option<Fault>,
    /// Amounts of work by term.
    pub work: BTreeMap<String, f64>,
    /// Whether all sizes that it is made of are exact, so that nothing will change.
    pub settled: bool,
}

impl Expected {
    /// Returns the seconds with so many threads.
    pub fn seconds(&self, threads: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a number of threads is small")]
        let sharing = (threads.max(1) as f64).min(self.threads.max(1.0));
        self.seconds.0 + self.seconds.1 / sharing
    }

    /// Returns the same with its range.
    pub fn range(&self, threads: usize) -> Range {
        Range::around(self.seconds(threads), self.spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_what_can_be_shared() {
        let expected = Expected { seconds: (1.0, 8.0), threads: 4.0, ..Expected::default() };
        assert_eq!([1, 2, 4, 64].map(|threads| expected.seconds(threads)), [9.0, 5.0, 3.0, 3.0]);
        let range = Expected { spread: 0.5, ..expected }.range(4);
        assert!((range.high / range.expected - range.expected / range.low).abs() < 1e-12 && range.high > 5.0);
    }

    #[test]
    fn memory_grows_with_the_threads_that_have_something_to_do() {
        let memory = Memory::default().and(Size::about(99.5)).and_each(Size::exact(10), "lower `hidden`");
        let need = Need::of(&memory, Size::exact(3));
        assert_eq!([0, 1, 2, 3, 8].map(|threads| need.bytes(threads)), [110, 110, 120, 130, 130]);
        let huge = Need::of(&Memory::default().and(Size::about(1e300)), Size::from(f64::INFINITY));
        assert_eq!((huge.bytes(1), huge.threads), (u64::MAX, usize::MAX));
    }
}
