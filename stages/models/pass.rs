//! The randomness of one pass through a model: masks and samples, which only training has.

use std::sync::Arc;

use candle_core::{Result, bail};
use rayon::prelude::*;

use super::Streams;
use super::ops::{LaneMasks, Mask, Masks, Sides};

/// The random streams of all lanes, in one pass.
pub struct Pass<'s> {
    sides: Sides,
    lanes: &'s mut [Streams],
    /// On a GPU, what masks are hashed from.
    #[cfg(any(feature = "cuda", test))]
    keys: Option<&'s mut super::streams::keys::Keys>,
}

impl<'s> Pass<'s> {
    /// Starts a pass of lanes with these streams.
    pub fn new(sides: Sides, lanes: &'s mut [Streams]) -> Self {
        Self {
            sides,
            lanes,
            #[cfg(any(feature = "cuda", test))]
            keys: None,
        }
    }

    /// Hashes masks from keys instead of drawing them, if there are keys.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn hashing(mut self, keys: Option<&'s mut super::streams::keys::Keys>) -> Self {
        self.keys = keys;
        self.keys.iter_mut().for_each(|keys| keys.next_pass());
        self
    }

    /// Returns whether the pass trains: it draws masks, and a model adds its own terms to the loss.
    pub fn trains(&self) -> bool {
        self.sides.train()
    }

    /// Draws something for every lane from its streams. A pass that only evaluates must not ask for it.
    pub fn draw<R: Send>(&mut self, draw: impl Fn(&mut Streams) -> R + Sync + Send) -> Vec<R> {
        self.lanes.par_iter_mut().map(draw).collect()
    }

    /// Returns the streams, by lane.
    pub(super) fn lanes(&mut self) -> &mut [Streams] {
        self.lanes
    }

    /// Names dropout of rate `p`, whose masks are drawn from the streams of a purpose.
    pub fn dropout(&mut self, p: f64, purpose: &'static str) -> Dropout<'_, 's> {
        Dropout { pass: self, p, purpose, copies: 1 }
    }
}

/// Inverted dropout that an operation applies to the training side.
pub struct Dropout<'p, 's> {
    pass: &'p mut Pass<'s>,
    p: f64,
    purpose: &'static str,
    copies: usize,
}

impl Dropout<'_, '_> {
    /// Gives every lane's mask to as many lanes that stand for it.
    #[must_use]
    pub fn for_lanes(self, copies: usize) -> Self {
        Self { copies, ..self }
    }

    /// Draws a mask of `entries` entries for every lane in training; none in evaluation and for p = 0.
    ///
    /// # Errors
    /// When p is no rate: below 0, or so large that nothing would be left.
    pub(crate) fn masks(self, entries: usize) -> Result<Option<Masks>> {
        let Self { pass, p, purpose, copies } = self;
        must_be_rate(p, purpose)?;
        if !pass.trains() || p == 0.0 {
            return Ok(None);
        }
        #[cfg(any(feature = "cuda", test))]
        if let Some(keys) = &mut pass.keys {
            return Ok(Some(Arc::new(keys.masks(pass.lanes, p, purpose, copies))));
        }
        let draw = |lane: &mut Streams| {
            let mask = Mask::draw(lane.open(purpose), entries, p);
            std::iter::repeat_n(mask, copies)
        };
        Ok(Some(Arc::new(LaneMasks::Drawn(pass.lanes.par_iter_mut().flat_map_iter(draw).collect()))))
    }
}

/// Refuses a rate of dropout below 0, or so large that nothing would be left.
pub(super) fn must_be_rate(p: f64, purpose: &str) -> Result<()> {
    if (0.0..1.0).contains(&p) {
        return Ok(());
    }
    bail!("dropout `{purpose}` has the rate {p}, expected at least 0 and below 1")
}
