//! `draw-ranks`: the critical-difference diagram of Demšar: average ranks of methods over data sets, joined where Nemenyi's test shows no
//! difference.
//!
//! `each` are the methods and `x` the data sets. Methods that lack a data set are left out of it only if no method has it; a data set that
//! some method lacks does not count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::{Shown, figure};
use crate::contract::{Artifact, Job, Lost, Slot, Stage, StageError, Uses};
use crate::drawing::{Align, Axis, BLACK, Data, GREY, Look, Picture, number};
use crate::kinds::{ALPHA, Figure, Metric, Metrics, ScoreDef};
use crate::math::inference::{critical_difference, friedman, mean_ranks};
use crate::math::stats;

/// Parameters of `draw-ranks`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// What methods are ranked by.
    pub metric: Metric,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Which run is shown where.
    #[schemars(extend("x-planned" = true, "x-along" = true))]
    pub shown: Shown,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), metric: Metric::default(), width: 12.0, shown: Shown::default() }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawRanks;

const SLOT: &str = "metrics";

impl Stage for DrawRanks {
    const NAME: &'static str = "draw-ranks";
    const ABOUT: &'static str = "Draws average ranks over data sets, with the critical difference";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::many(SLOT, Metrics::KIND)];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    const USES: Option<Uses> = Some(Uses::of::<ScoreDef>(Metric::complete_schema_of));
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, job: &Job) -> Result<Figure, StageError> {
        let scale = params.metric.scale(&job.used());
        let mut worths = Vec::new();
        for series in &params.shown.series {
            let mut of_method = vec![None; params.shown.x.len()];
            for mark in &series.marks {
                let mut values = Vec::new();
                for run in mark.runs.iter().filter_map(|run| params.shown.runs.get(*run)) {
                    let metrics: Metrics = run.load(job, SLOT)?;
                    values.extend(
                        metrics.splits.iter().filter_map(|split| params.metric.of(split)?.as_ref().ok().copied()),
                    );
                }
                if let Some(place) = of_method.get_mut(mark.x) {
                    *place = stats::mean(&values).map(|mean| scale.worth(mean));
                }
            }
            worths.push(of_method);
        }
        draw(params, &ranking(&worths)?)
    }

    fn without(params: Params, lost: &[Lost]) -> Option<Params> {
        Some(Params { shown: params.shown.clone().without(SLOT, lost)?, ..params })
    }
}

/// Average ranks, and how far apart they must be.
struct Ranking {
    averages: Vec<f64>,
    sets: usize,
    apart: f64,
    p: f64,
}

/// Ranks methods by what they are worth on every data set.
fn ranking(worths: &[Vec<Option<f64>>]) -> Result<Ranking, StageError> {
    let sets = worths.first().map_or(0, Vec::len);
    let of_set =
        |set: usize| worths.iter().map(|method| method.get(set).copied().flatten()).collect::<Option<Vec<f64>>>();
    let ranks: Vec<Vec<f64>> = (0..sets).filter_map(of_set).map(|values| mean_ranks(&values)).collect();
    let tests = friedman(&ranks).zip(critical_difference(ALPHA, worths.len(), ranks.len()));
    let (test, apart) = tests.ok_or_else(|| {
        let what = format!("{} methods have {} data sets in common", worths.len(), ranks.len());
        StageError::unusable(
            what,
            "ranks need two methods and two data sets at least; `where` can leave out methods that lack some",
        )
    })?;
    let average = |method: usize| ranks.iter().map(|of_set| of_set[method]).sum::<f64>() / ranks.len() as f64;
    Ok(Ranking { averages: (0..worths.len()).map(average).collect(), sets: ranks.len(), apart, p: test.f_p })
}

/// The longest runs of sorted ranks that are not further apart than chance may put them, as first and last place.
fn groups(sorted: &[f64], apart: f64) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (first, rank) in sorted.iter().enumerate() {
        let last = sorted.iter().rposition(|other| other - rank <= apart).unwrap_or(first);
        if last > first && found.last().is_none_or(|(_, before)| *before < last) {
            found.push((first, last));
        }
    }
    found
}

fn draw(params: &Params, ranking: &Ranking) -> Result<Figure, StageError> {
    let mut data = Data::new(&["method", "average rank", "data sets", "critical difference"]);
    let mut methods: Vec<(f64, String)> = ranking.averages.iter().copied().zip(params.shown.labels()).collect();
    methods.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (rank, label) in &methods {
        data.row([label.clone(), number(*rank), ranking.sets.to_string(), number(ranking.apart)]);
    }
    let ranks: Vec<f64> = methods.iter().map(|(rank, _)| *rank).collect();
    let joined = groups(&ranks, ranking.apart);
    let left = methods.len().div_ceil(2);
    // Rows below the axis: bars of groups, then names.
    let rows = joined.len() as f64 * 0.5 + left as f64 + 1.6;
    let mut picture = Picture::new(&params.title, params.width, 1.6 + 0.42 * rows);
    params.shown.note(&mut picture);
    picture.note(&format!(
        "Average ranks over {} data sets, 1 is best. Joined: not shown to differ (Nemenyi, {ALPHA}; critical difference {:.2}). Iman and \
         Davenport: p = {:.3}.",
        ranking.sets, ranking.apart, ranking.p
    ));
    let k = methods.len() as f64;
    let names = methods.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) as f64;
    // Room for names at both sides, about a tenth of a rank for each of four letters.
    let side = (k - 1.0).max(1.0) * (0.04 * names).clamp(0.25, 0.9);
    let mut x_axis = Axis::between("", 1.0 - side, k + side);
    x_axis.ticks.clear();
    let y_axis = Axis { title: String::new(), from: 0.0, to: rows, ticks: Vec::new() };
    let chart = picture.frameless(picture.rest(), (&x_axis, &y_axis))?;
    let (thin, axis) = (Look::thin(BLACK), rows - 1.0);
    chart.line(&[(1.0, axis), (k, axis)], thin);
    for rank in 1..=methods.len() {
        let at = rank as f64;
        chart.line(&[(at, axis), (at, axis + 0.2)], thin);
        chart.words((at, axis + 0.25), &rank.to_string(), 1.1, BLACK, Align::Above);
    }
    let first_name = axis - 0.5 - joined.len() as f64 * 0.5;
    for (place, (rank, label)) in methods.iter().enumerate() {
        let (row, is_left) = if place < left { (place, true) } else { (methods.len() - 1 - place, false) };
        let y = first_name - row as f64;
        let end = if is_left { 1.0 - side * 0.08 } else { k + side * 0.08 };
        chart.line(&[(*rank, axis), (*rank, y), (end, y)], Look::thin(GREY));
        chart.dots(&[(*rank, axis)], BLACK, 12);
        chart.words((end, y), label, 1.1, BLACK, if is_left { Align::Right } else { Align::Left });
    }
    for (row, (first, last)) in joined.iter().enumerate() {
        let y = axis - 0.35 - row as f64 * 0.5;
        let margin = (k - 1.0) * 0.006;
        chart.line(&[(ranks[*first] - margin, y), (ranks[*last] + margin, y)], Look { width: 24, ..Look::of(0) });
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_over_the_data_sets_that_all_methods_have() {
        let worths = [
            vec![Some(0.9), Some(0.8), Some(0.7)],
            vec![Some(0.5), Some(0.9), None],
            vec![Some(0.1), Some(0.2), Some(0.9)],
        ];
        let ranking = ranking(&worths).unwrap();
        assert_eq!((ranking.averages, ranking.sets), (vec![1.5, 1.5, 3.0], 2));
        assert!(super::ranking(&worths[..1]).is_err());
    }

    #[test]
    fn groups_are_as_long_as_they_can_be_and_none_is_inside_of_another() {
        assert_eq!(groups(&[1.0, 1.5, 2.4, 3.0, 5.0], 1.5), [(0, 2), (1, 3)]);
        assert!(groups(&[1.0, 3.0], 1.5).is_empty());
    }
}
