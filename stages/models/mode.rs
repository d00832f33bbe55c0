//! Training or evaluation, and the random streams that only training has.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};

use super::blocks::{self, Mask};
use crate::math::random::Stream;

/// The random streams of one split: one a purpose, so that a draw for one never shifts another.
pub struct Streams {
    seed: u64,
    split: String,
    open: BTreeMap<&'static str, Stream>,
}

impl Streams {
    /// Names the streams of a split.
    pub fn new(seed: u64, split: usize) -> Self {
        Self { seed, split: split.to_string(), open: BTreeMap::new() }
    }

    /// Returns the stream of a purpose, such as `init/lin1`, where it was left.
    pub fn open(&mut self, purpose: &'static str) -> &mut Stream {
        self.open.entry(purpose).or_insert_with(|| Stream::new(self.seed, &["train", &self.split, purpose]))
    }
}

/// Whether a pass trains or evaluates. Evaluation has no random stream, so a model cannot drop anything in it.
pub enum Mode {
    /// Training, with the streams that masks are drawn from.
    Train(Streams),
    /// Evaluation.
    Eval,
}

impl Mode {
    /// Applies inverted dropout of rate `p` in training; returns `x` as it is in evaluation and for `p` = 0.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn drop(&mut self, x: &Tensor, p: f64, purpose: &'static str) -> Result<Tensor> {
        match self.mask(x.elem_count(), p, purpose) {
            Some(mask) => blocks::drop(x, mask),
            None => Ok(x.clone()),
        }
    }

    /// Applies ReLU, and then dropout as [`Mode::drop`] does.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn rectify(&mut self, x: &Tensor, p: f64, purpose: &'static str) -> Result<Tensor> {
        blocks::rectify(x, self.mask(x.elem_count(), p, purpose))
    }

    /// Draws a mask for `entries` entries in training; none in evaluation and for `p` = 0.
    pub fn mask(&mut self, entries: usize, p: f64, purpose: &'static str) -> Option<Mask> {
        match self {
            Self::Train(streams) if p > 0.0 => Some(Mask::draw(streams.open(purpose), entries, p)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_not_shifted_by_another() {
        let mut alone = Streams::new(1, 2);
        let expected = [alone.open("a").bits(), alone.open("a").bits()];
        let mut mixed = Streams::new(1, 2);
        let first = mixed.open("a").bits();
        mixed.open("b").bits();
        assert_eq!([first, mixed.open("a").bits()], expected);
    }

    #[test]
    fn seeds_splits_and_purposes_differ() {
        let draw = |seed, split, purpose| Streams::new(seed, split).open(purpose).uniform();
        let draws = [draw(0, 0, "a"), draw(1, 0, "a"), draw(0, 1, "a"), draw(0, 0, "b")];
        for (i, a) in draws.iter().enumerate() {
            assert!(draws[i + 1..].iter().all(|b| a != b));
        }
    }
}
