//! One pass through a model: which sides it computes, and the random streams that only training has.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::FeatureView;
use super::ops::{self, Eval, Gradients, LaneMasks, LayerWeights, Mask, Masks, PassMasks, Tape, Wide};
use crate::math::random::Stream;

/// The random streams of one lane: one a purpose, so that a draw for one never shifts another.
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

    /// Returns a number that stands for the stream of a purpose on a card: its first 64 bits.
    #[cfg(feature = "cuda")]
    pub(crate) fn key(&self, purpose: &'static str) -> u64 {
        let mut stream = Stream::new(self.seed, &["train", &self.split, purpose]);
        u64::from(stream.bits()) | u64::from(stream.bits()) << 32
    }
}

/// Which sides a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Training alone: the first pass of a run.
    Train,
    /// Training, and the evaluation of the same weights beside it.
    Both,
    /// Evaluation alone: the last pass of a run. Nothing is dropped, and no stream is touched.
    Eval,
}

/// One pass through a model.
pub struct Pass<'s> {
    sides: Sides,
    lanes: &'s mut [Streams],
    tape: Tape,
    /// On a card, what masks are hashed from.
    #[cfg(feature = "cuda")]
    keys: Option<&'s mut super::lanes::keys::Keys>,
}

impl<'s> Pass<'s> {
    /// Starts a pass of lanes with these streams.
    pub fn new(sides: Sides, lanes: &'s mut [Streams]) -> Self {
        let tape = if sides == Sides::Eval { Tape::forgetting() } else { Tape::recording() };
        Self {
            sides,
            lanes,
            tape,
            #[cfg(feature = "cuda")]
            keys: None,
        }
    }

    /// Hashes masks from keys in place of drawing them, if there are keys.
    #[cfg(feature = "cuda")]
    pub(super) fn hashing(mut self, keys: Option<&'s mut super::lanes::keys::Keys>) -> Self {
        self.keys = keys;
        self.keys.iter_mut().for_each(|keys| keys.next_pass());
        self
    }

    /// Returns whether the pass draws masks: it trains.
    pub fn trains(&self) -> bool {
        self.sides != Sides::Eval
    }

    /// Applies inverted dropout of rate `p` on the training side; the evaluation side stays as it is.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn drop(&mut self, x: &Wide, p: f64, purpose: &'static str) -> Result<Wide> {
        match self.masks(entries(x.main()), p, purpose) {
            Some(masks) => ops::drop(x, masks, self.parted(x, true)),
            None => Ok(x.clone()),
        }
    }

    /// Applies ReLU, and then dropout as [`Pass::drop`] does.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn rectify(&mut self, x: &Wide, p: f64, purpose: &'static str) -> Result<Wide> {
        let masks = self.masks(entries(x.main()), p, purpose);
        let eval = self.parted(x, masks.is_some());
        ops::rectify(x, masks, eval)
    }

    /// The evaluation side of something whose training side may get a mask.
    fn parted(&self, x: &Wide, masked: bool) -> Eval {
        match x.eval_side() {
            Eval::Same if masked && self.sides == Sides::Both => Eval::Own(x.main().clone()),
            Eval::Same if masked => Eval::Absent,
            other => other.clone(),
        }
    }

    /// Draws a mask of `entries` entries for every lane in training; none in evaluation and for `p` = 0.
    pub fn masks(&mut self, entries: usize, p: f64, purpose: &'static str) -> Option<Masks> {
        if !self.trains() || p <= 0.0 {
            return None;
        }
        #[cfg(feature = "cuda")]
        if let Some(keys) = &mut self.keys {
            return Some(Arc::new(keys.masks(self.lanes, p, purpose)));
        }
        let draw = |lane: &mut Streams| Mask::draw(lane.open(purpose), entries, p);
        Some(Arc::new(LaneMasks::Drawn(self.lanes.par_iter_mut().map(draw).collect())))
    }

    /// Applies layers to fixed features, once for every list of masks; see [`ops::layers`].
    pub(crate) fn layers(
        &mut self,
        x: &Arc<FeatureView>,
        first: LayerWeights,
        second: Option<LayerWeights>,
        masks: Vec<PassMasks>,
    ) -> Result<Vec<Wide>> {
        ops::layers(x, first, second, masks, self.sides != Sides::Train, &self.tape)
    }

    /// Applies one layer to fixed features, with masks on them if there are any.
    pub(crate) fn layer(&mut self, x: &Arc<FeatureView>, layer: LayerWeights, masks: Option<Masks>) -> Result<Wide> {
        match self.layers(x, layer, None, vec![PassMasks { features: masks, hidden: None }])?.pop() {
            Some(output) => Ok(output),
            None => bail!("a layer gave no output"),
        }
    }

    /// Returns numbers that are the same for all lanes, from [`Weights::constant`](super::Weights::constant): lanes ×
    /// numbers.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn constant(&self, row: &Tensor) -> Result<Tensor> {
        row.repeat((self.lanes.len(), 1))
    }

    /// Walks back from the gradients of some tensors to those of the weights.
    pub(crate) fn back(self, from: Vec<(Tensor, Tensor)>) -> Result<Gradients> {
        self.tape.back(from)
    }
}

/// Entries of one lane.
fn entries(x: &Tensor) -> usize {
    x.elem_count().checked_div(x.dims().first().copied().unwrap_or(0)).unwrap_or(0)
}
