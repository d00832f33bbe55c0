//! Inverted dropout: an entry is zero with probability p, survivors are scaled by 1/(1−p). Also after ReLU, in one step.
//!
//! A mask is a bit an entry, drawn on the host. A uniform number is compared with p digit by digit, most significant
//! first, for 64 entries at once; drawing stops once all 64 are decided. p = 0.5 therefore costs one random bit an entry,
//! any other p about eight, and p is met to 53 binary digits.

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::host::{self, Element};
use crate::math::random::Stream;
use crate::math::real::Real;

/// Words of a mask that one task applies.
const WORDS: usize = 1 << 10;

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

    /// Scales the values that survive and sets the others to 0.
    pub(super) fn apply<T: Real>(&self, values: &mut [T]) {
        let scale = T::narrow(self.scale);
        let work = |(values, words): (&mut [T], &[u64])| {
            let (whole, rest) = values.as_chunks_mut::<64>();
            whole.iter_mut().zip(words).for_each(|(values, word)| scale_kept(values, *word, scale));
            if let Some(word) = words.get(whole.len()) {
                let mut last = [T::default(); 64];
                last[..rest.len()].copy_from_slice(rest);
                scale_kept(&mut last, *word, scale);
                rest.copy_from_slice(&last[..rest.len()]);
            }
        };
        if self.kept.len() <= WORDS {
            work((values, &self.kept));
        } else {
            values.par_chunks_mut(64 * WORDS).zip(self.kept.par_chunks(WORDS)).for_each(work);
        }
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

/// Applies a mask; gradients pass through the same mask.
///
/// # Errors
/// When the tensor is not of a float type.
pub fn drop(x: &Tensor, mask: Mask) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Dropout { mask })
}

/// Returns ReLU(x), with a mask on top if there is one; the gradient at 0 is 0.
///
/// # Errors
/// When the tensor is not of a float type.
pub fn rectify(x: &Tensor, mask: Option<Mask>) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Rectify { mask })
}

struct Dropout {
    mask: Mask,
}

impl CustomOp1 for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: Element>(mask: &Mask, x: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
            let mut out = host::slice::<T>(x, layout)?.to_vec();
            mask.apply(&mut out);
            Ok(T::to_cpu_storage_owned(out))
        }
        let out = match x {
            CpuStorage::F32(_) => run::<f32>(&self.mask, x, layout)?,
            CpuStorage::F64(_) => run::<f64>(&self.mask, x, layout)?,
            _ => return host::float_only("dropout"),
        };
        Ok((out, layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _dropped: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(self)?))
    }
}

struct Rectify {
    mask: Option<Mask>,
}

impl Rectify {
    /// Keeps `through` where x is positive: x itself in the forward pass, the gradient in the backward pass.
    fn run<T: Element>(&self, x: &[T], through: &[T]) -> Vec<T> {
        let zero = T::default();
        let mut out: Vec<T> = x.iter().zip(through).map(|(x, t)| if *x > zero { *t } else { zero }).collect();
        if let Some(mask) = &self.mask {
            mask.apply(&mut out);
        }
        out
    }

    fn gradient<T: Element>(&self, x: &Tensor, grad: &Tensor) -> Result<Tensor> {
        let out = host::values::<T, _>(x, |x| host::values::<T, _>(grad, |grad| Ok(self.run(x, grad))))?;
        Tensor::from_vec(out, x.shape(), x.device())
    }
}

impl CustomOp1 for Rectify {
    fn name(&self) -> &'static str {
        "rectify"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        fn run<T: Element>(op: &Rectify, x: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
            let x: &[T] = host::slice(x, layout)?;
            Ok(T::to_cpu_storage_owned(op.run(x, x)))
        }
        let out = match x {
            CpuStorage::F32(_) => run::<f32>(self, x, layout)?,
            CpuStorage::F64(_) => run::<f64>(self, x, layout)?,
            _ => return host::float_only("ReLU"),
        };
        Ok((out, layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        match x.dtype() {
            DType::F32 => self.gradient::<f32>(x, grad).map(Some),
            DType::F64 => self.gradient::<f64>(x, grad).map(Some),
            _ => host::float_only("ReLU"),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

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
    fn gradients_pass_through_the_same_mask() {
        let x = Var::from_tensor(&Tensor::ones((70, 3), DType::F64, &Device::Cpu).unwrap()).unwrap();
        let mask = Mask::draw(&mut Stream::new(5, &["test"]), 210, 0.5);
        let out = drop(&x, mask).unwrap();
        let grads = out.sum_all().unwrap().backward().unwrap();
        // x is all ones, so the output is the mask itself, and so is the gradient of its sum.
        let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        assert_eq!(flat(grads.get(x.as_tensor()).unwrap()), flat(&out));
    }

    #[test]
    fn rectifying_with_a_mask_is_relu_then_dropout() {
        use crate::models::testing::{distance, normal};
        let x = Var::from_tensor(&normal(&[40, 7], 1)).unwrap();
        let weight = normal(&[40, 7], 2);
        let mask = Mask::draw(&mut Stream::new(5, &["test"]), 280, 0.3);
        for mask in [None, Some(mask)] {
            let ours = rectify(&x, mask.clone()).unwrap();
            let relu = x.relu().unwrap();
            let theirs = mask.map_or(relu.clone(), |mask| drop(&relu, mask).unwrap());
            assert_eq!(distance(&ours, &theirs), 0.0);
            let gradient = |t: &Tensor| {
                let grads = (t * &weight).unwrap().sum_all().unwrap().backward().unwrap();
                grads.get(x.as_tensor()).unwrap().clone()
            };
            assert!(distance(&gradient(&ours), &gradient(&theirs)) < 1e-15);
        }
    }
}
