//! `draw-search`: what searches tried: the best score so far, scores by every setting, all settings of every trial, or which settings
//! matter.
//!
//! Which settings matter is said as `search show` says it: by the share of the variance of scores that lies between the values of a setting. A
//! search that follows its results tries what is good more often, so this says more of the trials than of the space.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metric::metric_title;
use super::shown::figure;
use crate::contract::params::{self, Problem};
use crate::contract::{Job, Slot, Stage, StageError, Uses};
use crate::drawing::{Align, Axis, BLACK, Data, Entry, GREY, Look, Picture, number, of_share};
use crate::kinds::{Figure, Metric, Scale, ScoreDef};

/// Distinct numbers of a setting that have ticks themselves.
const MOST_TICKS: usize = 6;

/// What is drawn of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// Every score in the order of the trials, and the best so far.
    #[default]
    Best,
    /// A panel for every setting: score by value.
    Slices,
    /// An axis for every setting, and a line for every trial.
    Parallel,
    /// How much of the variance of scores every setting explains.
    Importance,
}

/// A search as it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Searched {
    /// The points that it is for.
    pub label: String,
    /// The metric that decided.
    pub objective: Metric,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// The share of the variance of scores that lies between the values of a setting.
    #[serde(default)]
    pub importance: BTreeMap<String, f64>,
}

/// A trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Trial {
    /// Its settings.
    pub settings: BTreeMap<String, Value>,
    /// What it is worth: its score, negative where a smaller one is better; none where it failed.
    pub worth: Option<f64>,
}

/// Parameters of `draw-search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What is drawn.
    pub show: Show,
    /// The search that is drawn, by the name of its points, where there are several; `best` draws all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height of a panel in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
    /// The searches that have ended.
    #[schemars(extend("x-planned" = true))]
    pub searches: Vec<Searched>,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), show: Show::default(), of: None, width: 12.0, height: 6.0, searches: Vec::new() }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let found = self.of.as_ref().is_none_or(|of| self.searches.iter().any(|search| search.label == *of));
        if self.searches.is_empty()
            || (found && (self.of.is_some() || self.show == Show::Best || self.searches.len() == 1))
        {
            return Ok(());
        }
        let labels = params::list(self.searches.iter().map(|search| search.label.as_str()));
        let message = match &self.of {
            Some(of) => format!("there is no search `{of}`"),
            None => format!("there are {} searches, and one can be drawn", self.searches.len()),
        };
        Err(vec![Problem::value("of", message).with_help(format!("name one of {labels}"))])
    }
}

/// The stage.
pub struct DrawSearch;

impl Stage for DrawSearch {
    const NAME: &'static str = "draw-search";
    const ABOUT: &'static str = "Draws what searches tried, and what it was worth";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(Metric::complete_schema_of));
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let wanted = |search: &&Searched| params.of.as_ref().is_none_or(|of| search.label == *of);
        let scores = job.used();
        let found = |of| Found { of, scale: Searched::scale(of, &scores) };
        let searches: Vec<Found> = params.searches.iter().filter(wanted).map(found).collect();
        let Some(first) = searches.first() else {
            return Err(StageError::unusable(
                "no search has ended",
                "run the pipeline: figures of searches are drawn at its end",
            ));
        };
        match params.show {
            Show::Best => best(params, &searches),
            Show::Slices => slices(params, first),
            Show::Parallel => parallel(params, first),
            Show::Importance => importance(params, first),
        }
    }
}

impl Searched {
    fn scale(&self, scores: &[&'static ScoreDef]) -> Scale {
        self.objective.scale(scores)
    }
}

/// A search, and how its scores are shown.
struct Found<'s> {
    of: &'s Searched,
    scale: Scale,
}

impl Found<'_> {
    fn times(&self) -> f64 {
        if self.scale.percent { 100.0 } else { 1.0 }
    }

    fn title(&self) -> String {
        metric_title(&self.of.objective, self.scale.percent)
    }

    /// The score of a trial, as it is shown.
    fn score(&self, trial: &Trial) -> Option<f64> {
        // Worth and score are the same number, or one is minus the other.
        Some(self.scale.worth(trial.worth?) * self.times())
    }

    fn scores(&self) -> impl Iterator<Item = f64> {
        self.of.trials.iter().filter_map(|trial| self.score(trial))
    }

    /// The score of a trial as it is stored, in text.
    fn cell(&self, trial: &Trial) -> String {
        trial.worth.map(|worth| number(self.scale.worth(worth))).unwrap_or_default()
    }

    /// The settings that differ between trials, by name.
    fn varied(&self) -> Vec<&String> {
        let names: BTreeSet<&String> = self.of.trials.iter().flat_map(|trial| trial.settings.keys()).collect();
        let differs = |name: &&String| {
            let values: BTreeSet<String> =
                self.of.trials.iter().filter_map(|trial| trial.settings.get(*name)).map(Value::to_string).collect();
            values.len() > 1
        };
        names.into_iter().filter(differs).collect()
    }

    /// The axis of a setting, and the place on it of every trial that has one.
    fn axis(&self, name: &str) -> (Axis, Vec<Option<f64>>) {
        let short = name.split_once('.').map_or(name, |(_, param)| param);
        let values: Vec<Option<&Value>> = self.of.trials.iter().map(|trial| trial.settings.get(name)).collect();
        let numbers: Vec<f64> = values.iter().flatten().filter_map(|value| value.as_f64()).collect();
        if numbers.len() < values.iter().flatten().count() {
            let texts: BTreeSet<String> = values.iter().flatten().map(|value| text(value)).collect();
            let texts: Vec<String> = texts.into_iter().collect();
            let place = |value: &Value| texts.iter().position(|other| *other == text(value)).map(|at| at as f64);
            let places = values.into_iter().map(|value| place(value?)).collect();
            return (Axis::of_names(short, &texts), places);
        }
        let (least, most) = numbers.iter().fold((f64::INFINITY, 0.0f64), |(a, b), x| (a.min(*x), b.max(*x)));
        // What spans two powers of ten was drawn from logarithms, or may as well have been.
        if least > 0.0 && most / least >= 100.0 {
            let places: Vec<Option<f64>> = values.into_iter().map(|value| value?.as_f64().map(f64::log10)).collect();
            let ticks: Vec<(f64, String)> = (least.log10().ceil() as i32..=most.log10().floor() as i32)
                .map(|power| (f64::from(power), format!("1e{power}").replace('-', "−")))
                .collect();
            return (Axis { ticks, ..Axis::of(short, places.iter().flatten().copied()) }, places);
        }
        let distinct: BTreeMap<String, f64> = numbers.iter().map(|x| (x.to_string(), *x)).collect();
        let axis = match distinct.len() <= MOST_TICKS {
            true => Axis::of_chosen(short, &distinct.into_iter().map(|(label, x)| (x, label)).collect::<Vec<_>>()),
            false => Axis::of(short, numbers),
        };
        (axis, values.into_iter().map(|value| value?.as_f64()).collect())
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Draws scores in the order of the trials, and the best so far.
fn best(params: &Params, searches: &[Found]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["search", "trial", "score", "best so far"]);
    let longest = searches.iter().map(|search| search.of.trials.len()).max().unwrap_or(0);
    let x_axis = Axis::of("trial", [1.0, longest.max(2) as f64]);
    let title = searches.first().map(|search| search.title()).unwrap_or_default();
    let y_axis = Axis::of(&title, searches.iter().flat_map(|search| search.scores()));
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let entry = |(at, search): (usize, &Found)| Entry::Line(search.of.label.clone(), Look::of(at), false);
    picture.legend(&searches.iter().enumerate().map(entry).collect::<Vec<_>>());
    let chart = picture.chart(picture.rest(), (&x_axis, &y_axis), true)?;
    for (at, search) in searches.iter().enumerate() {
        let look = Look::of(at);
        let mut so_far: Option<f64> = None;
        let (mut steps, mut dots) = (Vec::new(), Vec::new());
        for (trial, number_of) in search.of.trials.iter().zip(1u32..) {
            let x = f64::from(number_of);
            let score = search.score(trial);
            let before = so_far;
            so_far = score
                .into_iter()
                .chain(so_far)
                .reduce(|a, b| if search.scale.worth(a) >= search.scale.worth(b) { a } else { b });
            dots.extend(score.map(|score| (x, score)));
            // Steps: level until a trial is better.
            steps.extend(before.map(|y| (x, y)));
            steps.extend(so_far.map(|y| (x, y)));
            let cell = |value: Option<f64>| value.map(|value| number(value / search.times())).unwrap_or_default();
            data.row([search.of.label.clone(), number_of.to_string(), cell(score), cell(so_far)]);
        }
        chart.dots(&dots, look.ink.faint(0.45), 12);
        chart.line(&steps, look);
    }
    figure(picture, &data)
}

/// Draws a panel for every setting: score by value.
fn slices(params: &Params, search: &Found) -> Result<Figure, StageError> {
    let mut data = Data::new(&["setting", "trial", "value", "score"]);
    let names = search.varied();
    let columns = names.len().clamp(1, 3);
    let rows = names.len().div_ceil(columns).max(1);
    let mut picture = Picture::new(&params.title, params.width, params.height * 0.85 * rows as f64);
    let frames = picture.panels(&vec![String::new(); names.len()], columns);
    for (name, frame) in names.into_iter().zip(frames) {
        let (axis, places) = search.axis(name);
        let y_axis = Axis::of(&search.title(), search.scores());
        let chart = picture.chart(frame, (&axis, &y_axis), true)?;
        let points: Vec<(f64, f64)> =
            places.iter().zip(&search.of.trials).filter_map(|(x, trial)| Some(((*x)?, search.score(trial)?))).collect();
        chart.dots(&points, Look::of(0).ink.faint(0.6), 14);
        for (at, trial) in search.of.trials.iter().enumerate() {
            let value = trial.settings.get(name).map(text).unwrap_or_default();
            data.row([name.clone(), (at + 1).to_string(), value, search.cell(trial)]);
        }
    }
    figure(picture, &data)
}

/// Draws an axis for every setting, and a line for every trial, the darker the better.
fn parallel(params: &Params, search: &Found) -> Result<Figure, StageError> {
    let names = search.varied();
    let mut data = Data::new(&["trial", "setting", "value", "score"]);
    let mut picture = Picture::new(&params.title, params.width, params.height);
    picture.note(&format!(
        "A line for each of {} trials, the darker the better its {}.",
        search.of.trials.len(),
        search.title()
    ));
    let mut axes: Vec<(Axis, Vec<Option<f64>>)> = names.iter().map(|name| search.axis(name)).collect();
    let scores = search.of.trials.iter().map(|trial| search.score(trial)).collect();
    axes.push((Axis::of(&search.title(), search.scores()), scores));
    let last = axes.len().saturating_sub(1).max(1) as f64;
    let bare = |from: f64, to: f64| Axis { title: String::new(), from, to, ticks: Vec::new() };
    let chart = picture.frameless(picture.rest(), (&bare(-0.35, last + 0.35), &bare(-0.06, 1.12)))?;
    let height = |axis: &Axis, value: f64| (value - axis.from) / (axis.to - axis.from);
    let mut order: Vec<(f64, usize)> =
        search.of.trials.iter().enumerate().filter_map(|(at, trial)| Some((trial.worth?, at))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The best last, so that they are on top.
    for (rank, (_, at)) in order.iter().enumerate() {
        let share = (rank + 1) as f64 / order.len() as f64;
        let place = |(column, (axis, places)): (usize, &(Axis, Vec<Option<f64>>))| {
            let value = places.get(*at).copied().flatten();
            (column as f64, value.map_or(f64::NAN, |value| height(axis, value)))
        };
        let points: Vec<(f64, f64)> = axes.iter().enumerate().map(place).collect();
        chart.line(&points, Look { width: 8, ..Look::thin(of_share(0.15 + 0.85 * share * share)) });
    }
    for (column, (axis, _)) in axes.iter().enumerate() {
        let x = column as f64;
        chart.line(&[(x, 0.0), (x, 1.0)], Look::thin(BLACK));
        chart.words((x, 1.02), &axis.title, 1.0, BLACK, Align::Above);
        for (value, label) in &axis.ticks {
            chart.tag((x, height(axis, *value)), label, GREY);
        }
    }
    for (at, trial) in search.of.trials.iter().enumerate() {
        let score = search.cell(trial);
        for (name, value) in &trial.settings {
            data.row([(at + 1).to_string(), name.clone(), text(value), score.clone()]);
        }
    }
    figure(picture, &data)
}

/// Draws how much of the variance of scores every setting explains.
fn importance(params: &Params, search: &Found) -> Result<Figure, StageError> {
    let mut data = Data::new(&["setting", "explained variance"]);
    let mut bars: Vec<(&String, f64)> = search.of.importance.iter().map(|(name, share)| (name, *share)).collect();
    for (name, share) in &bars {
        data.row([(*name).clone(), number(*share)]);
    }
    bars.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(a.0)));
    let names: Vec<String> = bars.iter().map(|(name, _)| (*name).clone()).collect();
    let mut picture =
        Picture::new(&params.title, params.width, params.height.min(2.0 + 0.6 * bars.len() as f64).max(3.0));
    let axes = (&Axis::between("share of the variance of scores", 0.0, 1.0), &Axis::of_names("", &names));
    picture.note(&format!(
        "Of {} trials; settings are not tried evenly, so shares need not add up.",
        search.of.trials.len()
    ));
    let chart = picture.chart(picture.rest(), axes, false)?;
    for (at, (_, share)) in bars.iter().enumerate() {
        let y = at as f64;
        chart.bar((0.0, y - 0.35), (*share, y + 0.35), Look::of(0).ink);
        chart.words((*share, y), &format!("{share:.2}"), 0.95, BLACK, Align::Left);
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Params as _;

    fn searched() -> Searched {
        let trial = |lr: f64, model: &str, worth: Option<f64>| Trial {
            settings: BTreeMap::from([("train.lr".into(), lr.into()), ("train.model".into(), model.into())]),
            worth,
        };
        let trials = vec![
            trial(0.1, "a", Some(0.5)),
            trial(0.001, "a", None),
            trial(0.2, "b", Some(0.8)),
            trial(0.1, "b", Some(0.8)),
        ];
        Searched {
            label: "one".into(),
            objective: "val-accuracy".parse().unwrap(),
            trials,
            importance: BTreeMap::from([("train.model".into(), 0.9), ("train.lr".into(), 0.25)]),
        }
    }

    fn drawn(show: Show) -> Figure {
        let params = Params { show, searches: vec![searched()], ..Params::default() };
        let cancel = std::sync::atomic::AtomicBool::new(false);
        DrawSearch::run(&params, &Job::alone(&cancel)).unwrap()
    }

    #[test]
    fn the_best_so_far_never_falls_and_a_failed_trial_has_no_score() {
        let csv = drawn(Show::Best).csv;
        assert!(csv.contains("one,2,,0.5\n") && csv.contains("one,3,0.8,0.8\n"), "{csv}");
    }

    #[test]
    fn every_way_to_look_at_a_search_is_drawn() {
        for show in [Show::Slices, Show::Parallel, Show::Importance] {
            let drawn = drawn(show);
            assert!(drawn.svg.contains("lr") && !drawn.svg.contains("NaN"), "{show:?}");
            assert!(drawn.csv.contains("train.model"), "{show:?}");
        }
    }

    #[test]
    fn one_of_several_searches_must_be_named() {
        let two = || vec![searched(), Searched { label: "two".into(), ..searched() }];
        let params = |of: Option<&str>| Params {
            show: Show::Slices,
            of: of.map(Into::into),
            searches: two(),
            ..Params::default()
        };
        assert!(params(None).check().is_err() && params(Some("three")).check().is_err());
        assert!(params(Some("two")).check().is_ok());
    }
}
