//! Weights on entries and losses on pairs on a GPU: gates, attention.

use std::sync::Arc;

use candle_core::{Result, Tensor};

use super::each;
use crate::math::pairs::Incidence;
use crate::models::ops::link_loss::Links;
use crate::models::ops::masks::Masks;
use crate::models::ops::propagate::Propagator;
use crate::models::ops::sided::{Eval, Sided};
use crate::tensor::cuda::{self, Attention, Gates, Pairs};

/// ELU(X + b).
pub fn bias_elu(x: &Sided, bias: &Tensor) -> Result<Sided> {
    let (input, to, b, bias) = (x.main().contiguous()?, x.main().clone(), bias.detach(), bias.clone());
    let again = b.clone();
    each(
        x,
        |x| cuda::elu(x, &b),
        move |grad| {
            let of_x = cuda::elu_backward(&input, &again, grad)?;
            let of_bias = cuda::column_sums(&of_x)?;
            Ok(vec![(to, of_x), (bias, of_bias)])
        },
    )
}

/// ε·E + Σ_j drop(tanh(a_i + b_j + c)·S_ij)·X_j.
pub fn gated(
    operator: &Arc<Propagator>,
    [x, scores, ego]: [&Sided; 3],
    shift: &Tensor,
    epsilon: f64,
    masks: Option<Masks>,
) -> Result<Sided> {
    let parted = |x: &Sided| if masks.is_some() { x.parted() } else { x.clone() };
    let [x, scores, ego] = [x, scores, ego].map(parted);
    let c = shift.detach();
    let sum = |x: &Tensor, scores: &Tensor, ego: &Tensor, masks: Option<&cuda::Masks>| {
        let of = operator.weighted_on_gpu(x.device())?;
        let weights = of.gates(Gates { scores, shift: &c }, masks)?;
        of.sum(&weights, false, x, Some((ego, epsilon)))
    };
    let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
    let main = sum(x.main(), scores.main(), ego.main(), drawn)?;
    let alike = [&x, &scores, &ego].iter().all(|input| matches!(input.eval, Eval::Same));
    let eval = match (x.eval(), scores.eval(), ego.eval()) {
        _ if alike => Eval::Same,
        (Some(x), Some(scores), Some(ego)) => Eval::Own(sum(x, scores, ego, None)?),
        _ => Eval::Absent,
    };
    let (again, to) = (operator.clone(), [&x, &scores, &ego].map(|input| input.main().clone()));
    let (shift, c) = (shift.clone(), c.clone());
    Ok(x.next(main, eval, move |grad| {
        let [x, scores, ego] = to;
        let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
        let (of, gates) = (again.weighted_on_gpu(grad.device())?, Gates { scores: &scores, shift: &c });
        let of_x = of.sum(&of.gates(gates, drawn)?, true, grad, None)?;
        let [of_scores, of_shift] = of.gates_backward(gates, drawn, &x, grad)?;
        let of_ego = cuda::combine(grad, epsilon, grad, 0.0)?;
        Ok(vec![(x, of_x), (scores, of_scores), (ego, of_ego), (shift, of_shift)])
    }))
}

/// How heads attend: their number, places of an entry in a mask, whether their mean is taken.
#[derive(Clone, Copy)]
pub struct Heads {
    pub count: usize,
    pub side: usize,
    pub merged: bool,
}

/// Σ_j drop(α_ij) q_j by head, joined or averaged.
pub fn attention(
    operator: &Arc<Propagator>,
    heads: Heads,
    q: &Sided,
    vectors: Option<&Tensor>,
    masks: Option<Masks>,
) -> Result<Sided> {
    let q = if masks.is_some() { q.parted() } else { q.clone() };
    let a = vectors.map(Tensor::detach);
    let of = |q: &Tensor| Ok::<_, candle_core::Error>(heads.of(operator.weighted_on_gpu(q.device())?, a.as_ref()));
    let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
    let attended = of(q.main())?.weights(q.main())?;
    let main = of(q.main())?.sums(q.main(), &attended, drawn)?;
    let eval = q.eval.map(|eval| of(eval)?.sums(eval, &of(eval)?.weights(eval)?, None))?;
    let (again, input, vectors) = (operator.clone(), q.main().clone(), vectors.cloned());
    Ok(q.next(main, eval, {
        let a = a.clone();
        move |grad| {
            let drawn = masks.as_ref().map(|masks| masks.on_gpu()).transpose()?;
            let of = heads.of(again.weighted_on_gpu(grad.device())?, a.as_ref());
            let (of_q, of_vectors) = of.backward(&input, &attended, drawn, grad)?;
            Ok(std::iter::once((input, of_q)).chain(vectors.zip(of_vectors)).collect())
        }
    }))
}

impl Heads {
    fn of<'a>(self, of: cuda::Weighted<'a>, vectors: Option<&'a Tensor>) -> Attention<'a> {
        Attention { of, heads: self.count, side: self.side, merged: self.merged, vectors }
    }
}

/// `weight` times the mean loss of `scale`·⟨q_i, q_j⟩ as the logit of (i, j) being an edge.
pub fn link_loss(q: &Sided, links: &Arc<Vec<Links>>, scale: f64, weight: f64) -> Result<Sided> {
    let q = q.without_eval();
    let (input, nodes) = (q.main().clone(), q.main().dim(1)?);
    let lanes: Vec<_> = links.iter().map(|links| (links.all(), links.edges.len())).collect();
    let (sums, slopes) = Pairs::new(input.device(), &lanes)?.losses(&input, scale)?;
    let factors: Vec<f32> = links.iter().map(|links| (weight / links.len() as f64) as f32).collect();
    let factors = Tensor::from_vec(factors, links.len(), input.device())?;
    let (main, links) = ((sums * &factors)?, links.clone());
    Ok(q.next(main, Eval::Absent, move |grad| {
        let incidence: Vec<_> = links.iter().map(|links| Incidence::of(&links.all(), nodes)).collect();
        let factors = ((grad * &factors)? * scale)?;
        let of_q = cuda::pairs_backward(&input, &slopes, &factors, &incidence)?;
        Ok(vec![(input, of_q)])
    }))
}
