//! The two float types that models are computed in: single precision for training, double for checking gradients.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub};

/// A float type that products are computed in.
pub trait Real:
    faer::traits::ComplexField
    + Copy
    + Default
    + PartialOrd
    + AddAssign
    + MulAssign
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Weights up to this size count as 0; in double precision only 0 does.
    const TINY: Self;

    /// Picks the copy of some values that is of this type.
    fn pick<'v>(single: &'v [f32], double: &'v [f64]) -> &'v [Self];
    /// Rounds from double precision.
    fn narrow(x: f64) -> Self;
    /// Returns the value in double precision.
    fn widen(self) -> f64;
    /// Returns the square root.
    fn root(self) -> Self;
    /// Returns the hyperbolic tangent, to two units in the last place; NaN stays NaN. In single precision it has no branch and
    /// no call, so that a loop over it fills registers.
    fn tanh(self) -> Self;
    /// Returns e^x, to two units in the last place; NaN stays NaN. In single precision it has no branch and no call, and x is cut to
    /// ±87, where e^x is the smallest and the largest that matters.
    fn exp(self) -> Self;
    /// Returns ln(1 + u) for 0 ≤ u ≤ 1, to two units in the last place; NaN stays NaN.
    fn ln_1p(self) -> Self;

    /// Returns 1 / (1 + e^−x).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let one = Self::narrow(1.0);
        one / (one + (Self::default() - self).exp())
    }

    /// Returns ln(1 + e^x).
    #[inline(always)]
    fn softplus(self) -> Self {
        let minus = Self::default() - self;
        let (above, below) = if self > Self::default() { (self, minus) } else { (Self::default(), self) };
        above + below.exp().ln_1p()
    }
}

/// ln 2 = LN_2 + LN_2_REST; a multiple of the first part by a small whole number is exact.
const LN_2: f32 = 0.693_145_75;
const LN_2_REST: f32 = 1.428_606_8e-6;
/// 1.5 · 2^23: a small number that is added to it becomes a whole number, which stands in its last bits.
const WHOLE: f32 = 12_582_912.0;

impl Real for f32 {
    const TINY: Self = 1e-17;

    fn pick<'v>(single: &'v [f32], _: &'v [f64]) -> &'v [Self] {
        single
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what single precision means")]
    fn narrow(x: f64) -> Self {
        x as f32
    }
    fn widen(self) -> f64 {
        self.into()
    }
    fn root(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        // tanh x = u / (u + 2) with u = e^{2x} − 1 = 2^n (e^r − 1) + 2^n − 1 and r = 2x − n ln 2, at most ½ ln 2. Beyond ±10 it is ±1.
        let x = 2.0 * self.clamp(-10.0, 10.0);
        let shifted = x * std::f32::consts::LOG2_E + WHOLE;
        let n = shifted - WHOLE;
        let r = (x - n * LN_2) - n * LN_2_REST;
        let series =
            ((((r * (1.0 / 5040.0) + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0) * r + 1.0 / 6.0) * r + 0.5;
        let power = Self::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
        let u = power * ((series * r + 1.0) * r) + (power - 1.0);
        u / (u + 2.0)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        // e^x = 2^n e^r with r = x − n ln 2, at most ½ ln 2.
        let x = self.clamp(-87.0, 87.0);
        let shifted = x * std::f32::consts::LOG2_E + WHOLE;
        let n = shifted - WHOLE;
        let r = (x - n * LN_2) - n * LN_2_REST;
        let series =
            ((((r * (1.0 / 5040.0) + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0) * r + 1.0 / 6.0) * r + 0.5;
        let power = Self::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
        power * ((series * r + 1.0) * r) + power
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        // ln(1 + u) = 2 artanh(w) with w = u / (2 + u), at most ⅓.
        let w = self / (2.0 + self);
        let square = w * w;
        let odd = (((square * (1.0 / 15.0) + 1.0 / 13.0) * square + 1.0 / 11.0) * square + 1.0 / 9.0) * square;
        let series = (((odd + 1.0 / 7.0) * square + 1.0 / 5.0) * square + 1.0 / 3.0) * square;
        2.0 * (w + w * series)
    }
}

impl Real for f64 {
    const TINY: Self = 0.0;

    fn pick<'v>(_: &'v [f32], double: &'v [f64]) -> &'v [Self] {
        double
    }
    fn narrow(x: f64) -> Self {
        x
    }
    fn widen(self) -> f64 {
        self
    }
    fn root(self) -> Self {
        self.sqrt()
    }
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    fn ln_1p(self) -> Self {
        f64::ln_1p(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hyperbolic_tangent_is_right_to_two_units_and_never_beyond_one() {
        for i in -200_000..=200_000 {
            let x = i as f32 * 6e-5;
            let (ours, exact) = (Real::tanh(x), f64::tanh(f64::from(x)));
            assert!((f64::from(ours) - exact).abs() <= 2.5e-7 * exact.abs(), "{x}: {ours}, {exact}");
            assert!(ours.abs() <= 1.0, "{x}: {ours}");
        }
        assert!(Real::tanh(f32::NAN).is_nan() && Real::tanh(f32::INFINITY) == 1.0 && Real::tanh(-1e30f32) == -1.0);
        assert_eq!((Real::tanh(0f32), Real::tanh(1e-30f32)), (0.0, 1e-30));
    }

    #[test]
    fn exponentials_and_logarithms_are_right_to_two_units() {
        for i in -200_000..=200_000 {
            let x = i as f32 * 4.3e-4;
            let (ours, exact) = (Real::exp(x), f64::exp(f64::from(x)));
            assert!((f64::from(ours) - exact).abs() <= 2.5e-7 * exact, "e^{x}: {ours}, {exact}");
            let u = (i + 200_000) as f32 * 2.5e-6;
            let (ours, exact) = (Real::ln_1p(u), f64::ln_1p(f64::from(u)));
            assert!((f64::from(ours) - exact).abs() <= 2.5e-7 * exact, "ln(1 + {u}): {ours}, {exact}");
        }
        assert!(Real::exp(f32::NAN).is_nan() && Real::ln_1p(f32::NAN).is_nan());
        assert!(Real::exp(-1e30f32) < 1.7e-38 && Real::exp(-1e30f32) >= 0.0 && Real::exp(0f32) == 1.0);
    }

    #[test]
    fn losses_of_large_logits_are_finite() {
        fn check<T: Real>(tolerance: f64) {
            for x in [-200.0, -30.0, -2.0, -1e-3, 0.0, 1e-3, 0.7, 20.0, 80.0] {
                let found = [T::narrow(x).sigmoid(), T::narrow(x).softplus()].map(T::widen);
                // ln(1 + e^x) = x + ln(1 + e^−x).
                let exact = [1.0 / (1.0 + f64::exp(-x)), x.max(0.0) + f64::exp(-x.abs()).ln_1p()];
                for (found, exact) in found.into_iter().zip(exact) {
                    assert!((found - exact).abs() <= tolerance * exact.max(1e-30), "{x}: {found}, {exact}");
                }
            }
            assert!(T::narrow(f64::NAN).sigmoid().widen().is_nan() && T::narrow(f64::NAN).softplus().widen().is_nan());
        }
        check::<f32>(1e-6);
        check::<f64>(1e-14);
    }
}
