//! Polynomials fitted by least squares.
//!
//! The basis is made orthogonal on the points themselves (Forsythe): p₀ = 1, p₁ = x − a₀, p_{k+1} = (x − a_k) p_k − b_k p_{k−1} with
//! a_k = ⟨x p_k, p_k⟩/⟨p_k, p_k⟩ and b_k = ⟨p_k, p_k⟩/⟨p_{k−1}, p_{k−1}⟩. There is no system to solve, and high orders lose no digits.

/// Returns the values at the points of the polynomial of an order that is nearest to some values there.
pub fn polynomial_fit(x: &[f64], y: &[f64], order: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut fit = vec![0.0; x.len()];
    let (mut before, mut basis) = (vec![0.0; x.len()], vec![1.0; x.len()]);
    let mut norm_before = 1.0;
    // As many points determine no more than as many coefficients.
    for k in 0..=order.min(x.len().saturating_sub(1)) {
        let norm = dot(&basis, &basis);
        if norm == 0.0 {
            break;
        }
        // What is left of y, so that errors of earlier steps are corrected.
        let left: Vec<f64> = y.iter().zip(&fit).map(|(y, fit)| y - fit).collect();
        let coefficient = dot(&left, &basis) / norm;
        fit.iter_mut().zip(&basis).for_each(|(fit, p)| *fit += coefficient * p);
        let a = x.iter().zip(&basis).map(|(x, p)| x * p * p).sum::<f64>() / norm;
        let b = if k == 0 { 0.0 } else { norm / norm_before };
        let next = x.iter().zip(&basis).zip(&before).map(|((x, p), q)| (x - a) * p - b * q).collect();
        (before, basis, norm_before) = (basis, next, norm);
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polynomial_is_fitted_exactly_by_its_own_order_and_not_by_a_lower_one() {
        let x: Vec<f64> = (0..50).map(|i| f64::from(i) / 25.0 - 1.0).collect();
        let y: Vec<f64> = x.iter().map(|x| 3.0 * x.powi(7) - x.powi(2) + 0.5).collect();
        let worst = |order| {
            let fit = polynomial_fit(&x, &y, order);
            fit.iter().zip(&y).map(|(f, y)| (f - y).abs()).fold(0.0, f64::max)
        };
        assert!(worst(7) < 1e-13 && worst(30) < 1e-12 && worst(6) > 1e-3, "{} {}", worst(7), worst(30));
    }

    #[test]
    fn a_line_through_points_is_that_of_the_textbook() {
        // Through (0, 1), (1, 2), (2, 2), (3, 5): slope 6/5, and 7/10 at 0.
        let fit = polynomial_fit(&[0.0, 1.0, 2.0, 3.0], &[1.0, 2.0, 2.0, 5.0], 1);
        let expected = [0.7, 1.9, 3.1, 4.3];
        assert!(fit.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-14), "{fit:?}");
    }

    #[test]
    fn few_points_are_met_and_none_have_no_fit() {
        assert_eq!(polynomial_fit(&[2.0], &[5.0], 9), [5.0]);
        assert!(polynomial_fit(&[], &[], 3).is_empty());
    }
}
