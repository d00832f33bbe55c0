//! Computing again what is in the store, to measure it.

use std::collections::BTreeMap;

use super::StageError;

/// Says that a stage measures how others compute.
///
/// The planner looks for the nodes that are measured above what is in `slot`, and hands over in `reads` whatever they read, so that
/// it is in the store when the stage runs. The stage runs when nothing else does, and its key says on which machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Name of the slot; what is in it and everything above can be measured.
    pub slot: &'static str,
    /// The parameter that lists the stages to measure.
    pub param: &'static str,
    /// The parameter that asks for all trials of a search in `slot`, instead of the chosen one, when it is true.
    pub whole_search: &'static str,
    /// Name of a slot that the planner alone fills, so it does not stand among the [inputs](super::Stage::INPUTS).
    pub reads: &'static str,
}

/// Computes nodes again, for a stage that [measures](Measures) them.
pub trait Again: Sync {
    /// Computes once more everything that a stage of this name has made of what is measured; nothing is kept of it.
    ///
    /// # Errors
    /// What the stage reports.
    fn again(&self, stage: &str, how: How) -> Result<Vec<Timed>, StageError>;
}

/// How something is computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Threads that it may use.
    pub threads: usize,
    /// See [`Job::one_by_one`](super::Job::one_by_one).
    pub one_by_one: bool,
}

/// What a computation took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// Seconds from reading the inputs to the last byte of the result.
    pub seconds: f64,
    /// What the stage said of it with [`Job::measured`](super::Job::measured), in order.
    pub measured: BTreeMap<&'static str, Vec<f64>>,
}
