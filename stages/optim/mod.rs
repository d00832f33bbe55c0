//! Optimisation: Adam with coupled weight decay and parameter groups, the learning-rate schedule, early stopping.

mod adam;
mod group;
mod schedule;
mod stopping;

pub use adam::Adam;
pub use group::{Decay, ParamGroup};
pub use schedule::StepDecay;
pub use stopping::WindowedStop;
