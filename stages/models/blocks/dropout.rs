//! Inverted dropout: an entry is zero with probability p, survivors are scaled by 1/(1−p).
//!
//! A mask is a bit an entry, drawn on the host. A uniform number is compared with p digit by digit, most significant
//! first, for 64 entries at once; drawing stops once all 64 are decided. p = 0.5 therefore costs one random bit an entry,
//! any other p about eight, and p is met to 53 binary digits.

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, WithDType, bail};

use super::host;
use crate::math::propagate::Real;
use crate::math::random::Stream;

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

    fn apply<T: Real>(&self, x: &[T]) -> Vec<T> {
        let factors = [T::default(), T::narrow(self.scale)];
        let mut out = Vec::with_capacity(x.len());
        for (chunk, word) in x.chunks(64).zip(&self.kept) {
            out.extend(chunk.iter().enumerate().map(|(i, v)| *v * factors[usize::from(word >> i & 1 == 1)]));
        }
        out
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

struct Dropout {
    mask: Mask,
}

impl CustomOp1 for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let out = match x {
            CpuStorage::F32(_) => f32::to_cpu_storage_owned(self.mask.apply::<f32>(host::slice(x, layout)?)),
            CpuStorage::F64(_) => f64::to_cpu_storage_owned(self.mask.apply::<f64>(host::slice(x, layout)?)),
            _ => bail!("dropout is for {:?} and {:?} only", DType::F32, DType::F64),
        };
        Ok((out, layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _dropped: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(grad.contiguous()?.apply_op1_no_bwd(self)?))
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
            let out = mask.apply(&vec![1.0; n]);
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
        let out = Mask::draw(&mut Stream::new(4, &["test"]), n, p).apply(&vec![1.0; n]);
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
}
