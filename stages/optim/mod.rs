//! Optimisation: Adam with coupled weight decay and parameter groups, the learning-rate schedule, early stopping.

mod adam;
mod rule;
mod schedule;
mod stopping;

pub use adam::{Adam, Settings};
pub use rule::{Decay, Rate, Rule};
pub use schedule::StepDecay;
pub use stopping::WindowedStop;
