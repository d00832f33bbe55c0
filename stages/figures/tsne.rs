//! `draw-tsne`: a map of the nodes by t-SNE, coloured by class, a panel for each: of features, of an activation inside of the model that
//! was kept (`keep-hidden`), or of logits.
//!
//! Of a graph with more nodes than `nodes`, as many are drawn (seeded), the same in every panel. Vectors of more than 50 values are reduced to
//! 50 principal components first. Axes have no unit: only who is near whom means something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Run, Shown, figure};
use crate::contract::params::{self, Problem, list};
use crate::contract::{
    Artifact, Estimate, Job, Known, Lost, Memory, Progress, Size, Slot, Stage, StageError, Term, Uses, Work,
};
use crate::drawing::{Axis, Data, Entry, Look, Picture, number};
use crate::kinds::{Figure, Nodes, Trained};
use crate::math::pca::{Centre, Table, components};
use crate::math::random::Stream;
use crate::math::tsne::Tsne;
use crate::models::ModelDef;

/// Values of a vector at most, before principal components are taken.
const WIDEST: usize = 50;
/// Classes that have a line in the legend.
const MOST_CLASSES: usize = 14;

/// What nodes are placed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// Features, as models see them.
    Features,
    /// An activation inside of the model that was kept.
    Hidden,
    /// What the model says of every class.
    #[default]
    Logits,
}

/// Parameters of `draw-tsne`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What nodes are placed by.
    pub of: Of,
    /// Which activation, for `of: hidden`: its name in the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The split whose model is shown, counted from 0.
    pub split: usize,
    /// Nodes at most.
    #[schemars(range(min = 2, max = 20_000))]
    pub nodes: usize,
    /// How many neighbours a node has, about.
    #[schemars(range(min = 1, max = 500))]
    pub perplexity: f64,
    /// Steps of the descent.
    #[schemars(range(min = 1, max = 10_000))]
    pub steps: usize,
    /// Seed of the first places, and of the nodes that are drawn.
    pub seed: u64,
    /// Panels side by side.
    #[schemars(range(min = 1, max = 10))]
    pub columns: usize,
    /// Width of a panel in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true, "x-row" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            title: String::new(),
            of: Of::default(),
            layer: None,
            split: 0,
            nodes: 3000,
            perplexity: 30.0,
            steps: 750,
            seed: 0,
            columns: 2,
            width: 8.0,
            shown: Shown::default(),
        }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        match (self.of, &self.layer) {
            (Of::Hidden, None) => {
                let help = "name an activation of the model; `ppgnn list models NAME` shows what it has";
                Err(vec![Problem::value("of", "`hidden` does not say which `layer`").with_help(help)])
            }
            (Of::Features | Of::Logits, Some(_)) => {
                Err(vec![Problem::value("layer", "is for `of: hidden`").with_help("leave it out")])
            }
            _ => Ok(()),
        }
    }
}

/// The stage.
pub struct DrawTsne;

const TRAINED: &str = "trained";
const NODES: &str = "nodes";

impl Stage for DrawTsne {
    const NAME: &'static str = "draw-tsne";
    const ABOUT: &'static str = "Draws maps of the nodes by t-SNE, coloured by class";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(TRAINED, Trained::KIND), Slot::many(NODES, Nodes::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const USES: Option<Uses> = Some(Uses::of::<ModelDef>(|_, _| ()));
    const TERMS: &'static [Term] = &[Term::alone("forces", 1e-9)];
    type Params = Params;
    type Output = Figure;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let nodes = known.sizes(NODES).or_guess(crate::kinds::size::NODES, 3000.0).min(params.nodes);
        let forces = nodes * nodes * (params.steps * params.shown.series.len());
        let bytes = nodes * Size::from(params.perplexity) * 60;
        Estimate {
            work: Work::default().and("forces", forces),
            memory: Memory::default().and(bytes),
            ..Estimate::default()
        }
    }

    fn precheck(params: &Params, job: &Job) -> Result<(), StageError> {
        params
            .layer
            .iter()
            .try_for_each(|layer| params.shown.runs.iter().try_for_each(|run| has_layer(run, layer, job)))
    }

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let mut panels = Vec::new();
        for (at, series) in params.shown.series.iter().enumerate() {
            for run in params.shown.runs_of(series).take(1) {
                panels.push(panel(params, &series.label, run, (at, job))?);
            }
        }
        draw(params, &panels)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(TRAINED, lost)?, ..params })
    }
}

/// Whether a run keeps an activation.
fn has_layer(run: &Run, layer: &str, job: &Job) -> Result<(), StageError> {
    let name = run.row.as_deref().unwrap_or_default();
    let models = job.used::<ModelDef>();
    let there = models.iter().find(|model| model.variant.name == name).map_or(&[][..], |model| model.hidden);
    if !there.contains(&layer) {
        let hint = if there.is_empty() {
            "it has none; draw its logits".to_owned()
        } else {
            format!("it has {}", list(there.iter().copied()))
        };
        return Err(StageError::unusable(format!("`{name}` has no activation `{layer}`"), hint));
    }
    if run.own.get("keep-hidden") != Some(&true.into()) {
        let what = format!("the activation `{layer}` of `{name}` is not kept");
        return Err(StageError::unusable(what, "set `keep-hidden: true` on the stage that trains it"));
    }
    Ok(())
}

/// The nodes of a panel: number, class and place.
struct Panel {
    label: String,
    nodes: Vec<(usize, u32, (f64, f64))>,
    classes: usize,
}

fn panel(params: &Params, label: &str, run: &Run, (at, job): (usize, &Job)) -> Result<Panel, StageError> {
    let nodes: Nodes = run.load(job, NODES)?;
    let chosen = chosen(nodes.len(), params);
    let (values, columns) = vectors(params, run, &nodes, job)?;
    if values.len() != nodes.len() * columns {
        let what = format!("{} values do not make {} rows of {columns}", values.len(), nodes.len());
        return Err(StageError::unusable(what, "wire the features that the model was trained on"));
    }
    let rows: Vec<f32> =
        chosen.iter().flat_map(|node| &values[node * columns..(node + 1) * columns]).copied().collect();
    if let Some(at) = rows.iter().position(|value| !value.is_finite()) {
        let what = format!("a value of node {} is not finite", chosen[at / columns.max(1)]);
        return Err(StageError::numeric(what, "train with a lower learning rate"));
    }
    let (x, columns) = reduced(rows, columns)?;
    let tsne = Tsne { perplexity: params.perplexity, steps: params.steps, seed: params.seed };
    let total = (params.steps * params.shown.series.len()) as u64;
    let go_on = |step: usize| {
        if step.is_multiple_of(50) {
            job.progress(&Progress {
                done: (at * params.steps + step) as u64,
                total,
                note: format!("{label} step {step}"),
            });
        }
        job.check_cancelled().is_ok()
    };
    let places = tsne.places(&x, columns, &go_on).ok_or(StageError::Cancelled)?;
    let nodes_placed = chosen.into_iter().zip(places).map(|(node, place)| (node, nodes.labels[node], place));
    Ok(Panel { label: label.to_owned(), nodes: nodes_placed.collect(), classes: nodes.classes })
}

/// The nodes that are shown, ascending.
fn chosen(nodes: usize, params: &Params) -> Vec<usize> {
    let mut all: Vec<usize> = (0..nodes).collect();
    if nodes > params.nodes {
        Stream::new(params.seed, &["draw-tsne", "nodes"]).shuffle(&mut all);
        all.truncate(params.nodes);
        all.sort_unstable();
    }
    all
}

/// What nodes are placed by, row by row, and the length of a row.
fn vectors(params: &Params, run: &Run, nodes: &Nodes, job: &Job) -> Result<(Vec<f32>, usize), StageError> {
    if params.of == Of::Features {
        return Ok((nodes.features.to_dense().data, nodes.features.cols()));
    }
    let mut trained: Trained = run.load(job, TRAINED)?;
    if params.split >= trained.splits.len() {
        let what = format!("there is no split {}: the run has {}, counted from 0", params.split, trained.splits.len());
        return Err(StageError::unusable(what, "choose one of them with `split`"));
    }
    let mut split = trained.splits.swap_remove(params.split);
    let Some(layer) = &params.layer else { return Ok((split.logits, trained.classes)) };
    let (shape, values) = split.hidden.remove(layer).ok_or_else(|| {
        let what = format!("the run has no activation `{layer}`");
        StageError::unusable(what, "set `keep-hidden: true` on the stage that trains it")
    })?;
    Ok((values, shape.last().copied().unwrap_or(0)))
}

/// Vectors in double precision, as principal components where they are long.
fn reduced(rows: Vec<f32>, columns: usize) -> Result<(Vec<f64>, usize), StageError> {
    if columns <= WIDEST {
        return Ok((rows.into_iter().map(f64::from).collect(), columns));
    }
    let found = components(Table::Dense(&rows, columns), Centre::Means, WIDEST);
    let found = found.map_err(|error| StageError::numeric(error.to_string(), "show fewer nodes with `nodes`"))?;
    Ok((found.scores, found.variances.len()))
}

fn draw(params: &Params, panels: &[Panel]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["series", "node", "class", "x", "y"]);
    let columns = params.columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    let height = params.width * 0.9 * rows as f64 + 0.7;
    let mut picture = Picture::new(&params.title, params.width * columns as f64, height);
    let classes = panels.iter().map(|panel| panel.classes).max().unwrap_or(0);
    let entry = |class: usize| Entry::Patch(format!("class {class}"), Look::of(class).ink);
    if classes <= MOST_CLASSES {
        picture.legend(&(0..classes).map(entry).collect::<Vec<_>>());
    }
    params.shown.note(&mut picture);
    let titles: Vec<String> = panels.iter().map(|panel| panel.label.clone()).collect();
    let frames = picture.panels(&titles, columns);
    for (panel, frame) in panels.iter().zip(frames) {
        let axis = |of: fn(&(f64, f64)) -> f64| Axis::of("", panel.nodes.iter().map(|(_, _, place)| of(place))).bare();
        let chart = picture.chart(frame, (&axis(|p| p.0), &axis(|p| p.1)), false)?;
        // Nodes of a class after those of another would cover them: a few of each in turn.
        let radius = if panel.nodes.len() > 1500 { 6 } else { 9 };
        for turn in panel.nodes.chunks(panel.nodes.len().div_ceil(12).max(1)) {
            for class in 0..panel.classes {
                let of_class = turn.iter().filter(|(_, label, _)| usize::try_from(*label) == Ok(class));
                let points: Vec<(f64, f64)> = of_class.map(|(_, _, place)| *place).collect();
                chart.dots(&points, Look::of(class).ink.faint(0.8), radius);
            }
        }
        for (node, class, (x, y)) in &panel.nodes {
            data.row([panel.label.clone(), node.to_string(), class.to_string(), number(*x), number(*y)]);
        }
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Params as _;

    #[test]
    fn the_same_nodes_are_drawn_every_time() {
        let params = Params { nodes: 5, ..Params::default() };
        let first = chosen(100, &params);
        assert!(first.len() == 5 && first.is_sorted() && first == chosen(100, &params));
        assert_eq!(chosen(4, &params), [0, 1, 2, 3]);
    }

    #[test]
    fn a_layer_must_be_named_where_one_is_shown_and_nowhere_else() {
        let params = |of, layer: Option<&str>| Params { of, layer: layer.map(Into::into), ..Params::default() };
        assert!(params(Of::Hidden, None).check().is_err() && params(Of::Logits, Some("z")).check().is_err());
        assert!(params(Of::Hidden, Some("z")).check().is_ok() && params(Of::Features, None).check().is_ok());
    }
}
