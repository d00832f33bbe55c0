//! `draw-waveform`: a waveform fitted by one polynomial, and by one with local polynomials of low order on top of it, with the errors of
//! both.
//!
//! The published figure does not give its waveform. This one is w(x) = 6 sin(2πx) + 4 sin(9πx + 1) + 3x² sin(17πx) on 1001 even points of
//! [−1, 1]: slow, fast, and faster towards the ends, where local polynomials are for. The polynomial for all is fitted first, and each of
//! the local ones to what it leaves in its bin, by least squares.

use std::f64::consts::PI;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shown::figure;
use crate::contract::{Job, Slot, Stage, StageError};
use crate::drawing::{Axis, Data, Entry, GREY, Look, Picture, number};
use crate::kinds::Figure;
use crate::math::least_squares::polynomial_fit;

/// Points of the waveform.
const POINTS: u16 = 1001;

/// Parameters of `draw-waveform`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Title above the figure.
    pub title: String,
    /// Order of the polynomial for all.
    #[schemars(range(max = 60))]
    pub order: usize,
    /// Local polynomials, each on a bin of one width.
    #[schemars(range(min = 1, max = 100))]
    pub bins: usize,
    /// Order of the local polynomials.
    #[schemars(range(max = 20))]
    pub local_order: usize,
    /// Width in centimetres.
    #[schemars(range(min = 4, max = 40))]
    pub width: f64,
    /// Height in centimetres.
    #[schemars(range(min = 3, max = 60))]
    pub height: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self { title: String::new(), order: 10, bins: 10, local_order: 5, width: 8.5, height: 9.0 }
    }
}

impl crate::contract::params::Params for Params {}

/// The stage.
pub struct DrawWaveform;

impl Stage for DrawWaveform {
    const NAME: &'static str = "draw-waveform";
    const ABOUT: &'static str = "Draws a waveform fitted by one and by piece-wise polynomials";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[];
    const PUBLISHES: &'static [&'static str] = Figure::FILES;
    type Params = Params;
    type Output = Figure;

    fn run(params: &Params, _: &Job) -> Result<Figure, StageError> {
        let (x, wave) = waveform();
        let single = polynomial_fit(&x, &wave, params.order);
        let piecewise = piecewise(&x, &wave, &single, params);
        let fits = [
            (format!("order {}", params.order), single),
            (format!("order {}, and {} bins of order {}", params.order, params.bins, params.local_order), piecewise),
        ];
        draw(params, &x, &wave, &fits)
    }
}

/// The waveform, at even points.
fn waveform() -> (Vec<f64>, Vec<f64>) {
    let half = f64::from(POINTS - 1) / 2.0;
    let x: Vec<f64> = (0..POINTS).map(|i| (f64::from(i) - half) / half).collect();
    let at =
        |x: &f64| 6.0 * (2.0 * PI * x).sin() + 4.0 * (9.0 * PI * x + 1.0).sin() + 3.0 * x * x * (17.0 * PI * x).sin();
    let wave = x.iter().map(at).collect();
    (x, wave)
}

/// Adds to a fit, in every bin, the polynomial that fits best what it leaves there.
fn piecewise(x: &[f64], wave: &[f64], fit: &[f64], params: &Params) -> Vec<f64> {
    let mut sum = fit.to_vec();
    let edge = |bin: usize| bin * x.len() / params.bins;
    for range in (0..params.bins).map(|bin| edge(bin)..edge(bin + 1)) {
        let left: Vec<f64> = range.clone().map(|i| wave[i] - fit[i]).collect();
        let local = polynomial_fit(&x[range.clone()], &left, params.local_order);
        sum[range].iter_mut().zip(local).for_each(|(sum, local)| *sum += local);
    }
    sum
}

/// The root of the mean squared difference.
fn error(wave: &[f64], fit: &[f64]) -> f64 {
    let squares: f64 = wave.iter().zip(fit).map(|(w, f)| (w - f).powi(2)).sum();
    (squares / wave.len().max(1) as f64).sqrt()
}

fn draw(params: &Params, x: &[f64], wave: &[f64], fits: &[(String, Vec<f64>)]) -> Result<Figure, StageError> {
    let mut data = Data::new(&["fit", "x", "waveform", "value", "rmse"]);
    let mut picture = Picture::new(&params.title, params.width, params.height);
    let (of_wave, of_fit) = (Look { dash: &[40, 20], ..Look::thin(GREY) }, Look::of(0));
    let looks = [("waveform", Look { width: 9, ..of_wave }), ("fit", of_fit)];
    picture.legend(&looks.map(|(label, look)| Entry::Line(label.into(), look, false)));
    let titles: Vec<String> = fits.iter().map(|(name, fit)| format!("{name}: RMSE {:.4}", error(wave, fit))).collect();
    let frames = picture.panels(&titles, 1);
    let pairs = |values: &[f64]| x.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>();
    for ((name, fit), frame) in fits.iter().zip(frames) {
        let y_axis = Axis::of("w(x)", wave.iter().chain(fit).copied());
        let chart = picture.chart(frame, (&Axis::between("x", -1.0, 1.0), &y_axis), false)?;
        chart.line(&pairs(wave), looks[0].1);
        chart.line(&pairs(fit), looks[1].1);
        let rmse = error(wave, fit);
        for ((x, wave), value) in x.iter().zip(wave).zip(fit) {
            data.row([name.clone(), number(*x), number(*wave), number(*value), number(rmse)]);
        }
    }
    figure(picture, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_polynomials_of_low_order_fit_what_one_of_high_order_does_not() {
        let (x, wave) = waveform();
        let params = Params::default();
        let ten = polynomial_fit(&x, &wave, 10);
        let local = piecewise(&x, &wave, &ten, &params);
        assert!(error(&wave, &ten) > 10.0 * error(&wave, &local), "{} {}", error(&wave, &ten), error(&wave, &local));
        // More orders for all cannot be worse, and are not as good as bins.
        let sixteen = polynomial_fit(&x, &wave, 16);
        assert!(error(&wave, &sixteen) <= error(&wave, &ten) && error(&wave, &sixteen) > error(&wave, &local));
    }
}
