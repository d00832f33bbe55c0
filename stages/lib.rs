//! The science of ppgnn: stages, models, data formats and the mathematics under them.
//!
//! `contract` says what a stage is; every stage is one file beside it and one row of `STAGES`. This crate never
//! reads pipeline files, looks at the cache or prints: the engine does, and depends on this crate, never the reverse.

pub mod contract;
pub mod kinds;
pub mod math;
pub mod params;
