//! Parameters of PP-GNN, and how they fit together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{DropoutRate, Problem};
use crate::models::blocks::{Init, Scheme};

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

/// What the spectral branch filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filters {
    /// The output of the network that both branches share, as in the paper's equations.
    #[default]
    Output,
    /// The features, before a network of its own, as in the first published code; needs the input `projection`.
    Features,
}

/// How eigenvalues are put into bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Binning {
    /// Every side has `bins` of equal numbers of eigenvalues, as in the paper.
    #[default]
    PerSide,
    /// Both sides together are cut into `bins` slices of equal length, and a short one if they do not divide, as in the first
    /// published code.
    Joint,
    /// As `joint`, but the slices are as long as if all nodes had an eigenvalue: most bins stay empty. So the current
    /// published code does.
    ByNodes,
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
    /// What the spectral branch filters.
    // This and what says so as well is not in the key at its default: results without it stay what they are.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "output"))]
    pub filters: Filters,
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
    /// How eigenvalues are put into bins.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("default" = "per-side"))]
    pub binning: Binning,
    /// Bins per side, of equal numbers of eigenvalues; of both sides together with another `binning`.
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
    /// The same for every bin, low side first. One more than there are bins may be listed, as published settings do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = null))]
    pub local_alphas: Option<Vec<f64>>,
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Params {
    fn default() -> Self {
        Self {
            variant: Terms::Full,
            filters: Filters::Output,
            linear: false,
            hidden: 64,
            dropout: 0.5,
            dprate: 0.5,
            order: 4,
            local_order: None,
            binning: Binning::PerSide,
            bins: 4,
            bins_low: None,
            bins_high: None,
            eta: 0.5,
            init: Scheme::Ppr,
            alpha: 0.1,
            local_alpha: None,
            local_alphas: None,
            weights: None,
            local_weights: None,
            masks: BranchMasks::Independent,
            reg: 0.0,
            reg_gap: true,
        }
    }
}

impl Params {
    pub(super) fn global_start(&self) -> Init<'_> {
        Init { scheme: self.init, alpha: self.alpha, weights: self.weights.as_deref() }
    }

    pub(super) fn local_start(&self) -> Init<'_> {
        let weights = self.local_weights.as_deref().or(self.weights.as_deref());
        Init { scheme: self.init, alpha: self.local_alpha.unwrap_or(self.alpha), weights }
    }

    pub(super) fn local_order(&self) -> usize {
        self.local_order.unwrap_or(self.order)
    }

    /// Returns whether there is a low side, a high side, and the global polynomial.
    pub(super) fn terms(&self) -> [bool; 3] {
        match self.variant {
            Terms::Full => [true, true, true],
            Terms::Low => [true, false, false],
            Terms::High => [false, true, false],
            Terms::GprLow => [true, false, true],
            Terms::GprHigh => [false, true, true],
        }
    }
}

impl Params {
    fn check_alphas(&self) -> Vec<Problem> {
        let Some(alphas) = &self.local_alphas else { return Vec::new() };
        if !matches!(self.init, Scheme::Ppr | Scheme::Nppr) {
            return vec![Problem::name("local-alphas", "`local-alphas` is read with init `ppr` and `nppr` only")];
        }
        if self.local_alpha.is_some_and(|alpha| alpha != self.alpha) {
            let help = "leave one of them out";
            return vec![Problem::name("local-alphas", "`local-alpha` is there as well").with_help(help)];
        }
        let of_each = alphas.iter().flat_map(|alpha| {
            let start = Init { scheme: self.init, alpha: *alpha, weights: None };
            start.check(self.local_order(), "local-alphas", "local-weights")
        });
        of_each.take(1).collect()
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
        problems.extend(self.check_alphas());
        if self.binning != Binning::PerSide {
            let of_side = [("bins-low", self.bins_low), ("bins-high", self.bins_high)];
            problems.extend(of_side.into_iter().filter(|(_, bins)| bins.is_some()).map(|(name, _)| {
                Problem::name(name, format!("`{name}` is read with `binning: per-side` only")).with_help("use `bins`")
            }));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn complete(self) -> Self {
        let of_side = (self.binning == Binning::PerSide).then_some(self.bins);
        Self {
            local_order: Some(self.local_order()),
            bins_low: self.bins_low.or(of_side),
            bins_high: self.bins_high.or(of_side),
            local_alpha: self.local_alpha.or(Some(self.alpha)),
            local_weights: self.local_weights.or_else(|| self.weights.clone()),
            ..self
        }
    }
}
