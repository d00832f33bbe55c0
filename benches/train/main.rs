//! Times training against PyTorch on real graphs, and against what this machine can do.
//!
//! Run with `make bench-train`, which installs the peer. By hand: `cargo bench --bench train`, with `PPGNN_PEERS` the folder
//! of `peer_torch.py`, `PPGNN_PYTHON` a Python with PyTorch, `PPGNN_DATA_DIR` the folder with data; what is missing is left
//! out. `PPGNN_THREADS` (all cores) are ours; the peer runs with one and with as many, and its better time counts.
//! `PPGNN_REPEAT` (3) is how often each runs, taking turns; the best counts. Names of data sets after `--` leave the rest
//! out, and so does `--no-peer` the peer. Benchmarks inform; no test asserts a time.
//!
//! Both sides compute the same: features as stored, dropout ½ on features, hidden units and before propagation, no early
//! stopping, one evaluation an epoch, and one pass through the network for both branches of PP-GNN (`masks: shared`). Ours
//! trains all splits, the peer one. Ours is the time of 2E epochs less that of E, so that loading is not counted, which the
//! peer does not count either.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

mod machine;
mod roofline;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use machine::Machine;
use ppgnn_stages::STAGES;
use ppgnn_stages::contract::{InputDir, Job};
use ppgnn_stages::kinds::{Nodes, Operator, Spectrum, Splits};
use roofline::{Form, Sizes};
use serde_json::{Value, json};
use support::{Made, data, repeat, said, threads};

const HIDDEN: usize = 64;
const DROPOUT: f64 = 0.5;
/// Seconds that the epochs of the shorter run take at least.
const LEAST_SECONDS: f64 = 2.0;

/// What is measured.
struct Row {
    /// Data set, and its folder.
    data: &'static str,
    model: Model,
    /// How many times faster than the peer ours is meant to be.
    target: f64,
    /// Epochs of the peer: about five seconds.
    peer_epochs: usize,
}

enum Model {
    PpGnn { k: usize, order: usize, bins: usize, eta: f64 },
    GprGnn { order: usize },
    Gcn,
}

const ROWS: [Row; 4] = [
    Row {
        data: "chameleon",
        model: Model::PpGnn { k: 1024, order: 4, bins: 4, eta: 0.85 },
        target: 40.0,
        peer_epochs: 20,
    },
    Row { data: "texas", model: Model::PpGnn { k: 91, order: 4, bins: 4, eta: 0.85 }, target: 30.0, peer_epochs: 300 },
    Row { data: "cora", model: Model::GprGnn { order: 10 }, target: 30.0, peer_epochs: 40 },
    Row { data: "pubmed", model: Model::Gcn, target: 5.0, peer_epochs: 40 },
];

impl Model {
    fn name(&self) -> &'static str {
        match self {
            Self::PpGnn { .. } => "pp-gnn",
            Self::GprGnn { .. } => "gpr-gnn",
            Self::Gcn => "gcn",
        }
    }

    /// Parameters of `train` that only this model has.
    fn own(&self) -> Value {
        match self {
            Self::PpGnn { order, bins, eta, .. } => {
                json!({"order": order, "bins": bins, "eta": eta, "dprate": 0.5, "masks": "shared"})
            }
            Self::GprGnn { order } => json!({"order": order, "dprate": 0.5}),
            Self::Gcn => json!({}),
        }
    }

    /// Arguments of the peer.
    fn arguments(&self) -> String {
        match self {
            Self::PpGnn { k, order, bins, eta } => {
                format!("--model ppgnn --k {k} --order {order} --bins {bins} --eta {eta}")
            }
            Self::GprGnn { order } => format!("--model gprgnn --order {order}"),
            Self::Gcn => "--model gcn".into(),
        }
    }

    fn form(&self, pairs: usize) -> Form {
        match *self {
            Self::PpGnn { order, bins, .. } => {
                Form::Filtered { order, pairs, coefficients: (1 + 2 * bins) * (order + 1) }
            }
            Self::GprGnn { order } => Form::Filtered { order, pairs, coefficients: order + 1 },
            Self::Gcn => Form::Convolved,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let with_peer = !arguments.iter().any(|a| a == "--no-peer");
    // Cargo adds options of its own.
    let named: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    println!("threads: {}; best of {}; milliseconds a split-epoch", threads(), repeat());
    let machine = Machine::measured(threads());
    println!(
        "this machine: {:.0} GFLOP/s on one thread, {:.0} on all ({} numbers of f32 a register{}); {:.0} GB/s in 12 MB, {:.0} in 200 MB",
        machine.flops[0] / 1e9,
        machine.flops[1] / 1e9,
        machine.lanes,
        if machine.has_wider() { ", though the processor has 16" } else { "" },
        machine.bytes[0] / 1e9,
        machine.bytes[1] / 1e9
    );
    println!(
        "\n{:<10} {:<8} {:>9} {:>10} {:>8} {:>7} {:>7} {:>9} {:>11}",
        "data", "model", "ours ms", "theirs ms", "threads", "ratio", "target", "bound ms", "ours/bound"
    );
    for row in ROWS.iter().filter(|row| named.is_empty() || named.contains(&row.data)) {
        match Prepared::of(row) {
            Some(prepared) => prepared.measure(&machine, with_peer),
            None => println!("{:<10} is not in {}", row.data, data().display()),
        }
    }
}

/// A row with the artifacts that it needs.
struct Prepared<'a> {
    row: &'a Row,
    inputs: Vec<InputDir>,
    sizes: Sizes,
    form: Form,
    /// Holds the artifacts.
    _made: Made,
}

impl<'a> Prepared<'a> {
    fn of(row: &'a Row) -> Option<Self> {
        let load = format!("load: {{ params: {{ dataset: {} }} }}", row.data);
        let mut stages = vec![
            load.as_str(),
            "featurize: { inputs: { graph: load } }",
            "normalize: { inputs: { graph: load } }",
            "split: { inputs: { graph: load }, params: { method: file, count: 10 } }",
        ];
        let mut slots = vec![("operator", "normalize"), ("nodes", "featurize"), ("splits", "split")];
        let evd;
        if let Model::PpGnn { k, .. } = row.model {
            evd = format!("evd: {{ inputs: {{ operator: normalize }}, params: {{ k: {k} }} }}");
            stages.push(&evd);
            slots.push(("spectrum", "evd"));
        }
        let made = Made::of(&stages)?;
        let inputs: Vec<InputDir> =
            slots.iter().map(|&(slot, stage)| InputDir { slot, key: stage.into(), dir: made.folder(stage) }).collect();
        let cancel = AtomicBool::new(false);
        let job = Job { inputs: &inputs, ..Job::alone(&cancel) };
        let (nodes, splits): (Nodes, Splits) = (job.input("nodes").ok()?, job.input("splits").ok()?);
        let spectrum: Option<Spectrum> = job.optional("spectrum").ok()?;
        let sizes = Sizes {
            nodes: nodes.len(),
            features: nodes.features.cols(),
            non_zeros: nodes.features.non_zeros(),
            entries: job.input::<Operator>("operator").ok()?.matrix.indices.len(),
            hidden: HIDDEN,
            classes: nodes.classes,
            splits: splits.len(),
            dropout: DROPOUT,
        };
        let form = row.model.form(spectrum.map_or(0, |s| s.low.values.len() + s.high.values.len()));
        Some(Self { row, inputs, sizes, form, _made: made })
    }

    /// Runs both sides in turns and prints a line, and one about the bound.
    fn measure(&self, machine: &Machine, with_peer: bool) {
        let mut problem = None;
        let epochs = self.epochs().map_err(|p| problem = Some(p)).ok();
        let (mut short, mut long, mut theirs) = (f64::INFINITY, f64::INFINITY, (f64::INFINITY, 0));
        for _ in 0..repeat() {
            if let Some(epochs) = epochs {
                short = short.min(self.train(epochs).unwrap_or(f64::NAN));
                long = long.min(self.train(2 * epochs).unwrap_or(f64::NAN));
            }
            let counts = if threads() > 1 { vec![1, threads()] } else { vec![1] };
            for threads in counts.into_iter().filter(|_| with_peer) {
                let milliseconds = self.peer(threads).unwrap_or(f64::INFINITY);
                if milliseconds < theirs.0 {
                    theirs = (milliseconds, threads);
                }
            }
        }
        let per_split = 1e3 / self.sizes.splits as f64;
        let ours = epochs.map(|epochs| (long - short) / epochs as f64 * per_split);
        let theirs = theirs.0.is_finite().then_some(theirs);
        let parts = roofline::operations(&self.form, &self.sizes);
        let bound = parts.iter().map(|part| part.bound(machine)).sum::<f64>() * per_split;
        let shown = |value: Option<f64>, digits: usize| value.map_or("–".into(), |v| format!("{v:.digits$}"));
        println!(
            "{:<10} {:<8} {:>9} {:>10} {:>8} {:>7} {:>7} {bound:>9.3} {:>11}",
            self.row.data,
            self.row.model.name(),
            shown(ours, 3),
            shown(theirs.map(|t| t.0), 2),
            theirs.map_or("–".into(), |t| t.1.to_string()),
            shown(ours.zip(theirs).map(|(ours, theirs)| theirs.0 / ours), 1),
            self.row.target,
            shown(ours.map(|ours| ours / bound), 2),
        );
        print!("{:>10} a batch-epoch of {} splits, at least:", "", self.sizes.splits);
        for part in &parts {
            print!(
                " {} {:.2} ms ({:.0} MFLOP, {:.0} MB)",
                part.name,
                1e3 * part.bound(machine),
                part.flops / 1e6,
                part.bytes / 1e6
            );
        }
        println!();
        if let Some(problem) = problem {
            println!("{:>10} ours cannot run: {problem}", "");
        }
        if with_peer && theirs.is_none() {
            println!("{:>10} no peer: set PPGNN_PEERS and PPGNN_PYTHON", "");
        }
    }

    /// Epochs that take long enough to be measured.
    fn epochs(&self) -> Result<usize, String> {
        let (mut epochs, start) = (2, self.train(2)?);
        loop {
            epochs *= 2;
            if self.train(epochs)? - start >= LEAST_SECONDS {
                return Ok(epochs);
            }
        }
    }

    /// Trains all splits as a run of the program does, and returns seconds.
    fn train(&self, epochs: usize) -> Result<f64, String> {
        let stage = STAGES.iter().find(|stage| stage.name == "train").expect("the stage");
        let mut params = json!({
            "model": self.row.model.name(), "epochs": epochs, "window": 0, "lr": 0.005, "weight-decay": 0.001,
            "hidden": HIDDEN, "dropout": DROPOUT,
        });
        let params = params.as_object_mut().expect("an object");
        params.extend(self.row.model.own().as_object().expect("an object").clone());
        let checked = stage.check(&ppgnn_stages::built_in(), params).map_err(|problems| {
            problems.iter().map(|p| format!("`{}` {}", p.param, p.message)).collect::<Vec<_>>().join("; ")
        })?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads()).build().expect("threads");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cancel = AtomicBool::new(false);
        let job = Job { inputs: &self.inputs, threads: threads(), ..Job::alone(&cancel) };
        let begun = Instant::now();
        pool.install(|| stage.run(&checked, &job, folder.path())).map_err(|e| e.to_string())?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Runs the peer once, and returns milliseconds.
    fn peer(&self, threads: usize) -> Option<f64> {
        let mut command = support::peer("peer_torch.py")?;
        command.arg(data().join(self.row.data)).args(self.row.model.arguments().split(' ')).args(
            format!(
                "--hidden {HIDDEN} --dropout {DROPOUT} --dprate 0.5 --epochs {} --splits 1 --no-stop --threads {threads}",
                self.row.peer_epochs
            )
            .split(' '),
        );
        said(&mut command)?["ms_per_split_epoch"].as_f64()
    }
}
