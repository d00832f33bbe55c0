//! Planning: from a pipeline as meant to nodes with keys. Nothing is computed here.

mod canon;
mod graph;
mod key;

pub use graph::{Edge, Node, NodeId, Plan, TableNode};
pub use key::{ArtifactKey, KeyInput, KeyInputs, KeyVariant};
