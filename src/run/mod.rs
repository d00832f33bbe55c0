//! Runs: which nodes are needed, computing them in parallel, and reporting what happens.

mod demand;
mod event;
mod execute;
mod schedule;
mod summary;
#[cfg(test)]
mod testing;
mod work;

pub use demand::{NodeState, demand};
pub use event::{Event, EventSink, FailureKind, NodeFailure, causes};
pub use execute::{RunError, RunOptions, execute};
pub use summary::{FailedNode, RunReport};
