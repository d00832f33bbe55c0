//! End-to-end tests: the program in a temporary project, one module a subject.

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod cache;
mod caching;
mod crashes;
mod determinism;
mod docs;
mod invalid;
mod look;
mod readme;
mod runs;
mod sweeps;
