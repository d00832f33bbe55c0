//! Times eigenpairs of both ends against SciPy and NumPy on real graphs, and alone on generated graphs up to the size of
//! OGBN-arXiv.
//!
//! Run with `make bench-evd`, which installs the peers. By hand: `cargo bench --profile quick --bench evd`, with `PPGNN_PEERS` the folder of
//! `peer_eigsh.py`, `PPGNN_PYTHON` a Python with SciPy, `PPGNN_DATA_DIR` the folder with data; what is missing is left out.
//! `PPGNN_THREADS` (all cores) counts for both sides, `PPGNN_REPEAT` (3) is how often each runs, taking turns; the best
//! counts. Names of data sets after `--` leave the rest out. Benchmarks inform; no test asserts a time.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Operator;
use ppgnn_stages::math::csr::Csr;
use ppgnn_stages::math::eigen::{Ends, Request, Solver, Unwatched, ends, quality};
use ppgnn_stages::math::random::Stream;
use serde_json::Value;
use support::{Project, data, program, repeat, said, threads};

/// Data set, its folder, pairs a side, and whether the peer is dense.
const REAL: [(&str, &str, usize, bool); 6] = [
    ("squirrel", "squirrel", 256, false),
    ("computers", "amazon_computers", 256, false),
    ("pubmed", "pubmed", 512, false),
    ("cora", "cora", 1354, true),
    ("citeseer", "citeseer", 1663, true),
    ("chameleon", "chameleon", 1138, true),
];
/// Nodes and pairs a side of generated graphs.
const GENERATED: [(usize, usize); 5] = [(20_000, 128), (40_000, 128), (80_000, 128), (160_000, 128), (169_343, 512)];
/// Edges of a generated graph for every thousand nodes: as OGBN-arXiv has.
const EDGES: usize = 6_890;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, n, k] = &arguments[..]
        && word == "generated"
    {
        return generated(n.parse().expect("nodes"), k.parse().expect("pairs"));
    }
    println!("threads: {}; best of {}", threads(), repeat());
    // Cargo adds options of its own.
    let named: Vec<&str> = arguments[1..].iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    real(&named);
    if !named.is_empty() {
        return;
    }
    println!(
        "\n{:>7} {:>9} {:>5} {:>8} {:>9} {:>9} {:>9}",
        "nodes", "edges", "k", "s", "µs/edge", "products", "peak MB"
    );
    for (n, k) in GENERATED {
        let program = std::env::current_exe().expect("its own path");
        let status = Command::new(program).args(["generated", &n.to_string(), &k.to_string()]).status();
        assert!(status.expect("a process").success(), "{n} nodes could not be decomposed");
    }
}

fn real(named: &[&str]) {
    let data = data();
    println!(
        "\n{:<10} {:>6} {:>5} {:>8} {:>9} {:>9}   {:<6} {:>8} {:>9} {:>9} {:>7}",
        "graph", "nodes", "k", "ours s", "residual", "overlap", "peer", "theirs s", "residual", "overlap", "ratio"
    );
    for (name, folder, k, dense) in REAL.into_iter().filter(|(name, ..)| named.is_empty() || named.contains(name)) {
        let Some(matrix) = operator(name) else {
            println!("{name:<10} is not in {}", data.display());
            continue;
        };
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        let (mut found, mut said) = (Ends::default(), None);
        for _ in 0..repeat() {
            let (seconds, of) = timed(&matrix, k);
            ours = ours.min(seconds);
            found = of;
            if let Some(peer) = peer(&data.join(folder), k, dense) {
                theirs = theirs.min(peer["seconds"].as_f64().unwrap_or(f64::INFINITY));
                said = Some(peer);
            }
        }
        let (residual, overlap) = quality(&matrix, &found.low, &found.high);
        print!("{name:<10} {:>6} {k:>5} {ours:>8.2} {residual:>9.1e} {overlap:>9.1e}   ", matrix.n());
        match said {
            Some(peer) => {
                let number = |of: &str| peer[of].as_f64().unwrap_or(f64::NAN);
                let (residual, overlap, ratio) = (number("residual"), number("orthogonality"), theirs / ours);
                let named = peer["peer"].as_str().unwrap_or_default();
                println!("{named:<6} {theirs:>8.2} {residual:>9.1e} {overlap:>9.1e} {ratio:>6.1}×");
            }
            None => println!("no peer: set PPGNN_PEERS and PPGNN_PYTHON"),
        }
    }
}

/// Decomposes with a pool of its own, as a stage does.
fn timed(matrix: &Csr, k: usize) -> (f64, Ends) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads()).build().expect("threads");
    let begun = Instant::now();
    let found = pool.install(|| ends(matrix, &Request::new(k, Solver::Auto), &Unwatched)).expect("eigenpairs");
    (begun.elapsed().as_secs_f64(), found)
}

/// What `normalize` makes of a data set; `None` if its data is not here.
fn operator(name: &str) -> Option<Csr> {
    let load = format!("load: {{ params: {{ dataset: {name} }} }}");
    let project = Project::new(program(), &[load, "normalize: { inputs: { graph: load } }".into()]);
    project.run(&[]).ok()?;
    Operator::load(&project.artifact("normalize")?).ok().map(|operator| operator.matrix)
}

/// Runs the peer once, and returns the line of JSON that it prints.
fn peer(data: &Path, k: usize, dense: bool) -> Option<Value> {
    let mut command = support::peer(&Path::new(&support::setting("PPGNN_PEERS")?).join("peer_eigsh.py"))?;
    command.arg(data).args(["--k", &k.to_string()]);
    command.args(dense.then_some("--dense")).env("OPENBLAS_NUM_THREADS", threads().to_string());
    said(&mut command)
}

/// Decomposes a generated graph once and prints a line about it.
fn generated(n: usize, k: usize) {
    let matrix = heavy_tailed(n, n * EDGES / 1000);
    let (seconds, found) = timed(&matrix, k);
    let edges = (matrix.indices.len() - n) / 2;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).and_then(|l| l.split_whitespace().next());
    let peak = peak.and_then(|kb| kb.parse::<u64>().ok()).map_or("?".into(), |kb| (kb / 1000).to_string());
    #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
    let each = seconds * 1e6 / edges as f64;
    println!("{n:>7} {edges:>9} {k:>5} {seconds:>8.2} {each:>9.1} {:>9} {peak:>9}", found.effort.products);
    let (residual, overlap) = quality(&matrix, &found.low, &found.high);
    assert!(residual <= 1e-6 && overlap <= 1e-8, "residual {residual:e}, overlap {overlap:e}");
}

/// Ã of a random graph whose degrees have a tail of exponent 2.5: every node has an edge to a node drawn by weight, and the
/// other edges join two such nodes.
fn heavy_tailed(n: usize, edges: usize) -> Csr {
    let mut stream = Stream::new(0, &["bench", "graph"]);
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 nodes")]
    let weight = |i: usize| ((i + 10) as f64).powf(-1.0 / 1.5);
    let mut sums = Vec::with_capacity(n);
    let mut sum = 0.0;
    for i in 0..n {
        sum += weight(i);
        sums.push(sum);
    }
    let mut node = || sums.partition_point(|s| *s < stream.uniform() * sum).min(n - 1);
    let mut pairs = std::collections::BTreeSet::new();
    let mut add = |a: usize, b: usize| a != b && pairs.insert((a.min(b), a.max(b)));
    for i in 0..n {
        while !add(i, node()) {}
    }
    let mut left = edges - n;
    while left > 0 {
        left -= usize::from(add(node(), node()));
    }
    let mut entries: Vec<(usize, usize)> = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    entries.extend((0..n).map(|i| (i, i)));
    entries.sort_unstable();
    let mut indptr = vec![0u64; n + 1];
    entries.iter().for_each(|(row, _)| indptr[row + 1] += 1);
    (0..n).for_each(|i| indptr[i + 1] += indptr[i]);
    #[expect(clippy::cast_precision_loss, reason = "degrees")]
    let degree = |i: usize| (indptr[i + 1] - indptr[i]) as f64;
    let values = entries.iter().map(|&(a, b)| 1.0 / (degree(a) * degree(b)).sqrt()).collect();
    let columns = entries.iter().map(|e| u32::try_from(e.1).expect("a small graph")).collect();
    Csr::new(n, indptr, columns, values).expect("a matrix")
}
