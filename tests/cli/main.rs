//! End-to-end tests: the program in a temporary project, one module per subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests fail by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod bands;
mod bases;
mod benches;
mod bounded;
mod browser;
mod cache;
mod caching;
mod commands;
mod crashes;
mod data;
mod datasets;
mod determinism;
mod devices;
mod docs;
mod export;
mod facts;
mod faults;
mod figures;
mod gpu_check;
mod guide;
mod invalid;
mod keeping;
mod live;
mod look;
mod metrics;
mod models;
mod new;
mod planning;
mod readme;
mod relations;
mod report;
mod runs;
mod search;
mod serve;
mod sharing;
mod show;
mod silent_server;
mod sweeps;
mod tolerance;
mod trace;
