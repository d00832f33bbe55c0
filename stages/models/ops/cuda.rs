//! Operations on a GPU: kernels of our own for what is sparse, candle's for what is dense.
//!
//! Both sides of a [`Sided`] take a step one after the other, but for the filter, where one pass over the eigenvectors
//! serves both. Nothing is copied to the GPU or back, but for the few numbers that tell candle's kernels the shape of a tensor
//! that is not contiguous. In tests all of this runs on the CPU as well, see `stages/tensor/cuda/emulated.rs`.
//!
//! Weights enter detached, or candle would note its own way back beside that of the tape.

mod columns;
mod weighted;

use std::sync::Arc;

use candle_core::{Result, Tensor};

use super::layers::{LayerWeights, PassMasks};
use super::loss::{LaneScore, PassScores, Targets};
use super::masks::Masks;
use super::propagate::{Basis, Propagator};
use super::sided::{Eval, Sided};
use super::stacks::Stacks;
use super::sum::sum;
use crate::models::{FeatureView, Input};
use crate::tensor::cuda;
pub use columns::{batch_norm, scale_rows, towards};
pub use weighted::{Heads, attention, bias_elu, gated, link_loss};

/// Applies a step to each side.
fn each(
    x: &Sided,
    forward: impl Fn(&Tensor) -> Result<Tensor>,
    back: impl FnOnce(&Tensor) -> Result<Vec<(Tensor, Tensor)>> + 'static,
) -> Result<Sided> {
    let main = forward(&x.main().contiguous()?)?;
    let eval = x.eval.map(|eval| forward(&eval.contiguous()?))?;
    Ok(x.next(main, eval, back))
}

/// X·W: a product per lane.
pub fn times(x: &Sided, weight: &Tensor) -> Result<Sided> {
    let w = weight.detach();
    let (input, to, weight, again) = (x.main().contiguous()?, x.main().clone(), weight.clone(), w.clone());
    each(
        x,
        |x| cuda::product(x, &w),
        move |grad| {
            let of_x = cuda::product(grad, &again.transpose(1, 2)?)?;
            let of_w = cuda::product(&input.transpose(1, 2)?, grad)?;
            Ok(vec![(to, of_x), (weight, of_w)])
        },
    )
}

/// X + b.
pub fn plus_bias(x: &Sided, bias: &Tensor) -> Result<Sided> {
    let (input, b, bias) = (x.main().clone(), bias.detach(), bias.clone());
    let back = move |grad: &Tensor| Ok(vec![(input, grad.clone()), (bias, cuda::column_sums(grad)?)]);
    each(x, |x| cuda::plus_bias(x, &b), back)
}

/// Applies a step of two inputs to each side.
fn two(
    x: &Sided,
    y: &Sided,
    forward: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    back: impl FnOnce(&Tensor) -> Result<Vec<(Tensor, Tensor)>> + 'static,
) -> Result<Sided> {
    let eval = match (&x.eval, &y.eval) {
        (Eval::Same, Eval::Same) => Eval::Same,
        _ => match (x.eval(), y.eval()) {
            (Some(x), Some(y)) => Eval::Own(forward(x, y)?),
            _ => Eval::Absent,
        },
    };
    Ok(x.next(forward(x.main(), y.main())?, eval, back))
}

/// X + Y.
pub fn plus(x: &Sided, y: &Sided) -> Result<Sided> {
    let inputs = [x.main().clone(), y.main().clone()];
    two(x, y, sum, move |grad| Ok(inputs.into_iter().map(|input| (input, grad.clone())).collect()))
}

/// X − Y.
pub fn minus(x: &Sided, y: &Sided) -> Result<Sided> {
    let (to_x, to_y) = (x.main().clone(), y.main().clone());
    let back = move |grad: &Tensor| Ok(vec![(to_x, grad.clone()), (to_y, grad.neg()?)]);
    two(x, y, |x, y| cuda::combine(x, 1.0, y, -1.0), back)
}

/// The mean over the stacks of every lane.
pub fn mean_of_stacks(x: &Sided, stacks: Stacks) -> Result<Sided> {
    let (input, (all, rows, wide)) = (x.main().clone(), x.main().dims3()?);
    let Stacks { lanes, beside } = stacks;
    let apart = [all / lanes, lanes, rows, beside, wide / beside];
    each(
        x,
        |x| x.reshape(&apart)?.sum((1, 3))? / (lanes * beside) as f64,
        move |grad| {
            let spread = (grad.unsqueeze(1)?.unsqueeze(3)? / (lanes * beside) as f64)?;
            let of_x = spread.broadcast_as(&apart)?.contiguous()?.reshape((all, rows, wide))?;
            Ok(vec![(input, of_x)])
        },
    )
}

/// θ_0 z + Σ_l θ_l P_l·z.
pub fn hop_sum(operators: &[Arc<Propagator>], theta: &Tensor, z: &Sided) -> Result<Sided> {
    let of_basis = |l: usize| Some((operators.get(l - 1)?.clone(), (1.0, 0.0)));
    terms((1..=operators.len()).map_while(of_basis).collect(), false, theta, z)
}

/// X with masks on the training side.
pub fn dropout(x: &Sided, masks: Masks) -> Result<Sided> {
    let (x, input) = (x.parted(), x.main().clone());
    let apply = |x: &Tensor, masks: &Masks| cuda::dropout(x, masks.on_gpu()?);
    let main = apply(&input, &masks)?;
    Ok(x.next(main, x.eval.clone(), move |grad| Ok(vec![(input, apply(grad, &masks)?)])))
}

/// ReLU(X + b), with masks on the training side if there are any.
pub fn units(x: &Sided, bias: Option<&Tensor>, masks: Option<Masks>) -> Result<Sided> {
    let x = if masks.is_some() { x.parted() } else { x.clone() };
    let b = bias.map(Tensor::detach);
    let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
    let main = cuda::rectify(x.main(), b.as_ref(), drawn)?;
    let eval = x.eval.map(|eval| cuda::rectify(eval, b.as_ref(), None))?;
    let (input, output, bias) = (x.main().clone(), main.clone(), bias.cloned());
    let scale = masks.as_ref().map_or(1.0, |masks| masks.scale());
    Ok(x.next(main, eval, move |grad| {
        let of_x = cuda::rectify_backward(&output, grad, scale)?;
        let of_bias = bias.map(|bias| Ok::<_, candle_core::Error>((bias, cuda::column_sums(&of_x)?))).transpose()?;
        Ok(std::iter::once((input, of_x)).chain(of_bias).collect())
    }))
}

/// One or two layers on features, step by step. The passes share their evaluation.
pub fn layers<const P: usize>(
    x: &Input,
    first: &LayerWeights,
    second: Option<&LayerWeights>,
    passes: [PassMasks; P],
) -> Result<[Sided; P]> {
    let (features, tape) = (&x.features, &x.tape);
    let apart = passes.iter().any(PassMasks::drops);
    let mut outputs: Vec<Sided> = Vec::with_capacity(P);
    for masks in passes {
        let eval = match outputs.is_empty() {
            _ if !apart => Eval::Same,
            true if tape.sides().evaluate() => Eval::Own(on_features(features, first, None)?),
            _ => Eval::Absent,
        };
        let main = on_features(features, first, masks.features.as_ref())?;
        tape.note(&[&main], {
            let (x, first, masks) = (features.clone(), first.clone(), masks.features);
            move |arrived| match arrived {
                [Some(gradient)] => on_features_back(&x, first, masks.as_ref(), gradient),
                _ => Ok(Vec::new()),
            }
        });
        let units = Sided::new(main, eval, tape);
        outputs.push(match second {
            Some(second) => {
                let z = times(&self::units(&units, None, masks.hidden)?, &second.weight)?;
                second.bias.as_ref().map_or(Ok(z.clone()), |bias| plus_bias(&z, bias))?
            }
            None => units,
        });
    }
    let eval = outputs.first().map_or(Eval::Absent, |output| output.eval.clone());
    Ok(std::array::from_fn(|pass| Sided::new(outputs[pass].main().clone(), eval.clone(), tape)))
}

/// drop(X)·W + b.
fn on_features(x: &FeatureView, layer: &LayerWeights, masks: Option<&Masks>) -> Result<Tensor> {
    let features = x.on_gpu(layer.weight.device())?;
    let masks = masks.map(|masks| masks.on_gpu()).transpose()?;
    features.times(&layer.weight.detach(), layer.bias.as_ref().map(Tensor::detach).as_ref(), masks)
}

fn on_features_back(
    x: &FeatureView,
    layer: LayerWeights,
    masks: Option<&Masks>,
    grad: &Tensor,
) -> Result<Vec<(Tensor, Tensor)>> {
    let features = x.on_gpu(grad.device())?;
    let masks = masks.map(|masks| masks.on_gpu()).transpose()?;
    let mut gradients = vec![(layer.weight, features.times_backward(grad, masks)?)];
    if let Some(bias) = layer.bias {
        gradients.push((bias, cuda::column_sums(grad)?));
    }
    Ok(gradients)
}

/// S·z.
pub fn propagate(operator: &Arc<Propagator>, z: &Sided) -> Result<Sided> {
    let (input, back) = (z.main().clone(), operator.back().clone());
    let times = |operator: &Propagator, z: &Tensor| operator.on_gpu(z.device())?.times(z);
    each(z, |z| times(operator, z), move |grad| Ok(vec![(input, times(&back, grad)?)]))
}

/// Σ_k c_k p_k(S)·z.
pub fn polynomial(operator: &Arc<Propagator>, basis: Basis, coefficients: &Tensor, z: &Sided) -> Result<Sided> {
    let steps = (1..coefficients.dim(1)?).map(|k| (operator.clone(), basis.step(k)));
    terms(steps.collect(), true, coefficients, z)
}

/// A step to the next term: a·S·(the term before) + b·(the one before that).
type Hop = (Arc<Propagator>, (f64, f64));

/// Σ_k c_k z_k, where z_0 is z and every step makes the next term: of the one before if they are `chained`, else of z. Two terms are
/// kept and no more.
fn terms(steps: Vec<Hop>, chained: bool, coefficients: &Tensor, z: &Sided) -> Result<Sided> {
    let (input, of) = (z.main().contiguous()?, coefficients.clone());
    let (c, to) = (coefficients.detach().contiguous()?, z.main().clone());
    let steps = Arc::new(steps);
    each(
        z,
        {
            let (c, steps) = (c.clone(), steps.clone());
            move |z: &Tensor| summed(&steps, chained, &c, z, |_, _| Ok(()))
        },
        move |grad| {
            let mut dots = cuda::Dots::new(steps.len() + 1);
            let of_z = summed(&steps, chained, &c, grad, |k, term| dots.add(k, term, &input))?;
            Ok(vec![(to, of_z), (of, dots.sum()?)])
        },
    )
}

/// Returns the sum of all terms, and shows each of them.
fn summed(
    steps: &[Hop],
    chained: bool,
    coefficients: &Tensor,
    z: &Tensor,
    mut show: impl FnMut(usize, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let mut sum = cuda::Terms::new(coefficients, z)?;
    show(0, z)?;
    let (mut before, mut now) = (z.clone(), z.clone());
    for (k, (operator, step)) in steps.iter().enumerate() {
        let next = operator.on_gpu(z.device())?.hop(&now, *step, &before, &mut sum)?;
        show(k + 1, &next)?;
        if chained {
            (before, now) = (now, next);
        }
    }
    Ok(sum.sum())
}

/// U(h ⊙ Uᵀz); `rows` is Uᵀ, pairs × nodes. All lanes of both sides stand side by side as columns, so each of the two
/// products reads U once: with a lane as a batch of its own, a product would have as many columns as there are classes.
pub fn filter(rows: &Tensor, response: &Tensor, z: &Sided) -> Result<Sided> {
    let (lanes, h) = (z.lanes(), response.detach());
    let own = if let Eval::Own(eval) = &z.eval { Some(eval) } else { None };
    let y = spectrum(rows, z.main(), own)?;
    let out = from_spectrum(rows, &cuda::scaled_pairs(&y, &h)?)?;
    let (main, eval) = (cuda::apart(&out, 0, lanes)?, z.eval.map(|_| cuda::apart(&out, lanes, lanes))?);
    let (input, response, rows) = (z.main().clone(), response.clone(), rows.clone());
    Ok(z.next(main, eval, move |grad| {
        let t = spectrum(&rows, grad, None)?;
        let of_h = cuda::pair_dots(&t, &y)?;
        let of_z = from_spectrum(&rows, &cuda::scaled_pairs(&t, &h)?)?;
        Ok(vec![(input, cuda::apart(&of_z, 0, lanes)?), (response, of_h)])
    }))
}

/// U(h ⊙ Q): `q` is lanes × pairs × columns.
pub fn synthesize(rows: &Tensor, response: &Tensor, q: &Sided) -> Result<Sided> {
    let (lanes, h) = (q.lanes(), response.detach());
    let own = if let Eval::Own(eval) = &q.eval { Some(eval) } else { None };
    let y = cuda::side_by_side(q.main(), own)?;
    let out = from_spectrum(rows, &cuda::scaled_pairs(&y, &h)?)?;
    let (main, eval) = (cuda::apart(&out, 0, lanes)?, q.eval.map(|_| cuda::apart(&out, lanes, lanes))?);
    let (input, response, rows) = (q.main().clone(), response.clone(), rows.clone());
    Ok(q.next(main, eval, move |grad| {
        let t = spectrum(&rows, grad, None)?;
        let of_h = cuda::pair_dots(&t, &y)?;
        let of_q = cuda::apart(&cuda::scaled_pairs(&t, &h)?, 0, lanes)?;
        Ok(vec![(input, of_q), (response, of_h)])
    }))
}

/// Uᵀz of one side or two: pairs × lanes × columns.
fn spectrum(rows: &Tensor, z: &Tensor, other: Option<&Tensor>) -> Result<Tensor> {
    let joined = cuda::side_by_side(z, other)?;
    let (nodes, lanes, columns) = joined.dims3()?;
    cuda::product(rows, &joined.reshape((nodes, lanes * columns))?)?.reshape((rows.dim(0)?, lanes, columns))
}

/// U·y: nodes × lanes × columns.
fn from_spectrum(rows: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (pairs, lanes, columns) = y.dims3()?;
    let out = cuda::product(&rows.t()?, &y.reshape((pairs, lanes * columns))?)?;
    out.reshape((rows.dim(1)?, lanes, columns))
}

/// Loss, its gradient and scores. All numbers come from the GPU in one read, the only one of an epoch.
pub fn score_pass(
    logits: &Sided,
    train: Option<&Targets>,
    term: Option<&Tensor>,
    val: Option<&Targets>,
) -> Result<PassScores> {
    let mut numbers = Vec::new();
    let mut gradient = None;
    if let (Some(val), Some(logits)) = (val, logits.eval()) {
        let judged = val.on_gpu(logits)?;
        numbers.push(judged.score(logits)?);
    }
    if let Some(train) = train {
        let (logits, judged) = (logits.main(), train.on_gpu(logits.main())?);
        numbers.push(judged.cross_entropy(logits)?);
        numbers.extend(term.map(Tensor::detach));
        gradient = Some(judged.cross_entropy_backward(logits)?);
    }
    if numbers.is_empty() {
        return Ok(PassScores::default());
    }
    let numbers = cuda::read(&Tensor::cat(&numbers, 0)?)?;
    let mut numbers = numbers.into_iter().map(f64::from);
    let scores = val.zip(logits.eval()).map(|(val, logits)| {
        let mut further = val.further_on_gpu(logits)?.into_iter();
        let score = |nodes: &Vec<u32>| {
            let count = nodes.len().max(1) as f64;
            let mut mean = || numbers.next().unwrap_or(f64::NAN) / count;
            LaneScore { loss: mean(), accuracy: mean(), further: further.next().unwrap_or_default() }
        };
        Ok::<_, candle_core::Error>(val.lanes().iter().map(score).collect())
    });
    let scores = scores.transpose()?;
    let mut losses: Vec<f64> = numbers.by_ref().take(train.map_or(0, |train| train.lanes().len())).collect();
    losses.iter_mut().zip(numbers).for_each(|(loss, term)| *loss += term);
    Ok(PassScores { train: gradient.map(|gradient| (losses, gradient)), val: scores })
}
