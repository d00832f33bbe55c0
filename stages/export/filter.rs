//! The learned filter: h(λ) at every known eigenvalue and on a grid, for models that have one.

use serde_json::Value;

use super::{Frame, Values};
use crate::contract::StageError;
use crate::kinds::{Spectrum, Trained};
use crate::models::{At, Learned, Level, ModelDef};

/// Points of the grid on [−1, 1], where the eigenvalues of a normalised operator are.
const GRID: u8 = 201;

/// Returns a row per split and point: `split`, `at` (`eigenvalue` or `grid`), `lambda`, `response`, its terms `global` and
/// `local`, and `side` and `bin` of the local one. Nothing for a model that is no filter.
///
/// `given` is the spectrum that the model was trained with, `known` any of the same operator.
///
/// # Errors
/// Only if the parameters were not checked.
pub fn filter(
    trained: &Trained,
    (model, params): (&ModelDef, &Value),
    (given, known): (Option<&Spectrum>, Option<&Spectrum>),
    of_split: Option<usize>,
) -> Result<Option<Frame>, StageError> {
    let pairs = |s: &Spectrum| [s.low.values.as_slice(), s.high.values.as_slice()].concat();
    let of_given = given.map(pairs).unwrap_or_default().into_iter().enumerate();
    let mut points: Vec<At> = of_given.map(|(pair, lambda)| At { lambda, pair: Some(pair) }).collect();
    if given.is_none() {
        points.extend(known.map(pairs).unwrap_or_default().into_iter().map(|lambda| At { lambda, pair: None }));
    }
    let eigenvalues = points.len();
    points.extend((0..GRID).map(|i| At { lambda: (f64::from(i) - 100.0) / 100.0, pair: None }));
    let side = |of: fn(&Spectrum) -> &Vec<f64>| given.map_or(&[][..], |spectrum| of(spectrum));
    let mut all = Frame::default();
    for (at, split) in trained.splits.iter().enumerate().filter(|(at, _)| of_split.is_none_or(|only| only == *at)) {
        let (low, high) = (side(|s| &s.low.values), side(|s| &s.high.values));
        let learned = Learned { nodes: trained.nodes, weights: &split.weights, low, high };
        let Some(levels) = model.response(params, &learned, &points)? else { return Ok(None) };
        let local = |level: &Level| level.local;
        let place = (0..points.len()).map(|i| if i < eigenvalues { "eigenvalue" } else { "grid" });
        all.append(
            Frame::of_rows(points.len())
                .with("split", Values::wholes(vec![at; points.len()]))
                .with("at", Values::texts(place))
                .with("lambda", Values::numbers(points.iter().map(|p| p.lambda)))
                .with("response", Values::numbers(levels.iter().map(Level::total)))
                .with("global", Values::Number(levels.iter().map(|l| l.global).collect()))
                .with("local", Values::Number(levels.iter().map(|l| Some(local(l)?.value)).collect()))
                .with("side", Values::Text(levels.iter().map(|l| Some(local(l)?.side.into())).collect()))
                .with("bin", Values::Whole(levels.iter().map(|l| i64::try_from(local(l)?.bin).ok()).collect())),
        );
    }
    Ok(Some(all))
}
