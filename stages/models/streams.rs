//! The random streams of a batch: one set per lane, and where passes get theirs from.

use std::borrow::Cow;
use std::collections::BTreeMap;

use candle_core::Device;

use super::Pass;
use super::ops::Sides;
use crate::math::random::{Position, Stream};

/// The random streams of one lane: one per purpose, so that a draw for one never shifts another.
pub struct Streams {
    seed: u64,
    split: usize,
    /// The split as streams are named by it.
    name: String,
    open: BTreeMap<Cow<'static, str>, Stream>,
    /// Where streams stand that an earlier run has opened and this one has not.
    left: BTreeMap<String, Position>,
}

impl Streams {
    /// Names the streams of a split.
    pub fn new(seed: u64, split: usize) -> Self {
        Self { seed, split, name: split.to_string(), open: BTreeMap::new(), left: BTreeMap::new() }
    }

    /// Returns the split.
    pub fn split(&self) -> usize {
        self.split
    }

    /// Returns the stream of a purpose, such as `init/lin1`, where it was left.
    pub fn open(&mut self, purpose: impl Into<Cow<'static, str>>) -> &mut Stream {
        self.open.entry(purpose.into()).or_insert_with_key(|purpose| {
            let stream = Stream::new(self.seed, &["train", &self.name, purpose]);
            match self.left.remove(&**purpose) {
                Some(position) => stream.at(position),
                None => stream,
            }
        })
    }

    /// Returns where all streams stand, by purpose.
    pub fn positions(&self) -> BTreeMap<String, Position> {
        let open = self.open.iter().map(|(purpose, stream)| (purpose.to_string(), stream.position()));
        self.left.clone().into_iter().chain(open).collect()
    }

    /// Goes on where the streams of an earlier run stood.
    pub fn resume(&mut self, positions: BTreeMap<String, Position>) {
        (self.open, self.left) = (BTreeMap::new(), positions);
    }

    /// Returns a number that stands for the stream of a purpose on a GPU: its first 64 bits.
    #[cfg(any(feature = "cuda", test))]
    fn key(&self, purpose: &'static str) -> u64 {
        let mut stream = Stream::new(self.seed, &["train", &self.name, purpose]);
        u64::from(stream.bits()) | u64::from(stream.bits()) << 32
    }
}

/// The streams of all lanes of a batch.
pub struct BatchStreams {
    lanes: Vec<Streams>,
    /// On a GPU, what masks are hashed from.
    #[cfg(any(feature = "cuda", test))]
    keys: Option<keys::Keys>,
}

impl BatchStreams {
    /// Names the streams of splits that are trained on `device`.
    #[cfg_attr(not(any(feature = "cuda", test)), expect(unused_variables, reason = "there is one device"))]
    pub fn new(seed: u64, splits: &[usize], device: &Device) -> Self {
        Self {
            lanes: splits.iter().map(|split| Streams::new(seed, *split)).collect(),
            #[cfg(any(feature = "cuda", test))]
            keys: crate::tensor::is_gpu(device).then(keys::Keys::default),
        }
    }

    /// Returns the streams, by lane.
    pub fn lanes(&mut self) -> &mut [Streams] {
        &mut self.lanes
    }

    /// Goes on after that many passes, where the streams of every lane stood.
    #[cfg_attr(not(any(feature = "cuda", test)), expect(unused_variables, reason = "drawn masks need no count"))]
    pub fn resume(&mut self, passes: u64, positions: impl IntoIterator<Item = BTreeMap<String, Position>>) {
        self.lanes.iter_mut().zip(positions).for_each(|(lane, positions)| lane.resume(positions));
        #[cfg(any(feature = "cuda", test))]
        self.keys.iter_mut().for_each(|keys| keys.resume(passes));
    }

    /// Returns where the streams of a lane stand.
    pub fn positions(&self, lane: usize) -> BTreeMap<String, Position> {
        self.lanes.get(lane).map(Streams::positions).unwrap_or_default()
    }

    /// Starts a pass.
    pub fn pass(&mut self, sides: Sides) -> Pass<'_> {
        let pass = Pass::new(sides, &mut self.lanes);
        #[cfg(any(feature = "cuda", test))]
        let pass = pass.hashing(self.keys.as_mut());
        pass
    }

    /// Keeps some lanes, in ascending order.
    pub fn keep(&mut self, lanes: &[usize]) {
        let mut lane = 0..;
        self.lanes.retain(|_| lane.next().is_some_and(|lane| lanes.binary_search(&lane).is_ok()));
        #[cfg(any(feature = "cuda", test))]
        self.keys.iter_mut().for_each(keys::Keys::forget);
    }
}

#[cfg(any(feature = "cuda", test))]
pub(super) mod keys {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::Streams;
    use crate::models::ops::LaneMasks;
    use crate::tensor::cuda;

    /// The keys of all lanes by purpose, named when they are first used.
    #[derive(Default)]
    pub struct Keys {
        /// Passes so far.
        passes: u64,
        /// The keys of a purpose, and how often this pass has used them.
        named: BTreeMap<&'static str, (Arc<cuda::Keys>, u64)>,
    }

    impl Keys {
        /// Counts a pass.
        pub fn next_pass(&mut self) {
            self.passes += 1;
            self.named.values_mut().for_each(|(_, uses)| *uses = 0);
        }

        /// Goes on after that many passes.
        pub fn resume(&mut self, passes: u64) {
            self.passes = passes;
        }

        /// Returns the masks of this pass.
        pub fn masks(&mut self, lanes: &[Streams], p: f64, purpose: &'static str, copies: usize) -> LaneMasks {
            let of_lane = |lane: &Streams| std::iter::repeat_n(lane.key(purpose), copies);
            let name = || Arc::new(cuda::Keys::new(lanes.iter().flat_map(of_lane).collect()));
            let (keys, uses) = self.named.entry(purpose).or_insert_with(|| (name(), 0));
            *uses += 1;
            // A purpose that a pass uses again gets other masks, as a stream would give.
            LaneMasks::Hashed(cuda::Masks::new(keys.clone(), self.passes << 16 | *uses, p))
        }

        /// Forgets the keys: there are other lanes now. Passes count on.
        pub fn forget(&mut self) {
            self.named.clear();
        }
    }
}
