//! `draw-metric`: a metric against a parameter that is swept: means over splits, with a band of one standard deviation.
//!
//! The deviation is that of the splits themselves (population), as in tables. Values along x that are no numbers stand side by side,
//! with bars instead of bands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError, Uses};
use crate::drawing::{Axis, Chart, Data, Entry, Look, Picture, number};
use crate::kinds::{Figure, Metric, Metrics, ScoreDef};
use crate::math::stats::{self, Divisor};

/// Parameters of `draw-metric`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What is shown.
    pub metric: Metric,
    /// What stands at the axis instead of the name of the parameter.
    pub x_title: String,
    /// Whether x is logarithmic.
    pub log_x: bool,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true, "x-along" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        let (title, x_title) = (String::new(), String::new());
        Self {
            title,
            metric: Metric::default(),
            x_title,
            log_x: false,
            width: 8.5,
            height: 6.0,
            shown: Shown::default(),
        }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawMetric;

const SLOT: &str = "metrics";

impl Stage for DrawMetric {
    const NAME: &'static str = "draw-metric";
    const ABOUT: &'static str = "Draws a metric against a swept parameter, with bands over splits";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(SLOT, Metrics::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(Metric::complete_schema_of));
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        draw(params, &lines(params, job)?, &job.used())
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(SLOT, lost)?, ..params })
    }
}

/// A value of a line: its place on x, the label there, and the values of all splits.
struct Point {
    x: usize,
    values: Vec<f64>,
}

impl Point {
    fn mean(&self) -> f64 {
        stats::mean(&self.values).unwrap_or(f64::NAN)
    }

    fn std(&self) -> f64 {
        stats::std(&self.values, Divisor::Population).unwrap_or(0.0)
    }
}

/// Loads what every line shows.
fn lines(params: &Params, job: &Job) -> Result<Vec<Vec<Point>>, StageError> {
    let mut lines = Vec::new();
    for series in &params.shown.series {
        let mut points = Vec::new();
        for mark in &series.marks {
            let mut values = Vec::new();
            for run in mark.runs.iter().filter_map(|run| params.shown.runs.get(*run)) {
                job.check_cancelled()?;
                let metrics: Metrics = run.load(job, SLOT)?;
                for split in &metrics.splits {
                    let value = params.metric.of(split).ok_or_else(|| {
                        let hint = "a stage that produces metrics must score with every metric of the program";
                        StageError::unusable(format!("a run has no `{}`", params.metric), hint)
                    })?;
                    // Where it is undefined it does not count, as in tables.
                    values.extend(value.as_ref().ok());
                }
            }
            points.push(Point { x: mark.x, values });
        }
        lines.push(points);
    }
    Ok(lines)
}

/// The metric as people write it: `test accuracy in %`.
pub fn metric_title(metric: &Metric, percent: bool) -> String {
    format!("{} {}{}", metric.part_name(), metric.score.replace('-', " "), if percent { " in %" } else { "" })
}

fn draw(params: &Params, lines: &[Vec<Point>], scores: &[&'static ScoreDef]) -> Result<Figure, StageError> {
    let shown = &params.shown;
    let percent = params.metric.scale(scores).percent;
    let times = if percent { 100.0 } else { 1.0 };
    let (x_axis, places) = shown.x_axis(&params.x_title, params.log_x);
    let ends = lines.iter().flatten().flat_map(|p| [p.mean() - p.std(), p.mean() + p.std()]).map(|y| y * times);
    let y_axis = Axis::of(&metric_title(&params.metric, percent), ends);
    let mut data = Data::new(&["series", "x", "mean", "std", "n"]);
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let entry = |(at, label): (usize, String)| Entry::Line(label, Look::of(at), true);
    picture.legend(&shown.labels().into_iter().enumerate().map(entry).collect::<Vec<_>>());
    shown.note(&mut picture);
    let chart = picture.chart(picture.rest(), (&x_axis, &y_axis), true)?;
    let by_number = shown.numbers().is_some();
    for (at, (series, points)) in shown.series.iter().zip(lines).enumerate() {
        // Names that stand side by side leave room for one bar per line.
        let step = if by_number { 0.0 } else { 0.5 / lines.len().max(1) as f64 };
        let shift = step * (at as f64 - (lines.len() - 1) as f64 / 2.0);
        let band = |p: &Point| {
            let x = places.get(p.x).copied().unwrap_or(f64::NAN) + shift;
            (x, (p.mean() - p.std()) * times, (p.mean() + p.std()) * times)
        };
        let mut bands: Vec<_> = points.iter().map(band).collect();
        bands.sort_by(|a, b| a.0.total_cmp(&b.0));
        line(&chart, &bands, Look::of(at), by_number);
        for point in points {
            let label = shown.x.get(point.x).cloned().unwrap_or_default();
            let numbers = [number(point.mean()), number(point.std()), point.values.len().to_string()];
            data.row([series.label.clone(), label].into_iter().chain(numbers));
        }
    }
    figure(picture, &data)
}

/// Draws means with what is a standard deviation around them: a line with a band, or marks with bars.
fn line(chart: &Chart, bands: &[(f64, f64, f64)], look: Look, joined: bool) {
    let means: Vec<(f64, f64)> = bands.iter().map(|(x, low, high)| (*x, (low + high) / 2.0)).collect();
    if joined {
        chart.band(bands, look.ink.faint(0.18));
        chart.line(&means, look);
    } else {
        bands.iter().for_each(|(x, low, high)| chart.line(&[(*x, *low), (*x, *high)], Look { dash: &[], ..look }));
    }
    chart.markers(&means, look);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Mark, Series};

    fn params(x: &[&str]) -> Params {
        let marks = (0..x.len()).map(|x| Mark { x, runs: vec![] }).collect();
        let series = vec![Series { label: "<b>".into(), marks }];
        Params {
            shown: Shown { x: x.iter().map(|x| (*x).into()).collect(), series, ..Shown::default() },
            ..Params::default()
        }
    }

    fn points() -> Vec<Vec<Point>> {
        vec![vec![Point { x: 0, values: vec![0.5, 0.7] }, Point { x: 1, values: vec![0.8] }]]
    }

    #[test]
    fn the_numbers_of_a_line_are_means_and_deviations_over_splits() {
        let drawn = draw(&params(&["2", "4"]), &points(), &[]).unwrap();
        let rows: Vec<&str> = drawn.csv.lines().collect();
        assert_eq!(rows[0], "series,x,mean,std,n");
        assert!(rows[1].starts_with("<b>,2,0.6,0.09999999") && rows[1].ends_with(",2"), "{}", rows[1]);
        assert_eq!(rows[2], "<b>,4,0.8,0,1");
        assert!(drawn.svg.contains("test accuracy in %") && drawn.svg.contains("&lt;b&gt;"), "{}", drawn.svg);
        // A band in the colour of the line, of two points each way.
        assert!(drawn.svg.contains("fill=\"#0072b2\" fill-opacity=\"0.18\""), "{}", drawn.svg);
    }

    #[test]
    fn names_have_bars_instead_of_bands() {
        let drawn = draw(&params(&["low", "high"]), &points(), &[]).unwrap();
        assert!(!drawn.svg.contains("fill-opacity") && drawn.svg.contains(">high</text>"), "{}", drawn.svg);
    }
}
