//! What benchmarks share: settings from the environment, artifacts made by the program, and peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A variable of the environment; `None` if it is empty.
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Threads of both sides: `PPGNN_THREADS`, or all cores.
pub fn threads() -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    setting("PPGNN_THREADS").and_then(|t| t.parse().ok()).unwrap_or_else(cores)
}

/// How often each side runs at least: `PPGNN_REPEAT`, or 3.
pub fn repeat() -> usize {
    setting("PPGNN_REPEAT").and_then(|t| t.parse().ok()).unwrap_or(3)
}

/// The folder with data: `PPGNN_DATA_DIR`, or the one beside the project.
pub fn data() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    setting("PPGNN_DATA_DIR").map_or_else(|| here.join("../shared/data"), PathBuf::from)
}

/// A peer with `PPGNN_PYTHON`, ready for arguments; `None` where that is not set.
pub fn peer(script: &Path) -> Option<Command> {
    let mut command = Command::new(setting("PPGNN_PYTHON")?);
    command.args(["-W", "ignore"]).arg(script);
    Some(command)
}

/// Runs a peer once, and returns the line of JSON that it prints.
pub fn said(command: &mut Command) -> Option<Value> {
    serde_json::from_slice(&command.output().ok()?.stdout).ok()
}

/// The program of this build.
pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_ppgnn").into()
}

/// A pipeline in a folder with a store, both gone when dropped, and the program that runs it.
pub struct Project {
    program: PathBuf,
    folder: TempDir,
}

impl Project {
    /// A pipeline of `stages`, lines of YAML.
    pub fn new(program: PathBuf, stages: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipeline = format!("ppgnn: 1\nname: bench\nstages:\n  {}\n", stages.join("\n  "));
        std::fs::write(folder.path().join("bench.yaml"), pipeline).expect("a file");
        Self { program, folder }
    }

    /// Runs the pipeline with further arguments. The error is what the program said.
    pub fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let data = data();
        let run = Command::new(&self.program)
            .current_dir(self.folder.path())
            .args(["run", "bench.yaml", "--artifacts", "store", "--data-dir"])
            .arg(data.canonicalize().map_err(|e| format!("{}: {e}", data.display()))?)
            .args(arguments)
            .output()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        if run.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&run.stderr).trim().into()) }
    }

    /// The folder of all artifacts, by stage.
    pub fn objects(&self) -> PathBuf {
        self.folder.path().join("store/objects")
    }

    /// The folder of the artifacts of a stage.
    pub fn artifacts(&self, stage: &str) -> PathBuf {
        self.objects().join(stage)
    }

    /// The folder of the artifact of a stage that made one.
    pub fn artifact(&self, stage: &str) -> Option<PathBuf> {
        Some(std::fs::read_dir(self.artifacts(stage)).ok()?.next()?.ok()?.path())
    }
}
