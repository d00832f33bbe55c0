//! Tree-structured Parzen estimators (Bergstra et al., NeurIPS 2011), multivariate.
//!
//! Trials so far are parted into a better share and the rest. The density of each part is a mixture of kernels, one around every
//! trial, and a wide one: a product over parameters, so that what goes well together stays together. Candidates are drawn from the
//! density of the better part, and the one where its ratio to that of the rest is largest is tried.
//!
//! - A number, or one of a list in ascending order: a normal distribution on [0, 1], cut off at its ends. Its width depends on the
//!   number of trials of the part and of parameters alone, and becomes smaller slowly.
//! - One of a list without order: the trial's own value, and with a share that becomes smaller with the number of trials any value.
//! - A parameter that a trial does not have says nothing: its density is 1.
//!
//! What differs from Optuna's sampler is measured by `make bench-search`: the first trials are spread evenly instead of at random,
//! widths do not follow the distance to the next trial, and nothing is tried twice.

use ppgnn_stages::math::random::Stream;

use super::space::{Domain, Point, Settings, Space, place};

/// Trials before anything is learnt.
pub const START: usize = 10;
/// The better share of the trials, and how many of them at most.
const BETTER: f64 = 0.15;
const MOST_BETTER: usize = 25;
/// Points that are compared.
const CANDIDATES: usize = 24;
/// The width of a kernel around a single trial, and the least width.
const WIDTH: f64 = 0.1;
const LEAST_WIDTH: f64 = 0.01;

/// A trial as a point.
pub struct Observed {
    /// Coordinates, none where a parameter does not exist.
    pub point: Point,
    /// Larger is better; none if it failed.
    pub score: Option<f64>,
}

/// Returns the best of some candidates that are new, if any is.
pub fn best(
    space: &Space,
    observed: &[Observed],
    stream: &mut Stream,
    is_new: &dyn Fn(&Settings) -> bool,
) -> Option<Settings> {
    let mut ranked: Vec<&Observed> = observed.iter().collect();
    let worth = |trial: &Observed| trial.score.filter(|score| score.is_finite()).unwrap_or(f64::NEG_INFINITY);
    // Stable: of equal scores the earlier trial is the better one.
    ranked.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of trials")]
    let better = ((ranked.len() as f64 * BETTER).ceil() as usize).clamp(1, MOST_BETTER).min(ranked.len());
    let (good, rest) = ranked.split_at(better);
    let (good, rest) = (Density::new(space, good), Density::new(space, rest));
    let mut best: Option<(f64, Settings)> = None;
    for _ in 0..CANDIDATES {
        let settings = space.settings(&good.draw(stream));
        let Some(point) = space.point(&settings).filter(|_| is_new(&settings)) else { continue };
        let ratio = good.log(&point) - rest.log(&point);
        if best.as_ref().is_none_or(|(most, _)| ratio > *most) {
            best = Some((ratio, settings));
        }
    }
    best.map(|(_, settings)| settings)
}

/// A mixture of kernels around trials, and one that is wide: uniform.
struct Density<'a> {
    space: &'a Space,
    around: Vec<&'a Point>,
    /// The width of the kernels.
    width: f64,
}

impl<'a> Density<'a> {
    fn new(space: &'a Space, trials: &[&'a Observed]) -> Self {
        let (count, dimensions) = (trials.len().max(1) as f64, space.params().len() as f64);
        let width = (WIDTH * count.powf(-1.0 / (dimensions + 4.0))).max(LEAST_WIDTH);
        Self { space, around: trials.iter().map(|trial| &trial.point).collect(), width }
    }

    /// Draws a coordinate for every parameter.
    fn draw(&self, stream: &mut Stream) -> Vec<f64> {
        let kernel = stream.below(self.around.len() as u64 + 1);
        let around = usize::try_from(kernel).ok().and_then(|kernel| self.around.get(kernel));
        let mut coordinates = Vec::with_capacity(self.space.params().len());
        for (at, param) in self.space.params().iter().enumerate() {
            let of_trial = around.and_then(|point| point[at]);
            coordinates.push(match (of_trial, unordered(&param.domain)) {
                (None, _) => stream.uniform(),
                (Some(center), None) => loop {
                    let draw = center + self.width * stream.normal();
                    if (0.0..=1.0).contains(&draw) {
                        break draw;
                    }
                },
                (Some(center), Some(count)) => {
                    let other = stream.uniform();
                    if stream.uniform() < self.stray(count) { other } else { center }
                }
            });
        }
        coordinates
    }

    /// The share of a kernel that is spread over all values of a list without order.
    fn stray(&self, count: f64) -> f64 {
        let trials = self.around.len() as f64;
        (count / (count + trials)).min(0.9)
    }

    /// Returns the logarithm of the density at a point.
    fn log(&self, point: &Point) -> f64 {
        let kernels = self.around.iter().map(|center| self.kernel(center, point));
        let logs: Vec<f64> = kernels.chain([0.0]).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
        most + sum.ln() - (logs.len() as f64).ln()
    }

    fn kernel(&self, center: &Point, point: &Point) -> f64 {
        let of_param = |((center, at), domain): ((&Option<f64>, &Option<f64>), &Domain)| match (center, at) {
            (Some(center), Some(at)) => match unordered(domain) {
                None => normal(*at, *center, self.width),
                Some(count) => {
                    let same = place(*center, count) == place(*at, count);
                    let stray = self.stray(count);
                    (if same { (1.0 - stray) * count + stray } else { stray }).ln()
                }
            },
            _ => 0.0,
        };
        let domains = self.space.params().iter().map(|param| &param.domain);
        center.iter().zip(point).zip(domains).map(of_param).sum()
    }
}

/// The number of values of a list without order.
fn unordered(domain: &Domain) -> Option<f64> {
    match domain {
        Domain::Choice(values) if !domain.is_ordered() => Some(values.len() as f64),
        _ => None,
    }
}

/// The logarithm of the density of a normal distribution that is cut off at 0 and 1.
fn normal(at: f64, center: f64, width: f64) -> f64 {
    let (z, inside) = ((at - center) / width, share_below((1.0 - center) / width) - share_below(-center / width));
    -0.5 * z * z - (width * (2.0 * std::f64::consts::PI).sqrt()).ln() - inside.ln()
}

/// The share of a standard normal distribution below z, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
fn share_below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let tail = 0.5 * sum.iter().fold(0.0, |s, c| s * t + c) * t * (-x * x).exp();
    if z < 0.0 { tail } else { 1.0 - tail }
}
