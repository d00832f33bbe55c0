//! The sides of a comparison: a build of the program, through its command line, and the peer.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::repeats::Estimate;
use super::roofline::Sizes;
use super::rows::Row;
use super::support::{Project, data, peer, program, said, threads};

/// Epochs of the short run.
const FEW: usize = 4;
/// Seconds that the further epochs of the long run take at least.
const LEAST_SECONDS: f64 = 2.0;

/// A build of the program, with times of short and long runs.
pub struct Side {
    project: Project,
    short: Vec<f64>,
    long: Vec<f64>,
}

impl Side {
    /// Computes everything that the row's training needs.
    pub fn new(program: PathBuf, row: &Row) -> Result<Self, String> {
        let side = Self { project: Project::new(program, &row.stages()), short: Vec::new(), long: Vec::new() };
        // Training itself for one epoch, so that whatever it reads is there.
        side.train(1)?;
        Ok(side)
    }

    /// The folder with the artifacts that the peer reads.
    pub fn objects(&self) -> PathBuf {
        self.project.objects()
    }

    /// Entries of the separated hops, of the second operator, or pairs of related nodes; 0 if there are none.
    pub fn hop_entries(&self) -> f64 {
        let read = |file: PathBuf| -> Value {
            let text = std::fs::read(file).unwrap_or_default();
            serde_json::from_slice(&text).unwrap_or_default()
        };
        if let Some(folder) = self.project.artifact("separate") {
            let facts = read(folder.join("facts.json"));
            return facts["entries"].as_array().into_iter().flatten().filter_map(Value::as_f64).sum();
        }
        if let Some(folder) = self.project.artifact("relate") {
            return read(folder.join("facts.json"))["pairs"].as_f64().unwrap_or(0.0);
        }
        let operators = std::fs::read_dir(self.project.artifacts("normalize")).into_iter().flatten().flatten();
        let is_second =
            |folder: &PathBuf| read(folder.join("manifest.json"))["ingredients"]["params"]["hops"].as_u64() == Some(2);
        let second = operators.map(|entry| entry.path()).find(is_second);
        second.and_then(|folder| read(folder.join("facts.json"))["non-zeros"].as_f64()).unwrap_or(0.0)
    }

    /// Epochs that take long enough to be measured.
    pub fn epochs(&self) -> Result<usize, String> {
        let (mut epochs, start) = (FEW, self.train(FEW)?);
        while self.train(FEW + epochs)? - start < LEAST_SECONDS {
            epochs *= 2;
        }
        Ok(epochs)
    }

    /// Trains for few epochs, and for `epochs` more.
    pub fn turn(&mut self, epochs: usize) -> Result<(), String> {
        self.short.push(self.train(FEW)?);
        self.long.push(self.train(FEW + epochs)?);
        Ok(())
    }

    /// Seconds that the further epochs take.
    pub fn seconds(&self) -> Option<Estimate> {
        Estimate::difference(&self.long, &self.short)
    }

    /// Trains all splits and returns the seconds of the node.
    fn train(&self, epochs: usize) -> Result<f64, String> {
        // Without the last result there is one artifact to look for, and nothing to reuse.
        if self.project.artifacts("train").exists() {
            std::fs::remove_dir_all(self.project.artifacts("train")).map_err(|e| e.to_string())?;
        }
        let (set, jobs) = (format!("train.epochs={epochs}"), threads().to_string());
        self.project.run(&["train", "--quiet", "--set", &set, "--jobs", &jobs])?;
        let folder = self.project.artifact("train").ok_or("`train` left no artifact")?;
        let text = std::fs::read(folder.join("manifest.json")).map_err(|e| e.to_string())?;
        let manifest: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        manifest["seconds"].as_f64().ok_or_else(|| "the manifest of `train` has no `seconds`".into())
    }
}

/// The peer.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/models.py");
/// What both sides are compared with.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/science/models.json");

/// PyTorch: milliseconds per epoch and split, by threads (one, and as many as ours) and with dense and sparse features.
#[derive(Default)]
pub struct Peer([Vec<f64>; 4]);

impl Peer {
    /// Says whether it computes what our tests compare with: every model's loss and gradients from the same weights.
    pub fn check() -> Result<Value, String> {
        let mut command = peer(Path::new(PEER)).ok_or("set PPGNN_PYTHON to a Python with PyTorch")?;
        said(command.args(["--check", REFERENCE])).ok_or_else(|| format!("`{PEER} --check {REFERENCE}` fails"))
    }

    /// Runs every way.
    pub fn turn(&mut self, row: &Row, objects: &Path) {
        for (times, (threads, sparse)) in self.0.iter_mut().zip(Self::ways()) {
            let Some(mut command) = peer(Path::new(PEER)) else { return };
            command.arg(objects).args(["--threads", &threads.to_string(), "--params", &row.params()]);
            if sparse {
                command.arg("--sparse");
            }
            times.extend(said(&mut command).and_then(|said| said["ms_per_split_epoch"].as_f64()));
        }
    }

    /// Whether it could run at all.
    pub fn is_there(&self) -> bool {
        self.0.iter().any(|times| !times.is_empty())
    }

    /// The better of its times, and its threads.
    pub fn better(&self) -> Option<(usize, Estimate)> {
        let found = Self::ways().into_iter().zip(&self.0);
        let found = found.filter_map(|((threads, _), times)| Some((threads, Estimate::best(times)?)));
        found.min_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    /// Threads, and whether features are sparse.
    fn ways() -> Vec<(usize, bool)> {
        let counts = if threads() > 1 { vec![1, threads()] } else { vec![1] };
        counts.into_iter().flat_map(|threads| [(threads, false), (threads, true)]).collect()
    }
}

/// The sizes of a data set, as `ppgnn data describe` tells them, with the entries of separated hops or of a second operator.
pub fn sizes(name: &str, hop_entries: f64) -> Result<Sizes, String> {
    let mut describe = Command::new(program());
    describe.args(["data", "describe", name, "--json", "--data-dir"]).arg(data());
    let told = said(&mut describe).ok_or("`ppgnn data describe` says nothing")?;
    let told = told.get("description").ok_or_else(|| format!("its data is not in {}", data().display()))?;
    let count = |of: &str| told["counts"][of].as_u64().and_then(|n| usize::try_from(n).ok());
    let count = |of: &str| count(of).ok_or_else(|| format!("`{of}` is not in what `ppgnn data describe` says"));
    let (nodes, features) = (count("nodes")?, count("features")?);
    let density = told["features"]["density"].as_f64().unwrap_or(1.0);
    Ok(Sizes {
        nodes,
        features,
        non_zeros: density * nodes as f64 * features as f64,
        entries: 2 * count("edges-undirected")? + nodes,
        hop_entries,
        classes: count("classes")?,
        splits: count("splits")?,
    })
}
