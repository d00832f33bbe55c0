//! Operations on a GPU: kernels of our own for what is sparse, candle's for what is dense.
//!
//! Both sides of a [`Sided`] take a step one after the other, but for the filter, where one pass over the eigenvectors
//! serves both. Nothing is fused: a GPU has the memory for what is between two steps. Nothing is copied to the GPU or
//! back either, but for the few numbers that tell candle's kernels the shape of a tensor that is not contiguous.
//!
//! Weights enter detached, or candle would note its own way back beside that of the tape.

mod columns;

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
        |x| x.matmul(&w),
        move |grad| {
            let of_x = grad.matmul(&again.transpose(1, 2)?)?;
            let of_w = input.transpose(1, 2)?.matmul(grad)?;
            Ok(vec![(to, of_x), (weight, of_w)])
        },
    )
}

/// X + b.
pub fn plus_bias(x: &Sided, bias: &Tensor) -> Result<Sided> {
    let (input, b, bias) = (x.main().clone(), bias.detach().unsqueeze(1)?, bias.clone());
    each(x, |x| x.broadcast_add(&b), move |grad| Ok(vec![(input, grad.clone()), (bias, grad.sum(1)?)]))
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
    two(x, y, |x, y| x - y, move |grad| Ok(vec![(to_x, grad.clone()), (to_y, grad.neg()?)]))
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
    let (input, of, again) = (z.main().contiguous()?, theta.clone(), operators.to_vec());
    let (t, to) = (theta.detach(), z.main().clone());
    let products = |operators: &[Arc<Propagator>], z: &Tensor| {
        let hops = operators.iter().map(|operator| hop(operator, z, (1.0, 0.0), z));
        std::iter::once(Ok(z.clone())).chain(hops).collect::<Result<Vec<_>>>()
    };
    let summed = |t: &Tensor, hops: &[Tensor]| {
        let mut sum: Option<Tensor> = None;
        for (l, hop) in hops.iter().enumerate() {
            let term = hop.broadcast_mul(&t.narrow(1, l, 1)?.unsqueeze(2)?)?;
            sum = Some(sum.map_or(Ok(term.clone()), |sum| sum + &term)?);
        }
        sum.ok_or_else(|| candle_core::Error::msg("a sum over no operators"))
    };
    each(
        z,
        {
            let t = t.clone();
            move |z: &Tensor| summed(&t, &products(operators, z)?)
        },
        move |grad| {
            let hops = products(&again, grad)?;
            let dots = hops.iter().map(|hop| (hop * &input)?.sum((1, 2))).collect::<Result<Vec<_>>>()?;
            Ok(vec![(to, summed(&t, &hops)?), (of, Tensor::stack(&dots, 1)?)])
        },
    )
}

/// X with masks on the training side.
pub fn dropout(x: &Sided, masks: Masks) -> Result<Sided> {
    let (x, input) = (x.parted(), x.main().clone());
    let apply = |x: &Tensor, masks: &Masks| cuda::lend([x], |[x]| cuda::dropout(x, masks.on_gpu()?));
    let main = apply(&input, &masks)?;
    Ok(x.next(main, x.eval.clone(), move |grad| Ok(vec![(input, apply(grad, &masks)?)])))
}

/// ReLU(X + b), with masks on the training side if there are any.
pub fn units(x: &Sided, bias: Option<&Tensor>, masks: Option<Masks>) -> Result<Sided> {
    let x = bias.map_or(Ok(x.clone()), |bias| plus_bias(x, bias))?;
    let x = if masks.is_some() { x.parted() } else { x };
    let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
    let main = cuda::lend([x.main()], |[x]| cuda::rectify(x, drawn))?;
    let eval = x.eval.map(|eval| cuda::lend([eval], |[x]| cuda::rectify(x, None)))?;
    let (input, output) = (x.main().clone(), main.clone());
    let scale = masks.as_ref().map_or(1.0, |masks| masks.scale());
    Ok(x.next(main, eval, move |grad| {
        let of_x = cuda::lend([&output, grad], |[out, grad]| cuda::rectify_backward(out, grad, scale))?;
        Ok(vec![(input, of_x)])
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
    match &layer.bias {
        Some(bias) => cuda::lend([&layer.weight, bias], |[weight, bias]| features.times(weight, Some(bias), masks)),
        None => cuda::lend([&layer.weight], |[weight]| features.times(weight, None, masks)),
    }
}

fn on_features_back(
    x: &FeatureView,
    layer: LayerWeights,
    masks: Option<&Masks>,
    grad: &Tensor,
) -> Result<Vec<(Tensor, Tensor)>> {
    let features = x.on_gpu(grad.device())?;
    let masks = masks.map(|masks| masks.on_gpu()).transpose()?;
    let mut gradients = vec![(layer.weight, cuda::lend([grad], |[grad]| features.times_backward(grad, masks))?)];
    if let Some(bias) = layer.bias {
        gradients.push((bias, grad.sum(1)?));
    }
    Ok(gradients)
}

/// a·S·z + b·y; y does not count where b is 0.
fn hop(operator: &Propagator, z: &Tensor, (a, b): (f64, f64), y: &Tensor) -> Result<Tensor> {
    let matrix = operator.on_gpu(z.device())?;
    cuda::lend([z, y], |[z, y]| matrix.times(z, (a as f32, b as f32), y))
}

/// S·z.
pub fn propagate(operator: &Arc<Propagator>, z: &Sided) -> Result<Sided> {
    let (input, back) = (z.main().clone(), operator.back().clone());
    each(z, |z| hop(operator, z, (1.0, 0.0), z), move |grad| Ok(vec![(input, hop(&back, grad, (1.0, 0.0), grad)?)]))
}

/// Σ_k c_k p_k(S)·z. Two hops are kept and no more.
pub fn polynomial(operator: &Arc<Propagator>, basis: Basis, coefficients: &Tensor, z: &Sided) -> Result<Sided> {
    let (input, of, again) = (z.main().contiguous()?, coefficients.clone(), operator.clone());
    let (c, to) = (coefficients.detach(), z.main().clone());
    each(
        z,
        {
            let c = c.clone();
            move |z: &Tensor| Ok(hops(operator, basis, &c, z, None)?.0)
        },
        move |grad| {
            let (of_z, dots) = hops(&again, basis, &c, grad, Some(&input))?;
            Ok(vec![(to, of_z), (of, Tensor::stack(&dots, 1)?)])
        },
    )
}

/// Returns Σ_k c_k p_k(S)·z, and ⟨p_k(S)·z, against⟩ of every lane and degree if there is something to hold against.
fn hops(
    operator: &Propagator,
    basis: Basis,
    coefficients: &Tensor,
    z: &Tensor,
    against: Option<&Tensor>,
) -> Result<(Tensor, Vec<Tensor>)> {
    let times = |hop: &Tensor, k: usize| hop.broadcast_mul(&coefficients.narrow(1, k, 1)?.unsqueeze(2)?);
    let dot = |hop: &Tensor| against.map(|against| (hop * against)?.sum((1, 2))).transpose();
    let (mut before, mut now) = (z.clone(), z.clone());
    let mut sum = times(&now, 0)?;
    let mut dots = Vec::from_iter(dot(&now)?);
    for k in 1..coefficients.dim(1)? {
        let next = hop(operator, &now, basis.step(k), &before)?;
        (before, now) = (now, next);
        sum = (sum + times(&now, k)?)?;
        dots.extend(dot(&now)?);
    }
    Ok((sum, dots))
}

/// U(h ⊙ Uᵀz); `rows` is Uᵀ, pairs × nodes. All lanes of both sides stand side by side as columns, so each of the two
/// products reads U once: with a lane as a batch of its own, a product would have as many columns as there are classes.
pub fn filter(rows: &Tensor, response: &Tensor, z: &Sided) -> Result<Sided> {
    let (lanes, h) = (z.main().dim(0)?, response.detach());
    let (joined, of_joined) = match &z.eval {
        Eval::Own(eval) => (Tensor::cat(&[z.main(), eval], 0)?, Tensor::cat(&[&h, &h], 0)?),
        _ => (z.main().clone(), h.clone()),
    };
    let y = spectrum(rows, &joined)?;
    let out = from_spectrum(rows, &scaled(&y, &of_joined)?)?;
    let side = |from: usize| out.narrow(0, from, lanes)?.contiguous();
    let eval = z.eval.map(|_| side(lanes))?;
    let (input, response, rows, y) = (z.main().clone(), response.clone(), rows.clone(), y.narrow(1, 0, lanes)?);
    Ok(z.next(side(0)?, eval, move |grad| {
        let t = spectrum(&rows, grad)?;
        let of_h = (&t * &y)?.sum(2)?.t()?.contiguous()?;
        let of_z = from_spectrum(&rows, &scaled(&t, &h)?)?;
        Ok(vec![(input, of_z), (response, of_h)])
    }))
}

/// U(h ⊙ Q): `q` is lanes × pairs × columns.
pub fn synthesize(rows: &Tensor, response: &Tensor, q: &Sided) -> Result<Sided> {
    let h = response.detach();
    let in_basis = |q: &Tensor| q.transpose(0, 1)?.contiguous();
    let out = |q: &Tensor| from_spectrum(rows, &scaled(&in_basis(q)?, &h)?);
    let (main, eval) = (out(q.main())?, q.eval.map(|eval| out(eval))?);
    let (input, response, rows, again) = (q.main().clone(), response.clone(), rows.clone(), h.clone());
    Ok(q.next(main, eval, move |grad| {
        let t = spectrum(&rows, grad)?;
        let of_h = (&t * &input.transpose(0, 1)?.contiguous()?)?.sum(2)?.t()?.contiguous()?;
        let of_q = scaled(&t, &again)?.transpose(0, 1)?.contiguous()?;
        Ok(vec![(input, of_q), (response, of_h)])
    }))
}

/// Uᵀz: pairs × lanes × columns.
fn spectrum(rows: &Tensor, z: &Tensor) -> Result<Tensor> {
    let (lanes, nodes, columns) = z.dims3()?;
    let side_by_side = z.transpose(0, 1)?.contiguous()?.reshape((nodes, lanes * columns))?;
    rows.matmul(&side_by_side)?.reshape((rows.dim(0)?, lanes, columns))
}

/// h ⊙ y, with h: lanes × pairs and y: pairs × lanes × columns.
fn scaled(y: &Tensor, h: &Tensor) -> Result<Tensor> {
    y.broadcast_mul(&h.t()?.unsqueeze(2)?)
}

/// U·y: lanes × nodes × columns.
fn from_spectrum(rows: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (pairs, lanes, columns) = y.dims3()?;
    let out = rows.t()?.matmul(&y.reshape((pairs, lanes * columns))?)?;
    out.reshape((rows.dim(1)?, lanes, columns))?.transpose(0, 1)?.contiguous()
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
        numbers.push(cuda::lend([logits], |[logits]| judged.score(logits))?);
    }
    if let Some(train) = train {
        let (logits, judged) = (logits.main(), train.on_gpu(logits.main())?);
        numbers.push(cuda::lend([logits], |[logits]| judged.cross_entropy(logits))?);
        numbers.extend(term.map(Tensor::detach));
        gradient = Some(cuda::lend([logits], |[logits]| judged.cross_entropy_backward(logits))?);
    }
    if numbers.is_empty() {
        return Ok(PassScores::default());
    }
    let numbers = Tensor::cat(&numbers, 0)?.to_vec1::<f32>()?;
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
