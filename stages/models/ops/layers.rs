//! The layers on fixed features: drop_p(X) W₁ + b₁, and on top of it, if wanted, drop_p(ReLU(·)) W₂ + b₂, as one step.
//!
//! X: nodes × features; of every lane, W₁: features × hidden, b₁: hidden, W₂: hidden × classes, b₂: classes. Rows are
//! handled a few at a time, so that what is between the layers stays in cache; only what the backward pass needs is kept,
//! the hidden units after ReLU and dropout (a unit that is zero passes no gradient). All training passes and the
//! evaluation read a row of X and of W₁ once. Only stored values of X are touched: a zero is zero with or without a mask.
//!
//! The backward pass handles all training passes at once.

mod backward;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::masks::{Mask, Masks};
use super::sided::{AsTensor, Eval, Sided};
use super::tape::Tape;
use crate::math::kernels::tall::{Matrix, Onto};
use crate::math::kernels::units::rectify_rows;
use crate::math::kernels::{pad_rows, padded, unpad_rows, with_padding};
use crate::math::real::Real;
use crate::models::blocks::Linear;
use crate::models::features::StoredFeatures;
use crate::models::{Dropout, FeatureView, Input};
use crate::tensor::slices::{self, Element, by_float};

/// Rows that one task handles; a multiple of 64, so that every piece of a mask starts with a word.
const ROWS: usize = 64;
/// Rows whose products are summed by one task; sums of ranges are added in order.
const RANGE: usize = 16 * ROWS;
/// Rows of the gradient of W₁ that one task computes.
const WEIGHT_ROWS: usize = 64;

/// Weights of a layer: lanes × in × out, and lanes × out.
#[derive(Clone)]
pub(crate) struct LayerWeights {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
}

/// The masks of one training pass; none where nothing is dropped.
#[derive(Clone, Default)]
pub(crate) struct PassMasks {
    pub features: Option<Masks>,
    pub hidden: Option<Masks>,
}

impl PassMasks {
    pub fn drops(&self) -> bool {
        self.features.is_some() || self.hidden.is_some()
    }

    fn fit(&self, lanes: usize) -> Result<()> {
        self.features.iter().chain(&self.hidden).try_for_each(|masks| masks.drawn(lanes).map(drop))
    }

    fn on_features(&self, lane: usize) -> Option<&Mask> {
        self.features.as_ref()?.lane(lane)
    }

    fn on_hidden(&self, lane: usize) -> Option<&Mask> {
        self.hidden.as_ref()?.lane(lane)
    }
}

impl Input {
    /// Returns X·W of every lane; `weight`: lanes × features × out.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn times(&self, weight: &impl AsTensor) -> Result<Sided> {
        let [product] =
            self.layers(LayerWeights { weight: weight.tensor(), bias: None }, None, [PassMasks::default()])?;
        Ok(product)
    }

    /// Returns drop(X)·W of every lane; `weight`: lanes × features × out.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn dropout_times(&self, weight: &impl AsTensor, dropout: Dropout) -> Result<Sided> {
        let (weight, features) = (weight.tensor(), dropout.masks(self.stored())?);
        let [product] =
            self.layers(LayerWeights { weight, bias: None }, None, [PassMasks { features, hidden: None }])?;
        Ok(product)
    }

    /// Returns drop(X)·W + b of every lane.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn layer(&self, layer: &Linear, dropout: Dropout) -> Result<Sided> {
        let features = dropout.masks(self.stored())?;
        let [output] = self.layers(layer.weights(), None, [PassMasks { features, hidden: None }])?;
        Ok(output)
    }

    /// Applies one or two layers, once for every entry of `passes`; all of them share their evaluation.
    pub(crate) fn layers<const P: usize>(
        &self,
        first: LayerWeights,
        second: Option<LayerWeights>,
        passes: [PassMasks; P],
    ) -> Result<[Sided; P]> {
        on_gpu!(first.weight => super::cuda::layers(self, &first, second.as_ref(), passes));
        let dtype = first.weight.dtype();
        let layers = Layers { x: self.features.clone(), first, second, passes: passes.into() };
        let outputs = by_float!(dtype, "a layer", T => layers.apply::<T>(&self.tape))?;
        outputs.try_into().or_else(|_| bail!("a layer left out a pass"))
    }
}

struct Layers {
    x: Arc<FeatureView>,
    first: LayerWeights,
    second: Option<LayerWeights>,
    passes: Vec<PassMasks>,
}

/// Sparse features with the masks of a pass applied, by lane and pass; none where nothing is dropped.
type Masked<T> = Vec<Vec<Option<Vec<T>>>>;

/// The sizes of the layers.
#[derive(Clone, Copy)]
struct Sizes {
    lanes: usize,
    nodes: usize,
    inputs: usize,
    /// Columns of the first layer, and padded.
    hidden: usize,
    wide: usize,
    /// Columns of the output.
    outputs: usize,
}

impl Layers {
    fn sizes(&self) -> Result<Sizes> {
        let (lanes, inputs, hidden) = self.first.weight.dims3()?;
        let outputs = self.second.as_ref().map_or(Ok(hidden), |s| s.weight.dim(2))?;
        let fits = |layer: &LayerWeights, inputs, outputs| {
            let bias = layer.bias.as_ref().map(Tensor::dims);
            layer.weight.dims() == [lanes, inputs, outputs] && bias.is_none_or(|b| b == [lanes, outputs])
        };
        if inputs != self.x.columns()
            || !fits(&self.first, inputs, hidden)
            || !self.second.as_ref().is_none_or(|s| fits(s, hidden, outputs))
        {
            bail!("weights of {:?} do not fit {} features", self.first.weight.dims(), self.x.columns());
        }
        self.passes.iter().try_for_each(|pass| pass.fit(lanes))?;
        Ok(Sizes { lanes, nodes: self.x.rows(), inputs, hidden, wide: padded(hidden), outputs })
    }

    fn apply<T: Element>(self, tape: &Tape) -> Result<Vec<Sided>> {
        let s = self.sizes()?;
        let apart = self.passes.iter().any(PassMasks::drops);
        // Evaluation is computed beside the passes if any of them drops something.
        let beside = tape.sides().evaluate() && apart;
        let masked = self.masked_values::<T>(s.lanes)?;
        let [outputs, hidden] = self.forward::<T>(s, &masked, beside)?;
        let tensor = |values| slices::tensor(values, &[s.lanes, s.nodes, s.outputs]);
        let mut outputs: Vec<Tensor> = outputs.into_iter().map(tensor).collect::<Result<_>>()?;
        let eval = match (beside, apart) {
            (true, _) => outputs.pop().map_or(Eval::Absent, Eval::Own),
            (false, true) => Eval::Absent,
            (false, false) => Eval::Same,
        };
        let noted: Vec<&Tensor> = outputs.iter().collect();
        tape.note(&noted, move |arrived| self.back(s, (hidden, masked), arrived));
        Ok(outputs.into_iter().map(|main| Sided::new(main, eval.clone(), tape)).collect())
    }

    /// Returns the outputs of all passes, that of the evaluation last, and the hidden units of all training passes.
    fn forward<T: Element>(&self, s: Sizes, masked: &Masked<T>, beside: bool) -> Result<[Vec<Vec<T>>; 2]> {
        let (lanes, x): (Vec<LaneWeights<T>>, _) = (self.lanes(s)?, self.x.stored_as::<T>()?);
        let (passes, all) = (self.passes.len(), self.passes.len() + usize::from(beside));
        let mut outputs: Vec<Vec<T>> = (0..all).map(|_| vec![T::default(); s.lanes * s.nodes * s.outputs]).collect();
        let kept = if self.second.is_some() { passes } else { 0 };
        let mut hidden: Vec<Vec<T>> = (0..kept).map(|_| vec![T::default(); s.lanes * s.nodes * s.wide]).collect();

        let mut tasks: Vec<Task<T>> = Vec::with_capacity(s.lanes * s.nodes.div_ceil(ROWS));
        for lane in 0..s.lanes {
            for first in (0..s.nodes).step_by(ROWS) {
                let rows = first..(first + ROWS).min(s.nodes);
                tasks.push(Task { lane, rows, outputs: Vec::with_capacity(all), hidden: Vec::with_capacity(kept) });
            }
        }
        for output in &mut outputs {
            let pieces = pieces(output, s.nodes * s.outputs, ROWS * s.outputs);
            pieces.zip(&mut tasks).for_each(|(piece, task)| task.outputs.push(piece));
        }
        for hidden in &mut hidden {
            let pieces = pieces(hidden, s.nodes * s.wide, ROWS * s.wide);
            pieces.zip(&mut tasks).for_each(|(piece, task)| task.hidden.push(piece));
        }
        tasks.into_par_iter().for_each_init(Scratch::default, |scratch, task| {
            let lane = task.lane;
            self.rows((s, x), &lanes[lane], masked.get(lane).map(Vec::as_slice), task, scratch);
        });

        Ok([outputs, hidden])
    }

    /// Brings the weights of every lane into padded rows.
    fn lanes<T: Element>(&self, s: Sizes) -> Result<Vec<LaneWeights<T>>> {
        let first = padded_layer::<T>(&self.first, s.inputs)?;
        let second = self.second.as_ref().map(|layer| padded_layer::<T>(layer, s.wide)).transpose()?;
        let mut second = second.into_iter().flatten();
        Ok(first.into_iter().map(|first| LaneWeights { first, second: second.next() }).collect())
    }

    /// Applies the masks on sparse features, by lane and pass; none where nothing is dropped. Dense features are masked a
    /// few rows at a time.
    fn masked_values<T: Element>(&self, lanes: usize) -> Result<Masked<T>> {
        let StoredFeatures::Sparse { values, .. } = self.x.stored_as::<T>()? else { return Ok(Vec::new()) };
        let lane = |lane: usize| {
            let masked = |pass: &PassMasks| {
                let mask = pass.on_features(lane)?;
                let mut values = values.to_vec();
                mask.apply(&mut values);
                Some(values)
            };
            self.passes.iter().map(masked).collect()
        };
        Ok((0..lanes).into_par_iter().map(lane).collect())
    }

    /// Computes some rows of one lane.
    fn rows<T: Element>(
        &self,
        (s, x): (Sizes, StoredFeatures<T>),
        weights: &LaneWeights<T>,
        masked: Option<&[Option<Vec<T>>]>,
        task: Task<T>,
        scratch: &mut Scratch<T>,
    ) {
        let (rows, lane) = (task.rows, task.lane);
        let all = task.outputs.len();
        scratch.units.resize_with(all, Vec::new);
        scratch.units.iter_mut().for_each(|units| units.resize(rows.len() * s.wide, T::default()));
        match x {
            StoredFeatures::Sparse { pattern, values } => {
                let of = |p: usize| masked.and_then(|m| m.get(p)).and_then(Option::as_deref).unwrap_or(values);
                let (pattern, w) = (pattern.by_rows(), &weights.first.weight);
                match &mut scratch.units[..] {
                    [a, b, c] => pattern.sums(rows.clone(), [of(0), of(1), of(2)], w, s.wide, [a, b, c]),
                    [a, b] => pattern.sums(rows.clone(), [of(0), of(1)], w, s.wide, [a, b]),
                    units => {
                        for (p, a) in units.iter_mut().enumerate() {
                            pattern.sums(rows.clone(), [of(p)], w, s.wide, [a]);
                        }
                    }
                }
            }
            StoredFeatures::Dense(values) => {
                for (p, units) in scratch.units.iter_mut().enumerate() {
                    let mask = self.passes.get(p).and_then(|pass| pass.on_features(lane));
                    let x = masked_rows(values, &rows, s.inputs, mask, &mut scratch.features);
                    Matrix::new(x, s.inputs).times(&weights.first.weight, s.hidden, Onto::Nothing, units);
                }
            }
        }
        let mut kept = task.hidden.into_iter();
        for (p, (units, output)) in scratch.units.iter_mut().zip(task.outputs).enumerate() {
            let Some(second) = &weights.second else {
                add_to_rows(units, &weights.first.bias);
                unpad_rows(units, s.hidden, output);
                continue;
            };
            rectify_rows(units, &weights.first.bias);
            if let Some(mask) = self.passes.get(p).and_then(|pass| pass.on_hidden(lane)) {
                let first = rows.start * s.hidden;
                if s.wide == s.hidden {
                    mask.apply_from(first, units);
                } else {
                    // Masks know nothing of padding.
                    scratch.plain.resize(rows.len() * s.hidden, T::default());
                    unpad_rows(units, s.hidden, &mut scratch.plain);
                    mask.apply_from(first, &mut scratch.plain);
                    pad_rows(&scratch.plain, s.hidden, units);
                }
            }
            if p < self.passes.len()
                && let Some(kept) = kept.next()
            {
                kept.copy_from_slice(units);
            }
            scratch.logits.resize(rows.len() * padded(s.outputs), T::default());
            Matrix::new(units, s.wide).times(&second.weight, s.outputs, Onto::Nothing, &mut scratch.logits);
            add_to_rows(&mut scratch.logits, &second.bias);
            unpad_rows(&scratch.logits, s.outputs, output);
        }
    }
}

/// A layer of one lane with padded rows. Hidden units are padded too: the rows that meet their padding are zero.
struct PaddedLayer<T> {
    weight: Vec<T>,
    bias: Vec<T>,
}

struct LaneWeights<T> {
    first: PaddedLayer<T>,
    second: Option<PaddedLayer<T>>,
}

/// Some rows of one lane, with the places of their results in every pass.
struct Task<'a, T> {
    lane: usize,
    rows: Range<usize>,
    outputs: Vec<&'a mut [T]>,
    hidden: Vec<&'a mut [T]>,
}

/// Memory of one worker.
#[derive(Default)]
struct Scratch<T> {
    units: Vec<Vec<T>>,
    features: Vec<T>,
    plain: Vec<T>,
    logits: Vec<T>,
}

/// `rows`: those of the padded weights, at least as many as there are; the rest is zero.
fn padded_layer<T: Element>(layer: &LayerWeights, rows: usize) -> Result<Vec<PaddedLayer<T>>> {
    let (lanes, inputs, outputs) = layer.weight.dims3()?;
    let wide = padded(outputs);
    let biases = match &layer.bias {
        Some(bias) => slices::lend::<T, _, 1>([bias], |[bias]| Ok(with_padding(bias, outputs)))?,
        None => vec![T::default(); lanes * wide],
    };
    slices::lend::<T, _, 1>([&layer.weight], |[w]| {
        let lane = |(w, bias): (&[T], &[T])| {
            let mut weight = with_padding(w, outputs);
            weight.resize(rows * wide, T::default());
            PaddedLayer { weight, bias: bias.to_vec() }
        };
        Ok(w.par_chunks(inputs * outputs).zip(biases.par_chunks(wide)).map(lane).collect())
    })
}

/// Cuts every lane of `values` into pieces.
fn pieces<T>(values: &mut [T], lane: usize, piece: usize) -> impl Iterator<Item = &mut [T]> {
    values.chunks_mut(lane.max(1)).flat_map(move |lane| lane.chunks_mut(piece.max(1)))
}

fn add_to_rows<T: Real>(rows: &mut [T], bias: &[T]) {
    for row in rows.chunks_exact_mut(bias.len().max(1)) {
        row.iter_mut().zip(bias).for_each(|(x, b)| *x += *b);
    }
}

/// Some rows of dense features, with a mask if there is one.
fn masked_rows<'v, T: Element>(
    values: &'v [T],
    rows: &Range<usize>,
    columns: usize,
    mask: Option<&Mask>,
    scratch: &'v mut Vec<T>,
) -> &'v [T] {
    let plain = &values[rows.start * columns..rows.end * columns];
    let Some(mask) = mask else { return plain };
    scratch.clear();
    scratch.extend_from_slice(plain);
    mask.apply_from(rows.start * columns, scratch);
    scratch
}
