//! What benchmarks share: settings from the environment, artifacts made by the program, and peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Threads of both sides: `PPGNN_THREADS`, or all cores.
pub fn threads() -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    setting("PPGNN_THREADS").and_then(|t| t.parse().ok()).unwrap_or_else(cores)
}

/// How often each side runs: `PPGNN_REPEAT`, or 3.
pub fn repeat() -> usize {
    setting("PPGNN_REPEAT").and_then(|t| t.parse().ok()).unwrap_or(3)
}

/// The folder with data: `PPGNN_DATA_DIR`, or the one beside the project.
pub fn data() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    setting("PPGNN_DATA_DIR").map_or_else(|| here.join("../shared/data"), PathBuf::from)
}

/// A peer with `PPGNN_PYTHON` in the folder `PPGNN_PEERS`, ready for arguments; `None` where one is not set.
pub fn peer(script: &str) -> Option<Command> {
    let mut command = Command::new(setting("PPGNN_PYTHON")?);
    command.args(["-W", "ignore"]).arg(Path::new(&setting("PPGNN_PEERS")?).join(script));
    Some(command)
}

/// Runs a peer once, and returns the line of JSON that it prints.
pub fn said(command: &mut Command) -> Option<Value> {
    serde_json::from_slice(&command.output().ok()?.stdout).ok()
}

/// What stages made, by way of the program, in a store that goes with this value.
pub struct Made(TempDir);

impl Made {
    /// Runs `stages`, lines of a pipeline; `None` if the data is not here.
    pub fn of(stages: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipeline = format!("ppgnn: 1\nname: bench\nstages:\n  {}\n", stages.join("\n  "));
        std::fs::write(folder.path().join("bench.yaml"), pipeline).expect("a file");
        let run = Command::new(env!("CARGO_BIN_EXE_ppgnn"))
            .current_dir(folder.path())
            .args(["run", "bench.yaml", "--artifacts", "store", "--data-dir"])
            .arg(data().canonicalize().ok()?)
            .output()
            .expect("the program");
        run.status.success().then_some(Self(folder))
    }

    /// The folder of the artifact of a stage that made one.
    pub fn folder(&self, stage: &str) -> PathBuf {
        let made = self.0.path().join("store/objects").join(stage);
        let entry = std::fs::read_dir(made).expect("a folder").next().expect("an artifact");
        entry.expect("an artifact").path()
    }
}
