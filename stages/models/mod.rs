//! Models: one file each, and one row of [`MODELS`].
//!
//! A model turns a [`GraphView`] into logits and tells the optimiser about its weights; the trainer never asks which
//! model it has. [`blocks`] holds what several models are built from.

pub mod blocks;
mod features;
mod gpr_gnn;
mod mlp;
mod mode;
mod model;
mod pp_gnn;
#[cfg(test)]
pub(crate) mod testing;
mod view;

pub use features::FeatureView;
pub use gpr_gnn::GprGnn;
pub use mlp::Mlp;
pub use mode::{Mode, Streams};
pub use model::{Build, Model, ModelDef};
pub use pp_gnn::PpGnn;
pub use view::{GraphView, SpectrumView};

/// Every model, in the order that `ppgnn list` shows them.
pub static MODELS: &[ModelDef] = &[ModelDef::of::<Mlp>(), ModelDef::of::<GprGnn>(), ModelDef::of::<PpGnn>()];

/// Returns the rows for a stage's [choice](crate::contract::Choice).
pub fn variants() -> Vec<crate::params::Variant> {
    MODELS.iter().map(|m| m.variant).collect()
}
