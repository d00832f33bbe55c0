//! `draw-confusion`: which classes are taken for which: shares of the test nodes of every class, over all splits, a panel for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError};
use crate::drawing::{Align, Axis, BLACK, Data, Picture, WHITE, number, of_share};
use crate::kinds::{Figure, Graph, Metrics};

/// Classes whose shares are written into their fields.
const MOST_WRITTEN: usize = 12;

/// Parameters of `draw-confusion`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// Panels side by side.
    #[schemars(range(min = 1, max = 10))]
    pub columns: usize,
    /// Width of a panel in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), columns: 2, width: 8.5, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawConfusion;

const METRICS: &str = "metrics";
const GRAPH: &str = "graph";

impl Stage for DrawConfusion {
    const NAME: &'static str = "draw-confusion";
    const ABOUT: &'static str = "Draws which classes are taken for which";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(METRICS, Metrics::KIND), Slot::optional(GRAPH, Graph::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let mut panels = Vec::new();
        for series in &params.shown.series {
            let mut panel = Panel::default();
            for run in params.shown.runs_of(series) {
                let metrics: Metrics = run.load(job, METRICS)?;
                metrics.splits.iter().for_each(|split| panel.add(&split.confusion));
                if run.at.contains_key(GRAPH) && panel.classes.is_empty() {
                    let graph: Graph = run.load(job, GRAPH)?;
                    panel.classes = (0..graph.classes).map(|class| graph.names.class(class).into_owned()).collect();
                }
            }
            panels.push(panel);
        }
        draw(params, &panels)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(METRICS, lost)?, ..params })
    }
}

/// What stands in a panel.
#[derive(Default)]
struct Panel {
    /// Test nodes by true class (row) and predicted class, of all splits.
    counts: Vec<Vec<u64>>,
    /// What classes are called.
    classes: Vec<String>,
}

impl Panel {
    fn add(&mut self, confusion: &[Vec<u32>]) {
        self.counts.resize_with(self.counts.len().max(confusion.len()), Vec::new);
        for (sums, row) in self.counts.iter_mut().zip(confusion) {
            sums.resize(sums.len().max(row.len()), 0);
            sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += u64::from(*count));
        }
    }

    fn name(&self, class: usize) -> String {
        self.classes.get(class).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| class.to_string())
    }
}

fn draw(params: &Params, panels: &[Panel]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["series", "true", "predicted", "nodes", "share"]);
    let columns = params.columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    let (width, height) = (params.width * columns as f64, params.width * 0.92 * rows as f64);
    let mut picture = Picture::new(&params.title, width, height);
    params.shown.note(&mut picture);
    picture.note("Shares in % of the test nodes of the true class, over all splits.");
    let frames = picture.panels(&params.shown.labels(), columns);
    for ((series, panel), frame) in params.shown.series.iter().zip(panels).zip(frames) {
        let classes = panel.counts.len();
        let names: Vec<String> = (0..classes).map(|class| panel.name(class)).collect();
        // The first class stands above the others.
        let down: Vec<String> = names.iter().rev().cloned().collect();
        let axes = (&Axis::of_names("predicted class", &names), &Axis::of_names("true class", &down));
        let chart = picture.chart(frame, axes, false)?;
        for (truth, counts) in panel.counts.iter().enumerate() {
            let sum: u64 = counts.iter().sum();
            for (predicted, count) in counts.iter().enumerate() {
                let share = if sum == 0 { 0.0 } else { *count as f64 / sum as f64 };
                let (x, y) = (predicted as f64, (classes - 1 - truth) as f64);
                chart.bar((x - 0.49, y - 0.49), (x + 0.49, y + 0.49), of_share(share));
                if classes <= MOST_WRITTEN {
                    let ink = if share > 0.5 { WHITE } else { BLACK };
                    chart.words((x, y), &format!("{:.0}", share * 100.0), 1.0, ink, Align::Middle);
                }
                data.row([
                    series.label.clone(),
                    names[truth].clone(),
                    panel.name(predicted),
                    count.to_string(),
                    number(share),
                ]);
            }
        }
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Series;

    #[test]
    fn shares_are_of_the_true_class_over_all_splits() {
        let mut panel = Panel { classes: vec!["<a>".into(), String::new()], ..Panel::default() };
        panel.add(&[vec![3, 1], vec![0, 2]]);
        panel.add(&[vec![0, 4], vec![0, 0]]);
        let series = vec![Series { label: String::new(), marks: vec![] }];
        let params = Params { shown: Shown { series, ..Shown::default() }, ..Params::default() };
        let drawn = draw(&params, &[panel]).unwrap();
        assert!(drawn.csv.contains(",<a>,<a>,3,0.375\n") && drawn.csv.contains(",1,1,2,1\n"), "{}", drawn.csv);
        assert!(drawn.svg.contains("&lt;a&gt;") && !drawn.svg.contains("<a>"));
    }
}
