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

use std::collections::{BTreeMap, HashMap};

use ppgnn_stages::contract::params::nearest_help;
use serde_json::Value;

use super::axes::{ABSENT, Axis, Sweep};
use super::document::{Forced, Setting};
use super::file::AxisValue;
use super::known::Known;
use super::model_file::{self, ModelFile};
use super::problem::Problems;
use super::reader::Reader;
use super::resolve::StageUse;
use super::settings::Lookup;
use super::source::{Sources, Span};
use super::space::{self, Written};
use super::yaml::{Data, Key, Node};
use crate::search::{Domain, Sampler, Settings, Space};

/// The axis of trials.
pub const TRIAL_AXIS: &str = "trial";
/// More trials than this in one search are a mistake.
const MOST_TRIALS: u64 = 100_000;

/// A search, as written.
#[derive(Debug)]
pub struct SearchEntry {
    span: Span,
    space: Option<Key>,
    params: Written,
    sampler: Sampler,
    trials: usize,
    round: usize,
    seed: u64,
    objective: Key,
    over: Option<Vec<Key>>,
    from: Option<Key>,
    tests_all: bool,
}

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
    /// Whether trials that are not chosen are evaluated on test nodes.
    pub tests_all: bool,
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
    /// Why there is no choice, when all have failed.
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
                Some(chosen) => At::Chosen(&group.settings[chosen][..group.settings[chosen].len() - 1]),
                None => At::Open(at),
            },
            Some(trial) if trial < most => {
                let settings = group.settings.get(trial)?;
                let own = if self.tests_all { &settings[..settings.len() - 1] } else { settings };
                At::Trial { settings: own, up_to: self.scored }
            }
            Some(trial) => {
                let (up_to, setting) = group.largest.get(trial - most)?;
                At::Trial { settings: std::slice::from_ref(setting), up_to: *up_to }
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

    /// The settings that any trial makes, and the axes that decide which trial that is.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        let trials = self.groups.iter().flat_map(|group| group.settings.iter().flatten());
        trials.chain(self.groups.iter().flat_map(|group| group.largest.iter().map(|(_, setting)| setting)))
    }

    /// Adds trials to a search.
    pub fn add(&mut self, group: usize, trials: Vec<Settings>, stages: &[StageUse]) {
        let scored = stages[self.scored].name.name.clone();
        let group = &mut self.groups[group];
        for settings in trials {
            let mut all: Vec<Setting> =
                settings.iter().filter_map(|(path, value)| group.setting(path, value)).collect();
            all.push(Setting {
                stage: scored.clone(),
                param: "test".into(),
                span: self.objective.span.clone(),
                value: node(&Value::Bool(false), &self.objective.span),
            });
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

/// Finds what is searched at every point.
pub(super) struct Resolver<'r> {
    pub stages: &'r [StageUse],
    pub forced: &'r [Forced],
    pub known: &'r dyn Known,
    pub sources: &'r mut Sources,
    pub problems: &'r mut Problems,
    files: BTreeMap<String, Option<ModelFile>>,
}

impl<'r> Resolver<'r> {
    pub fn new(
        stages: &'r [StageUse],
        forced: &'r [Forced],
        known: &'r dyn Known,
        sources: &'r mut Sources,
        problems: &'r mut Problems,
    ) -> Self {
        Self { stages, forced, known, sources, problems, files: BTreeMap::new() }
    }

    /// Finds the searches of a sweep, and gives it the axis of trials.
    pub fn search(&mut self, entry: SearchEntry, sweep: &mut Sweep) -> Option<Search> {
        if sweep.axes.iter().any(|axis| axis.name == TRIAL_AXIS) {
            let message = format!("an axis cannot be called `{TRIAL_AXIS}` beside a `search`");
            return self.problems.refuse(&entry.span, message, None);
        }
        let scored = self.scored(&entry)?;
        let over = match &entry.over {
            None => (0..sweep.axes.len()).collect(),
            Some(keys) => keys.iter().map(|key| sweep.known_axis(key, self.problems)).collect::<Option<Vec<_>>>()?,
        };
        let (mut groups, mut group_at) = (Vec::new(), HashMap::new());
        for point in &sweep.points {
            let values: Vec<usize> = over.iter().map(|axis| point[*axis]).collect();
            if group_at.contains_key(&values) {
                continue;
            }
            let group = self.group(&entry, sweep, &over, point)?;
            group_at.insert(values, groups.len());
            groups.push(group);
        }
        self.refuse_swept(&groups, sweep)?;
        let base = sweep.points.clone();
        sweep.axes.push(Axis { name: TRIAL_AXIS.into(), short: TRIAL_AXIS.into(), path: None, values: Vec::new() });
        let SearchEntry { sampler, trials, round, seed, objective, tests_all, .. } = entry;
        let search =
            Search { sampler, trials, round, seed, objective, scored, tests_all, groups, over, base, group_at };
        search.unroll(sweep);
        Some(search)
    }

    /// The stage whose metrics decide.
    fn scored(&mut self, entry: &SearchEntry) -> Option<usize> {
        let able: Vec<usize> = (0..self.stages.len()).filter(|s| self.stages[*s].def.output.0 == "metrics").collect();
        let names = || able.iter().map(|s| self.stages[*s].name.name.as_str());
        match (&entry.from, &able[..]) {
            (Some(from), _) => {
                let found = able.iter().copied().find(|s| self.stages[*s].name.name == from.name);
                let (message, help) =
                    (format!("no stage `{}` makes metrics", from.name), nearest_help(&from.name, names()));
                found.or_else(|| self.problems.refuse(&from.span, message, Some(help)))
            }
            (None, [only]) => Some(*only),
            (None, _) => {
                let message = "a search needs one stage that makes metrics";
                let help = "add an `evaluate` stage, or say `from:` which one decides";
                self.problems.refuse(&entry.span, message, Some(help.into()))
            }
        }
    }

    fn group(&mut self, entry: &SearchEntry, sweep: &Sweep, over: &[usize], point: &[usize]) -> Option<Group> {
        let label: Vec<String> = over.iter().filter_map(|axis| sweep.axes[*axis].tag(point[*axis])).collect();
        let mut written = match &entry.space {
            None => Written::new(),
            Some(name) => {
                let look = Lookup { stages: self.stages, sweep, forced: self.forced };
                let Some(model) = look.model(point) else {
                    let message = format!("no model is named whose space `{}` could be searched", name.name);
                    return self.problems.refuse(&name.span, message, Some("write `params` instead of `space`".into()));
                };
                self.named(name, &model)?
            }
        };
        written = space::over(written, entry.params.clone());
        // What the command line sets is not searched.
        let is_forced = |key: &Key| {
            let everywhere = self.forced.iter().filter(|forced| forced.only.is_empty()).map(|forced| &forced.setting);
            everywhere.clone().any(|set| key.name == format!("{}.{}", set.stage, set.param))
        };
        written.retain(|(key, _)| !is_forced(key));
        for (key, _) in &written {
            let stage = key.name.split('.').next().unwrap_or_default();
            if !self.stages.iter().any(|used| used.name.name == stage) {
                let help = nearest_help(stage, self.stages.iter().map(|used| used.name.name.as_str()));
                self.problems.add(&key.span, format!("the pipeline has no stage `{stage}`"), Some(help));
            }
        }
        let space = space::space(&written, &entry.span, self.problems)?;
        self.refuse_grid(entry, &space)?;
        let places: BTreeMap<String, Span> =
            written.iter().map(|(key, _)| (key.name.clone(), key.span.clone())).collect();
        let mut group = Group {
            label: label.join("/"),
            space,
            places,
            trials: Vec::new(),
            chosen: None,
            failed: false,
            scores: Vec::new(),
            settings: Vec::new(),
            largest: Vec::new(),
        };
        group.largest = self.largest(&group);
        Some(group)
    }

    /// A grid is tried as a whole or not at all.
    fn refuse_grid(&mut self, entry: &SearchEntry, space: &Space) -> Option<()> {
        let count = space.count();
        if entry.sampler != Sampler::Grid || count.is_some_and(|count| count <= entry.trials as u64) {
            return Some(());
        }
        let message = match count {
            None => "a grid needs lists or whole numbers, and a parameter has a range without end".to_owned(),
            Some(count) => format!("the grid has {count} points, and `trials` allows {}", entry.trials),
        };
        let help = "shorten the lists, raise `trials`, or use `sampler: quasi`";
        self.problems.refuse(&entry.span, message, Some(help.into()))
    }

    /// The most that a space asks for of what is computed once and sliced.
    fn largest(&self, group: &Group) -> Vec<(usize, Setting)> {
        let of = |param: &crate::search::Param| {
            let (stage, name) = param.path.split_once('.')?;
            let at = self.stages.iter().position(|used| used.name.name == stage)?;
            self.stages[at].def.shared.filter(|shared| shared.param == name)?;
            Some((at, group.setting(&param.path, &most(&param.domain)?)?))
        };
        group.space.params().iter().filter_map(of).collect()
    }

    /// The space of a model by name, with what it includes.
    fn named(&mut self, name: &Key, model: &str) -> Option<Written> {
        let (includes, own) = self.file_space(model, name)?;
        let Some(includes) = includes else { return Some(own) };
        let (_, base) = self.file_space(&includes.name, name)?;
        Some(space::over(base, own))
    }

    fn file_space(&mut self, model: &str, name: &Key) -> Option<(Option<Key>, Written)> {
        if !self.files.contains_key(model) {
            let read = self.known.model(model).map(|found| model_file::read(found, self.sources, self.problems));
            self.files.insert(model.to_owned(), read);
        }
        let file = self.files.get(model)?;
        let found = file.as_ref().and_then(|file| file.space(&name.name));
        if let Some((_, entry)) = found {
            return Some((entry.includes.clone(), entry.params.clone()));
        }
        let known: Vec<&str> = file.iter().flat_map(|file| file.spaces()).collect();
        let help = match known.is_empty() {
            true => format!("add one to `pipelines/models/{model}.yaml`, or write `params`"),
            false => nearest_help(&name.name, known.into_iter()),
        };
        self.problems.refuse(&name.span, format!("`{model}` has no space `{}`", name.name), Some(help))
    }

    /// A parameter cannot be swept and searched.
    fn refuse_swept(&mut self, groups: &[Group], sweep: &Sweep) -> Option<()> {
        let mut fine = Some(());
        for (path, place) in groups.iter().flat_map(|group| &group.places).collect::<BTreeMap<_, _>>() {
            let swept =
                |axis: &&Axis| axis.path.as_ref().is_some_and(|(stage, param)| format!("{stage}.{param}") == *path);
            if let Some(axis) = sweep.axes.iter().find(swept) {
                let message = format!("`{path}` is searched, and axis `{}` varies it", axis.name);
                self.problems.add(
                    place,
                    message,
                    Some("take the axis away, or set the parameter to `null` in `params`".into()),
                );
                fine = None;
            }
        }
        fine
    }
}

/// The largest number that a domain allows.
fn most(domain: &Domain) -> Option<Value> {
    match domain {
        Domain::Choice(values) => values
            .iter()
            .filter(|value| value.is_number())
            .max_by(|a, b| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal))
            .cloned(),
        Domain::Int { to, .. } => Some((*to).into()),
        Domain::Float { to, .. } => Some((*to).into()),
    }
}

impl Reader<'_> {
    /// Reads a search.
    pub(super) fn search(&mut self, node: &Node) -> Option<SearchEntry> {
        const FIELDS: [&str; 10] =
            ["space", "params", "sampler", "trials", "round", "seed", "objective", "over", "from", "test"];
        self.only(node, &FIELDS, "a search");
        self.map(Some(node));
        let space = node.get("space").and_then(|name| self.text(name));
        let params = self.space(node.get("params"));
        if space.is_none() && node.get("params").is_none() {
            let help = "write `space: paper` for the spaces of the models, or `params` with values to try";
            self.problems.add(&node.span, "a search has nothing to search", Some(help.into()));
        }
        let sampler = match node.get("sampler").map(|name| (name, name.value())) {
            None => Sampler::default(),
            Some((name, value)) => match value.as_str().and_then(Sampler::of_name) {
                Some(sampler) => sampler,
                None => {
                    self.expected(name, "`grid`, `random`, `quasi` or `tpe`");
                    Sampler::default()
                }
            },
        };
        let trials = self.count(node, "trials", 20)?;
        let round = self.count(node, "round", 10)?;
        let seed = match node.get("seed").map(|seed| (seed, seed.value().as_u64())) {
            None => 0,
            Some((_, Some(seed))) => seed,
            Some((seed, None)) => {
                self.expected(seed, "a whole number");
                return None;
            }
        };
        let objective = match node.get("objective") {
            Some(name) => self.text(name)?,
            None => Key { name: "val-accuracy".into(), span: node.span.clone() },
        };
        let tests_all = match node.get("test").map(|test| (test, test.value())) {
            None => false,
            Some((_, value)) if value == "chosen" => false,
            Some((_, value)) if value == "all" => true,
            Some((test, _)) => {
                self.expected(test, "`chosen` or `all`");
                false
            }
        };
        let over = node.get("over").map(|over| self.texts(Some(over)));
        let from = node.get("from").and_then(|from| self.text(from));
        Some(SearchEntry {
            span: node.span.clone(),
            space,
            params,
            sampler,
            trials,
            round,
            seed,
            objective,
            over,
            from,
            tests_all,
        })
    }

    fn count(&mut self, node: &Node, field: &str, usual: usize) -> Option<usize> {
        let Some(written) = node.get(field) else { return Some(usual) };
        let count = written.value().as_u64().filter(|count| (1..=MOST_TRIALS).contains(count));
        if count.is_none() {
            self.expected(written, &format!("a whole number from 1 to {MOST_TRIALS}"));
        }
        count.and_then(|count| usize::try_from(count).ok())
    }
}
