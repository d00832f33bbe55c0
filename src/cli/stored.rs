//! Artifacts that must be in the store already: commands that only read say which command computes what is missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::contract::params::list;

use super::exit;
use super::failure::Failure;
use super::project::shell_word;
use crate::plan::{NodeId, Plan};
use crate::store::{Opened, Store};

/// How many missing nodes a message names.
const MOST_NAMED: usize = 5;

/// A plan, and the store that has its results.
pub struct Stored<'p> {
    /// The plan.
    pub plan: &'p Plan,
    /// The store.
    pub store: &'p Store,
    /// The pipeline as a person would type it again, for hints.
    pub words: String,
}

impl Stored<'_> {
    /// Returns the folder of a node's artifact, every byte of which was compared with its digest.
    pub fn dir(&self, id: NodeId) -> Result<PathBuf, Failure> {
        let node = self.plan.node(id);
        match self.store.open_artifact(&node.key, node.stage.name)? {
            Opened::Hit(entry) => Ok(entry.dir),
            Opened::Miss => Err(self.missing(&[id])),
            Opened::Damaged { what, .. } => {
                let hint =
                    format!("`ppgnn run {} {}` computes it again", self.words, shell_word(&node.name.to_string()));
                Err(Failure::new(exit::DATA, format!("`{}` is damaged: {what}", node.name), Some(&hint)))
            }
        }
    }

    /// Loads the artifact of a node.
    pub fn load<A: Artifact>(&self, id: NodeId) -> Result<A, Failure> {
        A::load(&self.dir(id)?).map_err(|e| Failure::unexpected(e.to_string()))
    }

    /// Returns whether a node was computed.
    pub fn has(&self, id: NodeId) -> bool {
        let node = self.plan.node(id);
        self.store.has(&node.key, node.stage.name)
    }

    /// Refuses to go on unless all nodes were computed.
    pub fn all_there(&self, nodes: impl IntoIterator<Item = NodeId>) -> Result<(), Failure> {
        let missing: BTreeSet<NodeId> = nodes.into_iter().filter(|id| !self.has(*id)).collect();
        if missing.is_empty() { Ok(()) } else { Err(self.missing(&missing.into_iter().collect::<Vec<_>>())) }
    }

    fn missing(&self, nodes: &[NodeId]) -> Failure {
        let names: Vec<String> = nodes.iter().map(|id| self.plan.node(*id).name.to_string()).collect();
        let shown = list(names.iter().take(MOST_NAMED).map(String::as_str));
        let message = match names.len() {
            1 => format!("{shown} has not been computed"),
            n if n > MOST_NAMED => format!("{n} nodes have not been computed, {shown} among them"),
            _ => format!("{shown} have not been computed"),
        };
        let targets: Vec<String> = names.iter().take(MOST_NAMED).map(|name| shell_word(name)).collect();
        let targets = if names.len() > MOST_NAMED { String::new() } else { format!(" {}", targets.join(" ")) };
        let hint = format!("`ppgnn run {}{targets}` computes what is missing", self.words);
        Failure::new(exit::DATA, message, Some(&hint))
    }
}

/// Returns a node if it is of a kind, else the nearest nodes of that kind that it depends on.
pub fn nearest(plan: &Plan, from: NodeId, kind: &str) -> Vec<NodeId> {
    let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![from]);
    while let Some(id) = next.pop() {
        if !seen.insert(id) {
            continue;
        }
        if plan.node(id).stage.output.0 == kind {
            found.insert(id);
        } else {
            next.extend(plan.node(id).inputs.iter().map(|edge| edge.node));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_nodes_can_be_typed_again() {
        assert_eq!(super::shell_word("train/cora/PP-GNN"), "train/cora/PP-GNN");
        assert_eq!(super::shell_word("train/a/PP-GNN (Low)"), "'train/a/PP-GNN (Low)'");
        assert_eq!(super::shell_word("it's"), "'it'\\''s'");
    }
}
