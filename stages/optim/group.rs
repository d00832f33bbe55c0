//! Parameter groups: what a model tells the optimiser about its weights.

use candle_core::Var;

/// How much weight decay a group gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// What the run says (`weight-decay`).
    Shared,
    /// None at all, as for filter coefficients.
    Off,
    /// A value of the model's own.
    Own(f64),
}

impl Decay {
    /// Returns the value, given that of the run.
    pub fn value(self, shared: f64) -> f64 {
        match self {
            Self::Shared => shared,
            Self::Off => 0.0,
            Self::Own(value) => value,
        }
    }
}

/// Trainable tensors that share a learning rate and a weight decay.
#[derive(Clone)]
pub struct ParamGroup {
    /// The tensors, each with a name that is unique in its model.
    pub vars: Vec<(&'static str, Var)>,
    /// Multiplies the learning rate of the run.
    pub lr_factor: f64,
    /// How much weight decay the group gets.
    pub decay: Decay,
}

impl ParamGroup {
    /// A group with the run's learning rate and weight decay.
    pub fn decayed(vars: Vec<(&'static str, Var)>) -> Self {
        Self { vars, lr_factor: 1.0, decay: Decay::Shared }
    }

    /// A group with the run's learning rate and no weight decay.
    pub fn free(vars: Vec<(&'static str, Var)>) -> Self {
        Self { vars, lr_factor: 1.0, decay: Decay::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_decay_follows_the_run() {
        assert_eq!([Decay::Shared, Decay::Off, Decay::Own(0.3)].map(|d| d.value(0.1)), [0.1, 0.0, 0.3]);
    }
}
