//! `draw-learning`: the course of training: training and validation loss by epoch, or a validation metric, and the kept epochs.
//!
//! Lines are means over the splits that still train at an epoch, bands one standard deviation; a disc stands at the kept epoch of
//! every split.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Run, Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError};
use crate::drawing::{Axis, Data, Entry, Look, Picture, number};
use crate::export::{Frame, Values, history};
use crate::kinds::{Figure, Trained};
use crate::math::stats::{self, Divisor};

/// A column of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// The loss of the training pass, dropout and penalties included.
    TrainLoss,
    /// The cross-entropy of the validation nodes.
    ValLoss,
    /// The share of validation nodes that are right.
    #[default]
    ValAccuracy,
}

impl Curve {
    fn column(self) -> &'static str {
        match self {
            Self::TrainLoss => "train-loss",
            Self::ValLoss => "val-loss",
            Self::ValAccuracy => "val-accuracy",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::TrainLoss => "training loss",
            Self::ValLoss => "validation loss",
            Self::ValAccuracy => "validation accuracy in %",
        }
    }

    fn times(self) -> f64 {
        if self == Self::ValAccuracy { 100.0 } else { 1.0 }
    }
}

/// Parameters of `draw-learning`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What is shown by epoch.
    pub curve: Curve,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), curve: Curve::default(), width: 8.5, height: 6.0, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawLearning;

const SLOT: &str = "trained";

impl Stage for DrawLearning {
    const NAME: &'static str = "draw-learning";
    const ABOUT: &'static str = "Draws the course of training, with the kept epochs";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(SLOT, Trained::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let lines: Result<Vec<Course>, StageError> =
            params.shown.series.iter().map(|series| course(params, params.shown.runs_of(series), job)).collect();
        draw(params, &lines?)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(SLOT, lost)?, ..params })
    }
}

/// The course of training of all splits of some runs.
#[derive(Default)]
struct Course {
    /// The values of every epoch.
    epochs: BTreeMap<i64, Vec<f64>>,
    /// Epoch and value where a split was kept.
    kept: Vec<(f64, f64)>,
}

fn course<'s>(params: &Params, runs: impl Iterator<Item = &'s Run>, job: &Job) -> Result<Course, StageError> {
    let mut all = Course::default();
    for run in runs {
        job.check_cancelled()?;
        let frame: Frame = history(run.dir(job, SLOT)?, None)?;
        let columns = (frame.column("epoch"), frame.column(params.curve.column()), frame.column("chosen"));
        let (Some(Values::Whole(epochs)), Some(Values::Number(values)), Some(Values::Flag(chosen))) = columns else {
            return Err(StageError::unusable(format!("a run has no `{}`", params.curve.column()), "train it again"));
        };
        for ((epoch, value), chosen) in epochs.iter().zip(values).zip(chosen) {
            let (Some(epoch), Some(value)) = (epoch, value) else { continue };
            all.epochs.entry(*epoch).or_default().push(*value);
            if *chosen == Some(true) {
                all.kept.push((*epoch as f64, *value));
            }
        }
    }
    Ok(all)
}

fn draw(params: &Params, lines: &[Course]) -> Result<Figure, StageError> {
    let (shown, times) = (&params.shown, params.curve.times());
    let mut data = Data::new(&["series", "epoch", "mean", "std", "n", "kept"]);
    let mut bands = Vec::new();
    for (series, course) in shown.series.iter().zip(lines) {
        let mut band = Vec::new();
        for (epoch, values) in &course.epochs {
            let mean = stats::mean(values).unwrap_or(f64::NAN);
            let std = stats::std(values, Divisor::Population).unwrap_or(0.0);
            let kept = course.kept.iter().filter(|(at, _)| *at == *epoch as f64).count();
            let numbers = [number(mean), number(std), values.len().to_string(), kept.to_string()];
            data.row([series.label.clone(), epoch.to_string()].into_iter().chain(numbers));
            band.push((*epoch as f64, (mean - std) * times, (mean + std) * times));
        }
        bands.push(band);
    }
    let x_axis = Axis::of("epoch", bands.iter().flatten().map(|(x, ..)| *x));
    let ends = bands.iter().flatten().flat_map(|(_, low, high)| [*low, *high]);
    let y_axis = Axis::of(params.curve.title(), ends.chain(lines.iter().flat_map(|c| &c.kept).map(|(_, y)| y * times)));
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let entry = |(at, label): (usize, String)| Entry::Line(label, Look::of(at), false);
    picture.legend(&shown.labels().into_iter().enumerate().map(entry).collect::<Vec<_>>());
    shown.note(&mut picture);
    picture.note("Discs: the kept epoch of every split.");
    let chart = picture.chart(picture.rest(), (&x_axis, &y_axis), true)?;
    for (at, (band, course)) in bands.iter().zip(lines).enumerate() {
        let look = Look::of(at);
        chart.band(band, look.ink.faint(0.18));
        chart.line(&band.iter().map(|(x, low, high)| (*x, (low + high) / 2.0)).collect::<Vec<_>>(), look);
        chart.dots(&course.kept.iter().map(|(x, y)| (*x, y * times)).collect::<Vec<_>>(), look.ink, 14);
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Series;

    #[test]
    fn means_are_over_the_splits_that_still_train() {
        let epochs = BTreeMap::from([(0, vec![0.2, 0.4]), (1, vec![0.6])]);
        let course = Course { epochs, kept: vec![(0.0, 0.4), (1.0, 0.6)] };
        let series = vec![Series { label: "GCN".into(), marks: vec![] }];
        let params = Params { shown: Shown { series, ..Shown::default() }, ..Params::default() };
        let drawn = draw(&params, &[course]).unwrap();
        let rows: Vec<&str> = drawn.csv.lines().collect();
        assert!(rows[1].starts_with("GCN,0,0.3") && rows[1].ends_with(",2,1"), "{}", rows[1]);
        assert_eq!(rows[2], "GCN,1,0.6,0,1,1");
        assert!(drawn.svg.contains("validation accuracy in %"));
    }
}
