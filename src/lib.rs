//! The engine of ppgnn: pipeline files, plans, the artifact store, runs and the command line.
//!
//! Data flows one way, a type for each step: text → `PipelineFile` → `Pipeline` → [`plan::Plan`] → `RunReport`.

pub mod plan;
