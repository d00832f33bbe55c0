//! What the optimiser does with a trained tensor: its learning rate and weight decay.

/// How much weight decay a tensor gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// What the run says (`weight-decay`).
    Shared,
    /// None at all, as for filter coefficients.
    Off,
    /// A value of the model's own.
    Own(f64),
}

/// Which learning rate a tensor has; the schedule of the run applies to either.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// What the run says (`lr`).
    Shared,
    /// A value of the model's own.
    Own(f64),
}

/// Learning rate and weight decay of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The learning rate.
    pub rate: Rate,
    /// The weight decay.
    pub decay: Decay,
}

impl Rule {
    /// The run's learning rate and weight decay.
    pub fn decayed() -> Self {
        Self { rate: Rate::Shared, decay: Decay::Shared }
    }

    /// The run's learning rate and no weight decay.
    pub fn free() -> Self {
        Self { rate: Rate::Shared, decay: Decay::Off }
    }

    /// Returns the learning rate, given that of the run at its start and now.
    pub(crate) fn rate_now(self, start: f64, now: f64) -> f64 {
        match self.rate {
            Rate::Shared => now,
            Rate::Own(own) => own * (now / start),
        }
    }

    /// Returns the weight decay, given that of the run.
    pub(crate) fn decay(self, shared: f64) -> f64 {
        match self.decay {
            Decay::Shared => shared,
            Decay::Off => 0.0,
            Decay::Own(own) => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_its_own_follows_the_schedule_of_the_run() {
        let own = Rule { rate: Rate::Own(0.05), ..Rule::free() };
        assert!((own.rate_now(0.01, 0.009) - 0.045).abs() < 1e-15);
        assert_eq!(Rule::decayed().rate_now(0.01, 0.009), 0.009);
    }

    #[test]
    fn decay_is_shared_off_or_own() {
        let own = Rule { decay: Decay::Own(0.3), ..Rule::free() };
        assert_eq!([Rule::decayed(), Rule::free(), own].map(|rule| rule.decay(0.1)), [0.1, 0.0, 0.3]);
    }
}
