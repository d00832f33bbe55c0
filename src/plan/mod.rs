//! Planning: from a pipeline as meant to nodes with keys. Nothing is computed here.

mod build;
mod canon;
mod files;
mod graph;
mod key;
mod sharing;
mod tables;

pub use build::{Surroundings, build};
pub use files::FileDigests;
pub use graph::{Absence, Edge, Node, NodeId, Plan, TableNode};
pub use key::{ArtifactKey, KeyInput, KeyInputs, KeyVariant};
