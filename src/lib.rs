//! The engine of ppgnn: pipeline files, plans, the artifact store, runs and the command line.
//!
//! Data flows one way, a type for each step: text → `PipelineFile` → [`pipeline::Pipeline`] → [`plan::Plan`] →
//! [`run::RunReport`]. The science (stages, models, formats) is in the crate `ppgnn-stages`, which knows nothing of
//! this one.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

pub mod catalogue;
pub mod cli;
pub mod history;
pub mod pipeline;
pub mod plan;
pub mod report;
pub mod run;
pub mod store;
