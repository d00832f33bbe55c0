//! Compares our TPE with Optuna's and with random search: how far the best of 20 and of 100 trials is from the best there is, one by
//! one and in rounds of ten, over 50 seeds, on standard functions and on recorded scores of our own models. On the latter also what races
//! save, and what they lose.
//!
//! Run with `make bench-search`, which installs Optuna. By hand: `cargo bench --profile quick --bench search`, with `PPGNN_PYTHON` a Python
//! with Optuna; without one it is left out. Names of surfaces after `--` leave the rest out, `PPGNN_SEEDS` (50) is the number of
//! seeds. What Optuna found is kept in `target/tmp`, by the digest of everything that it depends on: it takes half an hour, ours seconds.
//!
//! Random search draws no settings twice, as ours, which makes it a little better than independent draws.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program for people, not a part of the product")]

mod compare;
mod peer;
mod race;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod support;
mod surfaces;

use ppgnn::search::{Ask, Sampler, Tried, suggest};

use compare::{Column, table};
use peer::{Optuna, Peers};
use support::setting;
use surfaces::{Surface, all};

/// After how many trials the best is looked at.
pub const BUDGETS: [usize; 2] = [20, 100];
/// Trials that are sampled before any of them is scored.
const ROUNDS: [usize; 2] = [1, 10];

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let surfaces: Vec<Surface> =
        all().into_iter().filter(|surface| named.is_empty() || named.iter().any(|name| name == surface.name)).collect();
    let seeds: u64 = setting("PPGNN_SEEDS").and_then(|seeds| seeds.parse().ok()).unwrap_or(50);
    let peers = Peers::start();
    println!("{seeds} seeds; {}", peers.title());
    println!("regret: the best there is − the best found, mean ± 95 %");
    let random = column("random", &surfaces, seeds, |surface, seed| ours(surface, Sampler::Random, seed, 10));
    for round in ROUNDS {
        let mut columns =
            vec![column("ours", &surfaces, seeds, |surface, seed| ours(surface, Sampler::Tpe, seed, round))];
        columns.push(random.clone());
        for optuna in Optuna::of_round(round) {
            columns.extend(peers.column(&optuna, &surfaces, seeds));
        }
        for (at, budget) in BUDGETS.into_iter().enumerate() {
            println!("\n{budget} trials in rounds of {round}");
            print!("{}", table(&surfaces, &columns, at));
        }
    }
    race::print(&surfaces, seeds);
}

/// Regrets of a sampler on every surface, by seed.
fn column(
    name: &str,
    surfaces: &[Surface],
    seeds: u64,
    search: impl Fn(&Surface, u64) -> [f64; BUDGETS.len()],
) -> Column {
    let of_surface = |surface: &Surface| (0..seeds).map(|seed| search(surface, seed)).collect();
    Column { name: name.into(), regrets: surfaces.iter().map(of_surface).collect() }
}

/// Searches with a sampler of ours.
fn ours(surface: &Surface, sampler: Sampler, seed: u64, round: usize) -> [f64; BUDGETS.len()] {
    let mut tried: Vec<Tried> = Vec::new();
    while tried.len() < BUDGETS[BUDGETS.len() - 1] {
        let ask = Ask { space: &surface.space, sampler, seed, first: tried.len(), count: round };
        let found = suggest(&ask, &tried);
        tried.extend(found.into_iter().map(|settings| Tried { score: Some(surface.score(&settings)), settings }));
    }
    let scores: Vec<f64> = tried.iter().filter_map(|trial| trial.score).collect();
    surface.regrets(&scores)
}
