//! What tests of several formats share.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::contract::{Job, Quiet, StageError};

/// The folder of a real data set: below `PPGNN_DATA_DIR`, or below the folder `shared/data` beside the project. Says
/// so and returns `None` where there is neither.
pub(crate) fn real_data(folder: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let root = std::env::var_os("PPGNN_DATA_DIR").map_or_else(beside, PathBuf::from);
    let found = Some(root.join(folder)).filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: no `{folder}` in PPGNN_DATA_DIR or beside the project");
    }
    found
}

/// Runs something that wants a job.
pub(crate) fn with_job<R>(f: impl FnOnce(&Job) -> Result<R, StageError>) -> Result<R, StageError> {
    let cancel = AtomicBool::new(false);
    f(&Job { inputs: &[], threads: 1, progress: &Quiet, cancel: &cancel, variant: &Value::Null })
}
