//! `draw-responses`: what trained models do to frequencies: h(λ) on [−1, 1], mean and band over splits, above the density of the
//! eigenvalues that are known.
//!
//! The scale of h, and its sign, are shared with the networks around the filter; `scaled` divides every split by its value of the largest
//! magnitude, so that shapes can be compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bars::histogram;
use super::shown::{Run, Shown, figure};
use crate::contract::params::list;
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError, Uses};
use crate::drawing::{Axis, Data, Entry, GREY, Look, Picture, number};
use crate::kinds::{Figure, Spectrum, Trained};
use crate::math::stats::{self, Divisor};
use crate::models::{At, Learned, Level, ModelDef};

/// Points on [−1, 1] at which responses are drawn.
const POINTS: u16 = 401;
/// Bars of the density.
const BARS: usize = 50;
/// Height of the density, as a share of the chart.
const DENSITY: f64 = 0.3;

/// Parameters of `draw-responses`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// Whether every split is divided by its value of the largest magnitude, sign included.
    pub scaled: bool,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true, "x-row" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), scaled: false, width: 8.5, height: 6.0, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawResponses;

const TRAINED: &str = "trained";
const SPECTRUM: &str = "spectrum";

impl Stage for DrawResponses {
    const NAME: &'static str = "draw-responses";
    const ABOUT: &'static str = "Draws learned frequency responses, above the density of eigenvalues";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(TRAINED, Trained::KIND), Slot::optional(SPECTRUM, Spectrum::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const USES: Option<Uses> = Some(Uses::of::<ModelDef>(|_, _| ()));
    type Params = Params;
    type Output = Figure;

    fn precheck(params: &Params, job: &Job) -> Result<(), StageError> {
        params.shown.runs.iter().try_for_each(|run| model(run, job).map(drop))
    }

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let lines: Result<Vec<Vec<Vec<f64>>>, StageError> =
            params.shown.series.iter().map(|series| responses(params, params.shown.runs_of(series), job)).collect();
        let spectrum = params.shown.runs.iter().find(|run| run.at.contains_key(SPECTRUM));
        let spectrum: Option<Spectrum> = spectrum.map(|run| run.load(job, SPECTRUM)).transpose()?;
        let eigenvalues = spectrum.map(|spectrum| [spectrum.low.values, spectrum.high.values].concat());
        draw(params, &lines?, &eigenvalues.unwrap_or_default())
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(TRAINED, lost)?, ..params })
    }
}

/// The model of a run, which must be a filter.
fn model(run: &Run, job: &Job) -> Result<&'static ModelDef, StageError> {
    let models = job.used::<ModelDef>();
    let name = run.row.as_deref().unwrap_or_default();
    let found = models.iter().find(|model| model.variant.name == name && model.filters);
    found.copied().ok_or_else(|| {
        let filters = models.iter().filter(|model| model.filters).map(|model| model.variant.name);
        let hint = format!("limit the figure with `where` to models that have one: {}", list(filters));
        StageError::unusable(format!("`{name}` has no frequency response to draw"), hint)
    })
}

fn grid() -> impl Iterator<Item = f64> + Clone {
    let half = f64::from(POINTS - 1) / 2.0;
    (0..POINTS).map(move |i| (f64::from(i) - half) / half)
}

/// The responses of all splits of some runs, on the grid.
fn responses<'s>(params: &Params, runs: impl Iterator<Item = &'s Run>, job: &Job) -> Result<Vec<Vec<f64>>, StageError> {
    let points: Vec<At> = grid().map(|lambda| At { lambda, pair: None }).collect();
    let mut all = Vec::new();
    for run in runs {
        job.check_cancelled()?;
        let (model, trained): (_, Trained) = (model(run, job)?, run.load(job, TRAINED)?);
        let spectrum: Option<Spectrum> = run.at.get(SPECTRUM).map(|_| run.load(job, SPECTRUM)).transpose()?;
        let side = |of: fn(&Spectrum) -> &Vec<f64>| spectrum.as_ref().map_or(&[][..], |spectrum| of(spectrum));
        let (low, high) = (side(|s| &s.low.values), side(|s| &s.high.values));
        for split in &trained.splits {
            let learned = Learned { nodes: trained.nodes, weights: &split.weights, low, high };
            let levels = model.response(&run.params.clone().into(), &learned, &points)?.unwrap_or_default();
            let mut values: Vec<f64> = levels.iter().map(Level::total).collect();
            let largest =
                values.iter().fold(0.0, |most: f64, value| if value.abs() > most.abs() { *value } else { most });
            if params.scaled && largest != 0.0 {
                values.iter_mut().for_each(|value| *value /= largest);
            }
            all.push(values);
        }
    }
    Ok(all)
}

fn draw(params: &Params, lines: &[Vec<Vec<f64>>], eigenvalues: &[f64]) -> Result<Figure, StageError> {
    let shown = &params.shown;
    let mut data = Data::new(&["series", "lambda", "mean", "std", "n"]);
    let mut bands: Vec<Vec<(f64, f64, f64)>> = Vec::new();
    for (series, splits) in shown.series.iter().zip(lines) {
        let mut band = Vec::new();
        for (at, lambda) in grid().enumerate() {
            let values: Vec<f64> = splits.iter().filter_map(|split| split.get(at).copied()).collect();
            let mean = stats::mean(&values).unwrap_or(f64::NAN);
            let std = stats::std(&values, Divisor::Population).unwrap_or(0.0);
            data.row([series.label.clone(), number(lambda), number(mean), number(std), values.len().to_string()]);
            band.push((lambda, mean - std, mean + std));
        }
        bands.push(band);
    }
    let x_axis = Axis::between("λ", -1.0, 1.0);
    let title = if params.scaled { "h(λ), scaled to a largest of 1" } else { "h(λ)" };
    let y_axis = Axis::of(title, bands.iter().flatten().flat_map(|(_, low, high)| [*low, *high]));
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let entry = |(at, label): (usize, String)| Entry::Line(label, Look::of(at), false);
    let density = (!eigenvalues.is_empty()).then(|| Entry::Patch("eigenvalues".into(), GREY.faint(0.3)));
    picture.legend(&shown.labels().into_iter().enumerate().map(entry).chain(density).collect::<Vec<_>>());
    shown.note(&mut picture);
    if !eigenvalues.is_empty() {
        picture.note(&format!("Grey: density of the {} known eigenvalues.", eigenvalues.len()));
    }
    let chart = picture.chart(picture.rest(), (&x_axis, &y_axis), false)?;
    let counts = histogram(eigenvalues, -1.0, 1.0, BARS);
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let wide = 2.0 / BARS as f64;
    for (bar, count) in counts.iter().enumerate().filter(|_| !eigenvalues.is_empty()) {
        let from = -1.0 + bar as f64 * wide;
        let top = y_axis.from + (y_axis.to - y_axis.from) * DENSITY * *count as f64 / most;
        chart.bar((from, y_axis.from), (from + wide, top), GREY.faint(0.3));
        let share = *count as f64 / eigenvalues.len() as f64 / wide;
        data.row([
            "density of eigenvalues".into(),
            number(from + wide / 2.0),
            number(share),
            String::new(),
            count.to_string(),
        ]);
    }
    chart.line(&[(-1.0, 0.0), (1.0, 0.0)], Look::thin(GREY));
    for (at, band) in bands.iter().enumerate() {
        let look = Look::of(at);
        chart.band(band, look.ink.faint(0.18));
        chart.line(&band.iter().map(|(x, low, high)| (*x, (low + high) / 2.0)).collect::<Vec<_>>(), look);
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Series;

    #[test]
    fn a_response_is_drawn_on_the_whole_axis_with_its_spread() {
        let series = vec![Series { label: "GPR-GNN".into(), marks: vec![] }];
        let params = Params { shown: Shown { series, ..Shown::default() }, ..Params::default() };
        let lines = [vec![grid().collect::<Vec<_>>(), grid().map(|x| 3.0 * x).collect()]];
        let drawn = draw(&params, &lines, &[1.0, 0.9, -0.2]).unwrap();
        assert!(drawn.csv.contains("GPR-GNN,1,2,1,2\n") && drawn.csv.contains("GPR-GNN,-1,-2,1,2\n"));
        // One of three eigenvalues in the last bar, which is 0.04 wide.
        let last = drawn.csv.lines().last().unwrap();
        assert!(last.starts_with("density of eigenvalues,0.9") && last.contains(",8.33"), "{last}");
        assert!(drawn.svg.contains("3 known eigenvalues"));
    }
}
