//! Adam with coupled weight decay and parameter groups, as PyTorch's `Adam(weight_decay = c)`.
//!
//! ```text
//! g ← ∂loss/∂w + c·w
//! m ← β₁ m + (1−β₁) g ;  v ← β₂ v + (1−β₂) g²
//! w ← w − lr · (m/(1−β₁^t)) / ( √(v/(1−β₂^t)) + ε )        β₁ = 0.9, β₂ = 0.999, ε = 1e-8
//! ```
//!
//! candle ships AdamW only, whose decay is decoupled (w ← (1−lr·c)·w): another optimiser, with other results. A tensor
//! that did not reach the loss has no gradient and is skipped: no step, no decay, and its t does not count.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};

use super::ParamGroup;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The optimiser with its state.
pub struct Adam {
    slots: Vec<Slot>,
}

struct Slot {
    var: Var,
    lr_factor: f64,
    decay: f64,
    /// First and second moment; none before the first gradient.
    moments: Option<(Tensor, Tensor)>,
    /// Steps taken.
    t: i32,
}

impl Adam {
    /// Prepares to train `groups`, with `weight_decay` for those that share the run's.
    pub fn new(groups: Vec<ParamGroup>, weight_decay: f64) -> Self {
        let slot = |group: ParamGroup| {
            let (lr_factor, decay) = (group.lr_factor, group.decay.value(weight_decay));
            group.vars.into_iter().map(move |(_, var)| Slot { var, lr_factor, decay, moments: None, t: 0 })
        };
        Self { slots: groups.into_iter().flat_map(slot).collect() }
    }

    /// Takes one step at learning rate `lr`.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn step(&mut self, grads: &GradStore, lr: f64) -> Result<()> {
        self.slots.iter_mut().try_for_each(|slot| match grads.get(slot.var.as_tensor()) {
            Some(grad) => slot.step(grad, lr),
            None => Ok(()),
        })
    }
}

impl Slot {
    fn step(&mut self, grad: &Tensor, lr: f64) -> Result<()> {
        let w = self.var.as_detached_tensor();
        // Without `detach` the moments would keep every epoch's graph alive.
        let mut g = grad.detach();
        if self.decay != 0.0 {
            g = (g + (&w * self.decay)?)?;
        }
        let (m, v) = match &self.moments {
            Some((m, v)) => (((m * BETA1)? + (&g * (1.0 - BETA1))?)?, ((v * BETA2)? + (g.sqr()? * (1.0 - BETA2))?)?),
            None => ((&g * (1.0 - BETA1))?, (g.sqr()? * (1.0 - BETA2))?),
        };
        self.t += 1;
        let (unbias1, unbias2) = (1.0 - BETA1.powi(self.t), 1.0 - BETA2.powi(self.t));
        let scale = ((&v / unbias2)?.sqrt()? + EPSILON)?;
        let update = (&m * (lr * self.lr_factor / unbias1))?.div(&scale)?;
        self.var.set(&(w - update)?)?;
        self.moments = Some((m, v));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::optim::Decay;

    fn scalar(x: f64) -> Var {
        Var::from_tensor(&Tensor::new(x, &Device::Cpu).unwrap()).unwrap()
    }

    fn value(var: &Var) -> f64 {
        var.as_tensor().to_scalar().unwrap()
    }

    /// Adam on plain numbers, written from the formula in the module documentation, not from the code under test.
    fn by_hand(mut w: f64, gradient: impl Fn(f64) -> f64, lr: f64, decay: f64, steps: i32) -> Vec<f64> {
        let (mut m, mut v, mut seen) = (0.0, 0.0, vec![]);
        for t in 1..=steps {
            let g = gradient(w) + decay * w;
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            w -= lr * (m / (1.0 - 0.9f64.powi(t))) / ((v / (1.0 - 0.999f64.powi(t))).sqrt() + 1e-8);
            seen.push(w);
        }
        seen
    }

    #[test]
    fn the_first_coupled_step_is_a_sign_step_even_for_decay_alone() {
        // Gradient 0, weight 1, decay 0.1, lr 0.01: coupled decay moves w by −0.01 (the step of Adam is lr·sign at
        // first), decoupled decay would move it by −lr·decay = −0.001.
        let w = scalar(1.0);
        let mut adam = Adam::new(vec![ParamGroup::decayed(vec![("w", w.clone())])], 0.1);
        let loss = (w.as_tensor() - w.as_tensor()).unwrap();
        adam.step(&loss.backward().unwrap(), 0.01).unwrap();
        assert!((value(&w) - 0.99).abs() < 1e-6);
    }

    #[test]
    fn steps_follow_the_formula() {
        // loss = (w − 3)², so the gradient is 2(w − 3).
        let w = scalar(1.0);
        let mut adam = Adam::new(vec![ParamGroup::decayed(vec![("w", w.clone())])], 0.05);
        for expected in by_hand(1.0, |w| 2.0 * (w - 3.0), 0.1, 0.05, 25) {
            let loss = (w.as_tensor() - 3.0).unwrap().sqr().unwrap();
            adam.step(&loss.backward().unwrap(), 0.1).unwrap();
            assert!((value(&w) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn two_steps_by_pencil() {
        // w = 1, gradient always 2, no decay, lr = 0.1. Step 1: m̂ = 2, v̂ = 4, so w = 0.9. Step 2: m̂ = 2, v̂ = 4 again.
        let w = scalar(1.0);
        let mut adam = Adam::new(vec![ParamGroup::free(vec![("w", w.clone())])], 0.5);
        for expected in [0.9, 0.8] {
            let loss = (w.as_tensor() * 2.0).unwrap();
            adam.step(&loss.backward().unwrap(), 0.1).unwrap();
            assert!((value(&w) - expected).abs() < 1e-7);
        }
    }

    #[test]
    fn groups_have_their_own_rate_and_decay() {
        let (a, b, c) = (scalar(1.0), scalar(1.0), scalar(1.0));
        let groups = vec![
            ParamGroup::decayed(vec![("a", a.clone())]),
            ParamGroup { vars: vec![("b", b.clone())], lr_factor: 0.5, decay: Decay::Off },
            ParamGroup { vars: vec![("c", c.clone())], lr_factor: 2.0, decay: Decay::Own(0.7) },
        ];
        let mut adam = Adam::new(groups, 0.2);
        let steps = 5;
        for _ in 0..steps {
            let sum = ((a.as_tensor().sqr().unwrap() + b.as_tensor().sqr().unwrap()).unwrap()
                + c.as_tensor().sqr().unwrap())
            .unwrap();
            adam.step(&sum.backward().unwrap(), 0.1).unwrap();
        }
        for (var, lr, decay) in [(&a, 0.1, 0.2), (&b, 0.05, 0.0), (&c, 0.2, 0.7)] {
            let expected = by_hand(1.0, |w| 2.0 * w, lr, decay, steps);
            assert!((value(var) - expected[steps as usize - 1]).abs() < 1e-12);
        }
    }

    #[test]
    fn a_tensor_without_gradient_is_left_alone() {
        let (used, unused) = (scalar(1.0), scalar(1.0));
        let mut adam =
            Adam::new(vec![ParamGroup::decayed(vec![("used", used.clone()), ("unused", unused.clone())])], 0.1);
        adam.step(&used.as_tensor().sqr().unwrap().backward().unwrap(), 0.1).unwrap();
        assert_eq!(value(&unused), 1.0);
        assert!((value(&used) - 0.9).abs() < 1e-6);
    }
}
