//! The two float types that models are computed in: single precision for training, double for checking gradients.

use std::ops::{AddAssign, Mul, MulAssign};

/// A float type that products are computed in.
pub trait Real:
    faer::traits::ComplexField + Copy + Default + PartialOrd + AddAssign + MulAssign + Mul<Output = Self>
{
    /// Picks the copy of some values that is of this type.
    fn pick<'v>(single: &'v [f32], double: &'v [f64]) -> &'v [Self];
    /// Rounds from double precision.
    fn narrow(x: f64) -> Self;
    /// Returns the value in double precision.
    fn widen(self) -> f64;
}

impl Real for f32 {
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
}

impl Real for f64 {
    fn pick<'v>(_: &'v [f32], double: &'v [f64]) -> &'v [Self] {
        double
    }
    fn narrow(x: f64) -> Self {
        x
    }
    fn widen(self) -> f64 {
        self
    }
}
