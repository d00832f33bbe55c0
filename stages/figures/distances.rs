//! `draw-distances`: what propagation does to features: mean distances between nodes of one class and of different classes after
//! Ã^j X, by j, or the mean variance of the dimensions.
//!
//! Distances are Euclidean, over pairs of nodes that are drawn once (seeded) and kept for every j, since there are n² of them. The
//! variance is exact.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Run, Shown, figure};
use crate::contract::{Artifact, Estimate, Job, Known, Lost, Memory, Slot, Stage, StageError, Term, Work};
use crate::drawing::{Axis, Data, Entry, Look, Picture, number};
use crate::kinds::{Figure, Nodes, Operator, size};
use crate::math::random::Stream;
use crate::math::sparse_product::TwoSided;

/// What is measured after every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The mean Euclidean distance of two nodes, within and between classes.
    #[default]
    Distance,
    /// The variance over nodes, mean over dimensions.
    Variance,
}

/// Parameters of `draw-distances`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What is measured.
    pub measure: Measure,
    /// The largest power of the operator.
    #[schemars(range(min = 1, max = 100))]
    pub order: usize,
    /// Pairs of nodes that are drawn within classes, and between them.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub pairs: usize,
    /// Seed of the pairs.
    pub seed: u64,
    /// Whether every line is divided by its first value.
    pub relative: bool,
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
        Self {
            title: String::new(),
            measure: Measure::default(),
            order: 10,
            pairs: 20_000,
            seed: 0,
            relative: false,
            width: 8.5,
            height: 6.0,
            shown: Shown::default(),
        }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawDistances;

const NODES: &str = "nodes";
const OPERATOR: &str = "operator";

impl Stage for DrawDistances {
    const NAME: &'static str = "draw-distances";
    const ABOUT: &'static str = "Draws distances between nodes, or their variance, after powers of the operator";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(NODES, Nodes::KIND), Slot::many(OPERATOR, Operator::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const TERMS: &'static [Term] = &[Term::alone("values", 4e-9)];
    type Params = Params;
    type Output = Figure;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let nodes = known.sizes(NODES);
        let values = nodes.or_guess(size::NODES, 5000.0) * nodes.or_guess(size::FEATURES, 1000.0);
        let work = Work::default().and("values", values * (params.order * params.shown.runs.len()));
        Estimate { work, memory: Memory::default().and(values * 12), ..Estimate::default() }
    }

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let mut lines = Vec::new();
        for series in &params.shown.series {
            for run in params.shown.runs_of(series).take(1) {
                lines.extend(measured(params, &series.label, run, job)?);
            }
        }
        draw(params, &lines)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(NODES, lost)?, ..params })
    }
}

/// A line: which series, which pairs, and a value for every power.
struct Line {
    series: String,
    pairs: &'static str,
    values: Vec<f64>,
}

/// Measures what propagation does to the features of a run.
fn measured(params: &Params, label: &str, run: &Run, job: &Job) -> Result<Vec<Line>, StageError> {
    let (nodes, operator): (Nodes, Operator) = (run.load(job, NODES)?, run.load(job, OPERATOR)?);
    if operator.nodes() != nodes.len() {
        let what = format!("the operator has {} nodes, and the features {}", operator.nodes(), nodes.len());
        return Err(StageError::unusable(what, "wire both to one graph"));
    }
    let columns = nodes.features.cols();
    let sides = TwoSided::new(&operator.matrix);
    let weights: Vec<f32> = operator.matrix.values.iter().map(|value| *value as f32).collect();
    let pairs = pairs(params, &nodes.labels);
    let names: &[&'static str] = match params.measure {
        Measure::Distance => &["within classes", "between classes"],
        Measure::Variance => &["all"],
    };
    let mut lines: Vec<Line> =
        names.iter().map(|pairs| Line { series: label.to_owned(), pairs, values: Vec::new() }).collect();
    let mut x = nodes.features.to_dense().data;
    for power in 0..=params.order {
        job.check_cancelled()?;
        if power > 0 {
            x = sides.product(&weights, &x, columns);
        }
        match params.measure {
            Measure::Distance => {
                lines.iter_mut().zip(&pairs).for_each(|(line, of)| line.values.push(mean_distance(&x, columns, of)));
            }
            Measure::Variance => lines.iter_mut().for_each(|line| line.values.push(mean_variance(&x, columns))),
        }
    }
    if params.relative {
        for line in &mut lines {
            let first = line.values.first().copied().filter(|first| *first > 0.0).unwrap_or(1.0);
            line.values.iter_mut().for_each(|value| *value /= first);
        }
    }
    // A graph may have no two nodes of one class, or only one class.
    lines.retain(|line| line.values.iter().any(|value| value.is_finite()));
    Ok(lines)
}

/// Draws pairs of different nodes within classes, and between them.
fn pairs(params: &Params, labels: &[u32]) -> [Vec<(usize, usize)>; 2] {
    let mut stream = Stream::new(params.seed, &["draw-distances", "pairs"]);
    let (mut within, mut between) = (Vec::new(), Vec::new());
    let n = labels.len() as u64;
    // Where one kind of pair is rare, as many tries as find some of it.
    for _ in 0..params.pairs.saturating_mul(20) {
        let [a, b] = [0, 1].map(|_| stream.below(n) as usize);
        if a == b || n < 2 {
            continue;
        }
        let of = if labels[a] == labels[b] { &mut within } else { &mut between };
        if of.len() < params.pairs {
            of.push((a, b));
        }
        if within.len() == params.pairs && between.len() == params.pairs {
            break;
        }
    }
    [within, between]
}

fn mean_distance(x: &[f32], columns: usize, pairs: &[(usize, usize)]) -> f64 {
    let row = |node: usize| &x[node * columns..(node + 1) * columns];
    let distance = |(a, b): &(usize, usize)| {
        let squares = row(*a).iter().zip(row(*b)).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    // Collected in the order of the pairs, so that the sum does not depend on threads.
    let distances: Vec<f64> = pairs.par_iter().map(distance).collect();
    distances.iter().sum::<f64>() / pairs.len() as f64
}

/// The variance over nodes of every dimension, mean over dimensions.
fn mean_variance(x: &[f32], columns: usize) -> f64 {
    let rows = (x.len() / columns.max(1)).max(1) as f64;
    let (mut sums, mut squares) = (vec![0.0; columns], vec![0.0; columns]);
    for row in x.chunks_exact(columns.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    for row in x.chunks_exact(columns.max(1)) {
        for ((square, sum), value) in squares.iter_mut().zip(&sums).zip(row) {
            *square += (f64::from(*value) - sum / rows).powi(2);
        }
    }
    squares.iter().sum::<f64>() / rows / columns.max(1) as f64
}

fn draw(params: &Params, lines: &[Line]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["series", "pairs", "j", "value"]);
    let name = match params.measure {
        Measure::Distance => "mean distance",
        Measure::Variance => "mean variance",
    };
    let title = if params.relative { format!("{name}, relative to j = 0") } else { name.to_owned() };
    let x_axis = Axis::of("power j of the operator", (0..=params.order).map(|j| j as f64));
    let y_axis = Axis::from_zero(&title, lines.iter().flat_map(|line| line.values.iter().copied()));
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let mut looks = Vec::new();
    let several = params.shown.series.len() > 1;
    for line in lines {
        let series = params.shown.series.iter().position(|series| series.label == line.series).unwrap_or(0);
        // Of several graphs each has a colour, and its two lines differ in dashes.
        let second = line.pairs == "between classes";
        let place = if several { series } else { usize::from(second) };
        let look = Look::of(place);
        looks.push(if several { Look { dash: if second { &[40, 20] } else { &[] }, ..look } } else { look });
    }
    let label = |line: &Line| match (line.series.as_str(), line.pairs) {
        (series, "all") => series.to_owned(),
        ("", pairs) => pairs.to_owned(),
        (series, pairs) => format!("{series}, {pairs}"),
    };
    let entries = lines.iter().zip(&looks).map(|(line, look)| Entry::Line(label(line), *look, true));
    picture.legend(&entries.collect::<Vec<_>>());
    params.shown.note(&mut picture);
    let chart = picture.chart(picture.rest(), (&x_axis, &y_axis), true)?;
    for (line, look) in lines.iter().zip(&looks) {
        let points: Vec<(f64, f64)> = line.values.iter().enumerate().map(|(j, value)| (j as f64, *value)).collect();
        chart.line(&points, *look);
        chart.markers(&points, *look);
        for (j, value) in line.values.iter().enumerate() {
            data.row([line.series.clone(), line.pairs.to_owned(), j.to_string(), number(*value)]);
        }
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_variances_of_a_small_example_are_those_worked_out_by_hand() {
        // Rows (0, 0), (3, 4), (0, 0): distances 5, 0, 5; variances 2 and 32/9.
        let x = [0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
        assert_eq!(mean_distance(&x, 2, &[(0, 1), (0, 2), (1, 2)]), 10.0 / 3.0);
        assert!((mean_variance(&x, 2) - (2.0 + 32.0 / 9.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn pairs_are_of_different_nodes_and_of_the_classes_they_should_be() {
        let labels = [0, 0, 1, 1, 1];
        let [within, between] = pairs(&Params { pairs: 50, ..Params::default() }, &labels);
        assert_eq!((within.len(), between.len()), (50, 50));
        assert!(within.iter().all(|(a, b)| a != b && labels[*a] == labels[*b]));
        assert!(between.iter().all(|(a, b)| labels[*a] != labels[*b]));
        assert!(pairs(&Params::default(), &[0]).iter().all(Vec::is_empty));
    }
}
