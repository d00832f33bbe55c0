//! Inverted dropout: an entry is zero with probability p, survivors are scaled by 1/(1−p). Also after ReLU, in one step.
//! Dropout is where training and evaluation part; a lane draws its masks from streams of its own.
//!
//! A mask is a bit an entry, drawn on the host. A uniform number is compared with p digit by digit, most significant
//! first, for 64 entries at once; drawing stops once all 64 are decided. p = 0.5 therefore costs one random bit an entry,
//! any other p about eight, and p is met to 53 binary digits. On a card a mask is hashed where it is used.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, bail};
use rayon::prelude::*;

use super::wide::{Eval, Wide};
use crate::math::kernels::units;
use crate::math::random::Stream;
use crate::math::real::Real;
#[cfg(feature = "cuda")]
use crate::tensor::cuda;
use crate::tensor::slices::{self, Element, by_float};

/// Words of a mask that one task applies.
const WORDS: usize = 1 << 10;

/// One mask a lane.
pub type Masks = Arc<LaneMasks>;

/// The masks of all lanes.
pub enum LaneMasks {
    /// Drawn on the host.
    Drawn(Vec<Mask>),
    /// Hashed on a card; the host sees none.
    #[cfg(feature = "cuda")]
    Hashed(cuda::Masks),
}

impl LaneMasks {
    /// Returns what survivors are multiplied by.
    fn scale(&self) -> f64 {
        match self {
            Self::Drawn(masks) => masks.first().map_or(1.0, Mask::scale),
            #[cfg(feature = "cuda")]
            Self::Hashed(masks) => masks.scale(),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn on_card(&self) -> Result<&cuda::Masks> {
        match self {
            Self::Hashed(masks) => Ok(masks),
            Self::Drawn(_) => bail!("masks on a card are hashed there"),
        }
    }
}

impl std::ops::Deref for LaneMasks {
    type Target = [Mask];

    fn deref(&self) -> &[Mask] {
        match self {
            Self::Drawn(masks) => masks,
            #[cfg(feature = "cuda")]
            Self::Hashed(_) => &[],
        }
    }
}

impl FromIterator<Mask> for LaneMasks {
    fn from_iter<I: IntoIterator<Item = Mask>>(masks: I) -> Self {
        Self::Drawn(masks.into_iter().collect())
    }
}

/// Which entries survive.
#[derive(Clone)]
pub struct Mask {
    /// One bit an entry, set for survivors.
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
    let (whole, rest) = values.as_chunks_mut::<64>();
    whole.iter_mut().zip(words).for_each(|(values, word)| scale_kept(values, *word, scale));
    if let (Some(word), false) = (words.get(whole.len()), rest.is_empty()) {
        let mut last = [T::default(); 64];
        last[..rest.len()].copy_from_slice(rest);
        scale_kept(&mut last, *word, scale);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Multiplies 64 values with `scale` where their bit is set, and with 0 elsewhere.
fn scale_kept<T: Real>(values: &mut [T; 64], word: u64, scale: T) {
    let (eights, _) = values.as_chunks_mut::<8>();
    // A byte at a time: eight values against eight constant bits is what vector units can do.
    for (eight, byte) in eights.iter_mut().zip(word.to_le_bytes()) {
        for (i, value) in eight.iter_mut().enumerate() {
            *value *= if byte & 1 << i == 0 { T::default() } else { scale };
        }
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

/// Applies a mask to every lane of the training side; gradients pass through the same masks.
pub(crate) fn drop(x: &Wide, masks: Masks, eval: Eval) -> Result<Wide> {
    let main = x.main().contiguous()?.apply_op1_no_bwd(&Dropout { masks: masks.clone() })?;
    let input = x.main().clone();
    Ok(x.next(main, eval, move |grad| {
        let gradient = grad.apply_op1_no_bwd(&Dropout { masks })?;
        Ok(vec![(input, gradient)])
    }))
}

/// Returns ReLU(x), with masks on top of the training side if there are any; the gradient at 0 is 0.
pub(crate) fn rectify(x: &Wide, masks: Option<Masks>, eval: Eval) -> Result<Wide> {
    let main = x.main().contiguous()?.apply_op1_no_bwd(&Rectify { masks: masks.clone() })?;
    let eval = match eval {
        Eval::Own(eval) => Eval::Own(eval.contiguous()?.apply_op1_no_bwd(&Rectify { masks: None })?),
        other => other,
    };
    let (input, output) = (x.main().clone(), main.clone());
    Ok(x.next(main, eval, move |grad| {
        // A unit that is zero, rectified or dropped, passes nothing.
        let scale = masks.as_ref().map_or(1.0, |masks| masks.scale());
        let gradient = output.apply_op2_no_bwd(grad, &Rectified { scale })?;
        Ok(vec![(input, gradient)])
    }))
}

/// Entries of a lane that one task handles; a multiple of 64.
const PIECE: usize = 64 * WORDS;

/// Runs `work` on every piece of every lane of `out`, given the lane and the first entry of the piece in it.
fn each_piece<T: Send>(out: &mut [T], lanes: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
    let size = out.len().checked_div(lanes).unwrap_or(0).max(1);
    out.par_chunks_mut(size).enumerate().for_each(|(lane, values)| {
        values.par_chunks_mut(PIECE).enumerate().for_each(|(i, piece)| work(lane, i * PIECE, piece));
    });
}

struct Dropout {
    masks: Masks,
}

impl CustomOp1 for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: Element>(masks: &[Mask], x: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
            let mut out = slices::slice::<T>(x, layout)?.to_vec();
            each_piece(&mut out, masks.len(), |lane, first, values| masks[lane].apply_from(first, values));
            Ok(T::to_cpu_storage_owned(out))
        }
        one_mask_a_lane(&self.masks, layout)?;
        let out = by_float!(x.dtype(), "dropout", T => run::<T>(&self.masks, x, layout))?;
        Ok((out, layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        Ok((cuda::dropout((x, layout), self.masks.on_card()?)?, layout.shape().clone()))
    }
}

struct Rectify {
    masks: Option<Masks>,
}

impl CustomOp1 for Rectify {
    fn name(&self) -> &'static str {
        "rectify"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        if let Some(masks) = &self.masks {
            one_mask_a_lane(masks, layout)?;
        }
        let lanes = layout.dims().first().copied().unwrap_or(1);
        let out = by_float!(x.dtype(), "ReLU", T => {
            let x: &[T] = slices::slice(x, layout)?;
            let mut out = vec![T::default(); x.len()];
            let size = x.len().checked_div(lanes).unwrap_or(0);
            each_piece(&mut out, lanes, |lane, first, out| {
                let x = &x[lane * size + first..][..out.len()];
                units::rectify(x, out);
                if let Some(masks) = &self.masks {
                    masks[lane].apply_from(first, out);
                }
            });
            Ok(T::to_cpu_storage_owned(out))
        })?;
        Ok((out, layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let masks = self.masks.as_ref().map(|masks| masks.on_card()).transpose()?;
        Ok((cuda::rectify((x, layout), masks)?, layout.shape().clone()))
    }
}

/// Lets a gradient through, scaled, where the output of ReLU and dropout is positive.
struct Rectified {
    scale: f64,
}

impl CustomOp2 for Rectified {
    fn name(&self) -> &'static str {
        "rectified"
    }

    fn cpu_fwd(&self, out: &CpuStorage, ol: &Layout, grad: &CpuStorage, gl: &Layout) -> Result<(CpuStorage, Shape)> {
        if ol.dims() != gl.dims() {
            bail!("a gradient of {:?} for {:?}", gl.dims(), ol.dims());
        }
        let gradient = by_float!(out.dtype(), "ReLU", T => {
            let (out, grad): (&[T], &[T]) = (slices::slice(out, ol)?, slices::slice(grad, gl)?);
            let (mut gradient, scale) = (vec![T::default(); out.len()], T::narrow(self.scale));
            each_piece(&mut gradient, 1, |_, first, gradient| {
                units::pass_back(&out[first..], &grad[first..], scale, gradient);
            });
            Ok(T::to_cpu_storage_owned(gradient))
        })?;
        Ok((gradient, gl.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        out: &CudaStorage,
        ol: &Layout,
        grad: &CudaStorage,
        gl: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        Ok((cuda::rectify_backward((out, ol), (grad, gl), self.scale)?, gl.shape().clone()))
    }
}

fn one_mask_a_lane(masks: &[Mask], layout: &Layout) -> Result<()> {
    match layout.dims().first() {
        Some(lanes) if *lanes == masks.len() => Ok(()),
        _ => bail!("{} masks for a tensor of {:?}", masks.len(), layout.dims()),
    }
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
    }
}
