//! The science of ppgnn: stages, models, data formats and the mathematics under them.
//!
//! `contract` says what a stage is; every stage is one file beside it and one row of `STAGES`. This crate never
//! reads pipeline files, looks at the cache or prints: the engine does, and depends on this crate, never the reverse.

pub mod checkpoint;
pub mod contract;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod datasets;
pub mod device;
pub mod evaluate;
pub mod evd;
pub mod featurize;
mod host;
pub mod inspect;
pub mod kinds;
pub mod load;
pub mod math;
pub mod models;
pub mod normalize;
pub mod optim;
pub mod params;
pub mod profile;
pub mod split;
pub mod tabulate;
pub mod train;

use contract::StageDef;

/// Every stage that a pipeline can name.
pub static STAGES: &[StageDef] = &[
    StageDef::of::<load::Load>(),
    StageDef::of::<featurize::Featurize>(),
    StageDef::of::<normalize::Normalize>(),
    StageDef::of::<evd::Evd>(),
    StageDef::of::<split::Split>(),
    StageDef::of::<train::Train>(),
    StageDef::of::<evaluate::Evaluate>(),
    StageDef::of::<tabulate::Tabulate>(),
];
