//! The learning-rate schedule of the paper: lr_e = lr · factor^⌊e / every⌋ for epoch e = 0, 1, ….
//!
//! The paper states a factor of 0.99 every 50 epochs; none of the published code has a schedule, which is a factor of 1.

/// A learning rate that falls in steps.
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    /// The rate of the first epoch.
    pub lr: f64,
    /// What a step multiplies it by.
    pub factor: f64,
    /// Epochs between steps; 0 means that it never falls.
    pub every: usize,
}

impl StepDecay {
    /// Returns the learning rate of an epoch.
    pub fn at(&self, epoch: usize) -> f64 {
        let steps = epoch.checked_div(self.every).unwrap_or(0);
        self.lr * self.factor.powi(i32::try_from(steps).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_at_every_multiple_only() {
        let schedule = StepDecay { lr: 0.01, factor: 0.99, every: 50 };
        for (epoch, steps) in [(0, 0), (49, 0), (50, 1), (99, 1), (100, 2), (999, 19)] {
            let expected = 0.01 * 0.99_f64.powi(steps);
            assert!((schedule.at(epoch) - expected).abs() < 1e-15, "epoch {epoch}");
        }
    }

    #[test]
    fn a_factor_of_one_or_no_step_keeps_the_rate() {
        assert_eq!(StepDecay { lr: 0.01, factor: 1.0, every: 50 }.at(700), 0.01);
        assert_eq!(StepDecay { lr: 0.01, factor: 0.5, every: 0 }.at(700), 0.01);
    }
}
