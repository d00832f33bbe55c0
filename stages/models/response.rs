//! The frequency response of a trained model: what it does to the part of its input along an eigenvector.
//!
//! A model whose output is h(Ã) Z has one: the eigenvector of λ is multiplied by h(λ). A model declares it beside its
//! formula, as [`Build::RESPONSE`](super::Build::RESPONSE).

use std::collections::BTreeMap;

use crate::kinds::Weight;

/// What training left of a split, and what it was given.
#[derive(Clone, Copy)]
pub struct Learned<'a> {
    /// Number of nodes of the graph.
    pub nodes: usize,
    /// Weights by name.
    pub weights: &'a BTreeMap<String, Weight>,
    /// Eigenvalues of the low side that the model was given, descending; empty if it needs none.
    pub low: &'a [f64],
    /// The same of the high side.
    pub high: &'a [f64],
}

impl Learned<'_> {
    /// Returns the values of a weight in double precision; none if there is no such weight.
    pub fn values(&self, name: &str) -> Vec<f64> {
        let values = self.weights.get(name).map_or(&[][..], |(_, values)| values);
        values.iter().copied().map(f64::from).collect()
    }
}

/// The frequency response of a model with parameters `P`: what was trained, and where the response is asked for.
pub type Respond<P> = fn(&P, &Learned, At) -> Level;

/// Where a response is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// The eigenvalue.
    pub lambda: f64,
    /// Which of the given pairs it belongs to, low side first; none of a point that is no eigenvalue.
    pub pair: Option<usize>,
}

/// A response, term by term; h(λ) is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// The term that all eigenvalues have, mixing weight included.
    pub global: Option<f64>,
    /// The term of the bin of the eigenvalue, mixing weight included.
    pub local: Option<Local>,
}

/// A term that belongs to a bin of eigenvalues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Local {
    /// The side of the spectrum: `low` or `high`.
    pub side: &'static str,
    /// The bin, counted from the largest eigenvalue of the side, or of both sides where bins are cut over both together.
    pub bin: usize,
    /// The term.
    pub value: f64,
}

impl Level {
    /// A response of one term for all eigenvalues.
    pub fn of(global: f64) -> Self {
        Self { global: Some(global), local: None }
    }

    /// Returns h(λ). What no term passes on is lost.
    pub fn total(&self) -> f64 {
        self.global.unwrap_or(0.0) + self.local.map_or(0.0, |local| local.value)
    }
}

/// Σ_j c_j x^j by Horner's scheme.
pub fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}
