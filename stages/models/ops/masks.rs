//! Masks of inverted dropout: an entry is zero with probability p, survivors are scaled by 1/(1−p).
//!
//! A mask is a bit per entry, drawn on the CPU. A uniform number is compared with p digit by digit, most significant
//! first, for 64 entries at once; drawing stops once all 64 are decided. p = 0.5 therefore costs one random bit per entry,
//! any other p about eight, and p is met to 53 binary digits. On a GPU a mask is hashed where it is used.

use std::array;
use std::sync::Arc;

use candle_core::{Result, bail};
use pulp::Arch;
use rayon::prelude::*;

use crate::math::random::Stream;
use crate::math::real::Real;
#[cfg(any(feature = "cuda", test))]
use crate::tensor::cuda;

/// Words of a mask that one task applies.
pub(super) const WORDS: usize = 1 << 10;

/// One mask per lane.
pub type Masks = Arc<LaneMasks>;

/// The masks of all lanes.
pub enum LaneMasks {
    /// Drawn on the CPU.
    Drawn(Vec<Mask>),
    /// Hashed on a GPU; the CPU sees none.
    #[cfg(any(feature = "cuda", test))]
    Hashed(cuda::Masks),
}

impl LaneMasks {
    /// Returns what survivors are multiplied by.
    pub(super) fn scale(&self) -> f64 {
        match self {
            Self::Drawn(masks) => masks.first().map_or(1.0, Mask::scale),
            #[cfg(any(feature = "cuda", test))]
            Self::Hashed(masks) => masks.scale(),
        }
    }

    /// Returns the masks of `lanes` lanes.
    pub(super) fn drawn(&self, lanes: usize) -> Result<&[Mask]> {
        match self {
            Self::Drawn(masks) if masks.len() == lanes => Ok(masks),
            Self::Drawn(masks) => bail!("{} masks for {lanes} lanes", masks.len()),
            #[cfg(any(feature = "cuda", test))]
            Self::Hashed(_) => bail!("masks on a GPU are hashed there"),
        }
    }

    /// Returns the mask of a lane that was drawn.
    pub(super) fn lane(&self, lane: usize) -> Option<&Mask> {
        match self {
            Self::Drawn(masks) => masks.get(lane),
            #[cfg(any(feature = "cuda", test))]
            Self::Hashed(_) => None,
        }
    }

    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn on_gpu(&self) -> Result<&cuda::Masks> {
        match self {
            Self::Hashed(masks) => Ok(masks),
            Self::Drawn(_) => bail!("masks on a GPU are hashed there"),
        }
    }
}

/// Which entries survive.
#[derive(Clone)]
pub struct Mask {
    /// One bit per entry, set for survivors.
    kept: Vec<u64>,
    scale: f64,
}

impl Mask {
    /// Draws a mask for `entries` entries that drops each with probability `p`, 0 ≤ p < 1.
    pub fn draw(stream: &mut Stream, entries: usize, p: f64) -> Self {
        // Binary digits of p after the point, most significant first; exact, since p has at most 53.
        let digits = (p.clamp(0.0, 1.0) * (1u64 << 53) as f64) as u64;
        let kept = (0..entries.div_ceil(64)).map(|_| !below(stream, digits)).collect();
        Self { kept, scale: 1.0 / (1.0 - p) }
    }

    /// Returns what survivors are multiplied by.
    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    /// Scales the values that survive and sets the others to 0, of the values from entry `first` on, a multiple of 64.
    pub(crate) fn apply_from<T: Real>(&self, first: usize, values: &mut [T]) {
        let scale = T::narrow(self.scale);
        let words = &self.kept[(first / 64).min(self.kept.len())..];
        apply_words(words, values, scale);
    }

    /// Returns what an entry is multiplied by.
    pub(crate) fn factor<T: Real>(&self, entry: usize) -> T {
        if self.kept[entry / 64] >> (entry % 64) & 1 == 0 { T::default() } else { T::narrow(self.scale) }
    }

    /// Scales the values that survive and sets the others to 0.
    pub(crate) fn apply<T: Real>(&self, values: &mut [T]) {
        let scale = T::narrow(self.scale);
        let work = |(values, words): (&mut [T], &[u64])| apply_words(words, values, scale);
        if self.kept.len() <= WORDS {
            work((values, &self.kept));
        } else {
            values.par_chunks_mut(64 * WORDS).zip(self.kept.par_chunks(WORDS)).for_each(work);
        }
    }
}

fn apply_words<T: Real>(words: &[u64], values: &mut [T], scale: T) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let (whole, rest) = values.as_chunks_mut::<64>();
            whole.iter_mut().zip(words).for_each(|(values, word)| scale_kept(values, *word, scale));
            if let (Some(word), false) = (words.get(whole.len()), rest.is_empty()) {
                let mut last = [T::default(); 64];
                last[..rest.len()].copy_from_slice(rest);
                scale_kept(&mut last, *word, scale);
                rest.copy_from_slice(&last[..rest.len()]);
            }
        },
    );
}

/// Multiplies 64 values with `scale` where their bit is set, and with 0 elsewhere.
#[inline(always)]
fn scale_kept<T: Real>(values: &mut [T; 64], word: u64, scale: T) {
    let (sixteens, _) = values.as_chunks_mut::<16>();
    for (at, sixteen) in sixteens.iter_mut().enumerate() {
        let bits = word >> (16 * at);
        // Written so that a register is masked at once.
        let factors: [T; 16] = array::from_fn(|i| if bits & 1 << i == 0 { T::default() } else { scale });
        *sixteen = array::from_fn(|i| sixteen[i] * factors[i]);
    }
}

/// Returns 64 bits, each set with probability `digits` / 2^53.
fn below(stream: &mut Stream, digits: u64) -> u64 {
    let (mut set, mut undecided) = (0, u64::MAX);
    let mut rest = digits << 11;
    // Once the remaining digits of p are zero, an undecided number is not below p.
    while rest != 0 && undecided != 0 {
        let random = u64::from(stream.bits()) | u64::from(stream.bits()) << 32;
        if rest >> 63 == 1 {
            set |= undecided & !random;
            undecided &= random;
        } else {
            undecided &= !random;
        }
        rest <<= 1;
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_dropped_entries_is_p() {
        for p in [0.0, 0.1, 0.25, 0.5, 0.7, 0.99] {
            let n = 200_000;
            let mask = Mask::draw(&mut Stream::new(3, &["test"]), n, p);
            let mut out = vec![1.0; n];
            mask.apply(&mut out);
            let dropped = out.iter().filter(|x| **x == 0.0).count() as f64 / n as f64;
            // Five standard deviations of a binomial share of 200 000 draws.
            assert!((dropped - p).abs() <= 5.0 * (p * (1.0 - p) / n as f64).sqrt(), "p = {p}: {dropped}");
            assert!(out.iter().all(|x| *x == 0.0 || (*x - 1.0 / (1.0 - p)).abs() < 1e-12));
        }
    }

    #[test]
    fn entries_of_a_word_are_independent() {
        // If neighbours shared a draw, the share of equal neighbours would be 1 and not p² + (1−p)².
        let (n, p) = (100_000, 0.3);
        let mut out = vec![1.0; n];
        Mask::draw(&mut Stream::new(4, &["test"]), n, p).apply(&mut out);
        let equal = out.windows(2).filter(|w| w[0] == w[1]).count() as f64 / n as f64;
        assert!((equal - 0.58).abs() < 0.01, "{equal}");
    }

    #[test]
    fn a_part_of_a_mask_is_applied_like_the_whole() {
        let mask = Mask::draw(&mut Stream::new(6, &["test"]), 300, 0.4);
        let (mut whole, mut parts) = (vec![1.0; 300], vec![1.0; 300]);
        mask.apply(&mut whole);
        parts.chunks_mut(128).enumerate().for_each(|(i, part)| mask.apply_from(i * 128, part));
        assert_eq!(whole, parts);
        assert!(whole.iter().enumerate().all(|(at, x)| *x == mask.factor::<f64>(at)));
    }
}
