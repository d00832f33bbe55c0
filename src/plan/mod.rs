//! Planning: from a pipeline as meant to nodes with keys. Nothing is computed here.

mod at_point;
mod build;
mod canon;
mod figures;
mod files;
mod forced;
mod graph;
mod key;
mod measured;
mod name;
mod sharing;
mod tables;
#[cfg(test)]
mod testing;
mod trials;

pub use build::{PlanContext, build, build_for, searched};
pub use files::{Contents, FileDigests};
pub use graph::{Absence, Edge, Missing, Node, NodeId, Output, Plan, SearchState, TrialNodes, TrialState};
pub use key::{ArtifactKey, KeyInput, KeyInputs, KeyVariant};
pub use name::{NodeName, file_name};
