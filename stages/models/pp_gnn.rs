//! PP-GNN (Lingam et al., "A Piece-wise Polynomial Filtering Approach for Graph Neural Networks").
//!
//! As in its equations, `filters: output`:
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
//! As in the code that was published first, `filters: features`: the spectral branch filters the features, before a network of
//! its own, which has no dropout on its input; the other branch is a whole GPR-GNN, with the network of Z₀:
//!
//! ```text
//! Z_eig  = drop_p(ReLU(U(h ⊙ UᵀX) W₁' + b₁')) W₂' + b₂'  or U(h ⊙ UᵀX) W' + b' with `linear`
//! logits = η · Z_eig + (1 − η) · Z_gpr
//! ```
//!
//! UᵀX is fixed and comes from `project`, so U(h ⊙ UᵀX W₁') costs one product with U, of as many columns as there are hidden
//! units, for training and evaluation together. That code also rotates X to its singular vectors (`rotate` of `project`), cuts bins
//! over both ends together (`binning: joint`), and starts every bin from an α of its own (`local-alphas`).
//!
//! The code that is public now has the equations, but forms the nodes × nodes matrix U diag(h) Uᵀ, and cuts bins by the number of
//! nodes (`binning: by-nodes`), so nearly all eigenvalues share one polynomial. `dprate`, and two passes through the
//! network with masks of their own (`masks: independent`), are in the code and not in the paper; the boundary
//! regulariser (`reg`) is in the paper and not in the code.

mod params;
mod spectral;

use candle_core::{Result, bail};

use super::blocks::{Linear, Names, Perceptron};
use super::ops::{AsTensor, Basis, Sided};
use super::{Build, GraphSizes, GraphView, Input, Model, ModelWork, Output, Param, Pass, Respond, Weights};
use crate::contract::StageError;
use params::{BranchMasks, Filters, Params};
use spectral::{Spectral, fits, response};

const FIRST: Names = Names::new("spectral-lin1.weight", "spectral-lin1.bias", "init/spectral-lin1");
const SECOND: Names = Names::new("spectral-lin2.weight", "spectral-lin2.bias", "init/spectral-lin2");

/// A perceptron filtered by one polynomial for all and one for every bin of eigenvalues.
pub struct PpGnn {
    /// The network of Z₀; none where only filtered features are used.
    net: Option<Perceptron>,
    spectral: Spectral,
    /// The network on filtered features; none where its output is filtered.
    own: Option<OwnNetwork>,
    /// lanes × (order + 1); none in the variants without the global polynomial.
    gamma: Option<Param>,
    /// Weights of the spectral branch and of the global polynomial.
    mixture: (f64, f64),
    dprate: f64,
    masks: BranchMasks,
}

/// The network on filtered features.
struct OwnNetwork {
    first: Linear,
    second: Option<Linear>,
    dropout: f64,
}

impl Build for PpGnn {
    const NAME: &'static str = "pp-gnn";
    const ABOUT: &'static str = "Perceptron filtered by a global polynomial and one for every bin of eigenvalues";
    const REFERENCE: &'static str =
        "Lingam et al., \"A Piece-wise Polynomial Filtering Approach for Graph Neural Networks\", 2021";
    const EQUATION: &'static str =
        "η U(h ⊙ UᵀZ) + (1 − η) Σ_k γ_k Ã^k drop(Z),  h(λ_i) = Σ_j Γ_{bin(i),j} λ_i^j,  Z = MLP(X)";
    const VERSION: u32 = 2;
    const NEEDS: &'static [&'static str] = &["spectrum", "projection"];
    const HIDDEN: &'static [&'static str] = &["network"];
    const RESPONSE: Option<Respond<Params>> = Some(response);
    type Params = Params;

    fn needs(params: &Params) -> &'static [&'static str] {
        match params.filters {
            Filters::Output => &["spectrum"],
            Filters::Features => Self::NEEDS,
        }
    }

    fn build(params: &Params, graph: &GraphView, weights: &mut Weights) -> std::result::Result<Self, StageError> {
        let spectrum = graph.spectrum.as_ref().ok_or(StageError::MissingInput { slot: "spectrum" })?;
        let hidden = (!params.linear).then_some(params.hidden);
        let [_, _, has_global] = params.terms();
        let needs_net = has_global || params.filters == Filters::Output;
        let net = needs_net.then(|| Perceptron::new(graph, hidden, params.dropout, weights)).transpose()?;
        let (gamma, mixture) = if has_global {
            let gamma = params.global_start().trained("gamma", &[params.order + 1], "init/gamma", weights)?;
            (Some(gamma), (params.eta, 1.0 - params.eta))
        } else {
            (None, (1.0, 0.0))
        };
        let spectral = Spectral::build(params, graph.nodes, spectrum, weights)?;
        let own = match params.filters {
            Filters::Output => None,
            Filters::Features => Some(OwnNetwork::build(params, &spectral, graph.classes, weights)?),
        };
        Ok(Self { net, spectral, own, gamma, mixture, dprate: params.dprate, masks: params.masks })
    }

    fn widest(params: &Params, graph: &GraphView) -> usize {
        Perceptron::widest(graph, (!params.linear).then_some(params.hidden))
    }

    fn work(params: &Params, graph: &GraphSizes) -> ModelWork {
        let ([low, high, global], classes) = (params.terms(), graph.classes);
        // What has no weight is not computed.
        let (spectral, global) = (!global || params.eta > 0.0, global && params.eta < 1.0);
        let (of_output, hidden) = (params.filters == Filters::Output, (!params.linear).then_some(params.hidden));
        let twice = of_output && params.masks == BranchMasks::Independent && spectral && global && params.dropout > 0.0;
        let mut work = match of_output || global {
            true => Perceptron::work(graph, hidden, if twice { 2 } else { 1 }),
            false => ModelWork::on(graph),
        };
        if global {
            work = work.units(classes).hops(params.order, classes).trained(params.order + 1);
        }
        let sides = [(low, params.bins_low), (high, params.bins_high)];
        let columns = hidden.map_or(classes, Into::into);
        for ((_, bins), pairs) in sides.into_iter().zip(graph.pairs).filter(|((has, _), _)| *has && spectral) {
            work = work.trained(bins.unwrap_or(params.bins) * (params.local_order() + 1));
            work = if of_output { work.filter(pairs, classes) } else { work.synthesis(pairs, columns) };
        }
        match hidden {
            Some(hidden) if !of_output && spectral => {
                work.trained(graph.features * hidden).units(hidden).dense(hidden, classes)
            }
            None if !of_output && spectral => work.trained(graph.features * classes),
            _ => work,
        }
    }

    fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
        fits(params, graph)
    }
}

impl OwnNetwork {
    fn build(
        params: &Params,
        spectral: &Spectral,
        classes: usize,
        weights: &mut Weights,
    ) -> std::result::Result<Self, StageError> {
        let features = spectral.projection.as_ref().ok_or(StageError::MissingInput { slot: "projection" })?.columns();
        let first = Linear::new(FIRST, features, if params.linear { classes } else { params.hidden }, weights)?;
        let second = (!params.linear).then(|| Linear::new(SECOND, params.hidden, classes, weights)).transpose()?;
        Ok(Self { first, second, dropout: params.dropout })
    }

    /// Returns η · Z_eig.
    fn forward(&self, spectral: &Spectral, eta: f64, x: &Input, pass: &mut Pass) -> Result<Sided> {
        // The weight scales the last layer: a few numbers instead of a row per node.
        let (first, second) = (&self.first, self.second.as_ref());
        let h = if second.is_some() { spectral.response()? } else { (spectral.response()? * eta)? };
        let bias = first.bias.tensor();
        let units = spectral.filtered(x, &first.weight, &h)?;
        let Some(second) = second else { return units.plus_bias(&(bias * eta)?) };
        let units = units.bias_relu_dropout(&bias, pass.dropout(self.dropout, "dropout/spectral-hidden"))?;
        units.times(&(second.weight.tensor() * eta)?)?.plus_bias(&(second.bias.tensor() * eta)?)
    }
}

impl Model for PpGnn {
    fn forward(&self, graph: &GraphView, x: &Input, pass: &mut Pass) -> Result<Output> {
        let (eta, rest) = self.mixture;
        let gamma = self.gamma.as_ref().filter(|_| rest != 0.0);
        let both_read_it = self.own.is_none() && gamma.is_some() && eta != 0.0;
        // Z₀ for the global polynomial and for the spectral branch.
        let z = match &self.net {
            Some(net) if both_read_it && self.masks == BranchMasks::Independent => Some(net.forward_twice(x, pass)?),
            Some(net) if self.own.is_none() || gamma.is_some() => {
                let z = net.forward(x, pass)?;
                Some([z.clone(), z])
            }
            _ => None,
        };
        // Mixing weights scale coefficients: a few numbers instead of a row per node.
        let z_gpr = match (&z, gamma) {
            (Some([z, _]), Some(gamma)) => {
                let dropped = z.dropout(pass.dropout(self.dprate, "dropout/propagated"))?;
                Some(dropped.polynomial(&graph.operator, Basis::Powers, &(gamma.tensor() * rest)?)?)
            }
            _ => None,
        };
        let z_eig = match (&self.own, &z) {
            _ if eta == 0.0 => None,
            (Some(own), _) => Some(own.forward(&self.spectral, eta, x, pass)?),
            (None, Some([_, z])) => Some(z.filter(&self.spectral.vectors, &(self.spectral.response()? * eta)?)?),
            (None, None) => None,
        };
        let logits = match (z_eig, z_gpr) {
            (Some(z_eig), Some(z_gpr)) => z_eig.plus(&z_gpr)?,
            (Some(z), None) | (None, Some(z)) => z,
            (None, None) => bail!("a model without a branch"),
        };
        let term = if pass.trains() { self.spectral.penalty()? } else { None };
        // Where only filtered features are used, their network ends in the logits.
        let network = z.map_or_else(|| logits.clone(), |[z, _]| z);
        Ok(Output::from(logits).with_term(term).with_hidden("network", &network))
    }
}

#[cfg(test)]
mod tests;
