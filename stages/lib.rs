//! The science of ppgnn: stages, models, data formats and the mathematics under them.
//!
//! `contract` says what a stage is; every stage is one file beside it and one row of `STAGES`. This crate never
//! reads pipeline files, looks at the cache or prints: the engine does, and depends on this crate, never the reverse.
//! [`built_in`] puts the tables together; a program adds rows of its own to them.

pub mod choose;
pub mod command;
pub mod contract;
pub mod describe;
pub mod drawing;
pub mod evaluate;
pub mod evd;
pub mod export;
pub mod featurize;
pub mod figures;
pub mod formats;
pub mod inspect;
pub mod kinds;
pub mod load;
pub mod math;
pub mod models;
pub mod normalize;
pub mod optim;
pub mod project;
pub mod reading;
pub mod relate;
pub mod separate;
pub mod split;
pub mod tabulate;
pub mod tensor;
pub mod time;
pub mod train;

/// The tensor library, for models outside of this crate.
pub use candle_core;
/// Its layers, for models in plain form.
pub use candle_nn;

use contract::{Registry, StageDef};

/// Every built-in stage.
pub static STAGES: &[StageDef] = &[
    StageDef::of::<load::Load>(),
    StageDef::of::<featurize::Featurize>(),
    StageDef::of::<normalize::Normalize>(),
    StageDef::of::<evd::Evd>(),
    StageDef::of::<project::Project>(),
    StageDef::of::<separate::Separate>(),
    StageDef::of::<relate::Relate>(),
    StageDef::of::<split::Split>(),
    StageDef::of::<train::Train>(),
    StageDef::of::<evaluate::Evaluate>(),
    StageDef::of::<choose::Choose>(),
    StageDef::of::<describe::Describe>(),
    StageDef::of::<time::Time>(),
    StageDef::of::<tabulate::Tabulate>(),
    StageDef::of::<figures::DrawMetric>(),
    StageDef::of::<figures::DrawLearning>(),
    StageDef::of::<figures::DrawResponses>(),
    StageDef::of::<figures::DrawDistances>(),
    StageDef::of::<figures::DrawSpectrum>(),
    StageDef::of::<figures::DrawDegrees>(),
    StageDef::of::<figures::DrawWaveform>(),
    StageDef::of::<figures::DrawConfusion>(),
    StageDef::of::<figures::DrawRanks>(),
    StageDef::of::<figures::DrawTsne>(),
    StageDef::of::<figures::DrawSearch>(),
    StageDef::of::<figures::DrawDag>(),
];

/// Returns everything that is known without any addition.
pub fn built_in() -> Registry {
    let registry = Registry::of_stages(STAGES).with_rows(models::MODELS).with_rows(command::COMMANDS);
    registry.with_rows(formats::FORMATS).with_rows(kinds::SCORES)
}
