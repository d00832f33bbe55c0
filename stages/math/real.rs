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
}

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
}
