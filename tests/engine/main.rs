//! The engine with toy stages: laws of the store, of runs and of publishing, one test each.

#![expect(clippy::unwrap_used, reason = "tests")]

mod claims;
mod damage;
mod gc;
mod processes;
mod publish;
mod runs;
mod scheduling;
mod stores;
mod toy;
