//! Models: one file each, and one row of [`MODELS`].
//!
//! A model turns a [`GraphView`] into logits of all lanes of a batch, and names its weights; the trainer never asks which
//! model it has. [`blocks`] holds what several models are built from, [`ops`] the operations under them.

mod adagnn;
mod appnp;
mod arma;
mod bernnet;
pub mod blocks;
mod card;
mod fagcn;
mod features;
mod gcn;
mod gcn_kipf;
mod gcn_ogb;
mod geom_gcn;
mod gfir;
mod gpr_gnn;
mod graph_view;
mod h2gcn;
mod lgc;
mod lr;
mod mlp;
mod model;
pub mod ops;
mod pass;
pub mod plain;
mod pp_gnn;
mod propagated;
mod related;
mod response;
mod sgcn;
mod streams;
mod supergat;
mod tdgnn;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod weights;
mod work;

pub use adagnn::AdaGnn;
pub use appnp::Appnp;
pub use arma::Arma;
pub use bernnet::BernNet;
pub use card::{Card, explained};
pub use fagcn::Fagcn;
pub use features::{FeatureView, Input};
pub use gcn::Gcn;
pub use gcn_kipf::GcnKipf;
pub use gcn_ogb::GcnOgb;
pub use geom_gcn::GeomGcn;
pub use gfir::Gfir;
pub use gpr_gnn::GprGnn;
pub use graph_view::{GraphParts, GraphView, SpectrumView};
pub use h2gcn::H2gcn;
pub use lgc::Lgc;
pub use lr::Lr;
pub use mlp::Mlp;
pub use model::{Build, Model, ModelDef, Output};
pub use pass::{Dropout, Pass};
pub use plain::{Mode, PlainFeatures, PlainGraph, PlainModel};
pub use pp_gnn::PpGnn;
pub use related::Related;
pub use response::{At, Learned, Level, Local, Respond, polynomial};
pub use sgcn::Sgcn;
pub use streams::{BatchStreams, Streams};
pub use supergat::SuperGat;
pub use tdgnn::Tdgnn;
pub use weights::{Named, Param, State, WeightName, Weights};
pub use work::{CALLS, GraphSizes, ModelWork, TERMS};

/// Every built-in model, in the order that `ppgnn list` shows them.
pub static MODELS: &[ModelDef] = &[
    ModelDef::of::<Lr>(),
    ModelDef::of::<Mlp>(),
    ModelDef::of::<Gcn>(),
    ModelDef::of::<GcnKipf>(),
    ModelDef::of::<GcnOgb>(),
    ModelDef::of::<Sgcn>(),
    ModelDef::of::<SuperGat>(),
    ModelDef::of::<GeomGcn>(),
    ModelDef::of::<Fagcn>(),
    ModelDef::of::<Appnp>(),
    ModelDef::of::<Lgc>(),
    ModelDef::of::<GprGnn>(),
    ModelDef::of::<Tdgnn>(),
    ModelDef::of::<H2gcn>(),
    ModelDef::of::<Arma>(),
    ModelDef::of::<BernNet>(),
    ModelDef::of::<AdaGnn>(),
    ModelDef::of::<Gfir>(),
    ModelDef::of::<PpGnn>(),
];
