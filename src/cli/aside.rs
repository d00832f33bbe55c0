//! Artifacts to look at: from the store if they are there, else computed aside and forgotten.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ppgnn_stages::contract::{Artifact, InputDir, Job, StageError};

use super::exit;
use super::failure::Failure;
use crate::plan::{NodeId, Plan};
use crate::store::{Opened, Store};

/// Looks at nodes of a plan. What is computed goes with it.
pub struct Aside<'a> {
    plan: &'a Plan,
    store: &'a Store,
    root: PathBuf,
    made: HashMap<usize, PathBuf>,
}

impl<'a> Aside<'a> {
    /// Starts with nothing computed.
    pub fn new(plan: &'a Plan, store: &'a Store) -> Self {
        let root = std::env::temp_dir().join(format!("ppgnn-aside-{}", std::process::id()));
        Self { plan, store, root, made: HashMap::new() }
    }

    /// Returns the artifact of a node.
    pub fn get<A: Artifact>(&mut self, id: NodeId) -> Result<A, Failure> {
        let dir = self.dir(id)?;
        A::load(&dir).map_err(|e| Failure::unexpected(e.to_string()))
    }

    fn dir(&mut self, id: NodeId) -> Result<PathBuf, Failure> {
        if let Some(dir) = self.made.get(&id.0) {
            return Ok(dir.clone());
        }
        let node = self.plan.node(id);
        let dir = match self.store.open_artifact(&node.key, node.stage.name)? {
            Opened::Hit(entry) => entry.dir,
            Opened::Miss | Opened::Damaged { .. } => self.compute(id)?,
        };
        self.made.insert(id.0, dir.clone());
        Ok(dir)
    }

    fn compute(&mut self, id: NodeId) -> Result<PathBuf, Failure> {
        let node = self.plan.node(id);
        let mut inputs = Vec::new();
        for edge in &node.inputs {
            let key = self.plan.node(edge.node).key.to_string();
            inputs.push(InputDir { slot: edge.slot, key, dir: self.dir(edge.node)? });
        }
        let dir = self.root.join(id.0.to_string());
        let cannot = |e: std::io::Error| Failure::unexpected(format!("cannot write `{}`: {e}", dir.display()));
        std::fs::create_dir_all(&dir).map_err(cannot)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let cancel = AtomicBool::new(false);
        let job = Job { inputs: &inputs, threads, ..Job::alone(&cancel) };
        node.stage.run(&node.params, &job, &dir).map_err(|error| {
            let code = if matches!(error, StageError::Data { .. }) { exit::DATA } else { exit::FAILED };
            Failure::new(code, error.to_string(), error.hint())
        })?;
        Ok(dir)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // Nobody can be told, and the system empties the folder sooner or later.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
