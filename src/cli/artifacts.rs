//! Artifacts to inspect: from the store if they are there, else computed into a temporary store.

use std::sync::atomic::AtomicBool;

use ppgnn_stages::contract::Artifact;

use super::failure::Failure;
use crate::plan::{NodeId, Plan};
use crate::report::Tee;
use crate::run::{RunOptions, execute};
use crate::store::{Opened, Store, TemporaryStore};

/// Artifacts of a plan. What had to be computed is deleted with it.
pub struct Artifacts<'p> {
    plan: &'p Plan,
    store: TemporaryStore,
}

impl<'p> Artifacts<'p> {
    /// Looks into a store first.
    pub fn new(plan: &'p Plan, store: Store) -> Result<Self, Failure> {
        Ok(Self { plan, store: TemporaryStore::in_front_of(store)? })
    }

    /// The store that has them.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Computes a node unless it is there.
    pub fn compute(&self, id: NodeId) -> Result<(), Failure> {
        let options = RunOptions {
            targets: vec![id],
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            gpus: Vec::new(),
            memory: None,
            fail_fast: true,
            commands: false,
            force: Vec::new(),
            cancel: &AtomicBool::new(false),
        };
        let report = execute(self.plan, &self.store, &options, &Tee(Vec::new()))?;
        report.failures.into_iter().next().map_or(Ok(()), |failed| Err(failed.failure.into()))
    }

    /// Returns the artifact of a node.
    pub fn get<A: Artifact>(&self, id: NodeId) -> Result<A, Failure> {
        self.compute(id)?;
        let node = self.plan.node(id);
        match self.store.open_artifact(&node.key, node.stage.name)? {
            Opened::Hit(entry) => A::load(&entry.dir).map_err(|e| Failure::unexpected(e.to_string())),
            Opened::Miss | Opened::Damaged { .. } => {
                Err(Failure::unexpected(format!("`{}` is gone from the temporary folder", node.name)))
            }
        }
    }
}
