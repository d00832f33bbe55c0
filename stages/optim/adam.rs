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

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor, Var};
#[cfg(feature = "cuda")]
use candle_core::{CudaStorage, backend::BackendStorage};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::Rule;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::host::{self, Element};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;
/// Values that one task updates.
const TASK: usize = 1 << 14;

/// The state of one tensor, lanes first.
pub struct Adam {
    rule: Rule,
    /// First and second moment; empty before the first gradient.
    moments: Arc<Mutex<Moments>>,
    /// Steps taken.
    t: i32,
}

/// What the settings of a run say about all tensors.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Learning rate at the start.
    pub lr: f64,
    /// Learning rate now.
    pub lr_now: f64,
    /// Weight decay of the tensors that share it.
    pub weight_decay: f64,
}

/// Both moments of every value, in the type of the tensor.
#[derive(Default)]
struct Moments {
    single: [Vec<f32>; 2],
    double: [Vec<f64>; 2],
    #[cfg(feature = "cuda")]
    on_card: Option<cuda::Moments>,
}

impl Adam {
    /// Prepares to train a tensor.
    pub fn new(rule: Rule) -> Self {
        Self { rule, moments: Arc::default(), t: 0 }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When the gradient does not fit the tensor.
    pub fn step(&mut self, var: &Var, grad: &Tensor, settings: Settings) -> Result<()> {
        self.t += 1;
        let (unbias1, unbias2) = (1.0 - BETA1.powi(self.t), 1.0 - BETA2.powi(self.t));
        let step = Step {
            decay: self.rule.decay(settings.weight_decay),
            rate: self.rule.rate_now(settings.lr, settings.lr_now) / unbias1,
            unbias2,
            moments: self.moments.clone(),
        };
        var.as_tensor().inplace_op2(&grad.contiguous()?, &step)
    }

    /// Keeps some of `lanes` lanes.
    ///
    /// # Errors
    /// When a card has no room.
    pub fn select(&mut self, lanes: usize, kept: &[usize]) -> Result<()> {
        fn keep<T: Copy>(values: &mut Vec<T>, lanes: usize, kept: &[usize]) {
            let size = values.len().checked_div(lanes).unwrap_or(0);
            *values = kept.iter().flat_map(|lane| values[lane * size..(lane + 1) * size].iter().copied()).collect();
        }
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.single.iter_mut().for_each(|values| keep(values, lanes, kept));
        moments.double.iter_mut().for_each(|values| keep(values, lanes, kept));
        #[cfg(feature = "cuda")]
        if let Some(on_card) = &mut moments.on_card {
            *on_card = on_card.select(lanes, kept)?;
        }
        Ok(())
    }
}

struct Step {
    decay: f64,
    /// Learning rate over the bias of the first moment.
    rate: f64,
    unbias2: f64,
    moments: Arc<Mutex<Moments>>,
}

impl Step {
    fn run<T: Element>(
        &self,
        w: &mut CpuStorage,
        wl: &Layout,
        g: &CpuStorage,
        gl: &Layout,
        of: &mut [Vec<T>; 2],
    ) -> Result<()> {
        let g: &[T] = host::slice(g, gl)?;
        let w: &mut [T] = host::slice_mut(w, wl)?;
        if g.len() != w.len() {
            candle_core::bail!("a gradient of {} values for {} weights", g.len(), w.len());
        }
        let [m, v] = of;
        m.resize(w.len(), T::default());
        v.resize(w.len(), T::default());
        let arch = Arch::new();
        let numbers = [self.decay, self.rate, self.unbias2].map(T::narrow);
        let pieces =
            w.par_chunks_mut(TASK).zip(g.par_chunks(TASK)).zip(m.par_chunks_mut(TASK).zip(v.par_chunks_mut(TASK)));
        pieces.for_each(|((w, g), (m, v))| arch.dispatch(Update { w, g, m, v, numbers }));
        Ok(())
    }
}

impl InplaceOp2 for Step {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn cpu_fwd(&self, w: &mut CpuStorage, wl: &Layout, g: &CpuStorage, gl: &Layout) -> Result<()> {
        let moments = &mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        match w {
            CpuStorage::F32(_) => self.run(w, wl, g, gl, &mut moments.single),
            CpuStorage::F64(_) => self.run(w, wl, g, gl, &mut moments.double),
            _ => host::float_only("Adam"),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, w: &mut CudaStorage, wl: &Layout, g: &CudaStorage, gl: &Layout) -> Result<()> {
        let moments = &mut *self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let on_card = match &mut moments.on_card {
            Some(on_card) => on_card,
            none => none.insert(cuda::Moments::new(g.device(), wl.shape().elem_count())?),
        };
        let (decay, rate, unbias) = (self.decay, self.rate, self.unbias2);
        let step = cuda::Step { decay, betas: (BETA1, BETA2), epsilon: EPSILON, rate, unbias };
        on_card.step((w, wl), (g, gl), step)
    }
}

/// One step of some values, compiled for the widest registers there are.
struct Update<'a, T> {
    w: &'a mut [T],
    g: &'a [T],
    m: &'a mut [T],
    v: &'a mut [T],
    /// Decay, rate, unbias.
    numbers: [T; 3],
}

impl<T: Element> WithSimd for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [decay, rate, unbias2] = self.numbers;
        let [beta1, rest1, beta2, rest2, epsilon] = [BETA1, 1.0 - BETA1, BETA2, 1.0 - BETA2, EPSILON].map(T::narrow);
        for (((w, g), m), v) in self.w.iter_mut().zip(self.g).zip(self.m).zip(self.v) {
            let g = *g + *w * decay;
            *m = *m * beta1 + g * rest1;
            *v = *v * beta2 + g * g * rest2;
            *w = *w - *m * rate / ((*v / unbias2).root() + epsilon);
        }
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
