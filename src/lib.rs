//! The engine of ppgnn: pipeline files, plans, the artifact store, runs and the command line.

pub mod pipeline;
pub mod plan;
pub mod report;
pub mod run;
pub mod store;
