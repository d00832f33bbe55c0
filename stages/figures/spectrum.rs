//! `draw-spectrum`: how the known eigenvalues of an operator are spread, a panel for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bars::histogram;
use super::shown::{Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError};
use crate::drawing::{Axis, Data, Look, Picture, number};
use crate::kinds::{Figure, Spectrum};

/// Parameters of `draw-spectrum`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// Bars between −1 and 1.
    #[schemars(range(min = 1, max = 1000))]
    pub bars: usize,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height of a panel in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), bars: 50, width: 8.5, height: 4.5, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawSpectrum;

const SLOT: &str = "spectrum";

impl Stage for DrawSpectrum {
    const NAME: &'static str = "draw-spectrum";
    const ABOUT: &'static str = "Draws histograms of the known eigenvalues";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(SLOT, Spectrum::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let mut panels = Vec::new();
        for series in &params.shown.series {
            let mut values = Vec::new();
            for run in params.shown.runs_of(series) {
                let spectrum: Spectrum = run.load(job, SLOT)?;
                values.extend(spectrum.low.values.into_iter().chain(spectrum.high.values));
            }
            panels.push(values);
        }
        draw(params, &panels)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(SLOT, lost)?, ..params })
    }
}

fn draw(params: &Params, panels: &[Vec<f64>]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["series", "from", "to", "eigenvalues"]);
    let mut picture = Picture::new(&params.title, params.width, params.height * panels.len().max(1) as f64);
    params.shown.note(&mut picture);
    let frames = picture.panels(&params.shown.labels(), 1);
    let wide = 2.0 / params.bars as f64;
    for ((series, values), frame) in params.shown.series.iter().zip(panels).zip(frames) {
        let counts = histogram(values, -1.0, 1.0, params.bars);
        let y_axis = Axis::from_zero("eigenvalues", counts.iter().map(|count| *count as f64));
        let chart = picture.chart(frame, (&Axis::between("λ", -1.0, 1.0), &y_axis), true)?;
        for (bar, count) in counts.iter().enumerate() {
            let (from, to) = (-1.0 + bar as f64 * wide, -1.0 + (bar + 1) as f64 * wide);
            chart.bar((from, 0.0), (to, *count as f64), Look::of(0).ink);
            data.row([series.label.clone(), number(from), number(to), count.to_string()]);
        }
    }
    figure(picture, &data)
}
