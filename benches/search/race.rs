//! What a race saves on recorded surfaces, and what it costs: how many trainings of a split 100 trials take, how often another trial is
//! chosen than without it, and how much of the mean score that loses.

use ppgnn::search::{Ask, Race, Sampler, Settings, Tried, expected, stopped, suggest};

use super::compare::interval;
use super::surfaces::Surface;

const TRIALS: usize = 100;
const ROUND: usize = 10;
const RACES: [(usize, f64); 6] = [(2, 2.0), (3, 1.0), (3, 2.0), (3, 3.0), (5, 1.0), (5, 2.0)];

/// What became of a search.
struct Ended {
    chosen: Settings,
    /// The mean over all splits of what was chosen.
    score: f64,
    /// Trainings of one split.
    trained: usize,
}

/// Prints a table for every surface whose scores are recorded split by split.
pub fn print(surfaces: &[Surface], seeds: u64) {
    println!(
        "\nraces: {TRIALS} trials in rounds of {ROUND}, by TPE; loss: mean score of what is chosen without the race − with it, ± 95 %"
    );
    println!(
        "{:<16} {:>5} {:>6} {:>18} {:>14} {:>19}",
        "surface", "after", "margin", "trainings of splits", "another choice", "loss"
    );
    for surface in surfaces.iter().filter(|surface| surface.has_splits()) {
        let whole: Vec<Ended> = (0..seeds).map(|seed| search(surface, seed, None)).collect();
        for (after, margin) in RACES {
            let race = Race { after, margin };
            let raced: Vec<Ended> = (0..seeds).map(|seed| search(surface, seed, Some(&race))).collect();
            let of = |ended: &[Ended]| ended.iter().map(|one| one.trained as f64).sum::<f64>();
            let pairs = || whole.iter().zip(&raced);
            let others = pairs().filter(|(without, with)| without.chosen != with.chosen).count();
            let losses: Vec<f64> = pairs().map(|(without, with)| without.score - with.score).collect();
            let (loss, half) = interval(&losses);
            let (name, share) = (surface.name, 100.0 * of(&raced) / of(&whole));
            println!(
                "{name:<16} {after:>5} {margin:>6} {share:>16.0} % {others:>8} of {seeds:<3} {loss:>9.4} ± {half:.4}"
            );
        }
    }
}

/// Searches as `ppgnn` does: a round of trials on the first splits, then those that go on, then the next round.
fn search(surface: &Surface, seed: u64, race: Option<&Race>) -> Ended {
    let (mut tried, mut trained): (Vec<Tried>, usize) = (Vec::new(), 0);
    let mut best: Option<(Settings, Vec<Option<f64>>)> = None;
    while tried.len() < TRIALS {
        let ask = Ask { space: &surface.space, sampler: Sampler::Tpe, seed, first: tried.len(), count: ROUND };
        let round = suggest(&ask, &tried);
        if round.is_empty() {
            break;
        }
        let whole: Vec<Vec<Option<f64>>> = round.iter().map(|settings| surface.of_splits(settings)).collect();
        let first = |scores: &[Option<f64>]| scores[..race.map_or(scores.len(), |race| race.after)].to_vec();
        let firsts: Vec<Vec<Option<f64>>> = whole.iter().map(|scores| first(scores)).collect();
        let stops = match race {
            None => vec![false; round.len()],
            Some(race) => {
                trained += firsts.iter().map(Vec::len).sum::<usize>();
                let leading = firsts.iter().reduce(|best, next| if mean(next) > mean(best) { next } else { best });
                let to_beat = best.as_ref().map(|(_, scores)| first(scores)).or(leading.cloned()).unwrap_or_default();
                stopped(race, &to_beat, &firsts)
            }
        };
        for (at, scores) in whole.iter().enumerate().filter(|(at, _)| !stops[*at]) {
            trained += scores.len();
            if best.as_ref().is_none_or(|(_, of_best)| mean(scores) > mean(of_best)) {
                best = Some((round[at].clone(), scores.clone()));
            }
        }
        let of_best = best.as_ref().map(|(_, scores)| scores.clone()).unwrap_or_default();
        tried.extend(round.into_iter().enumerate().map(|(at, settings)| {
            let score = if stops[at] { expected(&of_best, &firsts[at]) } else { Some(mean(&whole[at])) };
            Tried { settings, score }
        }));
    }
    let (chosen, scores) = best.expect("a trial with all splits");
    Ended { chosen, score: mean(&scores), trained }
}

fn mean(scores: &[Option<f64>]) -> f64 {
    let known = scores.iter().flatten();
    known.clone().sum::<f64>() / known.count() as f64
}
