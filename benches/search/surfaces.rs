//! What is searched: functions with a known best, and recorded scores of our own models.
//!
//! A recorded surface is a pair of files: the pipeline that searched its whole grid, and what `ppgnn search show --csv` said of it.

use std::collections::BTreeMap;
use std::f64::consts::{E, PI};

use ppgnn::search::{Ask, Condition, Domain, Param, Sampler, Settings, Space, suggest};
use serde_json::{Value, json};

use super::BUDGETS;

/// Scores of settings, and the best score there is.
pub struct Surface {
    pub name: &'static str,
    pub space: Space,
    best: f64,
    score: Box<dyn Fn(&Settings) -> f64 + Sync>,
    /// Scores of every split, where they are recorded, by settings as text.
    splits: BTreeMap<String, Vec<Option<f64>>>,
}

impl Surface {
    /// A function to be minimised.
    fn function(
        name: &'static str,
        params: Vec<Param>,
        least: f64,
        f: impl Fn(&Settings) -> f64 + Sync + 'static,
    ) -> Self {
        let space = Space::new(params).expect("a space");
        Self { name, space, best: -least, score: Box::new(move |settings| -f(settings)), splits: BTreeMap::new() }
    }

    /// The score of settings, larger is better.
    pub fn score(&self, settings: &Settings) -> f64 {
        (self.score)(settings)
    }

    /// Whether there is a score for every split.
    pub fn has_splits(&self) -> bool {
        !self.splits.is_empty()
    }

    /// The score of every split.
    pub fn of_splits(&self, settings: &Settings) -> Vec<Option<f64>> {
        self.splits[&text(settings)].clone()
    }

    /// Scores of evenly spread settings, which tell this surface from others.
    pub fn probes(&self) -> Vec<f64> {
        let ask = Ask { space: &self.space, sampler: Sampler::Quasi, seed: 0, first: 0, count: 64 };
        suggest(&ask, &[]).iter().map(|settings| self.score(settings)).collect()
    }

    /// How far the best of the first trials is from the best there is, after every budget.
    pub fn regrets(&self, scores: &[f64]) -> [f64; BUDGETS.len()] {
        let best = |first: usize| scores[..first].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        BUDGETS.map(|budget| self.best - best(budget))
    }
}

/// Returns all surfaces. Every second one, from the first, may be looked at while the sampler is changed; the others confirm it.
pub fn all() -> Vec<Surface> {
    vec![
        Surface::function("branin", vec![float("x1", -5.0, 10.0), float("x2", 0.0, 15.0)], 0.397_887_357_7, branin),
        Surface::function("hartmann-6", floats(6, 0.0, 1.0), -3.322_368_011_4, hartmann),
        // Not around its minimum at 0, so that the middle of the space is no good guess.
        Surface::function("ackley-4", floats(4, -20.0, 40.0), 0.0, ackley),
        Surface::function("styblinski-5", floats(5, -5.0, 5.0), -39.166_165_703_8 * 5.0, styblinski),
        Surface::function("mixed", mixed_space(), 0.0, mixed),
        Surface::function("conditional", conditional_space(), 0.0, conditional),
        recorded("gpr-gnn-texas", include_str!("gpr-gnn-texas.yaml"), include_str!("gpr-gnn-texas.csv")),
        recorded("pp-gnn-cornell", include_str!("pp-gnn-cornell.yaml"), include_str!("pp-gnn-cornell.csv")),
        recorded("mlp-wisconsin", include_str!("mlp-wisconsin.yaml"), include_str!("mlp-wisconsin.csv")),
    ]
}

fn param(path: &str, domain: Domain) -> Param {
    Param { path: path.into(), domain, when: None }
}

fn float(path: &str, from: f64, to: f64) -> Param {
    param(path, Domain::Float { from, to, log: false })
}

fn floats(count: usize, from: f64, to: f64) -> Vec<Param> {
    (1..=count).map(|at| float(&format!("x{at}"), from, to)).collect()
}

fn rate(from: f64) -> Param {
    param("rate", Domain::Float { from, to: 1.0, log: true })
}

fn choice(path: &str, values: &[&str]) -> Param {
    param(path, Domain::Choice(values.iter().map(|value| json!(value)).collect()))
}

fn number(settings: &Settings, path: &str) -> f64 {
    settings[path].as_f64().expect("a number")
}

/// Numbers x1, x2, …
fn numbers(settings: &Settings) -> Vec<f64> {
    (1..=settings.len()).map(|at| number(settings, &format!("x{at}"))).collect()
}

fn branin(settings: &Settings) -> f64 {
    let (x, y) = (number(settings, "x1"), number(settings, "x2"));
    (y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0).powi(2) + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos() + 10.0
}

fn hartmann(settings: &Settings) -> f64 {
    const WEIGHTS: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const WIDTHS: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const CENTERS: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let x = numbers(settings);
    let off = |at: usize| -> f64 { (0..6).map(|i| WIDTHS[at][i] * (x[i] - CENTERS[at][i]).powi(2)).sum() };
    -(0..4).map(|at| WEIGHTS[at] * (-off(at)).exp()).sum::<f64>()
}

fn ackley(settings: &Settings) -> f64 {
    let x = numbers(settings);
    let mean = |f: &dyn Fn(f64) -> f64| x.iter().map(|x| f(*x)).sum::<f64>() / x.len() as f64;
    20.0 + E - 20.0 * (-0.2 * mean(&|x| x * x).sqrt()).exp() - mean(&|x| (2.0 * PI * x).cos()).exp()
}

fn styblinski(settings: &Settings) -> f64 {
    numbers(settings).iter().map(|x| (x.powi(4) - 16.0 * x * x + 5.0 * x) / 2.0).sum()
}

fn mixed_space() -> Vec<Param> {
    vec![
        choice("kind", &["a", "b", "c", "d"]),
        rate(1e-4),
        param("width", Domain::Choice([8, 16, 32, 64, 128].map(|width| json!(width)).into())),
        param("depth", Domain::Int { from: 1, to: 8, log: false }),
        float("dropout", 0.0, 0.9),
    ]
}

/// Every kind has its own best rate and depth, and something that it cannot do.
fn mixed(settings: &Settings) -> f64 {
    let (rate, depth, least) = match settings["kind"].as_str() {
        Some("a") => (-2.0, 3.0, 0.2),
        Some("b") => (-3.0, 5.0, 0.0),
        Some("c") => (-1.0, 2.0, 0.3),
        _ => (-2.5, 7.0, 0.5),
    };
    let off = |at: f64, best: f64| (at - best).powi(2);
    least
        + off(number(settings, "rate").log10(), rate) / 2.0
        + off(number(settings, "depth"), depth) / 40.0
        + off(number(settings, "dropout"), 0.4) * 2.0
        + (number(settings, "width").log2() - 5.0).abs() * 0.15
}

fn conditional_space() -> Vec<Param> {
    let only = |mut param: Param, path: &str, value: &str| {
        param.when = Some(Condition { path: path.into(), values: vec![json!(value)] });
        param
    };
    vec![
        choice("optimiser", &["plain", "momentum", "adam"]),
        only(float("momentum", 0.0, 1.0), "optimiser", "momentum"),
        rate(1e-5),
        choice("schedule", &["flat", "cosine", "step"]),
        only(float("factor", 0.1, 1.0), "schedule", "step"),
    ]
}

/// The best needs both parameters that do not always exist.
fn conditional(settings: &Settings) -> f64 {
    let off = |at: f64, best: f64| (at - best).powi(2);
    let rate = number(settings, "rate").log10();
    let optimiser = match settings["optimiser"].as_str() {
        Some("momentum") => off(number(settings, "momentum"), 0.9) * 2.0 + off(rate, -1.0) / 4.0,
        Some("adam") => 0.2 + off(rate, -3.0) / 3.0,
        _ => 0.4 + off(rate, -2.0) / 4.0,
    };
    let schedule = match settings["schedule"].as_str() {
        Some("step") => off(number(settings, "factor"), 0.3) * 2.0,
        Some("cosine") => 0.1,
        _ => 0.2,
    };
    optimiser + schedule
}

/// A recorded surface: the space as the pipeline declares it, the scores by settings.
fn recorded(name: &'static str, pipeline: &str, trials: &str) -> Surface {
    let pipeline: Value = serde_yaml::from_str(pipeline).expect("a pipeline");
    let params = pipeline["search"]["params"].as_object().expect("parameters");
    let space = Space::new(params.iter().map(|(path, declared)| listed(path, declared)).collect()).expect("a space");
    let mut reader = csv::Reader::from_reader(trials.as_bytes());
    let columns: Vec<String> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let (mut scores, mut splits) = (BTreeMap::<String, f64>::new(), BTreeMap::new());
    for row in reader.records() {
        let row = row.expect("a row");
        let cells = || columns.iter().zip(&row).filter(|(_, cell)| !cell.is_empty());
        let value = |cell: &str| serde_json::from_str(cell).unwrap_or_else(|_| json!(cell));
        let settings: Settings = cells()
            .filter(|(column, _)| params.contains_key(column.as_str()))
            .map(|(column, cell)| (column.clone(), value(cell)))
            .collect();
        let named = |name: &str| cells().find(|(column, _)| *column == name).map_or("nan", |(_, cell)| cell);
        scores.insert(text(&settings), named("score").parse().expect("a score"));
        splits.insert(text(&settings), named("scores").split(' ').map(|score| score.parse().ok()).collect());
    }
    assert_eq!(space.count(), Some(scores.len() as u64), "{name}: a score for every one of the settings");
    let best = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
    Surface { name, space, best, score: Box::new(move |settings| scores[&text(settings)]), splits }
}

/// A parameter with a list of values, with or without a condition.
fn listed(path: &str, declared: &Value) -> Param {
    let values = declared.as_array().or(declared["values"].as_array()).expect("a list of values");
    let when = declared["when"].as_object().and_then(|when| when.iter().next()).map(|(path, values)| Condition {
        path: path.clone(),
        values: values.as_array().cloned().unwrap_or_else(|| vec![values.clone()]),
    });
    Param { path: path.into(), domain: Domain::Choice(values.clone()), when }
}

fn text(settings: &Settings) -> String {
    serde_json::to_string(settings).expect("text")
}
