//! Trains with a program: hands everything over, runs it, takes the result.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::child::{self, Watch, Way, failed};
use super::group;
use super::handed::Handed;
use super::params::{Params, Requirement};
use super::taken::Taken;
use crate::contract::device::Device;
use crate::contract::params::CommandLine;
use crate::contract::{ArtifactError, Job, Progress, StageError};
use crate::kinds::{Nodes, Operator, Splits, Trained, TrainedSplit};

/// What the folders of processes are called.
const FOLDER: &str = "command-";
/// Where the stderr of a process is kept until its node is in the store.
const STDERR: &str = "stderr.txt";
/// How often a program that says much is listened to.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How long a command may take that says which version there is.
const PATIENCE: Duration = Duration::from_secs(60);
/// What libraries read how many threads they may use from.
const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"];

/// What there is to train on.
pub struct Task<'a> {
    /// The graph.
    pub operator: &'a Operator,
    /// Features and labels.
    pub nodes: &'a Nodes,
    /// Who trains, validates and tests.
    pub splits: &'a Splits,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The parameters of `train`.
    pub training: &'a Value,
}

/// Trains every split with the program.
///
/// # Errors
/// [`StageError::Command`] when the program fails, takes too long or too much, or what it leaves cannot be used;
/// [`StageError::Numeric`] when logits are not finite.
pub fn train(task: &Task, params: &Params, job: &Job) -> Result<Trained, StageError> {
    if params.memory.is_some() && !group::MEASURES {
        return Err(StageError::unusable(
            "the memory of a command cannot be watched on this system",
            "leave `memory` out",
        ));
    }
    let base = job.scratch.map_or_else(std::env::temp_dir, Path::to_owned);
    let base = std::path::absolute(&base).map_err(|e| ArtifactError::io(&base, e))?;
    if job.scratch.is_some() {
        tidy(&base)?;
    }
    let run = Run { task, params, job, base };
    run.check_environment()?;
    let all: Vec<usize> = (0..task.splits.len()).collect();
    let each = if params.apart || job.one_by_one { 1 } else { all.len().max(1) };
    let mut splits = Vec::with_capacity(all.len());
    for (process, which) in all.chunks(each).enumerate() {
        let begun = Instant::now();
        splits.extend(run.process(which, (process, all.len().div_ceil(each)))?);
        if job.one_by_one {
            job.measured("split-seconds", begun.elapsed().as_secs_f64());
        }
    }
    Ok(Trained { nodes: task.nodes.len(), classes: task.nodes.classes, splits, watched: Vec::new() })
}

/// Deletes what killed attempts left.
fn tidy(base: &Path) -> Result<(), ArtifactError> {
    let entries = fs::read_dir(base).map_err(|e| ArtifactError::io(base, e))?.flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(FOLDER));
    left.map(|entry| entry.path())
        .try_for_each(|path| fs::remove_dir_all(&path).map_err(|e| ArtifactError::io(&path, e)))
}

struct Run<'a> {
    task: &'a Task<'a>,
    params: &'a Params,
    job: &'a Job<'a>,
    /// Where the folders of processes are.
    base: PathBuf,
}

impl Run<'_> {
    /// Trains some of the splits in a process of their own, the so-many-th of all.
    fn process(&self, which: &[usize], (number, of): (usize, usize)) -> Result<Vec<TrainedSplit>, StageError> {
        let Task { operator, nodes, splits, seed, training } = *self.task;
        let folder = self.folder()?;
        let handed = Handed { operator, nodes, splits, which, seed, training, params: &self.params.params };
        handed.write(folder.path(), self.params.files.iter().zip(&self.params.places))?;
        let mut told = Instant::now().checked_sub(REPORT_EVERY);
        let mut hear = |way: Way, text: &str| {
            let due = told.is_none_or(|told| told.elapsed() >= REPORT_EVERY);
            if way == Way::Stdout && due && !text.is_empty() {
                told = Some(Instant::now());
                self.job.progress(&progress(text, number as u64, of as u64));
            }
        };
        let stderr = self.job.scratch.map(|_| self.base.join(STDERR));
        let (timeout, memory) = (self.params.patience(), self.params.memory);
        let mut watch = Watch { job: self.job, timeout, memory, stderr: stderr.as_deref(), hear: &mut hear };
        let line = &self.params.run;
        let took = child::run(line, &mut self.command(line, folder.path()), &mut watch)?;
        self.job.said(&took.last);
        took.memory.into_iter().for_each(|bytes| self.job.measured("memory", bytes as f64));
        Taken { line, which, nodes: nodes.len(), classes: nodes.classes }.read(folder.path())
    }

    /// Checks that what must be installed is.
    fn check_environment(&self) -> Result<(), StageError> {
        for Requirement { run: line, prints } in &self.params.environment {
            let folder = self.folder()?;
            let mut said = String::new();
            let mut hear = |_: Way, text: &str| {
                if said.len() < 1000 {
                    said += &format!("{text}\n");
                }
            };
            let timeout = Some(PATIENCE);
            let mut watch = Watch { job: self.job, timeout, memory: None, stderr: None, hear: &mut hear };
            child::run(line, &mut self.command(line, folder.path()), &mut watch)?;
            if !said.trim_start().starts_with(prints.trim()) {
                let what = format!("`{line}` prints `{}`, and `environment` wants `{prints}`", said.trim());
                let hint =
                    "install what the pipeline asks for, or change `environment`: results are then computed again";
                return Err(failed(what, Some(hint.into()), Default::default()));
            }
        }
        Ok(())
    }

    /// A folder that is gone when the process is.
    fn folder(&self) -> Result<tempfile::TempDir, ArtifactError> {
        tempfile::Builder::new().prefix(FOLDER).tempdir_in(&self.base).map_err(|e| ArtifactError::io(&self.base, e))
    }

    fn command(&self, CommandLine(words): &CommandLine, dir: &Path) -> Command {
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1)).current_dir(dir).env("PPGNN_JOB", dir);
        // Our helper is a module in the folder, wherever in it the script is.
        let mut modules = OsString::from(dir);
        if let Some(others) = std::env::var_os("PYTHONPATH").filter(|others| !others.is_empty()) {
            modules.push(":");
            modules.push(others);
        }
        command.env("PYTHONPATH", modules).env("PYTHONUNBUFFERED", "1").env("PYTHONHASHSEED", "0");
        command.envs(THREADS.map(|name| (name, self.job.threads.to_string())));
        // The device is in the key: what is not asked for is not seen.
        command.env(
            "CUDA_VISIBLE_DEVICES",
            match self.job.device {
                Device::Cpu => String::new(),
                Device::Cuda(gpu) => gpu.to_string(),
            },
        );
        command
    }
}

/// A line as progress: `3/10 loss 0.41` is a step of ten, anything else a note.
fn progress(text: &str, number: u64, of: u64) -> Progress {
    let step = text.split_whitespace().next().and_then(|word| word.split_once('/'));
    let step = step.and_then(|(done, total)| Some((done.parse::<u64>().ok()?, total.parse::<u64>().ok()?)));
    match step.filter(|(done, total)| done <= total && *total > 0 && *total < 1 << 32) {
        Some((done, total)) => Progress { done: number * total + done, total: of * total, note: text.to_owned() },
        None => Progress { done: number, total: of, note: text.to_owned() },
    }
}
