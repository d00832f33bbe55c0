//! A value published elsewhere, and how near ours comes to it.

use serde::{Deserialize, Serialize};

/// A value published elsewhere, shown next to ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reference {
    /// The mean, in the unit of [`Cell::mean`](super::Cell::mean); none if the source gives a word instead.
    pub mean: Option<f64>,
    /// The standard deviation, if it is given.
    pub std: Option<f64>,
    /// A mark or a word of the source, such as `*` or `OOM`.
    pub note: String,
}

/// What the note of a value has that was not measured for the publication, but taken from another one.
const BORROWED: char = '*';

/// How near a value comes to the published one, in published standard deviations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At most one.
    WithinOne,
    /// More than one and at most two.
    WithinTwo,
    /// More than two.
    Outside,
    /// Not comparable: a mean without a spread was published.
    NoPrintedSpread,
    /// Not comparable: no value was published, but a word.
    NoPrintedValue,
}

impl Verdict {
    /// What CSV files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WithinOne => "within-one",
            Self::WithinTwo => "within-two",
            Self::Outside => "outside",
            Self::NoPrintedSpread => "no-printed-spread",
            Self::NoPrintedValue => "no-printed-value",
        }
    }
}

impl Reference {
    /// Returns whether the publication took it from another one.
    pub fn is_borrowed(&self) -> bool {
        self.note.contains(BORROWED)
    }

    /// Returns how many published standard deviations a value is away, if there are any.
    pub fn deviations(&self, value: f64) -> Option<f64> {
        let (mean, std) = (self.mean?, self.std?);
        let apart = (value - mean).abs();
        // What is alike is alike, even where the published spread is 0.
        Some(if apart == 0.0 { 0.0 } else { apart / std })
    }

    /// Judges a value.
    pub fn verdict(&self, value: f64) -> Verdict {
        match self.deviations(value) {
            Some(apart) if apart <= 1.0 => Verdict::WithinOne,
            Some(apart) if apart <= 2.0 => Verdict::WithinTwo,
            Some(_) => Verdict::Outside,
            None if self.mean.is_some() => Verdict::NoPrintedSpread,
            None => Verdict::NoPrintedValue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_published_deviations() {
        let printed = |mean, std| Reference { mean, std, note: String::new() };
        let spread = printed(Some(0.5), Some(0.25));
        let verdicts = [0.5, 0.75, 0.25, 0.875, 0.0, 1.25].map(|value| spread.verdict(value));
        use Verdict::{NoPrintedSpread, NoPrintedValue, Outside, WithinOne, WithinTwo};
        assert_eq!(verdicts, [WithinOne, WithinOne, WithinOne, WithinTwo, WithinTwo, Outside]);
        assert_eq!(printed(Some(0.5), None).verdict(0.5), NoPrintedSpread);
        assert_eq!(printed(None, None).verdict(0.5), NoPrintedValue);
        let exact = printed(Some(0.5), Some(0.0));
        assert_eq!([exact.verdict(0.5), exact.verdict(0.51)], [WithinOne, Outside]);
    }
}
