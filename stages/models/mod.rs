//! Models: one file each, and one row of [`MODELS`].
//!
//! A model turns a [`GraphView`] into logits of all lanes of a batch, and names its weights; the trainer never asks which
//! model it has. [`blocks`] holds what several models are built from, [`ops`] the operations under them.

mod appnp;
mod bernnet;
pub mod blocks;
mod features;
mod gcn;
mod gpr_gnn;
mod graph_view;
mod lr;
mod mlp;
mod model;
pub mod ops;
mod pass;
mod pp_gnn;
mod response;
mod streams;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod weights;

pub use appnp::Appnp;
pub use bernnet::BernNet;
pub use features::{FeatureView, Input};
pub use gcn::Gcn;
pub use gpr_gnn::GprGnn;
pub use graph_view::{GraphParts, GraphView, SpectrumView};
pub use lr::Lr;
pub use mlp::Mlp;
pub use model::{Build, Model, ModelDef, Output};
pub use pass::{Dropout, Pass};
pub use pp_gnn::PpGnn;
pub use response::{At, Learned, Level, Local, Respond, polynomial};
pub use streams::{BatchStreams, Streams};
pub use weights::{Named, Param, State, Weights};

/// Every built-in model, in the order that `ppgnn list` shows them.
pub static MODELS: &[ModelDef] = &[
    ModelDef::of::<Lr>(),
    ModelDef::of::<Mlp>(),
    ModelDef::of::<Gcn>(),
    ModelDef::of::<Appnp>(),
    ModelDef::of::<GprGnn>(),
    ModelDef::of::<BernNet>(),
    ModelDef::of::<PpGnn>(),
];
