//! Adam on a GPU: weights and moments are changed in place.

use candle_core::{Result, Tensor};

use super::launch::{Arg, Call};
use super::{blocks, floats};

/// The numbers of a step.
pub struct Step {
    /// Weight decay, coupled with the gradient.
    pub decay: f64,
    /// Decay of the first moment and of the second.
    pub betas: [f64; 2],
    /// What is added to the root of the second moment.
    pub epsilon: f64,
    /// The learning rate over the bias of the first moment.
    pub rate: f64,
    /// The bias of the second.
    pub unbias: f64,
}

/// Takes one step.
///
/// # Errors
/// When the shapes do not fit.
pub fn adam(weights: &Tensor, [first, second]: [&Tensor; 2], gradient: &Tensor, step: &Step) -> Result<()> {
    let size = weights.elem_count();
    let gradient = floats(gradient, size, "gradient")?;
    for (tensor, what) in [(weights, "weights"), (first, "first moment"), (second, "second moment")] {
        floats(tensor, size, what)?;
    }
    let [beta1, beta2] = step.betas;
    // 1 − β is taken here: single precision has β with an error that is large beside it.
    let numbers = [step.decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2, step.epsilon, step.rate, step.unbias];
    let numbers = numbers.map(|number| Arg::F32(number as f32));
    let args = [&[Arg::Read(&gradient)], &numbers[..], &[Arg::U64(size as u64)]].concat();
    let changes = [weights, first, second];
    Call { kernel: "adam", blocks: blocks(size)?, lanes: 1, args: &args, changes: &changes, makes: &[] }.start()?;
    Ok(())
}
