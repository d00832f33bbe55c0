use serde_json::json;

use super::*;
use crate::search::{Domain, Param};

fn space(params: Vec<(&str, Domain)>) -> Space {
    let param = |(path, domain): (&str, Domain)| Param { path: path.into(), domain, when: None };
    Space::new(params.into_iter().map(param).collect()).unwrap()
}

fn unit() -> Domain {
    Domain::Float { from: 0.0, to: 1.0, log: false }
}

/// Searches in rounds, and returns all trials.
fn search(
    space: &Space,
    sampler: Sampler,
    seed: u64,
    (rounds, round): (usize, usize),
    f: impl Fn(&Settings) -> f64,
) -> Vec<Tried> {
    let mut tried: Vec<Tried> = Vec::new();
    for _ in 0..rounds {
        let found = suggest(&Ask { space, sampler, seed, first: tried.len(), count: round }, &tried);
        tried.extend(found.into_iter().map(|settings| Tried { score: Some(f(&settings)), settings }));
    }
    tried
}

fn number(settings: &Settings, path: &str) -> f64 {
    settings[path].as_f64().unwrap()
}

#[test]
fn a_round_depends_on_seed_and_earlier_rounds_alone() {
    let space = space(vec![("a", unit()), ("b", Domain::Choice(vec![json!("x"), json!("y"), json!("z")]))]);
    let score = |s: &Settings| -(number(s, "a") - 0.4).powi(2);
    for sampler in [Sampler::Random, Sampler::Quasi, Sampler::Tpe] {
        let one = search(&space, sampler, 3, (6, 5), score);
        assert_eq!(one, search(&space, sampler, 3, (6, 5), score));
        assert_ne!(one, search(&space, sampler, 4, (6, 5), score), "another seed, other trials");
        // Half a round is the beginning of the whole one, so that a search can be asked for more trials later.
        let earlier = &one[..25];
        let ask = Ask { space: &space, sampler, seed: 3, first: 25, count: 3 };
        let part: Vec<&Settings> = one[25..28].iter().map(|trial| &trial.settings).collect();
        assert_eq!(suggest(&ask, earlier).iter().collect::<Vec<_>>(), part);
    }
}

#[test]
fn nothing_is_tried_twice_and_a_small_space_ends() {
    let space = space(vec![
        ("a", Domain::Int { from: 1, to: 4, log: false }),
        ("b", Domain::Choice(vec![json!("x"), json!("y"), json!("z")])),
    ]);
    for sampler in [Sampler::Grid, Sampler::Random, Sampler::Quasi, Sampler::Tpe] {
        let tried = search(&space, sampler, 1, (5, 7), |s| number(s, "a"));
        let different: BTreeSet<String> = tried.iter().map(|trial| text(&trial.settings)).collect();
        assert_eq!((tried.len(), different.len()), (12, 12), "{sampler:?}");
    }
}

#[test]
fn a_grid_is_walked_in_order() {
    let space =
        space(vec![("a", Domain::Choice(vec![json!(1), json!(2)])), ("b", Domain::Int { from: 5, to: 6, log: false })]);
    let tried = search(&space, Sampler::Grid, 0, (2, 3), |_| 0.0);
    let pairs: Vec<(i64, i64)> =
        tried.iter().map(|t| (t.settings["a"].as_i64().unwrap(), t.settings["b"].as_i64().unwrap())).collect();
    assert_eq!(pairs, [(1, 5), (1, 6), (2, 5), (2, 6)]);
}

#[test]
fn what_learns_gets_nearer_than_what_does_not() {
    let space = space(vec![
        ("a", unit()),
        ("b", unit()),
        ("c", unit()),
        ("kind", Domain::Choice(vec![json!("x"), json!("y")])),
    ]);
    // The best is 0 at a = 0.3, b = 0.7, c = 0.2 with kind y.
    let score = |s: &Settings| {
        let off = |path: &str, at: f64| (number(s, path) - at).powi(2);
        -off("a", 0.3) - off("b", 0.7) - off("c", 0.2) - if s["kind"] == "y" { 0.0 } else { 0.5 }
    };
    let mean = |sampler: Sampler, rounds: (usize, usize)| {
        let best = |seed| {
            let tried = search(&space, sampler, seed, rounds, score);
            tried.iter().filter_map(|t| t.score).fold(f64::NEG_INFINITY, f64::max)
        };
        (0..20).map(best).sum::<f64>() / 20.0
    };
    let random = mean(Sampler::Random, (60, 1));
    assert!(mean(Sampler::Tpe, (60, 1)) > random / 4.0, "one by one");
    assert!(mean(Sampler::Tpe, (6, 10)) > random / 2.0, "in rounds of ten");
}

#[test]
fn failed_trials_are_avoided_and_do_not_end_the_search() {
    let space = space(vec![("a", unit())]);
    let mut tried: Vec<Tried> = Vec::new();
    for _ in 0..40 {
        let ask = Ask { space: &space, sampler: Sampler::Tpe, seed: 2, first: tried.len(), count: 1 };
        let settings = suggest(&ask, &tried).remove(0);
        let a = number(&settings, "a");
        // Whatever is above one half fails.
        tried.push(Tried { score: (a < 0.5).then_some(-(a - 0.25).powi(2)), settings });
    }
    let failed = |trials: &[Tried]| trials.iter().filter(|t| t.score.is_none()).count();
    assert!(failed(&tried[20..]) < 4, "{} of the last 20", failed(&tried[20..]));
}
