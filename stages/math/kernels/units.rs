//! Hidden units: ReLU forward and backward, compiled for the widest registers there are. A branch per unit would be
//! mispredicted half of the time.

use pulp::{Arch, Simd, WithSimd};

use super::simd::Vector;

/// units ← max(units + bias, 0), for rows as long as the bias. NaN stays NaN, so that it is noticed.
pub fn rectify_rows<T: Vector>(units: &mut [T], bias: &[T]) {
    Arch::new().dispatch(RectifyRows { units, bias });
}

/// out ← max(x, 0); NaN stays NaN.
pub fn rectify<T: Vector>(x: &[T], out: &mut [T]) {
    Arch::new().dispatch(Rectify { x, out });
}

/// out ← scale · back where units are positive, 0 elsewhere.
pub fn pass_back<T: Vector>(units: &[T], back: &[T], scale: T, out: &mut [T]) {
    Arch::new().dispatch(PassBack { units, back, scale, out });
}

/// units ← scale · back where units are positive, 0 elsewhere.
pub fn pass_back_in_place<T: Vector>(units: &mut [T], back: &[T], scale: T) {
    Arch::new().dispatch(PassBackInPlace { units, back, scale });
}

struct RectifyRows<'a, T> {
    units: &'a mut [T],
    bias: &'a [T],
}

impl<T: Vector> WithSimd for RectifyRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.units.chunks_exact_mut(self.bias.len().max(1)) {
            for (x, b) in row.iter_mut().zip(self.bias) {
                let y = *x + *b;
                *x = if y < T::default() { T::default() } else { y };
            }
        }
    }
}

struct Rectify<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Vector> WithSimd for Rectify<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (out, x) in self.out.iter_mut().zip(self.x) {
            *out = if *x < T::default() { T::default() } else { *x };
        }
    }
}

struct PassBack<'a, T> {
    units: &'a [T],
    back: &'a [T],
    scale: T,
    out: &'a mut [T],
}

impl<T: Vector> WithSimd for PassBack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for ((out, unit), back) in self.out.iter_mut().zip(self.units).zip(self.back) {
            let through = *back * self.scale;
            *out = if *unit > T::default() { through } else { T::default() };
        }
    }
}

struct PassBackInPlace<'a, T> {
    units: &'a mut [T],
    back: &'a [T],
    scale: T,
}

impl<T: Vector> WithSimd for PassBackInPlace<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (unit, back) in self.units.iter_mut().zip(self.back) {
            let through = *back * self.scale;
            *unit = if *unit > T::default() { through } else { T::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_units_pass_anything() {
        let (x, back) = ([-1.0, 0.0, 2.0, f64::NAN], [5.0, 6.0, 7.0, 8.0]);
        let mut out = [9.0; 4];
        rectify(&x, &mut out);
        assert!(out[..3] == [0.0, 0.0, 2.0] && out[3].is_nan());
        pass_back(&x, &back, 2.0, &mut out);
        assert_eq!(out, [0.0, 0.0, 14.0, 0.0]);
        let mut units = x;
        pass_back_in_place(&mut units, &back, 2.0);
        assert_eq!(units, out);
        let mut rows = [-1.0, 3.0, 0.5, -4.0];
        rectify_rows(&mut rows, &[0.75, -1.0]);
        assert_eq!(rows, [0.0, 2.0, 1.25, 0.0]);
    }
}
