//! Tails of the distributions that tests need: Student's t, F, χ² and the studentized range.
//!
//! With the regularised incomplete beta function I and the upper incomplete gamma function Q,
//!
//! - P(|T| ≥ t) = I(ν/(ν + t²); ν/2, 1/2) with ν degrees of freedom,
//! - P(F ≥ f) = I(d₂/(d₂ + d₁f); d₂/2, d₁/2),
//! - P(χ² ≥ x) = Q(ν/2, x/2).
//!
//! The range of k standard normal numbers is at most q with probability k ∫ φ(z) (Φ(z) − Φ(z − q))ᵏ⁻¹ dz. The integrand and
//! all its derivatives vanish at both ends, so sums of equal steps are as exact as f64 allows.
//!
//! I, Q and Φ come from `statrs`, which adds one crate to what is here anyway; ours would be a continued fraction, a series and
//! the logarithm of the gamma function, each with its own limits to test.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use std::f64::consts::{PI, SQRT_2};

use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma::checked_gamma_ur;

/// Returns P(|T| ≥ |t|), or nothing without degrees of freedom: T² has the distribution F of 1 and ν degrees.
pub(super) fn student_two_sided(t: f64, freedom: usize) -> Option<f64> {
    f_upper(t * t, 1, freedom)
}

/// Returns P(F ≥ f).
pub(super) fn f_upper(f: f64, numerator: usize, denominator: usize) -> Option<f64> {
    let (over, under) = (numerator as f64 * f, denominator as f64);
    let (a, b) = (numerator as f64 / 2.0, denominator as f64 / 2.0);
    // Of x and 1 − x the smaller one, which has all its digits.
    if over < under {
        checked_beta_reg(a, b, over / (under + over)).ok().map(|below| 1.0 - below)
    } else if over.is_finite() {
        checked_beta_reg(b, a, under / (under + over)).ok()
    } else {
        over.is_infinite().then_some(0.0)
    }
}

/// Returns P(χ² ≥ x).
pub(super) fn chi_square_upper(x: f64, freedom: usize) -> Option<f64> {
    if x <= 0.0 {
        return Some(1.0);
    }
    checked_gamma_ur(freedom as f64 / 2.0, x / 2.0).ok()
}

/// Returns the quantile of the range of `groups` standard normal numbers: what it exceeds with probability `alpha`.
pub(super) fn studentized_range_quantile(alpha: f64, groups: usize) -> f64 {
    let (mut low, mut high) = (0.0, 2.0);
    while range_within(high, groups) < 1.0 - alpha && high < 1e3 {
        high *= 2.0;
    }
    // Bisection: sixty halvings leave no bit.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if range_within(middle, groups) < 1.0 - alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns the probability that the range of `groups` standard normal numbers is at most q.
fn range_within(q: f64, groups: usize) -> f64 {
    const STEP: f64 = 1.0 / 16.0;
    // Beyond nine deviations there is nothing that f64 could add.
    let steps = ((18.0 + q) / STEP).ceil();
    let below = |z: f64| erfc(-z / SQRT_2) / 2.0;
    let mut sum = 0.0;
    let mut at = 0.0;
    while at <= steps {
        let z = at * STEP - 9.0;
        let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
        sum += density * (below(z) - below(z - q)).max(0.0).powf(groups as f64 - 1.0);
        at += 1.0;
    }
    groups as f64 * sum * STEP
}
