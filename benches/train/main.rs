//! Times training against PyTorch on real graphs, against another build, and against what this machine can do.
//!
//! Run with `make bench-train`, which installs PyTorch. By hand: `cargo bench --profile quick --bench train`, with `PPGNN_PYTHON` a
//! Python with PyTorch, `PPGNN_DATA_DIR` the folder with data; what is missing is left out. The peer is `benches/peers/models.py`;
//! before anything is timed it must compute the loss and gradients of `tests/science/models.json`, as our tests do. `PPGNN_BASELINE`,
//! the path of another `ppgnn`, adds columns for it: both are timed through their command line, so any two builds can be
//! compared. `PPGNN_PLAIN` is the program of `examples/plain/` instead, with its models in plain form. `PPGNN_THREADS` (all cores) are ours; the peer runs with one and with as many, with dense and with sparse
//! features, and its best time counts. Names of data sets and models after `--` (`-- cora gfir`) leave the rest out, and so does
//! `--no-peer` the peer. Benchmarks inform; no test asserts a time.
//!
//! A run's time is the `seconds` in the manifest of its `train` node. An epoch is what a run of many epochs takes more than
//! a run of few, so loading is not counted, which the peer does not count either. All sides take turns, at least
//! `PPGNN_REPEAT` (3) times and up to three times as often while their repeats differ; the best counts. A number whose best
//! repeats are further apart than 15 % is shown as `?`, with a line that says so: the machine was not quiet.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

mod machine;
#[path = "../support/repeats.rs"]
mod repeats;
mod roofline;
mod rows;
mod side;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;

use machine::Machine;
use repeats::Estimate;
use roofline::Sizes;
use rows::Row;
use side::{Peer, Side};
use support::{program, repeat, setting, threads};

/// How many times faster than the peer ours is meant to be.
const TARGET: f64 = 10.0;

/// What is asked for.
struct Request {
    with_peer: bool,
    other: Option<Other>,
}

/// Another program to compare with.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// The build before.
    Before,
    /// The program of `examples/plain/`, whose models are in plain form.
    Plain,
}

struct Other {
    program: PathBuf,
    which: Which,
}

impl Other {
    fn asked() -> Option<Self> {
        let named = |variable, which| Some(Self { program: absolute(setting(variable)?), which });
        named("PPGNN_PLAIN", Which::Plain).or_else(|| named("PPGNN_BASELINE", Which::Before))
    }

    fn side(&self, row: &Row) -> Result<Side, String> {
        let row = match self.which {
            Which::Before => row.clone(),
            Which::Plain => row.in_plain_form().ok_or("no plain form")?,
        };
        Side::new(self.program.clone(), &row)
    }

    /// What its column is called.
    fn name(&self) -> &'static str {
        match self.which {
            Which::Before => "before",
            Which::Plain => "plain",
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let with_peer = !arguments.iter().any(|a| a == "--no-peer");
    let mut request = Request { with_peer, other: Other::asked() };
    // Cargo adds options of its own.
    let named: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    println!("threads: {}; at least {} turns; milliseconds per epoch and split", threads(), repeat());
    if with_peer {
        match Peer::check() {
            Ok(said) => println!("the peer computes the same: {said}"),
            Err(problem) => {
                println!("without a peer: {problem}");
                request.with_peer = false;
            }
        }
    }
    let machine = Machine::measured(threads());
    machine.print();
    let other = request.other.as_ref().map_or("before", Other::name);
    println!(
        "\n{:<10} {:<16} {:>13} {:>13} {:>13} {:>13} {:>7} {:>13} {:>7} {:>9} {:>13}",
        "data",
        "model",
        "ours",
        other,
        format!("{other}/ours"),
        "peer",
        "threads",
        "peer/ours",
        "target",
        "bound",
        "ours/bound"
    );
    let rows = rows::rows(&named);
    let mut doubtful = 0;
    for row in &rows {
        match measure(row, &machine, &request) {
            Ok(trusted) => doubtful += usize::from(!trusted),
            Err(problem) => println!("{:<10} {:<16} cannot run: {problem}", row.data, row.name),
        }
    }
    if doubtful > 0 {
        println!("\n{doubtful} of {} rows are not to be trusted: run them again when the machine is quiet", rows.len());
    }
}

/// The program is started in another folder.
fn absolute(path: String) -> PathBuf {
    std::path::absolute(&path).unwrap_or_else(|_| path.into())
}

/// Runs all sides in turns, and prints a line and one about the bound. Returns whether all numbers are to be trusted.
fn measure(row: &Row, machine: &Machine, request: &Request) -> Result<bool, String> {
    let mut ours = Side::new(program(), row)?;
    let sizes = side::sizes(row.data, ours.hop_entries())?;
    let mut before = request.other.as_ref().map(|other| other.side(row)).transpose()?;
    let mut peer = request.with_peer.then(Peer::default);
    let epochs = ours.epochs()?;
    let per_split = 1e3 / sizes.splits as f64;
    for turn in 1..=3 * repeat() {
        ours.turn(epochs)?;
        before.as_mut().map_or(Ok(()), |before| before.turn(epochs))?;
        if let Some(peer) = &mut peer {
            peer.turn(row, &ours.objects());
        }
        let of_peer = peer.as_ref().and_then(Peer::better).map(|(_, time)| time);
        let all = [ours.seconds(), before.as_ref().and_then(Side::seconds), of_peer];
        let wanted = 1 + usize::from(before.is_some()) + usize::from(peer.as_ref().is_some_and(Peer::is_there));
        if turn >= repeat() && all.iter().flatten().filter(|estimate| estimate.is_trusted()).count() == wanted {
            break;
        }
    }
    let milliseconds = |side: &Side| side.seconds().map(|seconds| seconds.times(per_split / epochs as f64));
    let (threads, of_peer) = peer.as_ref().and_then(Peer::better).unzip();
    let found = Found {
        ours: milliseconds(&ours),
        before: before.as_ref().map(milliseconds),
        peer: peer.as_ref().filter(|peer| peer.is_there()).map(|_| of_peer),
        threads,
    };
    found.print(row, &sizes, machine);
    if request.with_peer && found.peer.is_none() {
        println!("{:>10} the peer says nothing: run it by hand", "");
    }
    Ok(found.doubts())
}

/// Milliseconds per epoch and split. A side that did not run is `None`, one without a positive time `Some(None)`.
struct Found {
    ours: Option<Estimate>,
    before: Option<Option<Estimate>>,
    peer: Option<Option<Estimate>>,
    threads: Option<usize>,
}

impl Found {
    /// Prints the line of the table, and the parts of the bound.
    fn print(&self, row: &Row, sizes: &Sizes, machine: &Machine) {
        let parts = row.operations(sizes);
        let bound = parts.iter().map(|part| part.bound(machine)).sum::<f64>() * 1e3 / sizes.splits as f64;
        let shown = |estimate: Option<Estimate>, digits| estimate.map_or("?".into(), |e| e.shown(digits));
        let of = |side: Option<Option<Estimate>>, digits| side.map_or("–".into(), |e| shown(e, digits));
        let ratio = |side: Option<Option<Estimate>>| side.map(|e| Some(e?.over(self.ours?)));
        println!(
            "{:<10} {:<16} {:>13} {:>13} {:>13} {:>13} {:>7} {:>13} {:>7} {bound:>9.3} {:>13}",
            row.data,
            row.name,
            shown(self.ours, 3),
            of(self.before, 3),
            of(ratio(self.before), 2),
            of(self.peer, 2),
            self.threads.map_or("–".into(), |threads| threads.to_string()),
            of(ratio(self.peer), 1),
            TARGET,
            shown(self.ours.map(|ours| ours.times(1.0 / bound)), 2),
        );
        print!("{:>10} an epoch of {} splits, at least:", "", sizes.splits);
        for part in &parts {
            let milliseconds = 1e3 * part.bound(machine);
            let (flops, bytes) = (part.flops / 1e6, part.bytes / 1e6);
            print!(" {} {milliseconds:.2} ms ({flops:.0} MFLOP, {bytes:.0} MB)", part.name);
        }
        println!();
    }

    /// Says which times are not to be trusted, and returns whether all are.
    fn doubts(&self) -> bool {
        let mut trusted = true;
        for (name, side) in [("ours", Some(self.ours)), ("before", self.before), ("peer", self.peer)] {
            let doubt = match side {
                Some(None) => "more epochs took no more time".to_owned(),
                Some(Some(e)) if !e.is_trusted() => {
                    format!("about {:.3} ms, but the best repeats differ by {:.0} % of it", e.value, 100.0 * e.spread)
                }
                _ => continue,
            };
            println!("{:>10} {name} is not to be trusted: {doubt}; the machine is not quiet", "");
            trusted = false;
        }
        trusted
    }
}
