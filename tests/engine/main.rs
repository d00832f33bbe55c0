//! The engine with toy stages: laws of the store, of runs and of publishing, one test each.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod claims;
mod damage;
mod gc;
mod processes;
mod publish;
mod resume;
mod runs;
mod scheduling;
mod sharing;
mod stores;
mod toy;
