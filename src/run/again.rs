//! Computing again what a measuring node measures: its stages with their inputs from the store, into a folder that is deleted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ppgnn_stages::contract::again::{Again, How, Timed};
use ppgnn_stages::contract::device::Device;
use ppgnn_stages::contract::{ArtifactError, InputDir, Job, Progress, ProgressSink, StageError};

use crate::plan::{Node, NodeId};

use super::work::Work;

/// What one measuring node may compute again.
pub(super) struct Repeats<'a> {
    pub(super) work: &'a Work<'a>,
    /// The node that measures.
    pub(super) node: &'a Node,
    /// Its inputs: what the measured nodes read is among them.
    pub(super) inputs: &'a [InputDir],
    pub(super) device: Device,
    /// A folder that is not there yet.
    pub(super) dir: PathBuf,
}

impl Again for Repeats<'_> {
    fn again(&self, stage: &str, how: How) -> Result<Vec<Timed>, StageError> {
        let plan = self.work.plan;
        let of_stage = plan.measured(self.node).into_iter().filter(|id| plan.node(*id).stage.name == stage);
        of_stage.map(|id| self.once(id, how)).collect()
    }
}

impl Repeats<'_> {
    fn once(&self, id: NodeId, how: How) -> Result<Timed, StageError> {
        let node = self.work.plan.node(id);
        let inputs = self.inputs_of(node)?;
        let device = if node.stage.on_device { self.device } else { Device::Cpu };
        let told = Told::default();
        let job = Job {
            inputs: &inputs,
            threads: how.threads,
            device,
            progress: &told,
            one_by_one: how.one_by_one,
            commands: self.work.commands,
            ..Job::alone(&self.work.stop)
        };
        fs::create_dir(&self.dir).map_err(cannot(&self.dir))?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(how.threads).stack_size(8 << 20).build();
        let pool = pool.map_err(|e| StageError::Unusable { what: format!("cannot start threads: {e}"), hint: None })?;
        let begun = Instant::now();
        pool.install(|| node.stage.run(&node.params, &job, &self.dir))?;
        let seconds = begun.elapsed().as_secs_f64();
        fs::remove_dir_all(&self.dir).map_err(cannot(&self.dir))?;
        Ok(Timed { seconds, measured: told.0.into_inner().unwrap_or_else(PoisonError::into_inner) })
    }

    /// The inputs of a measured node: they were checked when the measuring node started.
    fn inputs_of(&self, node: &Node) -> Result<Vec<InputDir>, StageError> {
        let there = |key: &str| self.inputs.iter().find(|input| input.key == key);
        let input = |edge: &crate::plan::Edge| {
            let key = self.work.plan.node(edge.node).key.to_string();
            let found = there(&key).ok_or(StageError::MissingInput { slot: edge.slot })?;
            Ok(InputDir { slot: edge.slot, ..found.clone() })
        };
        node.inputs.iter().map(input).collect()
    }
}

fn cannot(path: &Path) -> impl FnOnce(std::io::Error) -> StageError + '_ {
    |source| StageError::Artifact(ArtifactError::Io { path: path.to_owned(), source })
}

/// Keeps every value that a stage measures, and drops the rest.
#[derive(Default)]
struct Told(Mutex<BTreeMap<&'static str, Vec<f64>>>);

impl ProgressSink for Told {
    fn progress(&self, _: &Progress) {}

    fn measured(&self, name: &'static str, value: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().push(value);
    }

    fn warning(&self, _: &str) {}
}
