//! The engine of ppgnn: pipeline files, plans, the artifact store, runs and the command line.
//!
//! Data flows one way, a type for each step: text → `PipelineFile` → [`pipeline::Pipeline`] → [`plan::Plan`] →
//! [`run::RunReport`]. The science (stages, models, formats) is in the crate `ppgnn-stages`, which knows nothing of
//! this one. [`Program`] puts the two together; a program of your own adds models, formats and stages to it.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

pub mod catalogue;
pub mod cli;
pub mod forecast;
pub mod history;
pub mod pipeline;
pub mod plan;
mod program;
pub mod report;
pub mod run;
pub mod search;
pub mod store;
pub mod study;

/// The allocator of the program `ppgnn`: training frees and takes the same large arrays in every epoch.
pub use mimalloc::MiMalloc;
/// The science: what models, formats and stages of your own are written with.
pub use ppgnn_stages as stages;
pub use program::Program;
