//! Initial coefficients of a polynomial filter Σ_k γ_k λ^k, k = 0..=K.
//!
//! | scheme | γ_k |
//! |---|---|
//! | ppr | α(1−α)^k for k < K, and (1−α)^K for k = K; sums to 1 (0⁰ = 1, so α = 1 is δ₀ and α = 0 is δ_K) |
//! | nppr | α^k / Σ_j \|α^j\| |
//! | random | u_k / Σ_j \|u_j\| with u_k ~ U(±√(3/(K+1))) |
//! | sgc | 1 if k = α, else 0; α is a whole number up to K |
//! | ws | the listed numbers |
//!
//! The published code also lists a scheme `Null` that it then refuses; here it does not exist. Its `SGC` reads α as a
//! float and crashes; here any whole α works.

use candle_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::Problem;
use crate::math::random::Stream;
use crate::models::{Param, Weights};
use crate::optim::Rule;

/// How the coefficients of a polynomial filter start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Personalised PageRank with restart probability `alpha`.
    #[default]
    Ppr,
    /// Powers of `alpha`, scaled to absolute sum 1.
    Nppr,
    /// Random signs and sizes, scaled to absolute sum 1.
    Random,
    /// All weight on the power `alpha`.
    Sgc,
    /// The numbers listed under `weights`.
    Ws,
}

/// A scheme with what it needs.
#[derive(Clone, Debug)]
pub struct Init<'p> {
    /// The scheme.
    pub scheme: Scheme,
    /// Its parameter, where it has one.
    pub alpha: f64,
    /// The numbers of `ws`.
    pub weights: Option<&'p [f64]>,
}

impl Init<'_> {
    /// Checks that the scheme can give coefficients up to `order`; `alpha` and `weights` are the parameters' names.
    pub fn check(&self, order: usize, alpha: &str, weights: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let a = self.alpha;
        let wanted = match self.scheme {
            Scheme::Ppr if !(0.0..=1.0).contains(&a) => Some("at least 0 and at most 1 for init `ppr`".to_owned()),
            Scheme::Nppr if !(-1.0..=1.0).contains(&a) => Some("at least -1 and at most 1 for init `nppr`".to_owned()),
            Scheme::Sgc if hop(a, order).is_none() => {
                Some(format!("a whole number from 0 to the order `{order}` for init `sgc`"))
            }
            _ => None,
        };
        if let Some(wanted) = wanted {
            problems.push(Problem::value(alpha, format!("expected {wanted}, found `{a}`")));
        }
        match (self.scheme, self.weights) {
            (Scheme::Ws, None) => {
                problems.push(Problem::value("init", format!("init `ws` needs the list `{weights}`")));
            }
            (Scheme::Ws, Some(listed)) if listed.len() != order + 1 => problems.push(Problem::value(
                weights,
                format!("expected {} numbers for order `{order}`, found {}", order + 1, listed.len()),
            )),
            (Scheme::Ws, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                problems.push(Problem::name(weights, format!("`{weights}` is read with init `ws` only")));
            }
        }
        problems
    }

    /// Returns the coefficients up to `order`; only `random` draws from the stream.
    pub fn coefficients(&self, order: usize, stream: &mut Stream) -> Vec<f64> {
        let a = self.alpha;
        match self.scheme {
            Scheme::Ppr => {
                let power = |k| powi(1.0 - a, k);
                (0..=order).map(|k| if k < order { a * power(k) } else { power(k) }).collect()
            }
            Scheme::Nppr => scaled((0..=order).map(|k| powi(a, k)).collect()),
            Scheme::Random => {
                let r = (3.0 / (order as f64 + 1.0)).sqrt();
                scaled((0..=order).map(|_| stream.symmetric(r)).collect())
            }
            Scheme::Sgc => (0..=order).map(|k| f64::from(u8::from(hop(a, order) == Some(k)))).collect(),
            Scheme::Ws => {
                let listed = self.weights.unwrap_or(&[]);
                (0..=order).map(|k| listed.get(k).copied().unwrap_or(0.0)).collect()
            }
        }
    }

    /// Returns the coefficients up to `order` of a scheme that draws nothing.
    pub fn fixed(&self, order: usize) -> Vec<f64> {
        self.coefficients(order, &mut Stream::new(0, &["fixed"]))
    }

    /// Adds trained coefficients, the last dimension of `shape` being degrees from 0 on. They are never decayed.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn trained(
        &self,
        name: &'static str,
        shape: &[usize],
        purpose: &'static str,
        to: &mut Weights,
    ) -> Result<Param> {
        let (order, rows) = (shape[shape.len() - 1] - 1, shape[..shape.len() - 1].iter().product());
        let draw = |stream: &mut Stream| (0..rows).flat_map(|_| self.coefficients(order, stream)).collect();
        to.add(name, Rule::free(), shape, purpose, draw)
    }

    /// As [`Init::trained`], with a row of degrees up to `order` for every α.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn trained_from(
        &self,
        alphas: &[f64],
        order: usize,
        name: &'static str,
        purpose: &'static str,
        to: &mut Weights,
    ) -> Result<Param> {
        let row = |alpha: &f64, stream: &mut Stream| Self { alpha: *alpha, ..self.clone() }.coefficients(order, stream);
        let draw = |stream: &mut Stream| alphas.iter().flat_map(|alpha| row(alpha, stream)).collect();
        to.add(name, Rule::free(), &[alphas.len(), order + 1], purpose, draw)
    }
}

/// Reads α as a power, if it is one.
fn hop(alpha: f64, order: usize) -> Option<usize> {
    (0..=order).find(|k| *k as f64 == alpha)
}

fn powi(base: f64, k: usize) -> f64 {
    base.powi(i32::try_from(k).unwrap_or(i32::MAX))
}

fn scaled(values: Vec<f64>) -> Vec<f64> {
    let sum: f64 = values.iter().map(|v| v.abs()).sum();
    if sum > 0.0 { values.into_iter().map(|v| v / sum).collect() } else { values }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::models::ops::AsTensor;
    use crate::models::testing;

    fn start(scheme: Scheme, alpha: f64, order: usize) -> Vec<f64> {
        Init { scheme, alpha, weights: None }.coefficients(order, &mut Stream::new(1, &["test"]))
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn ppr_is_a_truncated_geometric_series() {
        // α = 0.1, K = 2: 0.1, 0.1·0.9, 0.9².
        assert!(close(&start(Scheme::Ppr, 0.1, 2), &[0.1, 0.09, 0.81]));
        assert!((start(Scheme::Ppr, 0.37, 10).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(close(&start(Scheme::Ppr, 1.0, 3), &[1.0, 0.0, 0.0, 0.0]));
        assert!(close(&start(Scheme::Ppr, 0.0, 3), &[0.0, 0.0, 0.0, 1.0]));
        assert!(close(&start(Scheme::Ppr, 0.3, 0), &[1.0]));
    }

    #[test]
    fn nppr_has_absolute_sum_one() {
        // Powers of −0.5 up to K = 2: 1, −0.5, 0.25, of absolute sum 1.75.
        assert!(close(&start(Scheme::Nppr, -0.5, 2), &[1.0 / 1.75, -0.5 / 1.75, 0.25 / 1.75]));
        assert!(close(&start(Scheme::Nppr, 0.0, 2), &[1.0, 0.0, 0.0]));
    }

    #[test]
    fn random_has_absolute_sum_one_and_both_signs() {
        let values = start(Scheme::Random, 0.0, 30);
        assert!((values.iter().map(|v| v.abs()).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(values.iter().any(|v| *v > 0.0) && values.iter().any(|v| *v < 0.0));
        let (init, mut lanes) = (Init { scheme: Scheme::Random, alpha: 0.0, weights: None }, testing::streams(2));
        let mut weights = Weights::new(&mut lanes, DType::F64, Device::Cpu);
        let gamma = init.trained("gamma", &[2, 4], "init/gamma", &mut weights).unwrap().tensor();
        let rows = gamma.to_vec3::<f64>().unwrap().concat();
        assert_eq!((rows.len(), weights.into_named()[0].rule), (4, Some(Rule::free())));
        for (i, row) in rows.iter().enumerate() {
            assert!(!rows[..i].contains(row), "every bin of every lane has a draw of its own");
        }
    }

    #[test]
    fn sgc_puts_all_weight_on_one_power() {
        assert!(close(&start(Scheme::Sgc, 2.0, 3), &[0.0, 0.0, 1.0, 0.0]));
        assert!(close(&start(Scheme::Sgc, 0.0, 1), &[1.0, 0.0]));
    }

    #[test]
    fn impossible_parameters_are_reported() {
        let check = |scheme, alpha, weights| Init { scheme, alpha, weights }.check(3, "alpha", "weights");
        assert!(check(Scheme::Ppr, 0.1, None).is_empty());
        assert_eq!(check(Scheme::Ppr, 1.5, None)[0].param, "alpha");
        assert_eq!(check(Scheme::Sgc, 0.5, None)[0].param, "alpha");
        assert_eq!(check(Scheme::Sgc, 4.0, None)[0].param, "alpha");
        assert!(check(Scheme::Nppr, -0.5, None).is_empty());
        assert_eq!(check(Scheme::Ws, 0.1, None)[0].param, "init");
        assert_eq!(check(Scheme::Ws, 0.1, Some(&[1.0, 2.0]))[0].param, "weights");
        assert!(check(Scheme::Ws, 0.1, Some(&[1.0, 2.0, 3.0, 4.0])).is_empty());
        assert_eq!(check(Scheme::Ppr, 0.1, Some(&[1.0]))[0].param, "weights");
    }

    #[test]
    fn null_is_no_scheme() {
        assert!(serde_json::from_str::<Scheme>("\"null\"").is_err());
    }
}
