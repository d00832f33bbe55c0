//! t-SNE (van der Maaten and Hinton, "Visualizing Data using t-SNE", JMLR 9, 2008), exact and seeded.
//!
//! Neighbours of a point are its ⌊3u⌋ nearest ones, u the perplexity, with p_{j|i} ∝ exp(−β_i d²_ij) and β_i such that the entropy is log u;
//! p_ij = (p_{j|i} + p_{i|j})/2n. Places y minimise KL(p‖q), q_ij ∝ 1/(1 + |y_i − y_j|²), by gradient descent with momentum and gains. The
//! attraction is a sparse sum, the repulsion runs over all pairs.
//!
//! Published crates draw from unseeded generators, or add up forces in an order that depends on threads. Here every sum has one order, so
//! the places are the same bytes for any number of threads.

#![expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a few thousand points in f32")]

use rayon::prelude::*;

use crate::math::random::Stream;

/// How an embedding is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tsne {
    /// How many neighbours a point has, about.
    pub perplexity: f64,
    /// Steps of the descent.
    pub steps: usize,
    /// Seed of the first places.
    pub seed: u64,
}

/// Steps with attraction made stronger, and how much stronger: clusters form before they are spread.
const EARLY: usize = 250;
const EXAGGERATION: f32 = 12.0;
/// Register lanes that sums over all points are kept in.
const LANES: usize = 8;

/// A point's neighbours, and how near they are.
type Near = Vec<(u32, f32)>;

impl Tsne {
    /// Returns places in the plane of points, given by rows of `columns` values. `go_on` is asked after every step, with its number; where
    /// it says no, nothing is returned.
    pub fn places(&self, x: &[f64], columns: usize, go_on: &dyn Fn(usize) -> bool) -> Option<Vec<(f64, f64)>> {
        let n = x.len() / columns.max(1);
        let near = symmetric(&self.neighbours(x, columns), n);
        let mut stream = Stream::new(self.seed, &["tsne", "start"]);
        let mut y: [Vec<f32>; 2] = [0, 1].map(|_| (0..n).map(|_| (stream.normal() * 1e-4) as f32).collect());
        let (mut speed, mut gains) = ([vec![0f32; n], vec![0f32; n]], [vec![1f32; n], vec![1f32; n]]);
        let rate = (n as f32 / EXAGGERATION).max(50.0);
        for step in 0..self.steps {
            let stronger = if step < EARLY { EXAGGERATION } else { 1.0 };
            let momentum = if step < EARLY { 0.5 } else { 0.8 };
            for (axis, gradient) in gradient(&y, &near, stronger).into_iter().enumerate() {
                let of_axis = gains[axis].iter_mut().zip(&mut speed[axis]).zip(&mut y[axis]).zip(gradient);
                for (((gain, speed), y), slope) in of_axis {
                    *gain = if (slope > 0.0) == (*speed > 0.0) { (*gain * 0.8).max(0.01) } else { *gain + 0.2 };
                    *speed = momentum * *speed - rate * *gain * slope;
                    *y += *speed;
                }
            }
            centre(&mut y);
            if !go_on(step) {
                return None;
            }
        }
        Some(y[0].iter().zip(&y[1]).map(|(a, b)| (f64::from(*a), f64::from(*b))).collect())
    }

    /// The nearest points of every point, with p_{j|i}.
    fn neighbours(&self, x: &[f64], columns: usize) -> Vec<Near> {
        let n = x.len() / columns.max(1);
        let count = ((3.0 * self.perplexity) as usize).clamp(1, n.saturating_sub(1).max(1));
        let row = |i: usize| &x[i * columns..(i + 1) * columns];
        let of_point = |i: usize| {
            let distance = |j: usize| row(i).iter().zip(row(j)).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            let mut all: Vec<(f64, u32)> = (0..n).filter(|j| *j != i).map(|j| (distance(j), j as u32)).collect();
            let by_distance = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if all.len() > count {
                all.select_nth_unstable_by(count, by_distance);
                all.truncate(count);
            }
            all.sort_by(by_distance);
            let shares = shares(&all.iter().map(|(d, _)| *d).collect::<Vec<_>>(), self.perplexity);
            all.iter().zip(shares).map(|((_, j), p)| (*j, p as f32)).collect()
        };
        (0..n).into_par_iter().map(of_point).collect()
    }
}

/// p ∝ exp(−β d²) with the β whose entropy is the logarithm of the perplexity, by bisection.
fn shares(distances: &[f64], perplexity: f64) -> Vec<f64> {
    let nearest = distances.first().copied().unwrap_or(0.0);
    let at = |beta: f64| distances.iter().map(|d| (-beta * (d - nearest)).exp()).collect::<Vec<f64>>();
    let (mut low, mut high, mut beta) = (0.0, f64::INFINITY, 1.0);
    for _ in 0..100 {
        let weights = at(beta);
        let sum: f64 = weights.iter().sum();
        let mean = weights.iter().zip(distances).map(|(w, d)| w * (d - nearest)).sum::<f64>() / sum;
        let entropy = sum.ln() + beta * mean;
        if (entropy - perplexity.ln()).abs() < 1e-7 {
            break;
        }
        if entropy > perplexity.ln() {
            low = beta;
        } else {
            high = beta;
        }
        beta = if high.is_finite() { (low + high) / 2.0 } else { beta * 2.0 };
    }
    let weights = at(beta);
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// (p_{j|i} + p_{i|j}) / 2n, by points, in the order of their neighbours.
fn symmetric(near: &[Near], n: usize) -> Vec<Near> {
    let mut all: Vec<Near> = vec![Vec::new(); n];
    for (i, of_point) in near.iter().enumerate() {
        for (j, p) in of_point {
            let half = p / (2.0 * n as f32);
            all[i].push((*j, half));
            all[*j as usize].push((i as u32, half));
        }
    }
    for of_point in &mut all {
        of_point.sort_by_key(|(j, _)| *j);
        of_point.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 += next.1;
            }
            same
        });
    }
    all
}

/// The gradient of KL(p‖q) at places, by axis.
fn gradient(y: &[Vec<f32>; 2], near: &[Near], stronger: f32) -> [Vec<f32>; 2] {
    let n = near.len();
    let repelled: Vec<[f32; 3]> = (0..n).into_par_iter().map(|i| repulsion(y, i)).collect();
    // Every point is at no distance from itself, which counts 1.
    let sum = repelled.iter().map(|[z, ..]| f64::from(*z)).sum::<f64>() - n as f64;
    let sum = (sum as f32).max(f32::MIN_POSITIVE);
    let slope = |i: usize| {
        let (mut a, mut b) = (0f32, 0f32);
        for (j, p) in &near[i] {
            let (dx, dy) = (y[0][i] - y[0][*j as usize], y[1][i] - y[1][*j as usize]);
            let q = stronger * p / (1.0 + dx * dx + dy * dy);
            (a, b) = (a + q * dx, b + q * dy);
        }
        (4.0 * (a - repelled[i][1] / sum), 4.0 * (b - repelled[i][2] / sum))
    };
    let slopes: Vec<(f32, f32)> = (0..n).into_par_iter().map(slope).collect();
    let (across, up) = slopes.into_iter().unzip();
    [across, up]
}

/// Σ_j q, Σ_j q²·dx and Σ_j q²·dy with q = 1/(1 + d²), over all points.
fn repulsion(y: &[Vec<f32>; 2], i: usize) -> [f32; 3] {
    let (x0, y0) = (y[0][i], y[1][i]);
    let mut sums = [[0f32; LANES]; 3];
    let mut add = |lane: usize, x: f32, y: f32| {
        let (dx, dy) = (x0 - x, y0 - y);
        let q = 1.0 / (1.0 + dx * dx + dy * dy);
        sums[0][lane] += q;
        sums[1][lane] += q * q * dx;
        sums[2][lane] += q * q * dy;
    };
    let (xs, ys) = (y[0].chunks_exact(LANES), y[1].chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder()).enumerate();
    for (x, y) in xs.zip(ys) {
        for lane in 0..LANES {
            add(lane, x[lane], y[lane]);
        }
    }
    rest.for_each(|(lane, (x, y))| add(lane, *x, *y));
    sums.map(|lanes| lanes.iter().sum())
}

/// Moves places so that their mean is 0.
fn centre(y: &mut [Vec<f32>; 2]) {
    for axis in y {
        let mean = axis.iter().map(|v| f64::from(*v)).sum::<f64>() / axis.len().max(1) as f64;
        axis.iter_mut().for_each(|v| *v -= mean as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three groups of points, far apart, in five dimensions.
    fn groups() -> Vec<f64> {
        let mut stream = Stream::new(3, &["testing"]);
        let of_point = |i: usize| (0..5).map(move |axis| if axis == i % 3 { 20.0 } else { 0.0 });
        (0..90).flat_map(of_point).map(|centre| centre + stream.normal()).collect()
    }

    const QUICK: Tsne = Tsne { perplexity: 10.0, steps: 400, seed: 1 };

    #[test]
    fn what_is_apart_stays_apart_and_what_is_near_stays_near() {
        let places = QUICK.places(&groups(), 5, &|_| true).unwrap();
        let centre = |group: usize| {
            let of: Vec<_> = places.iter().skip(group).step_by(3).collect();
            (of.iter().map(|p| p.0).sum::<f64>() / 30.0, of.iter().map(|p| p.1).sum::<f64>() / 30.0)
        };
        let centres = [centre(0), centre(1), centre(2)];
        let distance = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1);
        for (at, place) in places.iter().enumerate() {
            let own = distance(place, &centres[at % 3]);
            assert!((0..3).all(|group| group == at % 3 || distance(place, &centres[group]) > own), "{at}");
        }
    }

    #[test]
    fn places_do_not_depend_on_threads_and_depend_on_the_seed() {
        let x = groups();
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Tsne { seed, steps: 30, ..QUICK }.places(&x, 5, &|_| true).unwrap())
        };
        assert_eq!(with(1, 1), with(3, 1));
        assert_ne!(with(1, 1), with(1, 2));
    }

    #[test]
    fn shares_have_the_perplexity_that_was_asked_for() {
        let distances: Vec<f64> = (0..60).map(f64::from).collect();
        let entropy = -shares(&distances, 12.0).iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        assert!((entropy.exp() - 12.0).abs() < 1e-3, "{}", entropy.exp());
    }

    #[test]
    fn a_descent_can_be_stopped_and_few_points_are_fine() {
        assert_eq!(QUICK.places(&groups(), 5, &|step| step < 3), None);
        assert!(QUICK.places(&[1.0, 2.0], 1, &|_| true).unwrap().iter().all(|(a, b)| a.is_finite() && b.is_finite()));
        assert!(QUICK.places(&[], 4, &|_| true).unwrap().is_empty());
    }
}
