//! The spectral branch of PP-GNN: U(h ⊙ ·) with a polynomial h for every bin of eigenvalues.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};

use super::params::{Binning, Filters, Params};
use crate::contract::{Size, StageError};
use crate::models::blocks::{Boundary, Partition};
use crate::models::ops::{AsTensor, Eigenvectors, Response, Sided};
use crate::models::response::{Local, polynomial};
use crate::models::{At, FeatureView, GraphSizes, Input, Learned, Level, Param, SpectrumView, Weights};

/// The kept eigenpairs with their bins and coefficients.
pub struct Spectral {
    /// Uᵀ of the kept pairs, pairs × nodes.
    pub vectors: Eigenvectors,
    /// UᵀX of the kept pairs, pairs × features, where features are filtered.
    pub projection: Option<Arc<FeatureView>>,
    response: Response,
    /// Coefficients, lanes × bins × (local order + 1) each: those of the sides, or one for all bins.
    pub gammas: Vec<Param>,
    boundary: Option<(Boundary, f64)>,
}

/// The kept pairs, and the bins that they are in.
struct Cut {
    kept: Range<usize>,
    /// Bins of the kept pairs, which are counted from 0.
    partition: Partition,
    /// Bins of every kept side; one number if sides are not told apart.
    counts: Vec<usize>,
}

impl Cut {
    /// Cuts `low` and `high` pairs of a graph, or says which side has fewer pairs than bins.
    fn new(params: &Params, nodes: usize, [low, high]: [usize; 2]) -> std::result::Result<Self, StageError> {
        let [has_low, has_high, _] = params.terms();
        let sides: Vec<(&str, usize, Option<usize>)> =
            [("low", low, params.bins_low, has_low), ("high", high, params.bins_high, has_high)]
                .into_iter()
                .filter_map(|(side, pairs, bins, has)| has.then_some((side, pairs, bins)))
                .collect();
        let kept = if has_low { 0 } else { low }..if has_high { low + high } else { low };
        let too_many = |count: usize, pairs: usize, place: &str| {
            StageError::unusable(
                format!("`{count}` bins {place}, but the spectrum has `{pairs}` eigenpairs there"),
                "a bin needs at least one eigenpair: ask for fewer `bins`, or for more pairs in `evd`",
            )
        };
        if params.binning == Binning::PerSide {
            let (mut partition, mut counts) = (Partition::default(), Vec::new());
            for (side, pairs, bins) in sides {
                let count = bins.unwrap_or(params.bins);
                let cut = partition.with_side(pairs, count);
                partition = cut.ok_or_else(|| too_many(count, pairs, &format!("on the {side} side")))?;
                counts.push(count);
            }
            return Ok(Self { kept, partition, counts });
        }
        let cut = match params.binning {
            // Bins that stay empty are what this binning is about.
            Binning::ByNodes => nodes,
            _ if params.bins > kept.len() => return Err(too_many(params.bins, kept.len(), "on the kept sides")),
            _ => kept.len(),
        };
        let pairs: Vec<usize> = sides.iter().map(|(_, pairs, _)| *pairs).collect();
        let partition = Partition::in_steps(&pairs, cut / params.bins);
        Ok(Self { kept, counts: vec![partition.ranges.len()], partition })
    }
}

/// Says whether there are more bins than pairs, or a list of α that is not theirs, as far as sizes tell.
pub fn fits(params: &Params, graph: &GraphSizes) -> std::result::Result<(), StageError> {
    let [has_low, has_high, _] = params.terms();
    // A side that is not used may have any size.
    let pairs = |has: bool, pairs: Size| if has { pairs.known() } else { Some(usize::MAX / 4) };
    match (pairs(has_low, graph.pairs[0]), pairs(has_high, graph.pairs[1])) {
        (Some(low), Some(high)) => {
            let nodes = graph.nodes.known();
            if params.binning == Binning::ByNodes && nodes.is_none() {
                return Ok(());
            }
            let cut = Cut::new(params, nodes.unwrap_or(usize::MAX), [low, high])?;
            starts(params, cut.partition.ranges.len()).map(drop)
        }
        _ => Ok(()),
    }
}

/// The number of pairs in every bin.
#[cfg(test)]
pub fn bin_sizes(params: &Params, nodes: usize, pairs: [usize; 2]) -> Vec<usize> {
    Cut::new(params, nodes, pairs).map_or(Vec::new(), |cut| cut.partition.ranges.iter().map(Range::len).collect())
}

impl Spectral {
    /// Names the coefficients of the kept sides.
    pub fn build(
        params: &Params,
        nodes: usize,
        spectrum: &SpectrumView,
        weights: &mut Weights,
    ) -> std::result::Result<Self, StageError> {
        let order = params.local_order();
        let sides = [spectrum.low, spectrum.values.len() - spectrum.low];
        let Cut { kept, partition, counts } = Cut::new(params, nodes, sides)?;
        let alphas = starts(params, partition.ranges.len())?;
        let mut alphas = alphas.as_slice();
        let mut gammas = Vec::new();
        for (count, (name, purpose)) in counts.into_iter().zip(names(params)) {
            let (own, others) = alphas.split_at(count);
            gammas.push(params.local_start().trained_from(own, order, name, purpose, weights)?);
            alphas = others;
        }
        let values = &spectrum.values[kept.clone()];
        let boundary = match params.reg {
            0.0 => None,
            strength => Boundary::new(values, &partition, order, params.reg_gap, weights)?.map(|b| (b, strength)),
        };
        let projection = match &spectrum.projection {
            Some(all) if params.filters == Filters::Features && kept.len() == all.rows() => Some(all.clone()),
            Some(all) if params.filters == Filters::Features => Some(Arc::new(all.part(kept.clone())?)),
            _ => None,
        };
        let response = Response::new(values, order, partition.ranges);
        Ok(Self { vectors: spectrum.vectors.keep(kept), projection, response, gammas, boundary })
    }

    /// Returns the coefficients of all bins, lanes × bins × (local order + 1).
    fn gamma(&self) -> Result<Tensor> {
        Tensor::cat(&self.gammas.iter().map(AsTensor::tensor).collect::<Vec<_>>(), 1)
    }

    /// Returns h(λ) at the kept eigenvalues, lanes × pairs.
    pub fn response(&self) -> Result<Tensor> {
        self.response.of(&self.gamma()?)
    }

    /// Returns U(h ⊙ UᵀX) W, nodes × out; `weight`: lanes × features × out.
    pub fn filtered(&self, x: &Input, weight: &Param, h: &Tensor) -> Result<Sided> {
        let Some(projection) = &self.projection else { bail!("there are no projected features") };
        x.reading(projection).times(weight)?.synthesize(&self.vectors, h)
    }

    /// Returns the boundary regulariser of every lane, if there is one.
    pub fn penalty(&self) -> Result<Option<Tensor>> {
        let Some((boundary, strength)) = &self.boundary else { return Ok(None) };
        Ok(Some((boundary.penalty(&self.gamma()?)? * *strength)?))
    }
}

/// The names of the coefficients and of their streams, in the order of the bins.
fn names(params: &Params) -> Vec<(&'static str, &'static str)> {
    let [has_low, has_high, _] = params.terms();
    let sides = [("gamma-low", "init/gamma-low", has_low), ("gamma-high", "init/gamma-high", has_high)];
    match params.binning {
        Binning::PerSide => sides.into_iter().filter(|side| side.2).map(|side| (side.0, side.1)).collect(),
        Binning::Joint | Binning::ByNodes => vec![("gamma-joint", "init/gamma-joint")],
    }
}

/// The α that every bin starts from.
fn starts(params: &Params, bins: usize) -> std::result::Result<Vec<f64>, StageError> {
    match &params.local_alphas {
        None => Ok(vec![params.local_alpha.unwrap_or(params.alpha); bins]),
        Some(listed) if (bins..=bins + 1).contains(&listed.len()) => Ok(listed[..bins].to_vec()),
        Some(listed) => Err(StageError::unusable(
            format!("`local-alphas` lists `{}` numbers for `{bins}` bins", listed.len()),
            "list one for every bin, low side first; one more is allowed",
        )),
    }
}

/// The global polynomial, and that of the bin of a kept eigenvalue. A point that is none belongs to the bin of the nearest
/// eigenvalue of a kept side that reaches so far: bins meet halfway between their facing ends. Where features are filtered, the
/// branches end in networks of their own and have no common response: h is that of the filter on features alone.
pub fn response(params: &Params, learned: &Learned, at: At) -> Level {
    let [has_low, has_high, has_global] = params.terms();
    let output = params.filters == Filters::Output;
    let (eta, rest) = if has_global && output { (params.eta, 1.0 - params.eta) } else { (1.0, 0.0) };
    let global = (has_global && output).then(|| rest * polynomial(&learned.values("gamma"), at.lambda));
    let low = learned.low.len();
    let sides = [("low", learned.low, 0, has_low), ("high", learned.high, low, has_high)];
    let local = sides.into_iter().filter(|side| side.3).find_map(|(side, values, first, _)| {
        let pair = match at.pair {
            Some(pair) => pair.checked_sub(first).filter(|of_side| *of_side < values.len())?,
            None => nearest(values, at.lambda)?,
        };
        let cut = Cut::new(params, learned.nodes, [low, learned.high.len()]).ok()?;
        let place = first + pair - cut.kept.start;
        let bin = cut.partition.ranges.iter().position(|range| range.contains(&place))?;
        let coefficients: Vec<f64> = names(params).iter().flat_map(|(name, _)| learned.values(name)).collect();
        let terms = params.local_order() + 1;
        let value = eta * polynomial(coefficients.get(bin * terms..(bin + 1) * terms)?, at.lambda);
        let of_side = match (params.binning, cut.counts[..].len(), side) {
            (Binning::PerSide, 2, "high") => bin - cut.counts[0],
            _ => bin,
        };
        Some(Local { side, bin: of_side, value })
    });
    Level { global, local }
}

/// The nearest of descending values to a point between the first and the last; the first of two that are as near.
fn nearest(values: &[f64], point: f64) -> Option<usize> {
    (values.last()? <= &point && &point <= values.first()?).then_some(())?;
    let after = values.partition_point(|value| *value > point);
    let before = after.saturating_sub(1);
    let next = after.min(values.len() - 1);
    Some(if values[before] - point <= point - values[next] { before } else { next })
}
