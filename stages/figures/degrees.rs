//! `draw-degrees`: how many neighbours nodes have, in buckets that double, a panel for each graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError};
use crate::drawing::{Align, Axis, BLACK, Data, Look, Picture};
use crate::inspect::{Bucket, degree_histogram};
use crate::kinds::{Figure, Graph};

/// Parameters of `draw-degrees`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
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
        Self { title: String::new(), width: 8.5, height: 4.5, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawDegrees;

const SLOT: &str = "graph";

impl Stage for DrawDegrees {
    const NAME: &'static str = "draw-degrees";
    const ABOUT: &'static str = "Draws histograms of the degrees of nodes";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(SLOT, Graph::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let mut panels = Vec::new();
        for series in &params.shown.series {
            let mut buckets = Vec::new();
            for run in params.shown.runs_of(series).take(1) {
                buckets = degree_histogram(&run.load::<Graph>(job, SLOT)?);
            }
            panels.push(buckets);
        }
        draw(params, &panels)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(SLOT, lost)?, ..params })
    }
}

fn draw(params: &Params, panels: &[Vec<Bucket>]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["series", "from", "to", "nodes"]);
    let mut picture = Picture::new(&params.title, params.width, params.height * panels.len().max(1) as f64);
    params.shown.note(&mut picture);
    let frames = picture.panels(&params.shown.labels(), 1);
    for ((series, buckets), frame) in params.shown.series.iter().zip(panels).zip(frames) {
        let names: Vec<String> = buckets.iter().map(|bucket| bucket.from.to_string()).collect();
        let y_axis = Axis::from_zero("nodes", buckets.iter().map(|bucket| bucket.nodes as f64 * 1.08));
        let chart = picture.chart(frame, (&Axis::of_names("smallest degree of a bar", &names), &y_axis), true)?;
        for (at, bucket) in buckets.iter().enumerate() {
            let (place, nodes) = (at as f64, bucket.nodes as f64);
            chart.bar((place - 0.42, 0.0), (place + 0.42, nodes), Look::of(0).ink);
            chart.words((place, nodes), &bucket.nodes.to_string(), 0.9, BLACK, Align::Above);
            data.row([series.label.clone(), bucket.from.to_string(), bucket.to.to_string(), bucket.nodes.to_string()]);
        }
    }
    figure(picture, &data)
}
