//! From a search as written to searches as meant: a space for every group of points.

use std::collections::{BTreeMap, HashMap};

use ppgnn_stages::contract::params::nearest_help;
use serde_json::Value;

use super::super::axes::{Axis, Sweep};
use super::super::document::{Forced, Setting};
use super::super::known::Known;
use super::super::model_file::{self, ModelFile};
use super::super::problem::Problems;
use super::super::resolve::StageUse;
use super::super::settings::Lookup;
use super::super::source::{Sources, Span};
use super::super::space::{self, Written};
use super::super::yaml::Key;
use super::{Choose, Group, Search, SearchEntry, TRIAL_AXIS, node};
use crate::search::{Condition, Domain, Param, Sampler, Space};

/// The parameter of a stage that makes metrics which says whether test nodes are scored.
const UNTESTED: &str = "test";
/// What a stage makes that a race cuts short.
const SPLITS: &str = "splits";
/// Its parameter that says how many.
pub const SPLIT_COUNT: &str = "count";
/// The parameter that says which random numbers are drawn, in every stage that draws some.
const SEED: &str = "seed";

/// Finds what is searched at every point.
pub struct Resolver<'r> {
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
        if entry.choose == Choose::PerSplit && groups.len() < sweep.points.len() {
            let message = "`choose: per-split` needs a search of its own for every point";
            return self.problems.refuse(&entry.span, message, Some("leave `over` out".into()));
        }
        if let Some((span, _)) = entry.race.as_ref().filter(|_| entry.choose == Choose::PerSplit) {
            let message = "trials of a race lack splits, so none can be chosen for each of them";
            return self.problems.refuse(span, message, Some("leave out `race` or `choose: per-split`".into()));
        }
        let raced = match &entry.race {
            None => None,
            Some((span, _)) => Some((self.splits_of(scored, span)?, span.clone())),
        };
        let base = sweep.points.clone();
        sweep.axes.push(Axis { name: TRIAL_AXIS.into(), short: TRIAL_AXIS.into(), path: None, values: Vec::new() });
        let SearchEntry { sampler, trials, round, seed, objective, tests_all, choose, time, .. } = entry;
        let race = entry.race.map(|(_, race)| race);
        let first = raced.as_ref().zip(race).map(|((stage, span), race)| Setting {
            stage: self.stages[*stage].name.name.clone(),
            param: SPLIT_COUNT.into(),
            span: span.clone(),
            value: node(&race.after.into(), span),
        });
        let stage = self.stages[scored].name.name.clone();
        let (span, value) = (objective.span.clone(), node(&Value::Bool(false), &objective.span));
        let untested = (!tests_all).then(|| Setting { stage, param: UNTESTED.into(), span, value });
        let search = Search {
            sampler,
            trials,
            round,
            seed,
            objective,
            scored,
            choose,
            race,
            raced,
            time,
            untested,
            first,
            groups,
            over,
            base,
            group_at,
        };
        search.unroll(sweep);
        Some(search)
    }

    /// The stage that makes the splits on which a stage scores.
    fn splits_of(&mut self, scored: usize, span: &Span) -> Option<usize> {
        let above = self.stages[scored].inputs.iter().flat_map(|(_, from)| from).copied();
        let found = above.into_iter().find(|stage| self.stages[*stage].def.output.0 == SPLITS);
        let message = "a race needs a stage that makes splits, as input of the one whose metrics decide";
        found.or_else(|| self.problems.refuse(span, message, None))
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
        let look = Lookup { stages: self.stages, sweep, forced: self.forced };
        let mut written = match &entry.space {
            None => Written::new(),
            Some(name) => {
                let Some(model) = look.model(point) else {
                    let message = format!("no model is named whose space `{}` could be searched", name.name);
                    return self.problems.refuse(&name.span, message, Some("write `params` instead of `space`".into()));
                };
                self.named(name, &model)?
            }
        };
        written = space::over(written, entry.params.clone());
        let places: BTreeMap<String, Span> =
            written.iter().map(|(key, _)| (key.name.clone(), key.span.clone())).collect();
        // What is set at the point is not searched there: its label says so, or the command line.
        let is_set = |key: &Key| {
            let path = key.name.split_once('.').map(|(stage, param)| (stage.to_owned(), param.to_owned()));
            path.is_some_and(|path| look.is_set(&path, point))
        };
        self.refuse_swept(&places, sweep)?;
        written.retain_mut(|(key, param)| !is_set(key) && may_vary(param, &look, point));
        for (key, _) in &written {
            let (stage, param) = key.name.split_once('.').unwrap_or_default();
            self.refuse_luck(key, stage, param);
            if !self.stages.iter().any(|used| used.name.name == stage) {
                let help = nearest_help(stage, self.stages.iter().map(|used| used.name.name.as_str()));
                self.problems.add(&key.span, format!("the pipeline has no stage `{stage}`"), Some(help));
            }
        }
        let space = space::space(&written, &entry.span, self.problems)?;
        self.refuse_grid(entry, &space)?;
        let mut group = Group {
            label: label.join("/"),
            space,
            places,
            trials: Vec::new(),
            chosen: None,
            of_splits: Vec::new(),
            standing: Vec::new(),
            out_of_time: false,
            failed: false,
            scores: Vec::new(),
            settings: Vec::new(),
            largest: Vec::new(),
        };
        group.largest = self.largest(&group);
        Some(group)
    }

    /// The best of several seeds is luck, and scores on other splits do not compare.
    fn refuse_luck(&mut self, key: &Key, stage: &str, param: &str) {
        let used = self.stages.iter().find(|used| used.name.name == stage);
        let what = match used {
            _ if param == SEED => "the best of several seeds is luck",
            Some(used) if used.def.output.0 == SPLITS => "scores on other splits do not compare",
            _ => return,
        };
        let message = format!("`{}` cannot be searched: {what}", key.name);
        self.problems.add(&key.span, message, Some("sweep it, and average over it with `pool` of a table".into()));
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

    /// A parameter cannot be swept and searched, unless the command line leaves one value of it.
    fn refuse_swept(&mut self, places: &BTreeMap<String, Span>, sweep: &Sweep) -> Option<()> {
        let mut fine = Some(());
        let is_forced = |path: &String| {
            let mut everywhere = self.forced.iter().filter(|forced| forced.only.is_empty());
            everywhere.any(|forced| *path == format!("{}.{}", forced.setting.stage, forced.setting.param))
        };
        for (path, place) in places.iter().filter(|(path, _)| !is_forced(path)) {
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

/// Settles the condition of a parameter on one that is set at a point. Returns whether the parameter can be searched there.
fn may_vary(param: &mut Option<Param>, look: &Lookup, point: &[usize]) -> bool {
    let Some(param) = param else { return false };
    let path = |when: &Condition| when.path.split_once('.').map(|(stage, param)| (stage.to_owned(), param.to_owned()));
    let set = param.when.as_ref().and_then(|when| look.set(&path(when)?, point));
    let Some(value) = set else { return true };
    param.when.take().is_none_or(|when| when.values.contains(&value))
}
