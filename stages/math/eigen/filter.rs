//! Chebyshev filters: polynomials that are small on the unwanted part of a spectrum and grow fast beyond it.
//!
//! For the end at the top of sA (s = 1, or −1 for the other end), p(x) = T_d((x − c)/e) with T_d the Chebyshev polynomial
//! of degree d, and c ± e the interval that holds everything but the wanted eigenvalues. |p| ≤ 1 inside, and beyond the
//! edge p rises monotonically, so that p(sA) has the eigenvectors of A, with the wanted ones far apart from the rest and in
//! the same order. Where the edge is follows from an estimate of the spectral density (stochastic Lanczos quadrature).

use rayon::prelude::*;

use super::super::csr::Csr;
use super::super::random::Stream;
use super::EigenError;
use super::dense::symmetric;
use super::panel::{Operator, WIDTH, from_panel, to_panel};
use super::reduce::root;

/// Steps of the quadrature.
const STEPS: usize = 120;
/// Products that an estimate of the density takes.
pub(super) const PRODUCTS: usize = STEPS * WIDTH;
/// How far p rises at the outermost eigenvalue: rounding errors are this much larger there than at the edge.
pub(super) const RISE: f64 = 1e5;
/// How far inwards of its estimated place an edge is put, relative to its distance from the outermost eigenvalue.
const INWARDS: f64 = 0.02;
/// Steps of the power method for the bound of all eigenvalues.
const POWER_STEPS: usize = 20;
/// The range of degrees.
const LEAST_DEGREE: f64 = 4.0;
const MOST_DEGREE: f64 = 64.0;

/// An estimate of how many eigenvalues lie where.
pub(super) struct Density {
    /// Places and numbers of eigenvalues, ascending.
    nodes: Vec<(f64, f64)>,
    /// A bound of all eigenvalues.
    radius: f64,
}

impl Density {
    /// Estimates the density of a symmetric matrix from [`WIDTH`] random vectors.
    pub fn new(operator: &Operator, matrix: &Csr) -> Result<Self, EigenError> {
        let n = operator.n();
        let mut stream = Stream::new(0, &["evd", "density"]);
        let mut now: Vec<f64> = (0..n * WIDTH).map(|_| stream.normal()).collect();
        let mut before = vec![0f64; n * WIDTH];
        let first = dots(&now, &now);
        scale(&mut now, &first.map(|square| 1.0 / square.sqrt()));
        let (mut diagonal, mut beside) = (Vec::new(), vec![[0f64; WIDTH]]);
        for j in 0..STEPS.min(n) {
            // The three-term recurrence of every vector by itself, without any orthogonalisation.
            scale(&mut before, &beside[j].map(|beta| -beta));
            operator.step(&now, &mut before, [1.0, 0.0, 1.0]);
            let alpha = dots(&now, &before);
            for (x, y) in before.chunks_exact_mut(WIDTH).zip(now.chunks_exact(WIDTH)) {
                (0..WIDTH).for_each(|l| x[l] -= alpha[l] * y[l]);
            }
            let beta = dots(&before, &before).map(f64::sqrt);
            scale(&mut before, &beta.map(|beta| if beta > 1e-12 { 1.0 / beta } else { 0.0 }));
            diagonal.push(alpha);
            beside.push(beta);
            std::mem::swap(&mut now, &mut before);
        }
        let m = diagonal.len();
        let mut nodes = Vec::with_capacity(m * WIDTH);
        for l in 0..WIDTH {
            let mut t = vec![0f64; m * m];
            for i in 0..m {
                t[i * m + i] = diagonal[i][l];
                if i + 1 < m {
                    (t[i * m + i + 1], t[(i + 1) * m + i]) = (beside[i + 1][l], beside[i + 1][l]);
                }
            }
            let (values, vectors) = symmetric(&t, m)?;
            #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 nodes")]
            let each = n as f64 / WIDTH as f64;
            nodes.extend(values.iter().zip(vectors.chunks_exact(m)).map(|(v, u)| (*v, each * u[0] * u[0])));
        }
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self { nodes, radius: radius(matrix) })
    }

    /// Returns a place that about `count` eigenvalues of sA lie above, and the place of the outermost.
    fn edge(&self, sign: f64, count: f64) -> (f64, f64) {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(place, weight)| (sign * place, *weight)).collect();
        if sign > 0.0 {
            nodes.reverse();
        }
        let outermost = nodes.first().map_or(0.0, |(place, _)| *place);
        let (mut sum, mut last) = (0.0, outermost);
        for (place, weight) in nodes {
            last = place;
            if sum + weight / 2.0 >= count {
                break;
            }
            sum += weight;
        }
        // A little inwards: a repeated eigenvalue must not stand on the edge itself.
        (last - INWARDS * (outermost - last), outermost)
    }

    /// Returns the filter that leaves about `count` eigenvalues of sA beyond its edge.
    pub fn filter(&self, sign: f64, count: f64) -> Filter {
        let (edge, outermost) = self.edge(sign, count);
        self.filter_rising(sign, edge, outermost, RISE)
    }

    /// Returns the filter with an edge of sA that rises to a value at a place.
    pub fn filter_rising(&self, sign: f64, edge: f64, place: f64, to: f64) -> Filter {
        let bottom = -self.radius;
        let half = ((edge - bottom) / 2.0).max(1e-9);
        let center = bottom + half;
        let beyond = ((place - center) / half).max(1.0 + 1e-9).acosh();
        let degree = (to.acosh() / beyond).round().clamp(LEAST_DEGREE, MOST_DEGREE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the two bounds")]
        let degree = degree as usize;
        Filter { sign, center, half, degree }
    }
}

/// A bound of the spectral radius (Collatz and Wielandt): max (|A|u)ᵢ/uᵢ for any positive u, here one that is near the
/// dominant vector of |A|. It is 1 for a normalised adjacency.
fn radius(a: &Csr) -> f64 {
    let product = |u: &[f64]| -> Vec<f64> {
        let row = |i: usize| {
            let (columns, values) = a.row(i);
            columns.iter().zip(values).map(|(c, v)| v.abs() * u[*c as usize]).sum::<f64>()
        };
        (0..a.n()).map(row).collect()
    };
    let bound = |u: &[f64], next: &[f64]| next.iter().zip(u).map(|(next, u)| next / u).fold(0.0, f64::max);
    let mut u: Vec<f64> = (0..a.n()).map(|i| root(a.row(i).0.len().max(1))).collect();
    let mut best = f64::INFINITY;
    for _ in 0..POWER_STEPS {
        let next = product(&u);
        best = best.min(bound(&u, &next));
        let largest = next.iter().fold(0.0, |m: f64, x| m.max(*x));
        // Half of a step of the power method keeps every entry positive and does not oscillate.
        u = next.iter().zip(&u).map(|(next, u)| next / largest.max(f64::MIN_POSITIVE) + u).collect();
    }
    best * (1.0 + 1e-12)
}

/// p(sA).
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    sign: f64,
    center: f64,
    half: f64,
    /// Products with A that one application takes.
    pub degree: usize,
}

impl Filter {
    /// X ← p(sA)·X for vectors by columns.
    pub fn apply(&self, operator: &Operator, x: &mut [f64]) {
        let n = operator.n();
        let (alpha, beta) = (self.sign / self.half, -self.center / self.half);
        x.par_chunks_mut(n * WIDTH).for_each(|x| {
            let mut before = to_panel(x, n);
            let mut now = vec![0f64; n * WIDTH];
            operator.step(&before, &mut now, [alpha, beta, 0.0]);
            for _ in 1..self.degree {
                operator.step(&now, &mut before, [2.0 * alpha, 2.0 * beta, -1.0]);
                std::mem::swap(&mut now, &mut before);
            }
            from_panel(&now, n, x);
        });
    }

    fn degree(&self) -> f64 {
        f64::from(u32::try_from(self.degree).unwrap_or(u32::MAX))
    }

    /// Returns p(λ) of an eigenvalue of sA; 1 up to the edge.
    pub fn at(&self, lambda: f64) -> f64 {
        (self.degree() * ((lambda - self.center) / self.half).max(1.0).acosh()).cosh()
    }

    /// Returns the eigenvalue of sA at or beyond the edge with p(λ) = θ.
    pub fn inverse(&self, theta: f64) -> f64 {
        self.center + self.half * (theta.max(1.0).acosh() / self.degree()).cosh()
    }

    /// Returns what a residual of p(sA) at θ has to be multiplied with to bound that of A.
    ///
    /// (sA − λ)u = g(sA)·r for a residual r of p(sA), with g(x) = (x − λ)/(p(x) − θ). Inside the interval p ≤ 1, so |g| is at most
    /// (λ − bottom)/(θ − 1); beyond the edge p is convex, so that g falls from what it is at the edge, which is less.
    pub fn residual_factor(&self, theta: f64) -> f64 {
        let reach = self.inverse(theta) - (self.center - self.half);
        reach / (theta - 1.0).max(1e-9)
    }
}

fn dots(a: &[f64], b: &[f64]) -> [f64; WIDTH] {
    let mut sums = [0f64; WIDTH];
    for (x, y) in a.chunks_exact(WIDTH).zip(b.chunks_exact(WIDTH)) {
        (0..WIDTH).for_each(|l| sums[l] += x[l] * y[l]);
    }
    sums
}

fn scale(a: &mut [f64], by: &[f64; WIDTH]) {
    for row in a.chunks_exact_mut(WIDTH) {
        (0..WIDTH).for_each(|l| row[l] *= by[l]);
    }
}
