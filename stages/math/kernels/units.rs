//! Hidden units: ReLU and ELU forward and backward, compiled for the widest registers there are. A branch per unit would be
//! mispredicted half of the time.

use pulp::Arch;

use super::simd::Vector;

/// units ← max(units + bias, 0), for rows as long as the bias. NaN stays NaN, so that it is noticed.
pub fn rectify_rows<T: Vector>(units: &mut [T], bias: &[T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in units.chunks_exact_mut(bias.len().max(1)) {
                for (x, b) in row.iter_mut().zip(bias) {
                    let y = *x + *b;
                    *x = if y < T::default() { T::default() } else { y };
                }
            }
        },
    );
}

/// units ← max(units, 0); NaN stays NaN.
pub fn rectify<T: Vector>(units: &mut [T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for x in units {
                *x = if *x < T::default() { T::default() } else { *x };
            }
        },
    );
}

/// out ← scale · back where units are positive, 0 elsewhere.
pub fn pass_back<T: Vector>(units: &[T], back: &[T], scale: T, out: &mut [T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for ((out, unit), back) in out.iter_mut().zip(units).zip(back) {
                let through = *back * scale;
                *out = if *unit > T::default() { through } else { T::default() };
            }
        },
    );
}

/// units ← scale · back where units are positive, 0 elsewhere.
pub fn pass_back_in_place<T: Vector>(units: &mut [T], back: &[T], scale: T) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (unit, back) in units.iter_mut().zip(back) {
                let through = *back * scale;
                *unit = if *unit > T::default() { through } else { T::default() };
            }
        },
    );
}

/// back ← scale · back where units are positive, 0 elsewhere.
pub fn stop_at_zero<T: Vector>(units: &[T], scale: T, back: &mut [T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (back, unit) in back.iter_mut().zip(units) {
                let through = *back * scale;
                *back = if *unit > T::default() { through } else { T::default() };
            }
        },
    );
}

/// units ← ELU(units + bias), for rows as long as the bias: x where x > 0, e^x − 1 elsewhere. NaN stays NaN.
pub fn elu_rows<T: Vector>(units: &mut [T], bias: &[T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in units.chunks_exact_mut(bias.len().max(1)) {
                for (x, b) in row.iter_mut().zip(bias) {
                    let y = *x + *b;
                    let below = y.exp() - T::narrow(1.0);
                    *x = if y > T::default() { y } else { below };
                }
            }
        },
    );
}

/// back ← back · (1 where units + bias > 0, e^(units + bias) elsewhere).
pub fn elu_back<T: Vector>(units: &[T], bias: &[T], back: &mut [T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let width = bias.len().max(1);
            for (row, back) in units.chunks_exact(width).zip(back.chunks_exact_mut(width)) {
                for ((x, b), back) in row.iter().zip(bias).zip(back) {
                    let y = *x + *b;
                    let slope = if y > T::default() { T::narrow(1.0) } else { y.exp() };
                    *back *= slope;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_units_pass_anything() {
        let (x, back) = ([-1.0, 0.0, 2.0, f64::NAN], [5.0, 6.0, 7.0, 8.0]);
        let mut out = x;
        rectify(&mut out);
        assert!(out[..3] == [0.0, 0.0, 2.0] && out[3].is_nan());
        pass_back(&x, &back, 2.0, &mut out);
        assert_eq!(out, [0.0, 0.0, 14.0, 0.0]);
        let mut units = x;
        pass_back_in_place(&mut units, &back, 2.0);
        assert_eq!(units, out);
        let mut through = back;
        stop_at_zero(&x, 2.0, &mut through);
        assert_eq!(through, out);
        let mut rows = [-1.0, 3.0, 0.5, -4.0];
        rectify_rows(&mut rows, &[0.75, -1.0]);
        assert_eq!(rows, [0.0, 2.0, 1.25, 0.0]);
    }

    #[test]
    fn elu_is_smooth_at_zero_and_bounded_below() {
        let (x, bias) = ([-60.0, -0.5, 0.0, 1.5, f64::NAN, 0.25], [0.0, 0.0, 0.0, 0.0, 0.0, -0.75]);
        let (mut out, mut back) = (x, [2.0; 6]);
        elu_rows(&mut out, &bias);
        elu_back(&x, &bias, &mut back);
        let below = (-0.5f64).exp();
        assert!((out[0] + 1.0).abs() < 1e-15 && back[0] < 1e-20 && out[4].is_nan());
        assert_eq!(
            (out[1..4].to_vec(), back[1..4].to_vec()),
            (vec![below - 1.0, 0.0, 1.5], vec![2.0 * below, 2.0, 2.0])
        );
        assert_eq!((out[5], back[5]), (below - 1.0, 2.0 * below));
    }
}
