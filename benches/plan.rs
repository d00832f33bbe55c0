//! Times planning: a sweep over training with 1 000, 10 000 and 100 000 nodes, best of five.
//!
//! Run with `make bench-plan`. Benchmarks inform; no test asserts a time.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

use std::time::Instant;

use ppgnn::pipeline::{Overrides, Pipeline};
use ppgnn::plan::{PlanContext, build};
use ppgnn::run::demand;
use ppgnn::store::Store;

fn main() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open_existing_read_only(&dir.path().join("artifacts")).expect("an empty store");
    println!("{:>8} {:>10} {:>12} {:>12}", "nodes", "best (s)", "µs a node", "states (s)");
    for nodes in [1_000usize, 10_000, 100_000] {
        // Two of three nodes of a point are its own (train, evaluate); a seed axis of 50 fills the grid.
        let rates: Vec<String> = (1..=nodes / 100).map(|i| format!("{}", i as f64 * 1e-5)).collect();
        let seeds: Vec<String> = (0..50).map(|s| s.to_string()).collect();
        let text = format!(
            "ppgnn: 1\nname: bench\ndatasets: {{g: {{format: csbm, nodes: 100}}}}\nstages:\n  load: {{params: {{dataset: g}}}}\n  \
             featurize: {{inputs: {{graph: load}}}}\n  normalize: {{inputs: {{graph: load}}}}\n  evd: {{inputs: {{operator: normalize}}}}\n  split: {{inputs: {{graph: load}}}}\n  \
             train: {{inputs: {{operator: normalize, nodes: featurize, splits: split, spectrum: evd}}, params: {{model: pp-gnn}}}}\n  \
             evaluate: {{inputs: {{trained: train, nodes: featurize, splits: split}}}}\n\
             sweep: {{axes: {{train.lr: [{}], train.seed: [{}]}}}}\n\
             tables: {{t: {{rows: train.lr, columns: [], pool: train.seed}}}}\n",
            rates.join(", "),
            seeds.join(", ")
        );
        let file = dir.path().join("bench.yaml");
        std::fs::write(&file, text).expect("a file");
        let registry = ppgnn_stages::built_in();
        let around = PlanContext {
            registry: &registry,
            profile: ppgnn_stages::contract::profile::numeric_profile(),
            device_profile: ppgnn_stages::contract::profile::numeric_profile(),
            machine: String::new(),
            digest: &|_, _| Ok(String::new()),
        };
        let (mut best, mut best_states, mut planned) = (f64::INFINITY, f64::INFINITY, 0);
        for _ in 0..5 {
            let begun = Instant::now();
            let pipeline =
                Pipeline::load(&file, &Overrides::default(), &registry, &ppgnn::pipeline::Nothing).expect("valid");
            let plan = build(&pipeline, &around).expect("valid");
            best = best.min(begun.elapsed().as_secs_f64());
            let begun = Instant::now();
            let states = demand(&plan, &store, &plan.leaves(), &[]);
            best_states = best_states.min(begun.elapsed().as_secs_f64());
            planned = states.len();
        }
        println!("{planned:>8} {best:>10.3} {:>12.2} {best_states:>12.3}", best / planned as f64 * 1e6);
    }
}
