//! What a plan will take: sizes of what is not there yet, seconds, memory, and what must fail.
//!
//! Stages say what they make and take ([`Stage::estimate`](ppgnn_stages::contract::Stage::estimate)); sizes of what is in the store
//! come from there. How fast this machine is, is learned from what it computed before ([`fit`]), so the first plan is a guess
//! and says so. Nothing here runs anything, and nothing of it is in a key.

mod done;
mod expected;
pub mod fit;
mod look;
mod machine;
mod memory;
mod past;

pub use done::cost;
pub use expected::{Expected, Fault, FaultKind, Need, Range};
pub use look::Forecast;
pub use machine::{machine, machine_id};
pub use memory::{Allowed, BASE, allowed};
pub use past::PastRuns;
