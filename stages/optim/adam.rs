//! Adam with coupled weight decay and parameter groups, as PyTorch's `Adam(weight_decay = c)`.
//!
//! ```text
//! g ← ∂loss/∂w + c·w
//! m ← β₁ m + (1−β₁) g ;  v ← β₂ v + (1−β₂) g²
//! w ← w − lr · (m/(1−β₁^t)) / ( √(v/(1−β₂^t)) + ε )        β₁ = 0.9, β₂ = 0.999, ε = 1e-8
//! ```
//!
//! Weights that nothing but decay moves shrink for ever. In single precision, gradients, moments and weights below 10⁻¹⁷
//! count as 0: they are far below what a sum with anything else could show, and their squares would soon be numbers so
//! small that CPUs compute with them a hundred times slower.
//!
//! candle ships AdamW only, whose decay is decoupled (w ← (1−lr·c)·w): another optimiser, with other results. A tensor
//! that did not reach the loss has no gradient and is skipped: no step, no decay, and its t does not count.

use candle_core::{Result, Tensor, Var, bail};
use pulp::Arch;
use rayon::prelude::*;

use super::Rule;
#[cfg(any(feature = "cuda", test))]
use crate::tensor::cuda;
use crate::tensor::slices::{self, Element, by_float};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;
/// Values that one task updates.
const TASK: usize = 1 << 14;

/// The state of one tensor, lanes first.
pub struct Adam {
    rule: Rule,
    /// First and second moment of every value; none before the first gradient.
    moments: Option<[Tensor; 2]>,
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

impl Adam {
    /// Prepares to train a tensor.
    pub fn new(rule: Rule) -> Self {
        Self { rule, moments: None, t: 0 }
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When the gradient does not fit the tensor.
    pub fn step(&mut self, var: &Var, grad: &Tensor, settings: Settings) -> Result<()> {
        if grad.dims() != var.dims() {
            bail!("a gradient of {:?} for weights of {:?}", grad.dims(), var.dims());
        }
        self.t += 1;
        let (unbias1, unbias2) = (1.0 - BETA1.powi(self.t), 1.0 - BETA2.powi(self.t));
        let rate = self.rule.rate_now(settings.lr, settings.lr_now) / unbias1;
        let numbers = [self.rule.decay(settings.weight_decay), rate, unbias2];
        let [m, v] = match &mut self.moments {
            Some(moments) => moments,
            none => none.insert([var.zeros_like()?, var.zeros_like()?]),
        };
        #[cfg(any(feature = "cuda", test))]
        if cuda::is_gpu(var.device()) {
            let ([decay, rate, unbias], betas) = (numbers, [BETA1, BETA2]);
            return cuda::adam(var, [m, v], grad, &cuda::Step { decay, betas, epsilon: EPSILON, rate, unbias });
        }
        by_float!(var.dtype(), "Adam", T => slices::lend::<T, _, 1>([grad], |[g]| {
            slices::change::<T>(var, |w| slices::change::<T>(m, |m| slices::change::<T>(v, |v| {
                update(w, g, m, v, numbers.map(T::narrow));
                Ok(())
            })))
        }))
    }

    /// Returns the steps taken and both moments; none before the first step.
    pub fn state(&self) -> Option<(i32, &[Tensor; 2])> {
        self.moments.as_ref().map(|moments| (self.t, moments))
    }

    /// Goes on from what [`Adam::state`] returned.
    pub fn resume(&mut self, steps: i32, moments: [Tensor; 2]) {
        (self.t, self.moments) = (steps, Some(moments));
    }

    /// Keeps some lanes.
    ///
    /// # Errors
    /// When there are no such lanes, or a GPU has no room.
    pub fn select(&mut self, lanes: &Tensor) -> Result<()> {
        for moment in self.moments.iter_mut().flatten() {
            *moment = moment.index_select(lanes, 0)?;
        }
        Ok(())
    }
}

/// Takes a step with all values; `numbers` are decay, rate and unbias.
fn update<T: Element>(w: &mut [T], g: &[T], m: &mut [T], v: &mut [T], numbers: [T; 3]) {
    let arch = Arch::new();
    let pieces = w.par_chunks_mut(TASK).zip(g.par_chunks(TASK)).zip(m.par_chunks_mut(TASK).zip(v.par_chunks_mut(TASK)));
    pieces.for_each(|((w, g), (m, v))| {
        // Compiled for the widest registers there are.
        arch.dispatch(
            #[inline(always)]
            || update_some(w, g, m, v, numbers),
        );
    });
}

#[inline(always)]
fn update_some<T: Element>(w: &mut [T], g: &[T], m: &mut [T], v: &mut [T], [decay, rate, unbias2]: [T; 3]) {
    let [beta1, rest1, beta2, rest2, epsilon] = [BETA1, 1.0 - BETA1, BETA2, 1.0 - BETA2, EPSILON].map(T::narrow);
    let tiny = T::TINY;
    let whole = |x: T| if x < tiny && T::default() - x < tiny { T::default() } else { x };
    for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
        let g = whole(*g + *w * decay);
        *m = whole(*m * beta1 + g * rest1);
        *v = *v * beta2 + g * g * rest2;
        *v = if *v < tiny * tiny { T::default() } else { *v };
        *w = whole(*w - *m * rate / ((*v / unbias2).root() + epsilon));
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::models::testing::{bits, normal, with_threads};
    use crate::optim::{Decay, Rate};

    fn scalar(x: f64) -> Var {
        Var::from_tensor(&Tensor::new(x, &Device::Cpu).unwrap()).unwrap()
    }

    fn value(var: &Var) -> f64 {
        var.as_tensor().to_scalar().unwrap()
    }

    fn settings(lr: f64, weight_decay: f64) -> Settings {
        Settings { lr, lr_now: lr, weight_decay }
    }

    /// Takes a step along a gradient.
    fn step(adam: &mut Adam, var: &Var, gradient: f64, settings: Settings) {
        adam.step(var, &Tensor::new(gradient, &Device::Cpu).unwrap(), settings).unwrap();
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
        step(&mut Adam::new(Rule::decayed()), &w, 0.0, settings(0.01, 0.1));
        assert!((value(&w) - 0.99).abs() < 1e-6);
    }

    #[test]
    fn steps_follow_the_formula() {
        // loss = (w − 3)², so the gradient is 2(w − 3).
        let (w, mut adam) = (scalar(1.0), Adam::new(Rule::decayed()));
        for expected in by_hand(1.0, |w| 2.0 * (w - 3.0), 0.1, 0.05, 25) {
            let gradient = 2.0 * (value(&w) - 3.0);
            step(&mut adam, &w, gradient, settings(0.1, 0.05));
            assert!((value(&w) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn two_steps_by_pencil() {
        // w = 1, gradient always 2, no decay, lr = 0.1. Step 1: m̂ = 2, v̂ = 4, so w = 0.9. Step 2: m̂ = 2, v̂ = 4 again.
        let (w, mut adam) = (scalar(1.0), Adam::new(Rule::free()));
        for expected in [0.9, 0.8] {
            step(&mut adam, &w, 2.0, settings(0.1, 0.5));
            assert!((value(&w) - expected).abs() < 1e-7);
        }
    }

    #[test]
    fn tensors_have_their_own_rate_and_decay() {
        // The learning rate of the run has fallen to a half; one of a tensor's own falls with it.
        let now = Settings { lr: 0.2, lr_now: 0.1, weight_decay: 0.2 };
        for (rule, lr, decay) in [
            (Rule::decayed(), 0.1, 0.2),
            (Rule { rate: Rate::Own(0.1), decay: Decay::Off }, 0.05, 0.0),
            (Rule { rate: Rate::Own(0.4), decay: Decay::Own(0.7) }, 0.2, 0.7),
        ] {
            let (w, mut adam) = (scalar(1.0), Adam::new(rule));
            for expected in by_hand(1.0, |w| 2.0 * w, lr, decay, 5) {
                let gradient = 2.0 * value(&w);
                step(&mut adam, &w, gradient, now);
                assert!((value(&w) - expected).abs() < 1e-12, "{rule:?}");
            }
        }
    }

    #[test]
    fn every_value_of_a_tensor_takes_the_same_steps_as_alone() {
        let (start, gradient) = (normal(&[2, 9], 1), normal(&[2, 9], 2));
        let (all, mut adam) = (Var::from_tensor(&start).unwrap(), Adam::new(Rule::decayed()));
        (0..3).for_each(|_| adam.step(&all, &gradient, settings(0.1, 0.3)).unwrap());
        for at in 0..18 {
            let [start, gradient, after] =
                [&start, &gradient, all.as_tensor()].map(|t| t.flatten_all().unwrap().to_vec1::<f64>().unwrap()[at]);
            assert!((by_hand(start, |_| gradient, 0.1, 0.3, 3)[2] - after).abs() < 1e-14);
        }
    }

    #[test]
    fn lanes_that_leave_do_not_disturb_the_others_and_single_precision_is_near() {
        for dtype in [DType::F32, DType::F64] {
            let (start, gradient) = (normal(&[4, 3, 5], 1), normal(&[4, 3, 5], 2));
            let [start, gradient] = [start, gradient].map(|t| t.to_dtype(dtype).unwrap());
            let rows = Tensor::new(&[0u32, 2], &Device::Cpu).unwrap();
            let (all, mut whole) = (Var::from_tensor(&start).unwrap(), Adam::new(Rule::decayed()));
            (0..6).for_each(|_| whole.step(&all, &gradient, settings(0.1, 0.3)).unwrap());
            let (some, mut part) = (Var::from_tensor(&start).unwrap(), Adam::new(Rule::decayed()));
            (0..3).for_each(|_| part.step(&some, &gradient, settings(0.1, 0.3)).unwrap());
            part.select(&rows).unwrap();
            let some = Var::from_tensor(&some.as_tensor().index_select(&rows, 0).unwrap()).unwrap();
            let gradient = gradient.index_select(&rows, 0).unwrap();
            (0..3).for_each(|_| part.step(&some, &gradient, settings(0.1, 0.3)).unwrap());
            let expected = all.as_tensor().index_select(&rows, 0).unwrap();
            assert_eq!(bits(some.as_tensor()), bits(&expected), "{dtype:?}");
        }
    }

    #[test]
    fn threads_change_no_byte() {
        let count = 2 * TASK + 77;
        let [start, gradient] = [1, 2].map(|seed| normal(&[1, count], seed).to_dtype(DType::F32).unwrap());
        let with = |threads| {
            with_threads(threads, || {
                let (w, mut adam) = (Var::from_tensor(&start).unwrap(), Adam::new(Rule::decayed()));
                (0..3).for_each(|_| adam.step(&w, &gradient, settings(0.1, 0.3)).unwrap());
                bits(w.as_tensor())
            })
        };
        let one = with(1);
        assert!(with(2) == one && with(3) == one);
    }

    #[test]
    fn a_gradient_that_does_not_fit_is_refused() {
        let w = Var::from_tensor(&normal(&[2, 3], 1)).unwrap();
        let step = |gradient: Tensor| Adam::new(Rule::free()).step(&w, &gradient, settings(0.1, 0.0));
        assert!(step(normal(&[2, 4], 2)).is_err());
        assert!(step(normal(&[2, 3], 2).to_dtype(DType::F32).unwrap()).is_err());
    }
}
