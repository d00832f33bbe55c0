//! Runs: which nodes are needed, computing them in parallel, and reporting what happens.

mod again;
mod clock;
mod demand;
mod event;
mod execute;
mod schedule;
mod simulate;
mod summary;
#[cfg(test)]
mod testing;
mod time_left;
mod work;

pub use demand::{NodeState, demand};
pub use event::{Event, EventSink, FailureKind, NodeFailure, causes};
pub use execute::{RunError, RunOptions, execute};
pub use simulate::{Price, Resources, simulate};
pub use summary::{FailedNode, RunReport};

pub use crate::store::Holder;
