//! Tables of regrets, and of what the first column has less than each of the others.

use std::fmt::Write;

use super::BUDGETS;
use super::surfaces::Surface;

/// Student's t for 95 % of 50 seeds; of fewer seeds intervals are a little too narrow.
const T: f64 = 2.01;

/// Regrets of a sampler, by surface and seed.
#[derive(Clone)]
pub struct Column {
    pub name: String,
    pub regrets: Vec<Vec<[f64; BUDGETS.len()]>>,
}

impl Column {
    fn of(&self, surface: usize, budget: usize) -> Vec<f64> {
        self.regrets[surface].iter().map(|regrets| regrets[budget]).collect()
    }
}

/// Returns a table with the regret of every column, and one with the differences of the first to the others seed by seed, in per
/// cent of the mean regret of the second, random search. A star: the interval does not have 0.
pub fn table(surfaces: &[Surface], columns: &[Column], budget: usize) -> String {
    let mut text = header("regret", columns);
    for (at, surface) in surfaces.iter().enumerate() {
        let cells = columns.iter().map(|column| {
            let (mean, half) = interval(&column.of(at, budget));
            format!("{mean:.4} ± {half:.4}")
        });
        line(&mut text, surface.name, cells);
    }
    text += &header("ours − other, %", &columns[1..]);
    let mut sums: Vec<Vec<f64>> = Vec::new();
    for (at, surface) in surfaces.iter().enumerate() {
        let (ours, unit) = (columns[0].of(at, budget), interval(&columns[1].of(at, budget)).0);
        let apart: Vec<Vec<f64>> = columns[1..]
            .iter()
            .map(|other| ours.iter().zip(other.of(at, budget)).map(|(a, b)| 100.0 * (a - b) / unit).collect())
            .collect();
        line(&mut text, surface.name, apart.iter().map(|apart| difference(apart)));
        if sums.is_empty() {
            sums = vec![vec![0.0; ours.len()]; apart.len()];
        }
        for (sum, apart) in sums.iter_mut().zip(&apart) {
            sum.iter_mut().zip(apart).for_each(|(sum, apart)| *sum += apart / surfaces.len() as f64);
        }
    }
    line(&mut text, "mean", sums.iter().map(|apart| difference(apart)));
    text
}

fn header(title: &str, columns: &[Column]) -> String {
    let mut text = String::new();
    line(&mut text, title, columns.iter().map(|column| column.name.clone()));
    text
}

fn line(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "{name:<16}");
    for cell in cells {
        let _ = write!(text, " {cell:>19}");
    }
    text.push('\n');
}

fn difference(apart: &[f64]) -> String {
    let (mean, half) = interval(apart);
    let star = if mean.abs() > half { '*' } else { ' ' };
    format!("{mean:+.1} ± {half:.1} {star}")
}

/// Returns the mean, and half the width of its 95 % interval.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, T * (variance / count).sqrt())
}
