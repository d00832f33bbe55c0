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
//! ```
//!
//! Trials are points of the sweep on an axis of their own, [`TRIAL_AXIS`]. Its first value is what was chosen.

mod entry;
mod resolver;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::axes::{ABSENT, Sweep};
use super::document::Setting;
use super::file::AxisValue;
use super::source::Span;
use super::yaml::{Data, Key, Node};
use crate::search::{Sampler, Settings, Space};
pub use entry::SearchEntry;
pub(super) use resolver::Resolver;

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
    /// What leaves test nodes alone, unless all trials are evaluated on them.
    untested: Option<Setting>,
    /// The searches.
    pub groups: Vec<Group>,
    /// The axes over which there is a search of its own.
    pub over: Vec<usize>,
    /// The points without trials.
    base: Vec<Vec<usize>>,
    /// The group of every combination of values of `over`.
    group_at: HashMap<Vec<usize>, usize>,
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
        /// The last stage that is wanted, by position.
        up_to: usize,
    },
    /// The point has these settings: those of the chosen trial.
    Chosen(&'s [Setting]),
    /// Nothing is chosen yet: the position of the search.
    Open(usize),
}

impl Search {
    /// Returns what trials mean for a point of the sweep.
    pub fn at(&self, point: &[usize]) -> Option<At<'_>> {
        let at = self.group(point)?;
        let group = &self.groups[at];
        let trial = *point.last()?;
        let most = self.groups.iter().map(|group| group.trials.len()).max().unwrap_or(0);
        Some(match trial.checked_sub(1) {
            None => match group.chosen {
                Some(chosen) => At::Chosen(&group.settings[chosen]),
                None => At::Open(at),
            },
            Some(trial) if trial < most => {
                At::Trial { settings: group.settings.get(trial)?, also: self.untested.as_ref(), up_to: self.scored }
            }
            Some(trial) => {
                let (up_to, setting) = group.largest.get(trial - most)?;
                At::Trial { settings: std::slice::from_ref(setting), also: None, up_to: *up_to }
            }
        })
    }

    /// Returns the search that a point belongs to.
    pub fn group(&self, point: &[usize]) -> Option<usize> {
        let values: Vec<usize> = self.over.iter().map(|axis| point[*axis]).collect();
        self.group_at.get(&values).copied()
    }

    /// Returns the search and the number of the trial that a point belongs to, if it belongs to one.
    pub fn trial(&self, point: &[usize]) -> Option<(usize, usize)> {
        let group = self.group(point)?;
        let trial = point.last()?.checked_sub(1)?;
        (trial < self.groups[group].trials.len()).then_some((group, trial))
    }

    /// What a reader of the number at a point must know: how it was chosen.
    pub fn said(&self, point: &[usize]) -> Option<String> {
        let group = &self.groups[self.group(point)?];
        let failed = group.scores.iter().filter(|score| score.is_none()).count();
        let failed = if failed > 0 { format!(", of which {failed} failed") } else { String::new() };
        let (count, sampler) = (group.trials.len(), self.sampler.name());
        Some(format!("settings chosen among {count} trials ({sampler}) by the mean of {}{failed}", self.objective.name))
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
        let trials = trials.chain(&self.untested);
        trials.chain(self.groups.iter().flat_map(|group| group.largest.iter().map(|(_, setting)| setting)))
    }

    /// Adds trials to a search.
    pub fn add(&mut self, group: usize, trials: Vec<Settings>) {
        let group = &mut self.groups[group];
        for settings in trials {
            let all = settings.iter().filter_map(|(path, value)| group.setting(path, value)).collect();
            group.settings.push(all);
            group.trials.push(settings);
        }
    }

    /// Gives the sweep the points that the trials so far have.
    pub fn unroll(&self, sweep: &mut Sweep) {
        let Some(axis) = sweep.axes.last_mut().filter(|axis| axis.name == TRIAL_AXIS) else { return };
        let most = self.groups.iter().map(|group| group.trials.len()).max().unwrap_or(0);
        let shared = self.groups.iter().map(|group| group.largest.len()).max().unwrap_or(0);
        let value = |label: String| AxisValue { label, settings: Vec::new() };
        axis.values = std::iter::once(value(ABSENT.into()))
            .chain((0..most).map(|trial| value(format!("t{trial}"))))
            .chain((0..shared).map(|at| value(format!("largest{at}"))))
            .collect();
        sweep.points.clear();
        for point in &self.base {
            let Some(group) = self.group(point).map(|at| &self.groups[at]) else { continue };
            let trials = (0..group.trials.len()).map(|trial| 1 + trial);
            let largest = (0..group.largest.len()).map(|at| 1 + most + at);
            sweep.points.extend(std::iter::once(0).chain(trials).chain(largest).map(|trial| {
                let mut point = point.clone();
                point.push(trial);
                point
            }));
        }
    }
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
