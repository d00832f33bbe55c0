//! A resume point of one split, as bytes: what the split would give if it stopped now, and what it needs to go on.
//!
//! ```text
//! format, version of the program, split, seconds, result, whether it goes on, and then: epoch, losses, weights, moments, streams
//! ```
//!
//! Numbers are little-endian and stand as they are in memory, because a run that goes on must not differ in the last bit.
//! A list has its length in front. Reading takes all bytes or none: [`decode`] returns nothing for anything that
//! [`encode`] has not written.

use std::collections::BTreeMap;

use crate::kinds::{Epoch, TrainedSplit, Weight};
use crate::math::random::Position;

/// Raised when the bytes change. Points of other formats and of other versions of the program do not count.
const FORMAT: &str = concat!("ppgnn train point 1, ", env!("CARGO_PKG_VERSION"));

/// Tensors of one split by name.
pub(super) type Tensors = BTreeMap<String, Weight>;

/// What was left of one split.
#[derive(Debug, PartialEq)]
pub(super) struct Point {
    pub split: usize,
    /// Time that training had taken by then.
    pub seconds: f64,
    /// The epoch that is kept, and all epochs until now.
    pub result: TrainedSplit,
    /// None if the split has stopped.
    pub going: Option<Going>,
}

/// What a split needs to go on.
#[derive(Debug, PartialEq)]
pub(super) struct Going {
    /// The pass that comes next.
    pub epoch: usize,
    /// Loss of the last training pass, whose evaluation is still to come.
    pub train_loss: f64,
    pub last_finite: Option<f64>,
    /// All tensors of the model, those that it changes itself among them.
    pub weights: Tensors,
    /// Steps and both moments of the weights that had a gradient.
    pub moments: BTreeMap<String, (i32, [Vec<f32>; 2])>,
    pub streams: BTreeMap<String, Position>,
}

impl Going {
    /// Splits can go on together that are at one epoch and have taken as many steps.
    pub fn together(&self) -> (usize, Vec<i32>) {
        (self.epoch, self.moments.values().map(|(steps, _)| *steps).collect())
    }
}

/// Writes a point.
pub(super) fn encode(split: usize, seconds: f64, result: &TrainedSplit, going: Option<&Going>) -> Vec<u8> {
    let mut out = Out::default();
    out.text(FORMAT);
    out.count(split);
    out.double(seconds);
    out.result(result);
    out.option(going, |out, going| {
        out.count(going.epoch);
        out.double(going.train_loss);
        out.option(going.last_finite.as_ref(), |out, loss| out.double(*loss));
        out.tensors(&going.weights);
        out.map(&going.moments, |out, (steps, [first, second])| {
            out.0.extend(steps.to_le_bytes());
            out.singles(first);
            out.singles(second);
        });
        out.map(&going.streams, |out, position| {
            out.0.extend(position.words.to_le_bytes());
            out.option(position.spare_normal.as_ref(), |out, spare| out.double(*spare));
        });
    });
    out.0
}

/// Reads a point.
pub(super) fn decode(bytes: &[u8]) -> Option<Point> {
    let mut from = In(bytes);
    if from.text()? != FORMAT {
        return None;
    }
    let point =
        Point { split: from.count()?, seconds: from.double()?, result: from.result()?, going: from.option(In::going)? };
    from.0.is_empty().then_some(point)
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn count(&mut self, count: usize) {
        self.0.extend((count as u64).to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    fn singles(&mut self, values: &[f32]) {
        self.count(values.len());
        self.0.extend(bytemuck::cast_slice::<f32, u8>(values));
    }

    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn map<T>(&mut self, map: &BTreeMap<String, T>, write: impl Fn(&mut Self, &T)) {
        self.count(map.len());
        for (name, value) in map {
            self.text(name);
            write(self, value);
        }
    }

    fn tensors(&mut self, tensors: &Tensors) {
        self.map(tensors, |out, (shape, values)| {
            out.count(shape.len());
            shape.iter().for_each(|size| out.count(*size));
            out.singles(values);
        });
    }

    fn result(&mut self, result: &TrainedSplit) {
        // A split that leaves a point has kept an epoch.
        self.count(result.best_epoch.unwrap_or_default());
        self.singles(&result.logits);
        self.tensors(&result.weights);
        self.tensors(&result.hidden);
        self.count(result.history.len());
        for Epoch { train_loss, val_loss, val_accuracy, further } in &result.history {
            [train_loss, val_loss, val_accuracy].into_iter().for_each(|value| self.double(*value));
            self.count(further.len());
            further.iter().for_each(|value| self.double(*value));
        }
    }
}

/// What is still to be read.
struct In<'b>(&'b [u8]);

impl<'b> In<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.bytes()?)).ok()
    }

    fn double(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.bytes()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.count()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn singles(&mut self) -> Option<Vec<f32>> {
        let bytes = self.count()?.checked_mul(size_of::<f32>())?;
        Some(bytemuck::pod_collect_to_vec(self.take(bytes)?))
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.bytes()? {
            [0] => Some(None),
            [1] => read(self).map(Some),
            _ => None,
        }
    }

    /// Reads a list. Nothing is allocated because a length says so.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.count()?).map(|_| read(self)).collect()
    }

    fn map<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<BTreeMap<String, T>> {
        Some(self.list(|from| Some((from.text()?, read(from)?)))?.into_iter().collect())
    }

    fn tensors(&mut self) -> Option<Tensors> {
        self.map(|from| {
            let (shape, values) = (from.list(Self::count)?, from.singles()?);
            let size = shape.iter().try_fold(1usize, |size, of| size.checked_mul(*of));
            (size == Some(values.len())).then_some((shape, values))
        })
    }

    fn result(&mut self) -> Option<TrainedSplit> {
        let (best_epoch, logits) = (self.count()?, self.singles()?);
        let (weights, hidden) = (self.tensors()?, self.tensors()?);
        let history = self.list(|from| {
            let (train_loss, val_loss, val_accuracy) = (from.double()?, from.double()?, from.double()?);
            Some(Epoch { train_loss, val_loss, val_accuracy, further: from.list(Self::double)? })
        })?;
        Some(TrainedSplit { best_epoch: Some(best_epoch), logits, weights, hidden, history })
    }

    fn going(&mut self) -> Option<Going> {
        Some(Going {
            epoch: self.count()?,
            train_loss: self.double()?,
            last_finite: self.option(Self::double)?,
            weights: self.tensors()?,
            moments: self.map(|from| Some((i32::from_le_bytes(from.bytes()?), [from.singles()?, from.singles()?])))?,
            streams: self.map(|from| {
                let words = u128::from_le_bytes(from.bytes()?);
                Some(Position { words, spare_normal: from.option(Self::double)? })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> Point {
        let tensors = |seed: f32| Tensors::from([("a".to_owned(), (vec![2, 1], vec![seed, -0.0]))]);
        let epoch = Epoch { train_loss: 1.0 / 3.0, val_loss: 2.5, val_accuracy: 0.5, further: vec![0.1, 1e-300] };
        let result = TrainedSplit {
            best_epoch: Some(1),
            logits: vec![1.0, f32::MIN_POSITIVE],
            weights: tensors(1.5),
            hidden: tensors(2.5),
            history: vec![epoch.clone(), epoch],
        };
        let streams = BTreeMap::from([
            ("dropout".to_owned(), Position { words: 1 << 65, spare_normal: None }),
            ("init".to_owned(), Position { words: 3, spare_normal: Some(0.7) }),
        ]);
        let going = Going {
            epoch: 3,
            train_loss: 0.25,
            last_finite: Some(0.75),
            weights: tensors(3.5),
            moments: BTreeMap::from([("a".to_owned(), (7, [vec![0.1, 0.2], vec![0.3, 0.4]]))]),
            streams,
        };
        Point { split: 4, seconds: 61.5, result, going: Some(going) }
    }

    fn bytes(point: &Point) -> Vec<u8> {
        encode(point.split, point.seconds, &point.result, point.going.as_ref())
    }

    #[test]
    fn a_point_is_read_as_written() {
        let going = point();
        assert_eq!(decode(&bytes(&going)), Some(point()));
        let done = Point { going: None, ..going };
        assert_eq!(decode(&bytes(&done)).unwrap(), done);
    }

    #[test]
    fn a_point_cut_short_or_grown_is_none_and_no_length_is_believed() {
        let whole = bytes(&point());
        assert!((0..whole.len()).all(|length| decode(&whole[..length]).is_none()));
        assert_eq!(decode(&[&whole[..], &[0]].concat()), None);
        // Whatever a length says, there is no panic and no huge allocation; other bytes may be other numbers.
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = 0xff;
            let _ = decode(&changed);
        }
    }

    #[test]
    fn points_of_other_formats_and_versions_are_none() {
        for (before, after) in [("point 1", "point 2"), (env!("CARGO_PKG_VERSION"), "9.9.9")] {
            let text = FORMAT.replace(before, after);
            let mut out = Out::default();
            out.text(&text);
            out.0.extend(&bytes(&point())[8 + FORMAT.len()..]);
            assert_ne!(text, FORMAT);
            assert_eq!(decode(&out.0), None);
        }
    }
}
