//! A search: every point of the sweep gets the settings that do best on validation nodes, out of so many that are tried.
//!
//! ```yaml
//! search:
//!   space: paper              # of the file of every model (`pipelines/models`)
//!   params: { evd.k: [64] }   # parameters of the search itself, laid on those of the space
//!   sampler: tpe              # grid, random, quasi or tpe
//!   trials: 20                # of every search
//!   round: 10                 # trials that are sampled at a time, from the results of the rounds before
//!   seed: 0
//!   objective: val-accuracy   # its mean over splits decides
//!   over: [method, dataset]   # a search for every combination of these axes; without it, of all axes
//!   test: chosen              # what is evaluated on test nodes: what was chosen, or `all` trials
//!   choose: mean              # the best mean over splits, or for every split its own: `per-split`
//!   race: { after: 3 }        # trials that are clearly behind after three splits stop there
//!   time: 2h                  # no round begins when trials have taken so long
//! ```
//!
//! Trials are points of the sweep on an axis of their own, [`TRIAL_AXIS`]. Its first value is what was chosen; then come trials on all
//! splits, on the first splits (of a race), what is shared among trials, and what was chosen for some split.

mod entry;
mod resolver;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;

use super::axes::{ABSENT, Sweep};
use super::document::Setting;
use super::file::AxisValue;
use super::source::Span;
use super::yaml::{Data, Key, Node};
use crate::search::{Race, Sampler, Settings, Space};
pub use entry::SearchEntry;
pub(super) use resolver::Resolver;
pub use resolver::SPLIT_COUNT;

/// The axis of trials.
pub const TRIAL_AXIS: &str = "trial";

/// Searches as meant: one for every group of points.
#[derive(Debug)]
pub struct Search {
    /// How settings are chosen.
    pub sampler: Sampler,
    /// Trials of every search.
    pub trials: usize,
    /// Trials that are sampled at a time.
    pub round: usize,
    /// The seed.
    pub seed: u64,
    /// The validation metric whose mean decides.
    pub objective: Key,
    /// The stage whose metrics decide, by position.
    pub scored: usize,
    /// What the scores of trials decide.
    pub choose: Choose,
    /// When trials stop before they have all splits, if they do.
    pub race: Option<Race>,
    /// The stage that makes the splits, by position, and where the race is declared.
    pub raced: Option<(usize, Span)>,
    /// How long trials may take before no further round begins.
    pub time: Option<Duration>,
    /// What leaves test nodes alone, unless all trials are evaluated on them.
    untested: Option<Setting>,
    /// What leaves the first splits alone.
    first: Option<Setting>,
    /// The searches.
    pub groups: Vec<Group>,
    /// The axes over which there is a search of its own.
    pub over: Vec<usize>,
    /// The points without trials.
    base: Vec<Vec<usize>>,
    /// The group of every combination of values of `over`.
    group_at: HashMap<Vec<usize>, usize>,
}

/// What the scores of trials decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choose {
    /// The trial with the best mean over splits.
    #[default]
    Mean,
    /// For every split the trial that is best there.
    PerSplit,
}

/// How far a trial has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has the first splits.
    First,
    /// It has all splits.
    Whole,
    /// It stopped after the first splits.
    Stopped,
}

/// What a value of the axis of trials means.
#[derive(Clone, Copy)]
enum Place {
    Choice,
    Whole(usize),
    First(usize),
    Largest(usize),
    /// A trial that was chosen for some split.
    Best(usize),
}

/// One search: the points that have the same values of some axes.
#[derive(Debug)]
pub struct Group {
    /// The values of these axes, for people.
    pub label: String,
    /// What is searched.
    pub space: Space,
    /// Where its parameters are written.
    pub places: BTreeMap<String, Span>,
    /// The trials so far.
    pub trials: Vec<Settings>,
    /// The trial that was chosen, when all have ended.
    pub chosen: Option<usize>,
    /// With `choose: per-split`, the trial that was chosen for every split.
    pub of_splits: Vec<usize>,
    /// How far every trial has come.
    pub standing: Vec<Standing>,
    /// Whether it ended because trials had taken long enough.
    pub out_of_time: bool,
    /// Whether all trials have ended and none has a score.
    pub failed: bool,
    /// Trials of it that have ended, with what they scored; none is a trial that failed.
    pub scores: Vec<Option<f64>>,
    /// The settings of every trial, as the plan takes them.
    settings: Vec<Vec<Setting>>,
    /// Settings that ask for the most that the space allows of what is shared, such as eigenpairs.
    pub largest: Vec<(usize, Setting)>,
}

/// What trials mean for a point.
#[derive(Clone, Copy, Debug)]
pub enum At<'s> {
    /// The point has these settings, and nothing behind a stage is wanted there.
    Trial {
        /// The settings.
        settings: &'s [Setting],
        /// What is set for every trial.
        also: Option<&'s Setting>,
        /// What leaves it the first splits alone, whatever the command line says.
        cut: Option<&'s Setting>,
        /// The last stage that is wanted, by position.
        up_to: usize,
    },
    /// The point has these settings: those of the chosen trial.
    Chosen(&'s [Setting]),
    /// Every split has the trial that was chosen for it.
    PerSplit(&'s [usize]),
    /// Nothing is chosen yet: the position of the search.
    Open(usize),
}

impl Search {
    /// Returns what trials mean for a point of the sweep.
    pub fn at(&self, point: &[usize]) -> Option<At<'_>> {
        let at = self.group(point)?;
        let group = &self.groups[at];
        let trial = |trial: usize, also, cut| {
            Some(At::Trial { settings: group.settings.get(trial)?, also, cut, up_to: self.scored })
        };
        let untested = self.untested.as_ref();
        match self.place(*point.last()?)? {
            Place::Choice => Some(match group.chosen {
                Some(_) if !group.of_splits.is_empty() => At::PerSplit(&group.of_splits),
                Some(chosen) => At::Chosen(&group.settings[chosen]),
                None => At::Open(at),
            }),
            Place::Whole(number) => trial(number, untested, None),
            Place::First(number) => trial(number, untested, self.first.as_ref()),
            Place::Best(number) => trial(number, None, None),
            Place::Largest(at) => {
                let (up_to, setting) = group.largest.get(at)?;
                Some(At::Trial { settings: std::slice::from_ref(setting), also: None, cut: None, up_to: *up_to })
            }
        }
    }

    /// The most trials that a search has, and the most that trials of one share.
    fn most(&self) -> (usize, usize) {
        let most = |count: fn(&Group) -> usize| self.groups.iter().map(count).max().unwrap_or(0);
        (most(|group| group.trials.len()), most(|group| group.largest.len()))
    }

    /// What a value of the axis of trials means.
    fn place(&self, value: usize) -> Option<Place> {
        let (trials, shared) = self.most();
        let Some(at) = value.checked_sub(1) else { return Some(Place::Choice) };
        match at {
            _ if at < trials => Some(Place::Whole(at)),
            _ if at < 2 * trials => Some(Place::First(at - trials)),
            _ if at < 2 * trials + shared => Some(Place::Largest(at - 2 * trials)),
            _ if at < 3 * trials + shared => Some(Place::Best(at - 2 * trials - shared)),
            _ => None,
        }
    }

    /// The value of the axis of trials that means something.
    fn value(&self, place: Place) -> usize {
        let (trials, shared) = self.most();
        match place {
            Place::Choice => 0,
            Place::Whole(trial) => 1 + trial,
            Place::First(trial) => 1 + trials + trial,
            Place::Largest(at) => 1 + 2 * trials + at,
            Place::Best(trial) => 1 + 2 * trials + shared + trial,
        }
    }

    /// Returns the point at which a trial that was chosen for some split is evaluated, by a point of the same search.
    pub fn best_at(&self, point: &[usize], trial: usize) -> Vec<usize> {
        let mut point = point.to_vec();
        if let Some(last) = point.last_mut() {
            *last = self.value(Place::Best(trial));
        }
        point
    }

    /// Returns the points of all trials of the search that a point belongs to, but those that failed.
    pub fn trials_of(&self, point: &[usize]) -> Vec<Vec<usize>> {
        let Some(group) = self.group(point).map(|at| &self.groups[at]) else { return Vec::new() };
        let trained = |place: &Place| match place {
            Place::Whole(trial) | Place::First(trial) => group.scores.get(*trial) != Some(&None),
            Place::Choice | Place::Largest(_) | Place::Best(_) => false,
        };
        let at = |place: Place| {
            let mut point = point.to_vec();
            point.last_mut().into_iter().for_each(|last| *last = self.value(place));
            point
        };
        self.places(group).into_iter().filter(trained).map(at).collect()
    }

    /// Returns the search that a point belongs to.
    pub fn group(&self, point: &[usize]) -> Option<usize> {
        let values: Vec<usize> = self.over.iter().map(|axis| point[*axis]).collect();
        self.group_at.get(&values).copied()
    }

    /// Returns the search and the number of the trial that a point belongs to, if it belongs to one, and whether it has the first
    /// splits alone.
    pub fn trial(&self, point: &[usize]) -> Option<(usize, usize, bool)> {
        let group = self.group(point)?;
        let (trial, first) = match self.place(*point.last()?)? {
            Place::Whole(trial) => (trial, false),
            Place::First(trial) => (trial, true),
            Place::Choice | Place::Largest(_) | Place::Best(_) => return None,
        };
        (trial < self.groups[group].trials.len()).then_some((group, trial, first))
    }

    /// What a reader of the number at a point must know: how it was chosen.
    pub fn said(&self, point: &[usize]) -> Option<String> {
        let group = &self.groups[self.group(point)?];
        let stopped = group.standing.iter().filter(|standing| **standing == Standing::Stopped).count();
        let failed = group.scores.iter().filter(|score| score.is_none()).count();
        let among = plural(group.trials.len(), "trial", "trials");
        let (sampler, objective) = (self.sampler.name(), &self.objective.name);
        let mut said = match self.choose {
            Choose::Mean => format!("settings chosen among {among} ({sampler}) by the mean of {objective}"),
            Choose::PerSplit => {
                format!("settings chosen for every split apart among {among} ({sampler}) by {objective}")
            }
        };
        if let Some(race) = self.race.filter(|_| stopped > 0) {
            said += &format!(", of which {stopped} stopped after {}", plural(race.after, "split", "splits"));
        }
        if failed > 0 {
            said += &format!(", of which {failed} failed");
        }
        if let Some(time) = self.time.filter(|_| group.out_of_time) {
            said += &format!(", as many as began within {}", humantime::format_duration(time));
        }
        Some(said)
    }

    /// Why nothing is chosen yet.
    pub fn why_open(&self, search: usize) -> String {
        let group = &self.groups[search];
        match group.failed {
            true => format!("all {} trials of its search failed", group.trials.len()),
            false => format!("its search has not ended ({} of {} trials)", group.scores.len(), self.trials),
        }
    }

    /// Whether a point is one that was chosen or will be.
    pub fn is_choice(point: &[usize]) -> bool {
        point.last() == Some(&0)
    }

    /// The settings that any trial makes.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        let trials = self.groups.iter().flat_map(|group| group.settings.iter().flatten());
        let trials = trials.chain(&self.untested).chain(&self.first);
        trials.chain(self.groups.iter().flat_map(|group| group.largest.iter().map(|(_, setting)| setting)))
    }

    /// Adds trials to a search.
    pub fn add(&mut self, group: usize, trials: Vec<Settings>) {
        let group = &mut self.groups[group];
        for settings in trials {
            let all = settings.iter().filter_map(|(path, value)| group.setting(path, value)).collect();
            group.settings.push(all);
            group.trials.push(settings);
            group.standing.push(if self.race.is_some() { Standing::First } else { Standing::Whole });
        }
    }

    /// Gives the sweep the points that the trials so far have.
    pub fn unroll(&self, sweep: &mut Sweep) {
        let Some(axis) = sweep.axes.last_mut().filter(|axis| axis.name == TRIAL_AXIS) else { return };
        let (most, shared) = self.most();
        let value = |label: String| AxisValue { label, settings: Vec::new() };
        let after = self.race.map_or(0, |race| race.after);
        axis.values = std::iter::once(value(ABSENT.into()))
            .chain((0..most).map(|trial| value(format!("t{trial}"))))
            .chain((0..most).map(|trial| value(format!("t{trial}-first{after}"))))
            .chain((0..shared).map(|at| value(format!("largest{at}"))))
            .chain((0..most).map(|trial| value(format!("best{trial}"))))
            .collect();
        sweep.points.clear();
        for point in &self.base {
            let Some(group) = self.group(point).map(|at| &self.groups[at]) else { continue };
            sweep.points.extend(self.places(group).into_iter().map(|place| {
                let mut point = point.clone();
                point.push(self.value(place));
                point
            }));
        }
    }

    /// What is planned of a search, in an order in which everything comes after what it needs.
    fn places(&self, group: &Group) -> Vec<Place> {
        let trials = group.standing.iter().enumerate().flat_map(|(trial, standing)| {
            let first = self.race.map(|_| Place::First(trial));
            first.into_iter().chain((*standing == Standing::Whole).then_some(Place::Whole(trial)))
        });
        let largest = (0..group.largest.len()).map(Place::Largest);
        let best: BTreeSet<usize> = group.of_splits.iter().copied().collect();
        let choice_first = best.is_empty().then_some(Place::Choice);
        let choice_last = (!best.is_empty()).then_some(Place::Choice);
        let all = choice_first.into_iter().chain(trials).chain(largest);
        all.chain(best.into_iter().map(Place::Best)).chain(choice_last).collect()
    }
}

/// Returns a count of something, for people.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Group {
    fn setting(&self, path: &str, value: &Value) -> Option<Setting> {
        let (stage, param) = path.split_once('.')?;
        let span = self.places.get(path).cloned().unwrap_or_default();
        Some(Setting { stage: stage.into(), param: param.into(), value: node(value, &span), span })
    }
}

fn node(value: &Value, span: &Span) -> Node {
    let data = match value {
        Value::Array(items) => Data::List(items.iter().map(|item| node(item, span)).collect()),
        other => Data::Scalar(other.clone()),
    };
    Node { data, span: span.clone() }
}
