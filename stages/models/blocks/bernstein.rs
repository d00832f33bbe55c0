//! Bernstein polynomials of the Laplacian as Chebyshev polynomials of the operator.
//!
//! With S = Â₀ and L = I − S, the k-th Bernstein polynomial of order K is 2^{−K} C(K, k) (2I − L)^{K−k} L^k = b_k(S) with
//! b_k(x) = C(K, k) ((1+x)/2)^{K−k} ((1−x)/2)^k, a polynomial of degree K in x. Any such polynomial is Σ_j c_j T_j(x), so
//! a sum of all of them costs K products with S: the published code takes K + K(K+1)/2 and Horner's scheme 2K. Chebyshev
//! coefficients of a polynomial are never larger than twice its largest value on [−1, 1], so nothing is lost at any order;
//! plain powers would lose half the digits at K = 20.

/// Returns the Chebyshev coefficients of the Bernstein polynomials of order `order`: a row for every k, by degree.
pub fn to_chebyshev(order: usize) -> Vec<Vec<f64>> {
    // Exact for degree K: the values at K + 1 Chebyshev nodes determine the coefficients by a discrete cosine transform.
    let count = order + 1;
    let angle = |i: usize| std::f64::consts::PI * (i as f64 + 0.5) / count as f64;
    let coefficient = |k: usize, j: usize| {
        let sum: f64 = (0..count).map(|i| bernstein(order, angle(i).cos())[k] * (j as f64 * angle(i)).cos()).sum();
        sum * if j == 0 { 1.0 } else { 2.0 } / count as f64
    };
    (0..count).map(|k| (0..count).map(|j| coefficient(k, j)).collect()).collect()
}

/// Returns b_k(x) for every k, by the recurrence that adds nothing but positive numbers on [−1, 1].
pub fn bernstein(order: usize, x: f64) -> Vec<f64> {
    let (up, down) = ((1.0 + x) / 2.0, (1.0 - x) / 2.0);
    let mut values = vec![0.0; order + 1];
    values[0] = 1.0;
    for n in 1..=order {
        for i in (0..=n).rev() {
            let from = if i > 0 { values[i - 1] } else { 0.0 };
            values[i] = up * values[i] + down * from;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chebyshev(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().enumerate().map(|(j, c)| c * (j as f64 * x.acos()).cos()).sum()
    }

    #[test]
    fn both_forms_have_the_same_values_at_any_order() {
        for order in [0, 1, 2, 10, 40] {
            for (k, row) in to_chebyshev(order).iter().enumerate() {
                let binomial = (0..k).fold(1.0, |c, i| c * (order - i) as f64 / (i + 1) as f64);
                for x in [-1.0, -0.7, 0.0, 0.3, 1.0_f64] {
                    let power = |base: f64, n: usize| base.powi(i32::try_from(n).unwrap());
                    let direct = binomial * power((1.0 + x) / 2.0, order - k) * power((1.0 - x) / 2.0, k);
                    assert!((chebyshev(row, x) - direct).abs() < 1e-13, "order {order}, k {k}, x {x}");
                    assert!((bernstein(order, x)[k] - direct).abs() < 1e-13);
                }
            }
        }
    }

    #[test]
    fn they_sum_to_one_and_their_places_give_the_laplacian() {
        let order = 10;
        let rows = to_chebyshev(order);
        for x in [-0.9, 0.1, 0.8] {
            let sum: f64 = rows.iter().map(|row| chebyshev(row, x)).sum();
            let mean: f64 = rows.iter().enumerate().map(|(k, row)| k as f64 / order as f64 * chebyshev(row, x)).sum();
            assert!((sum - 1.0).abs() < 1e-13);
            assert!((mean - (1.0 - x) / 2.0).abs() < 1e-13, "L / 2");
        }
    }
}
