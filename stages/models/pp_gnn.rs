//! PP-GNN (Lingam et al., "A Piece-wise Polynomial Filtering Approach for Graph Neural Networks"), as in its equations.
//!
//! ```text
//! Z₀     = MLP(X)                                      nodes × classes; or drop_p(X) W + b with `linear`
//! Z_gpr  = Σ_{j=0}^{K} γ_j Ã^j drop_dprate(Z₀)
//! h(λ_i) = Σ_{j=0}^{K'} Γ_{bin(i), j} λ_i^j             for every kept eigenvalue, low and high
//! logits = η · U(h ⊙ UᵀZ₀) + (1 − η) · Z_gpr            U: nodes × kept pairs
//! ```
//!
//! The paper writes the low and the high term apart, each weighted η; both share Z₀, so their sum is the one product
//! above. Variants of the paper: `low` and `high` keep one side and no global term (weight 1), `gpr-low` and `gpr-high`
//! keep one side beside it (η and 1 − η). γ and Γ are never decayed.
//!
//! What the published code does differently. Its first version filters SVD-rotated features *before* a second network
//! of its own; its current one forms the nodes × nodes matrix U diag(h) Uᵀ, and cuts bins by the number of nodes, so
//! nearly all eigenvalues share one polynomial. Both cut low and high together. `dprate`, and two passes through the
//! network with masks of their own (`masks: independent`), are in the code and not in the paper; the boundary
//! regulariser (`reg`) is in the paper and not in the code.

use std::ops::Range;

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{Boundary, Init, Partition, Perceptron, Scheme};
use super::ops::{AsTensor, Basis, Eigenvectors, Response, Sided};
use super::response::{Local, polynomial};
use super::{At, Build, GraphView, Input, Learned, Level, Model, Output, Param, Pass, Respond, SpectrumView, Weights};
use crate::contract::StageError;
use crate::contract::params::{DropoutRate, Problem};

/// Which terms the model has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Terms {
    /// Both sides and the global polynomial.
    #[default]
    Full,
    /// The low side alone.
    Low,
    /// The high side alone.
    High,
    /// The low side and the global polynomial.
    GprLow,
    /// The high side and the global polynomial.
    GprHigh,
}

/// Whether the branches share dropout masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BranchMasks {
    /// Each branch passes through the network with masks of its own.
    #[default]
    Independent,
    /// One pass serves both branches.
    Shared,
}

/// Parameters of `pp-gnn`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Which terms the model has.
    pub variant: Terms,
    /// Whether a single layer takes the place of the two-layer network, as in PP-GNN (Linear).
    pub linear: bool,
    /// Hidden units; unused with `linear`.
    #[schemars(range(min = 1, max = 65536))]
    pub hidden: usize,
    /// Share of features and hidden units dropped in training.
    #[schemars(with = "DropoutRate")]
    pub dropout: f64,
    /// Share of the network's output dropped before propagation; the spectral branch does without.
    #[schemars(with = "DropoutRate")]
    pub dprate: f64,
    /// Degree of the global polynomial.
    #[schemars(range(min = 0, max = 1000))]
    pub order: usize,
    /// Degree of the polynomial of a bin; as `order` if left out.
    #[schemars(range(min = 0, max = 1000))]
    pub local_order: Option<usize>,
    /// Bins a side, of equal numbers of eigenvalues.
    #[schemars(range(min = 1, max = 100_000))]
    pub bins: usize,
    /// Bins of the low side; as `bins` if left out.
    #[schemars(range(min = 1, max = 100_000))]
    pub bins_low: Option<usize>,
    /// Bins of the high side; as `bins` if left out.
    #[schemars(range(min = 1, max = 100_000))]
    pub bins_high: Option<usize>,
    /// Weight of the spectral branch; the global polynomial has the rest.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub eta: f64,
    /// How all coefficients start.
    pub init: Scheme,
    /// Parameter of the init: restart probability of `ppr`, base of `nppr`, power of `sgc`.
    pub alpha: f64,
    /// The same for the polynomials of the bins; as `alpha` if left out.
    pub local_alpha: Option<f64>,
    /// Starting coefficients of init `ws`, from degree 0 to `order`.
    pub weights: Option<Vec<f64>>,
    /// The same for the polynomials of the bins; as `weights` if left out.
    pub local_weights: Option<Vec<f64>>,
    /// Whether the branches share dropout masks.
    pub masks: BranchMasks,
    /// Strength of the boundary regulariser.
    #[schemars(range(min = 0.0))]
    pub reg: f64,
    /// Whether the regulariser also counts the pair of bins across the gap between the sides.
    pub reg_gap: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            variant: Terms::Full,
            linear: false,
            hidden: 64,
            dropout: 0.5,
            dprate: 0.5,
            order: 4,
            local_order: None,
            bins: 4,
            bins_low: None,
            bins_high: None,
            eta: 0.5,
            init: Scheme::Ppr,
            alpha: 0.1,
            local_alpha: None,
            weights: None,
            local_weights: None,
            masks: BranchMasks::Independent,
            reg: 0.0,
            reg_gap: true,
        }
    }
}

impl Params {
    fn global_start(&self) -> Init<'_> {
        Init { scheme: self.init, alpha: self.alpha, weights: self.weights.as_deref() }
    }

    fn local_start(&self) -> Init<'_> {
        let weights = self.local_weights.as_deref().or(self.weights.as_deref());
        Init { scheme: self.init, alpha: self.local_alpha.unwrap_or(self.alpha), weights }
    }

    fn local_order(&self) -> usize {
        self.local_order.unwrap_or(self.order)
    }

    /// Returns whether there is a low side, a high side, and the global polynomial.
    fn terms(&self) -> [bool; 3] {
        match self.variant {
            Terms::Full => [true, true, true],
            Terms::Low => [true, false, false],
            Terms::High => [false, true, false],
            Terms::GprLow => [true, false, true],
            Terms::GprHigh => [false, true, true],
        }
    }
}

impl crate::contract::params::Params for Params {
    fn check(&self) -> std::result::Result<(), Vec<Problem>> {
        let mut problems = self.global_start().check(self.order, "alpha", "weights");
        // What is inherited was checked above, unless the orders differ.
        if self.local_alpha.is_some() || self.local_weights.is_some() || self.local_order() != self.order {
            for problem in self.local_start().check(self.local_order(), "local-alpha", "local-weights") {
                if !problems.iter().any(|p| p.message == problem.message) {
                    problems.push(problem);
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn complete(self) -> Self {
        Self {
            local_order: Some(self.local_order()),
            bins_low: self.bins_low.or(Some(self.bins)),
            bins_high: self.bins_high.or(Some(self.bins)),
            local_alpha: self.local_alpha.or(Some(self.alpha)),
            local_weights: self.local_weights.or_else(|| self.weights.clone()),
            ..self
        }
    }
}

/// A perceptron filtered by one polynomial for all and one for every bin of eigenvalues.
pub struct PpGnn {
    net: Perceptron,
    spectral: Spectral,
    /// lanes × (order + 1); none in the variants without the global polynomial.
    gamma: Option<Param>,
    /// Weights of the spectral branch and of the global polynomial.
    mixture: (f64, f64),
    dprate: f64,
    masks: BranchMasks,
}

/// The spectral branch: U(h ⊙ UᵀZ).
struct Spectral {
    /// Uᵀ of the kept pairs, pairs × nodes.
    vectors: Eigenvectors,
    response: Response,
    /// Coefficients of the kept sides, lanes × bins × (local order + 1) each.
    gammas: Vec<Param>,
    boundary: Option<(Boundary, f64)>,
}

impl Build for PpGnn {
    const NAME: &'static str = "pp-gnn";
    const ABOUT: &'static str = "Perceptron filtered by a global polynomial and one for every bin of eigenvalues";
    const VERSION: u32 = 2;
    const NEEDS: &'static [&'static str] = &["spectrum"];
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> = Some(response);
    type Params = Params;

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let spectrum = graph.spectrum.as_ref().ok_or(StageError::MissingInput { slot: "spectrum" })?;
        let hidden = (!params.linear).then_some(params.hidden);
        let net = Perceptron::new(graph, hidden, params.dropout, weights)?;
        let (gamma, mixture) = match params.terms() {
            [_, _, false] => (None, (1.0, 0.0)),
            [_, _, true] => {
                let gamma = params.global_start().trained("gamma", &[params.order + 1], "init/gamma", weights)?;
                (Some(gamma), (params.eta, 1.0 - params.eta))
            }
        };
        let spectral = Spectral::build(params, spectrum, weights)?;
        Ok(Self { net, spectral, gamma, mixture, dprate: params.dprate, masks: params.masks })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, (!params.linear).then_some(params.hidden))
    }
}

impl Model for PpGnn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let (eta, rest) = self.mixture;
        let gamma = self.gamma.as_ref().filter(|_| rest != 0.0);
        let [z, z_spectral] = match self.masks {
            BranchMasks::Independent if eta != 0.0 && gamma.is_some() => self.net.forward_twice(x, pass)?,
            _ => {
                let z = self.net.forward(x, pass)?;
                [z.clone(), z]
            }
        };
        // The weights scale coefficients: a few numbers instead of a row per node.
        let spectral = |z: &Sided| z.filter(&self.spectral.vectors, &(self.spectral.response()? * eta)?);
        let logits = match gamma {
            None => spectral(&z)?,
            Some(gamma) => {
                let dropped = z.dropout(pass.dropout(self.dprate, "dropout/propagated"))?;
                let global = dropped.polynomial(&graph.operator, Basis::Powers, &(gamma.tensor() * rest)?)?;
                if eta == 0.0 { global } else { spectral(&z_spectral)?.plus(&global)? }
            }
        };
        let term = if pass.trains() { self.spectral.penalty()? } else { None };
        Ok(Output::from(logits).with_term(term).with_hidden("network", &z))
    }
}

impl Spectral {
    fn build(params: &Params, spectrum: &SpectrumView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let (order, [has_low, has_high, _]) = (params.local_order(), params.terms());
        let (low, pairs) = (spectrum.low, spectrum.values.len());
        let (mut partition, mut gammas) = (Partition::default(), vec![]);
        let mut keep = |side, of_side: usize, count: Option<usize>, name, purpose| {
            let count = count.unwrap_or(params.bins);
            partition = std::mem::take(&mut partition).with_side(of_side, count).ok_or_else(|| {
                StageError::unusable(
                    format!("`{count}` bins on the {side} side, but the spectrum has `{of_side}` eigenpairs there"),
                    "a bin needs at least one eigenpair: ask for fewer `bins`, or for more pairs in `evd`",
                )
            })?;
            gammas.push(params.local_start().trained(name, &[count, order + 1], purpose, weights)?);
            Ok::<_, StageError>(())
        };
        if has_low {
            keep("low", low, params.bins_low, "gamma-low", "init/gamma-low")?;
        }
        if has_high {
            keep("high", pairs - low, params.bins_high, "gamma-high", "init/gamma-high")?;
        }
        let kept = if has_low { 0 } else { low }..if has_high { pairs } else { low };
        let values = &spectrum.values[kept.clone()];
        let boundary = match params.reg {
            0.0 => None,
            strength => Boundary::new(values, &partition, order, params.reg_gap, weights)?.map(|b| (b, strength)),
        };
        let response = Response::new(values, order, partition.ranges);
        Ok(Self { vectors: spectrum.vectors.keep(kept), response, gammas, boundary })
    }

    /// Returns the coefficients of all bins, lanes × bins × (local order + 1).
    fn gamma(&self) -> Result<Tensor> {
        Tensor::cat(&self.gammas.iter().map(AsTensor::tensor).collect::<Vec<_>>(), 1)
    }

    /// Returns h(λ) at the kept eigenvalues, lanes × pairs.
    fn response(&self) -> Result<Tensor> {
        self.response.of(&self.gamma()?)
    }

    /// Returns the boundary regulariser of every lane, if there is one.
    fn penalty(&self) -> Result<Option<Tensor>> {
        let Some((boundary, strength)) = &self.boundary else { return Ok(None) };
        Ok(Some((boundary.penalty(&self.gamma()?)? * *strength)?))
    }
}

/// The global polynomial, and that of the bin of a kept eigenvalue. A point that is none belongs to the bin that an
/// eigenvalue there would be in: bins meet halfway between their facing ends, and end where their side ends.
fn response(params: &Params, learned: &Learned, at: At) -> Level {
    let [has_low, has_high, has_global] = params.terms();
    let (eta, rest) = if has_global { (params.eta, 1.0 - params.eta) } else { (1.0, 0.0) };
    let global = has_global.then(|| rest * polynomial(&learned.values("gamma"), at.lambda));
    let sides = [
        ("low", "gamma-low", learned.low, 0, has_low, params.bins_low),
        ("high", "gamma-high", learned.high, learned.low.len(), has_high, params.bins_high),
    ];
    let local = sides.into_iter().filter(|side| side.4).find_map(|(side, name, values, first, _, count)| {
        let ranges = Partition::default().with_side(values.len(), count.unwrap_or(params.bins))?.ranges;
        let bin = match at.pair {
            Some(pair) => {
                let of_side = pair.checked_sub(first)?;
                ranges.iter().position(|range| range.contains(&of_side))?
            }
            None => {
                (values.last()? <= &at.lambda && &at.lambda <= values.first()?).then_some(())?;
                let above = |range: &&Range<usize>| at.lambda < (values[range.start - 1] + values[range.start]) / 2.0;
                ranges[1..].iter().take_while(above).count()
            }
        };
        let terms = params.local_order() + 1;
        let value = eta * polynomial(learned.values(name).get(bin * terms..(bin + 1) * terms)?, at.lambda);
        Some(Local { side, bin, value })
    });
    Level { global, local }
}

#[cfg(test)]
mod tests;
