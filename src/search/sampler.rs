//! Which settings are tried next.
//!
//! A search goes round by round. All trials of a round are sampled from the results of the rounds before, so their settings are
//! known before the first of them runs, and the number of workers changes none. Random numbers come from streams named by seed
//! and number of the trial. No settings are tried twice: training is deterministic, so a second time would tell nothing.

use std::collections::BTreeSet;

use ppgnn_stages::math::random::Stream;

use super::grid;
use super::space::{Settings, Space};
use super::tpe::{self, Observed};

/// How the next settings are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampler {
    /// All of them, one after the other.
    Grid,
    /// At random.
    Random,
    /// Evenly spread: a scrambled Sobol' sequence.
    Quasi,
    /// Near the better ones so far, by tree-structured Parzen estimators.
    #[default]
    Tpe,
}

impl Sampler {
    /// Returns the sampler of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Grid, Self::Random, Self::Quasi, Self::Tpe].into_iter().find(|sampler| sampler.name() == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Random => "random",
            Self::Quasi => "quasi",
            Self::Tpe => "tpe",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The space.
    pub space: &'a Space,
    /// How to choose.
    pub sampler: Sampler,
    /// The seed of the search.
    pub seed: u64,
    /// The number of the first trial, from 0.
    pub first: usize,
    /// How many trials are wanted.
    pub count: usize,
}

/// A trial of an earlier round.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Its settings.
    pub settings: Settings,
    /// Its score, larger is better; none if it failed.
    pub score: Option<f64>,
}

/// Draws of a trial that are given up because the settings were tried before.
const REDRAWS: u32 = 200;

/// Returns the settings of the next trials; fewer than wanted if there are no others.
pub fn suggest(ask: &Ask, tried: &[Tried]) -> Vec<Settings> {
    if ask.sampler == Sampler::Grid {
        return grid::points(ask.space, ask.first as u64, ask.count as u64);
    }
    let mut seen: BTreeSet<String> = tried.iter().map(|trial| text(&trial.settings)).collect();
    let left = ask.space.count().map(|count| count.saturating_sub(seen.len() as u64));
    let count = left.map_or(ask.count, |left| ask.count.min(usize::try_from(left).unwrap_or(usize::MAX)));
    let observed: Vec<Observed> = tried
        .iter()
        .filter_map(|trial| Some(Observed { point: ask.space.point(&trial.settings)?, score: trial.score }))
        .collect();
    let mut found = Vec::with_capacity(count);
    for trial in ask.first..ask.first + count {
        let mut stream = Stream::new(ask.seed, &["search", &trial.to_string()]);
        let settings = next(ask, trial, &observed, &mut stream, &seen);
        if let Some(settings) = settings {
            seen.insert(text(&settings));
            found.push(settings);
        }
    }
    found
}

/// The settings of one trial that are not in `seen`.
fn next(
    ask: &Ask,
    trial: usize,
    observed: &[Observed],
    stream: &mut Stream,
    seen: &BTreeSet<String>,
) -> Option<Settings> {
    let dimensions = ask.space.params().len();
    let is_new = |settings: &Settings| !seen.contains(&text(settings));
    let learns = ask.sampler == Sampler::Tpe && observed.len() >= tpe::START && trial >= tpe::START;
    if learns && let Some(settings) = tpe::best(ask.space, observed, stream, &is_new) {
        return Some(settings);
    }
    let spread = |dimension: usize| spread(trial, dimension, ask.seed);
    if ask.sampler != Sampler::Random
        && !learns
        && let Some(point) = (0..dimensions).map(spread).collect::<Option<Vec<_>>>()
    {
        let settings = ask.space.settings(&point);
        if is_new(&settings) {
            return Some(settings);
        }
    }
    for _ in 0..REDRAWS {
        let point: Vec<f64> = (0..dimensions).map(|_| stream.uniform()).collect();
        let settings = ask.space.settings(&point);
        if is_new(&settings) {
            return Some(settings);
        }
    }
    // Almost all of a small space was tried: the first that was not.
    grid::points(ask.space, 0, u64::try_from(seen.len()).ok()? + 1).into_iter().find(is_new)
}

/// A coordinate of a scrambled Sobol' sequence; none beyond its dimensions.
fn spread(trial: usize, dimension: usize, seed: u64) -> Option<f64> {
    let (trial, dimension) = (u32::try_from(trial).ok()?, u32::try_from(dimension).ok()?);
    let known = dimension < sobol_burley::NUM_DIMENSIONS && trial < (1 << 16);
    let mut stream = Stream::new(seed, &["search", "sobol"]);
    known.then(|| f64::from(sobol_burley::sample(trial, dimension, stream.bits())))
}

/// Settings as text: they are equal if and only if their texts are.
fn text(settings: &Settings) -> String {
    serde_json::to_string(settings).unwrap_or_default()
}

#[cfg(test)]
mod tests;
