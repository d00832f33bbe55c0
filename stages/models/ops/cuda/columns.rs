//! Factors for rows and columns and batch normalisation on a GPU, by candle's operations.

use candle_core::{Result, Tensor};

use super::{each, two};
use crate::models::ops::batch_norm::{EPSILON, Moments};
use crate::models::ops::sided::Sided;

/// X + (Y − X) ⊙ t.
pub fn towards(x: &Sided, y: &Sided, share: &Tensor) -> Result<Sided> {
    let t = share.detach().unsqueeze(1)?;
    let (inputs, share) = ([x.main().clone(), y.main().clone()], share.clone());
    two(x, y, |x, y| x + (y - x)?.broadcast_mul(&t)?, {
        let t = t.clone();
        move |grad| {
            let of_y = grad.broadcast_mul(&t)?;
            let [x, y] = inputs;
            let of_t = (grad * (&y - &x)?)?.sum(1)?;
            Ok(vec![(x, (grad - &of_y)?), (y, of_y), (share, of_t)])
        }
    })
}

/// X ⊙ s with a factor for every row.
pub fn scale_rows(x: &Sided, factors: &Tensor) -> Result<Sided> {
    let s = factors.detach().unsqueeze(2)?;
    let (input, factors, again) = (x.main().clone(), factors.clone(), s.clone());
    each(
        x,
        |x| x.broadcast_mul(&s),
        move |grad| {
            let of_s = (grad * &input)?.sum(2)?;
            Ok(vec![(input, grad.broadcast_mul(&again)?), (factors, of_s)])
        },
    )
}

/// γ ⊙ (X − μ)/√(σ² + ε) + β, and the moments of the training side of a pass that trains.
pub fn batch_norm(x: &Sided, weights: &[Tensor; 4]) -> Result<(Sided, Option<Moments>)> {
    let (trains, x) = (x.sides().train(), x.parted());
    let [scale, shift, mean, variance] = weights.each_ref().map(|weight| weight.detach().unsqueeze(1));
    let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
    let rate = |variance: &Tensor| (variance + EPSILON)?.sqrt()?.recip();
    let applied = |x: &Tensor, mean: &Tensor, rate: &Tensor| {
        x.broadcast_sub(mean)?.broadcast_mul(&(rate * &scale)?)?.broadcast_add(&shift)
    };
    let input = x.main().contiguous()?;
    let own = if trains {
        let mean = input.mean_keepdim(1)?;
        let variance = input.broadcast_sub(&mean)?.sqr()?.mean_keepdim(1)?;
        Some((mean, variance))
    } else {
        None
    };
    let (of_mean, of_variance) = own.clone().unwrap_or((mean.clone(), variance.clone()));
    let (main_rate, running_rate) = (rate(&of_variance)?, rate(&variance)?);
    let main = applied(&input, &of_mean, &main_rate)?;
    let eval = x.eval.map(|eval| applied(&eval.contiguous()?, &mean, &running_rate))?;
    let (to, [of_scale, of_shift, ..], rows) = (x.main().clone(), weights.clone(), input.dim(1)? as f64);
    let output = x.next(main, eval, move |grad| {
        let hat = input.broadcast_sub(&of_mean)?.broadcast_mul(&main_rate)?;
        let (level, slope) = (grad.sum_keepdim(1)?, (grad * &hat)?.sum_keepdim(1)?);
        let centred = grad.broadcast_sub(&(&level / rows)?)?.sub(&hat.broadcast_mul(&(&slope / rows)?)?)?;
        let of_x = centred.broadcast_mul(&(&main_rate * &scale)?)?;
        Ok(vec![(to, of_x), (of_scale, slope.squeeze(1)?), (of_shift, level.squeeze(1)?)])
    });
    let moments = |(mean, variance): (Tensor, Tensor)| {
        Ok::<_, candle_core::Error>(Moments { mean: mean.squeeze(1)?, variance: variance.squeeze(1)? })
    };
    Ok((output, own.map(moments).transpose()?))
}
