//! candle's graph and our tape: kernels of ours as operations of candle's graph, and what candle has computed as one step of
//! the tape.
//!
//! Models in plain form ([`plain`](crate::models::plain)) compute with candle's tensors and go back by candle's own backward
//! pass. Of one split, S·X and X·W of sparse X are our kernels on the CPU. On a GPU they are candle's operations: rows are
//! gathered, weighted and added where they belong.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, Var, bail};

use super::masks::Mask;
use super::propagate::{Propagator, product};
use super::side_by_side::SideBySide;
use super::sided::{Eval, Sided};
use super::tape::Tape;
use crate::models::FeatureView;
use crate::models::features::StoredFeatures;
use crate::tensor::slices::{self, by_float};

/// Returns S·X for symmetric S, in main memory.
pub(crate) fn propagated(operator: &Arc<Propagator>, x: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Propagated(operator.clone()))
}

struct Propagated(Arc<Propagator>);

impl CustomOp1 for Propagated {
    fn name(&self) -> &'static str {
        "propagation"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, columns) = layout.shape().dims2()?;
        if rows != self.0.n() {
            bail!("{rows} rows cannot be propagated in a graph of {} nodes", self.0.n());
        }
        let shape = SideBySide { lanes: 1, rows, columns };
        let out = by_float!(x.dtype(), "propagation", T => {
            let made = product(&self.0, &[slices::slice::<T>(x, layout)?], shape).pop();
            Ok(T::to_cpu_storage_owned(made.unwrap_or_default()))
        })?;
        Ok((out, layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _product: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        propagated(&self.0, gradient).map(Some)
    }
}

/// Returns X·W for sparse features X, of which a mask may drop some, in main memory; `weight`: features × out.
pub(crate) fn features_times(features: &Arc<FeatureView>, mask: Option<&Arc<Mask>>, weight: &Tensor) -> Result<Tensor> {
    weight.contiguous()?.apply_op1(FeaturesTimes { features: features.clone(), mask: mask.cloned() })
}

struct FeaturesTimes {
    features: Arc<FeatureView>,
    mask: Option<Arc<Mask>>,
}

/// The stored values with what a mask leaves of them.
macro_rules! stored {
    ($of:expr, $float:ident, |$pattern:ident, $values:ident| $body:expr) => {{
        let StoredFeatures::Sparse { pattern: $pattern, values } = $of.features.stored_as::<$float>()? else {
            bail!("features that are dense are multiplied by candle");
        };
        let mut dropped = Vec::new();
        let $values = match &$of.mask {
            Some(mask) => {
                dropped.extend_from_slice(values);
                mask.apply(&mut dropped);
                &dropped[..]
            }
            None => values,
        };
        $body
    }};
}

impl CustomOp1 for FeaturesTimes {
    fn name(&self) -> &'static str {
        "features times"
    }

    fn cpu_fwd(&self, weight: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (inputs, columns) = layout.shape().dims2()?;
        if inputs != self.features.columns() {
            bail!("weights of {inputs} rows do not fit {} features", self.features.columns());
        }
        let out = by_float!(weight.dtype(), "a product with features", T => {
            let weight: &[T] = slices::slice(weight, layout)?;
            stored!(self, T, |pattern, values| Ok(T::to_cpu_storage_owned(pattern.product(values, weight, columns))))
        })?;
        Ok((out, Shape::from((self.features.rows(), columns))))
    }

    fn bwd(&self, weight: &Tensor, _product: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let columns = weight.dim(1)?;
        by_float!(weight.dtype(), "a product with features", T => {
            let of_weight = stored!(self, T, |pattern, values| slices::lend::<T, _, 1>([gradient], |[gradient]| {
                Ok(pattern.transposed_product(values, gradient, columns))
            }))?;
            slices::tensor(of_weight, weight.dims()).map(Some)
        })
    }
}

/// What candle has computed of one lane.
pub(crate) struct CandleLane {
    /// nodes × classes, of the training side; none in a pass that does not train.
    pub trained: Option<Tensor>,
    /// nodes × classes, of the evaluation side; none in a pass that does not evaluate.
    pub evaluated: Option<Tensor>,
    /// The variables of this lane that may have a gradient.
    pub weights: Vec<Var>,
}

/// Enters what candle has computed, lane by lane, as one step. Its way back is candle's, and brings gradients to `weights`: the
/// tensors of all lanes whose values the variables of every lane have, in their order.
pub(crate) fn step(tape: &Tape, lanes: Vec<CandleLane>, weights: Vec<Tensor>) -> Result<Sided> {
    let side = |of: fn(&CandleLane) -> Option<&Tensor>| -> Result<Option<Tensor>> {
        let side: Option<Vec<Tensor>> = lanes.iter().map(|lane| of(lane).map(Tensor::detach)).collect();
        side.map(|side| Tensor::stack(&side, 0)).transpose()
    };
    let (main, eval) = match (side(|lane| lane.trained.as_ref())?, side(|lane| lane.evaluated.as_ref())?) {
        (Some(trained), Some(evaluated)) => (trained, Eval::Own(evaluated)),
        (Some(trained), None) => (trained, Eval::Absent),
        (None, Some(evaluated)) => (evaluated, Eval::Same),
        (None, None) => bail!("a pass computes a side at least"),
    };
    tape.note(&[&main], move |arrived| match arrived {
        [Some(gradient)] => back(lanes, weights, gradient),
        _ => Ok(Vec::new()),
    });
    Ok(Sided::new(main, eval, tape))
}

fn back(lanes: Vec<CandleLane>, weights: Vec<Tensor>, gradient: &Tensor) -> Result<Vec<(Tensor, Tensor)>> {
    let mut of_lanes = Vec::with_capacity(lanes.len());
    for (i, lane) in lanes.into_iter().enumerate() {
        let Some(logits) = lane.trained else { continue };
        let mut found = (logits * gradient.get(i)?)?.sum_all()?.backward()?;
        of_lanes.push(lane.weights.iter().map(|weight| found.remove(weight)).collect::<Vec<_>>());
    }
    let mut gradients = Vec::with_capacity(weights.len());
    for (i, weight) in weights.into_iter().enumerate() {
        // A tensor that reached no lane's logits has no gradient.
        if of_lanes.iter().all(|lane| lane[i].is_none()) {
            continue;
        }
        let of_lane = |(at, lane): (usize, &mut Vec<Option<Tensor>>)| match lane[i].take() {
            Some(gradient) => Ok(gradient),
            None => weight.get(at)?.zeros_like(),
        };
        let stacked = of_lanes.iter_mut().enumerate().map(of_lane).collect::<Result<Vec<_>>>()?;
        gradients.push((weight, Tensor::stack(&stacked, 0)?));
    }
    Ok(gradients)
}
