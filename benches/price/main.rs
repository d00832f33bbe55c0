//! What a plan says that a run will take, against what it takes.
//!
//! Run with `make bench-price`, or `make bench-price ONLY="quickstart sweep"`; `FULL=1` measures the pipelines as they are written,
//! which takes hours. Every pipeline has a store of its own, and two runs:
//!
//! - The *calibration run* trains with other seeds and on fewer splits. Before it nothing is known of the machine, so its plan is a
//!   guess; how good the guess is, is shown as well.
//! - The *measured run* is planned with what the calibration run has left. Its splits and training runs are new; data, features,
//!   operators and eigenpairs are computed again (`--force`), as they have no seed.
//!
//! Without `FULL`, real pipelines train for 100 epochs at most, which keeps all of this below ten minutes. A machine that is busy with
//! other things makes every prediction worse: what is shown then is about the machine.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

mod compare;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "benchmarks share more than this one needs")]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use compare::{Accuracy, Pair, by_name};
use serde_json::Value;
use support::{data, program, setting, threads};

/// Node, key and seconds of something that was computed.
type Took = (String, String, f64);

/// Nodes that take less are mostly the cost of files and of the clock.
const SHORT: f64 = 0.02;
/// Stages without a seed.
const UPSTREAM: [&str; 4] = ["load", "featurize", "normalize", "evd"];

/// A pipeline, and the settings of its two runs.
struct Case {
    name: &'static str,
    calibrate: &'static [&'static str],
    measure: &'static [&'static str],
    /// Settings of both that make it short.
    short: &'static [&'static str],
}

const SHORT_TRAINING: &[&str] = &["train.epochs=100", "train.window=50"];
const CASES: [Case; 4] = [
    Case { name: "quickstart", calibrate: &["train.seed=1", "split.count=4"], measure: &[], short: &[] },
    Case {
        name: "heterophily",
        calibrate: &["train.seed=1", "split.count=2"],
        measure: &["split.count=3"],
        short: SHORT_TRAINING,
    },
    Case {
        name: "ablation-filters",
        calibrate: &["train.seed=1", "split.count=2"],
        measure: &["split.count=3"],
        short: SHORT_TRAINING,
    },
    Case { name: "sweep", calibrate: &["train.lr=0.3"], measure: &[], short: &[] },
];

/// Two hundred short runs: five models on two graphs with twenty learning rates.
fn sweep() -> String {
    let rates: Vec<String> = (1..=20).map(|i| format!("{:.3}", f64::from(i) * 0.005)).collect();
    format!(
        "ppgnn: 1\nname: sweep\ndatasets:\n  a: {{format: csbm, nodes: 400, degree: 8, features: 60, phi: 0.5, seed: 1}}\n  \
         b: {{format: csbm, nodes: 900, degree: 12, features: 120, phi: -0.5, seed: 2}}\nstages:\n  \
         load: {{params: {{dataset: a}}}}\n  featurize: {{inputs: {{graph: load}}}}\n  normalize: {{inputs: {{graph: load}}}}\n  \
         evd: {{inputs: {{operator: normalize}}, params: {{k: 32}}}}\n  split: {{inputs: {{graph: load}}, params: {{count: 3}}}}\n  \
         train:\n    inputs: {{operator: normalize, nodes: featurize, splits: split, spectrum: evd}}\n    \
         params: {{model: mlp, epochs: 60, window: 30}}\n  \
         evaluate: {{inputs: {{trained: train, nodes: featurize, splits: split}}}}\nsweep:\n  axes:\n    load.dataset: [a, b]\n    \
         method: {{MLP: {{train.model: mlp}}, GCN: {{train.model: gcn}}, APPNP: {{train.model: appnp}}, \
         GPR-GNN: {{train.model: gpr-gnn}}, PP-GNN: {{train.model: pp-gnn}}}}\n    train.lr: [{}]\n\
         tables: {{t: {{rows: method, columns: load.dataset, pick: val-accuracy}}}}\n",
        rates.join(", ")
    )
}

fn main() {
    // Cargo adds options of its own.
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let full = setting("PPGNN_FULL").is_some();
    println!("cores: {}; {}", threads(), if full { "pipelines as they are written" } else { "100 epochs at most" });
    println!("{:<18} {:>6} {:>28} {:>10} {:>7}", "pipeline", "nodes", "predicted (range)", "took", "error");
    let (mut guessed, mut learned) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(|case| named.is_empty() || named.iter().any(|name| name == case.name)) {
        match case.run(full) {
            Ok([before, after]) => {
                guessed.extend(before);
                learned.extend(after);
            }
            Err(problem) => println!("{:<18} cannot run: {problem}", case.name),
        }
    }
    show("by the built-in coefficients alone (the calibration runs)", &guessed);
    show("after one calibration run", &learned);
}

/// Shows how good predictions are, all together and by stage and model.
fn show(title: &str, pairs: &[(String, Pair)]) {
    println!(
        "\n{title}\n{:<22} {:>6} {:>13} {:>12} {:>12} {:>10} {:>10}",
        "", "nodes", "median error", "within 2x", "90% within", "said", "took"
    );
    let all: Vec<Pair> = pairs.iter().map(|(_, pair)| *pair).collect();
    let long: Vec<Pair> = all.iter().copied().filter(|pair| pair.took >= SHORT).collect();
    let mut rows = vec![("all", all), ("of 20 ms and more", long)];
    rows.extend(by_name(pairs));
    for (name, pairs) in rows {
        let Some(accuracy) = Accuracy::of(&pairs) else { continue };
        println!(
            "{name:<22} {:>6} {:>12.0}% {:>11.0}% {:>11.1}x {:>8.1} s {:>8.1} s",
            accuracy.count,
            accuracy.median_error * 100.0,
            accuracy.within_two * 100.0,
            accuracy.nine_tenths,
            accuracy.total.said,
            accuracy.total.took
        );
    }
}

impl Case {
    /// Runs twice, prints a line for each, and returns what was predicted of every node and what it took.
    fn run(&self, full: bool) -> Result<[Vec<(String, Pair)>; 2], String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let file = if self.name == "sweep" {
            let file = folder.path().join("sweep.yaml");
            std::fs::write(&file, sweep()).map_err(|e| e.to_string())?;
            file
        } else {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines").join(format!("{}.yaml", self.name))
        };
        let store = Runs { file, store: folder.path().join("store") };
        let before = store.predicted_and_run(self.name, &[self.short, self.calibrate].concat(), &[])?;
        let settings = if full { Vec::new() } else { [self.short, self.measure].concat() };
        let after = store.predicted_and_run("  after calibration", &settings, &UPSTREAM)?;
        Ok([before, after])
    }
}

/// A pipeline with its store.
struct Runs {
    file: PathBuf,
    store: PathBuf,
}

impl Runs {
    /// Asks for the price, runs, and compares.
    fn predicted_and_run(&self, title: &str, settings: &[&str], force: &[&str]) -> Result<Vec<(String, Pair)>, String> {
        let plan = self.call(settings, force, &["--dry-run"])?;
        self.call(settings, force, &["--quiet"])?;
        let (wall, nodes) = self.newest_log()?;
        let range = |name: &str| plan["wall-seconds"][name].as_f64().unwrap_or(0.0);
        let pair = Pair { said: range("expected"), took: wall };
        println!(
            "{title:<18} {:>6} {:>28} {:>8.1} s {:>+6.0}%",
            nodes.len(),
            format!("{:.1} s ({:.1} to {:.1})", pair.said, range("low"), range("high")),
            wall,
            (pair.said / wall - 1.0) * 100.0
        );
        let predicted = |node: &str| {
            let found = plan["nodes"].as_array()?.iter().find(|n| n["id"] == node)?;
            Some((found["stage"].as_str()?.to_owned(), found["seconds"]["expected"].as_f64()?))
        };
        let compared = nodes.iter().filter_map(|(node, key, took)| {
            let (stage, said) = predicted(node)?;
            let name = self.variant(&stage, key).map_or(stage.clone(), |model| format!("{stage} {model}"));
            Some((name, Pair { said, took: *took }))
        });
        Ok(compared.collect())
    }

    fn call(&self, settings: &[&str], force: &[&str], more: &[&str]) -> Result<Value, String> {
        let data = data().canonicalize().map_err(|e| format!("{}: {e}", data().display()))?;
        let mut command = Command::new(program());
        command.arg("run").arg(&self.file).args(["--json", "-j", &threads().to_string(), "--artifacts"]);
        command.arg(&self.store).arg("--data-dir").arg(data).args(more);
        for setting in settings {
            command.args(["--set", setting]);
        }
        for stage in force {
            command.args(["--force", stage]);
        }
        let output = command.output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
    }

    /// What the newest run took, and every node of it that was computed: name, key and seconds.
    fn newest_log(&self) -> Result<(f64, Vec<Took>), String> {
        let logs = std::fs::read_dir(self.store.join("runs")).map_err(|e| e.to_string())?;
        let newest = logs.filter_map(|log| Some(log.ok()?.path())).max().ok_or("there is no log of a run")?;
        let text = std::fs::read_to_string(newest).map_err(|e| e.to_string())?;
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let finished = events.iter().filter(|event| event["event"] == "node-finished");
        let node = |event: &Value| {
            let text = |name: &str| event[name].as_str().map(str::to_owned);
            Some((text("node")?, text("key")?, event["seconds"].as_f64()?))
        };
        let end = events.iter().rev().find_map(|event| event["elapsed"].as_f64()).ok_or("the log is empty")?;
        Ok((end, finished.filter_map(node).collect()))
    }

    /// The model of a training run.
    fn variant(&self, stage: &str, key: &str) -> Option<String> {
        let manifest = self.store.join("objects").join(stage).join(key).join("manifest.json");
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).ok()?).ok()?;
        Some(manifest["ingredients"]["variant"]["name"].as_str()?.to_owned())
    }
}
