//! One end of a spectrum by block Lanczos on a Chebyshev filter of the matrix.
//!
//! A block of [`WIDTH`] vectors X₀ spans the Krylov space of B = p(sA) (see [`super::filter`]). With Q: n × m its
//! orthonormal basis and T = QᵀBQ, BQ = QT + X·R·Eᵀ, where E picks the last block and X is the next one: a Ritz pair
//! (θ, Qy) of T has the residual ‖R·Eᵀy‖, which needs no product. Blocks are orthogonalised against everything, in f64.
//!
//! - A **round** ends when enough pairs have converged; they are *locked*: later blocks are kept orthogonal to them.
//! - **Memory**: when the basis is full, its best Ritz vectors replace it (thick restart).
//! - **None missed**: after the last wanted pair, a new round starts from a new random block, orthogonal to all that is
//!   locked. If B had a further eigenvector at or beyond the cut, the largest Ritz value θ of s steps from one random vector
//!   would have come near it: it stays below (1 − ε) of the largest eigenvalue with a probability of at most
//!   1.648·√n·exp(−√ε(2s − 1)) (Kuczyński and Woźniakowski 1992), independently for each of the vectors of the block. The
//!   round ends when that makes [`DOUBT`] for the whole block, or when it has found what was missed.
//!   Eigenvalues repeated more often than a block is wide are completed by these rounds.

use faer::MatRef;

use super::super::random::Stream;
use super::dense::{in_pieces, symmetric};
use super::filter::{Density, Filter, RISE};
use super::panel::{Operator, WIDTH, inner, norms, rotate, subtract};
use super::{CLUSTER, EigenError, End, Watch, distance};

/// The probability that a pair was missed, which a certificate has to stay below.
const DOUBT: f64 = 1e-12;
/// Wanted eigenvalues and these many more (relative) are beyond the edge of the filter; more where the edge turns out to be too far out.
const MARGINS: [f64; 4] = [0.4, 0.8, 1.5, 3.0];
/// Where a filter has risen to no more than this, convergence is slow.
const FLAT: f64 = 1.3;
/// How far the filter of a certificate rises at the cut.
const CERTAIN: f64 = 3.0;
/// A Ritz value above this is that of an eigenvalue beyond the edge.
const RISEN: f64 = 1.2;
/// How much a basis grows between two checks of its Ritz values.
const GROWTH: f64 = 1.15;
/// A block of which less than this is left, in its weakest direction, is orthogonalised again.
const SHRUNK: f64 = 1e-4;
/// A block whose weakest direction is this strong, relative to its strongest, is rescaled accurately, and one that a pass
/// shrank by no more was orthogonalised accurately.
const EVEN: f64 = 0.1;
/// Directions of a block this much weaker than its strongest are replaced by random ones.
const RANK: f64 = 1e-11;
/// Pairs beyond the cut that may complete a repeated eigenvalue, beside as many as are wanted.
const SPARE: usize = 64;

/// What to find, of which matrix.
pub(super) struct Task<'a> {
    pub operator: &'a Operator<'a>,
    pub density: &'a Density,
    /// Which end.
    pub end: End,
    /// Pairs wanted, those that are known among them.
    pub wanted: usize,
    /// Eigenvectors that are known, at the very end of the spectrum.
    pub known: &'a [f64],
    /// The largest residual.
    pub tolerance: f64,
    /// The most vectors of basis and locked pairs together.
    pub columns: usize,
    /// The most products with the operator.
    pub products: usize,
    pub watch: &'a dyn Watch,
}

/// What was found, from the very end inwards, without what was known.
#[derive(Default)]
pub(super) struct Found {
    pub values: Vec<f64>,
    pub vectors: Vec<f64>,
    pub products: usize,
    /// The most vectors held at a time.
    pub columns: usize,
}

struct Search<'a> {
    task: Task<'a>,
    n: usize,
    /// Known and locked vectors, then the basis of the round.
    q: Vec<f64>,
    known: usize,
    /// Values of the locked vectors, as eigenvalues of sA.
    locked: Vec<f64>,
    /// The filter of the round.
    filter: Filter,
    /// The filter of rounds that look for missing pairs.
    search: Filter,
    margin: usize,
    /// Columns of T of the round, down to the diagonal block.
    t: Vec<Vec<f64>>,
    round: usize,
    steps: usize,
    products: usize,
    most_columns: usize,
    /// Pairs that had converged at the last check.
    seen: usize,
}

/// Ritz values of T, descending, with vectors and bounds of their residuals.
struct Ritz {
    theta: Vec<f64>,
    /// One after the other.
    y: Vec<f64>,
    /// Bounds of the residuals of A.
    residual: Vec<f64>,
}

/// Finds the wanted pairs, and all others whose eigenvalue is that of the last.
///
/// # Errors
/// No convergence, cancellation, or too little room for the basis.
pub(super) fn find(task: Task) -> Result<Found, EigenError> {
    let (n, end) = (task.operator.n(), task.end);
    let least = task.wanted + task.wanted / 4 + 16 * WIDTH;
    if task.columns < least {
        return Err(EigenError::Room { columns: task.columns, least, nodes: n });
    }
    let filter = task.density.filter(end.sign(), beyond(task.wanted, 0));
    let mut search = Search {
        n,
        q: task.known.to_vec(),
        known: task.known.len() / n,
        task,
        locked: Vec::new(),
        filter,
        search: filter,
        margin: 0,
        t: Vec::new(),
        round: 0,
        steps: 0,
        products: 0,
        most_columns: 0,
        seen: 0,
    };
    while !search.round()? {}
    // Those beyond the cut that were locked to certify it go, unless they repeat its eigenvalue.
    let Search { task, mut q, known, locked, products, most_columns, .. } = search;
    let wanted = task.wanted - known;
    let cut = locked[wanted - 1];
    let kept = locked.iter().position(|value| *value < cut - CLUSTER).unwrap_or(locked.len()).max(wanted);
    q.truncate((known + kept) * n);
    let values = locked[..kept].iter().map(|value| value * end.sign()).collect();
    Ok(Found { values, vectors: q.split_off(known * n), products, columns: most_columns })
}

impl Search<'_> {
    /// Columns that are taken before the basis of a round begins.
    fn fixed(&self) -> usize {
        self.known + self.locked.len()
    }

    fn missing(&self) -> usize {
        self.task.wanted.saturating_sub(self.fixed())
    }

    /// One round from a random block. Returns whether all is found and certified.
    fn round(&mut self) -> Result<bool, EigenError> {
        self.round += 1;
        self.t.clear();
        self.q.truncate(self.fixed() * self.n);
        let mut x = self.random(0);
        self.orthonormalise(&mut x);
        let missing = self.missing();
        self.filter = if missing == 0 { self.certifier() } else { self.search };
        // Certifying looks at every step, because few are enough.
        let mut look = if missing == 0 { 0 } else { (missing + missing / 5).max(missing + 2 * WIDTH) };
        let (mut steps, mut restarted) = (0, false);
        loop {
            if self.task.watch.cancelled() {
                return Err(EigenError::Cancelled);
            }
            if self.products >= self.task.products || self.round > 1000 {
                let (end, wanted, products) = (self.task.end, self.task.wanted, self.products);
                return Err(EigenError::NoConvergence { end, converged: self.seen.max(self.known), wanted, products });
            }
            let r = self.step(&mut x);
            steps += 1;
            let m = self.t.len();
            if self.fixed() + m + WIDTH > self.n {
                return Err(EigenError::Exhausted);
            }
            let full = self.fixed() + m + WIDTH > self.task.columns;
            if m < look && !full {
                continue;
            }
            let ritz = self.ritz(&r)?;
            let converged = ritz.residual.iter().take_while(|r| **r <= self.task.tolerance / 2.0).count();
            self.seen = (self.fixed() + converged).min(self.task.wanted);
            self.task.watch.converged(self.task.end, self.seen, self.task.wanted);
            if missing == 0 {
                match self.verdict(&ritz, steps, converged) {
                    Verdict::Certain if !restarted => return Ok(true),
                    Verdict::Lock(count) => {
                        self.lock(&ritz, count)?;
                        return Ok(false);
                    }
                    // The bound is about steps from a random block, not from a restart: then the pairs behind the cut have
                    // to converge, and the next round is certain sooner.
                    _ if full && converged > 0 => {
                        self.lock(&ritz, converged)?;
                        return Ok(false);
                    }
                    _ => {}
                }
            } else if converged >= missing {
                // A few more than wanted make the certificate cheap.
                self.lock(&ritz, converged.min(missing + missing / 8 + WIDTH))?;
                return Ok(false);
            } else if 4 * m > 7 * missing && ritz.theta[missing - 1] < FLAT && self.widen(&ritz, missing) {
                // The edge is too far out: the last wanted eigenvalues are where the filter is flat.
                self.lock(&ritz, converged)?;
                return Ok(false);
            }
            if full {
                self.restart(&ritz, missing.max(WIDTH));
                restarted = true;
            }
            look = if missing == 0 { 0 } else { grown(self.t.len()) };
        }
    }

    /// Moves the edge of the filter inwards; `false` if there is no further.
    ///
    /// Ritz values that have risen tell where eigenvalues are better than any estimate: the edge goes to where the one that
    /// it should be at would be, were the rest as far apart as the inner half of them.
    fn widen(&mut self, ritz: &Ritz, missing: usize) -> bool {
        self.margin += 1;
        if self.margin >= MARGINS.len() {
            return false;
        }
        let sign = self.task.end.sign();
        let risen = ritz.theta.iter().take_while(|theta| **theta > RISEN).count();
        self.search = if 2 * risen >= missing && risen >= 8 {
            let at = |i: usize| self.filter.inverse(ritz.theta[i]);
            let (outermost, last) = (at(0), at(risen - 1));
            let spacing = (at(risen / 2) - last) / share(risen - risen / 2);
            let edge = last - spacing * (beyond(missing, 0) - share(risen));
            self.task.density.filter_rising(sign, edge, outermost, RISE)
        } else {
            self.task.density.filter(sign, beyond(self.task.wanted, self.margin))
        };
        true
    }

    /// The filter of a round that looks for missed pairs. Pairs beyond the cut are locked as well, so its edge can be at the
    /// last of them, and it need not rise far: nothing has to converge.
    fn certifier(&self) -> Filter {
        let cut = self.locked[self.task.wanted - self.known - 1];
        let last = self.locked.last().copied().unwrap_or(cut);
        if cut - last > 1e3 * CLUSTER {
            self.task.density.filter_rising(self.task.end.sign(), last, cut, CERTAIN)
        } else {
            self.search
        }
    }

    /// A block of random vectors that depends on nothing but its place in the search.
    fn random(&self, pass: usize) -> Vec<f64> {
        let place = [self.round, self.steps, pass].map(|x| x.to_string());
        let [round, step, pass] = &place;
        let mut stream = Stream::new(0, &["evd", self.task.end.name(), round, step, pass]);
        (0..self.n * WIDTH).map(|_| stream.normal()).collect()
    }

    /// Adds the block to the basis and replaces it by the next one. Returns R by columns.
    fn step(&mut self, x: &mut Vec<f64>) -> Vec<f64> {
        let (n, fixed) = (self.n, self.fixed());
        self.q.extend_from_slice(x);
        let count = self.q.len() / n;
        self.most_columns = self.most_columns.max(count + 3 * WIDTH);
        self.steps += 1;
        self.products += WIDTH * self.filter.degree;
        let length = count * WIDTH + WIDTH * WIDTH + n * WIDTH;
        let (c, r) = match self.task.watch.recall(self.task.end, self.steps).filter(|record| record.len() == length) {
            Some(mut record) => {
                *x = record.split_off(count * WIDTH + WIDTH * WIDTH);
                let r = record.split_off(count * WIDTH);
                (record, r)
            }
            None => {
                self.filter.apply(self.task.operator, x);
                let (c, r) = self.orthonormalise(x);
                self.task.watch.record(self.task.end, self.steps, &[&c, &r, x]);
                (c, r)
            }
        };
        for l in 0..WIDTH {
            self.t.push((fixed..count).map(|i| c[i * WIDTH + l]).collect());
        }
        r
    }

    /// Makes a block orthonormal and orthogonal to everything before it: X ← the orthonormal basis with X = QC + X′R.
    /// Returns C by rows and R by columns. Directions that vanish are replaced by random ones.
    fn orthonormalise(&self, x: &mut Vec<f64>) -> (Vec<f64>, Vec<f64>) {
        let (n, b) = (self.n, WIDTH);
        let count = self.q.len() / n;
        let mut c = vec![0f64; count * b];
        let mut r: Vec<f64> = (0..b * b).map(|i| if i % (b + 1) == 0 { 1.0 } else { 0.0 }).collect();
        for pass in 0..=6 {
            let before = norms(x, n);
            // B couples a block with itself and the one before. They go first, by themselves: what is then left to the
            // others is small, and their own loss of orthogonality does not add to it.
            let first = if pass == 0 { count.saturating_sub(2 * b) } else { 0 };
            let overlap = inner(&self.q[first * n..], x, n);
            subtract(&self.q[first * n..], &overlap, x, n);
            // The block has changed since: in terms of the first one, its overlap counts as overlap · R.
            let now =
                MatRef::from_row_major_slice(&overlap, count - first, b) * MatRef::from_column_major_slice(&r, b, b);
            c[first * b..].iter_mut().enumerate().for_each(|(at, c)| *c += now[(at / b, at % b)]);
            if pass == 0 && first > 0 {
                continue;
            }
            let after = norms(x, n);
            let shrunk =
                before.iter().zip(&after).map(|(before, after)| after / before.max(1e-300)).fold(1.0, f64::min);
            let (mut rank, mut weakest) = self.rescale(x, &mut r, pass);
            // The error of rescaling grows with the square of how uneven a block was; once more makes it small.
            let mut left = shrunk * weakest;
            while rank == b && weakest < EVEN {
                (rank, weakest) = self.rescale(x, &mut r, pass);
                left *= weakest;
            }
            if rank == b && shrunk > EVEN && left > SHRUNK {
                break;
            }
        }
        (c, r)
    }

    /// X ← X·D⁻¹·V·S^{-1/2}, with D the norms of its vectors and VSVᵀ = D⁻¹XᵀXD⁻¹; R ← S^{1/2}·Vᵀ·D·R. Returns the number of
    /// directions that were kept, and how weak the weakest was.
    fn rescale(&self, x: &mut Vec<f64>, r: &mut [f64], pass: usize) -> (usize, f64) {
        let (n, b) = (self.n, WIDTH);
        let norms = norms(x, n);
        let inverse: Vec<f64> = norms.iter().map(|norm| if *norm > 1e-290 { 1.0 / norm } else { 0.0 }).collect();
        let mut gram = inner(x, x, n);
        gram.iter_mut().enumerate().for_each(|(at, g)| *g *= inverse[at / b] * inverse[at % b]);
        // It does not fail on a finite matrix of this size; one that is not finite has no rank.
        let (s, v) = symmetric(&gram, b).unwrap_or_else(|_| (vec![0.0; b], vec![0.0; b * b]));
        let strongest = s[b - 1].max(1e-290);
        let (mut back, mut forth) = (vec![0f64; b * b], vec![0f64; b * b]);
        let mut lost = Vec::new();
        for j in 0..b {
            if s[j] <= RANK * RANK * strongest {
                lost.push(j);
                continue;
            }
            let size = s[j].sqrt();
            for i in 0..b {
                back[j * b + i] = inverse[i] * v[j * b + i] / size;
                forth[i * b + j] = size * v[j * b + i] * norms[i];
            }
        }
        *x = rotate(x, MatRef::from_column_major_slice(&back, b, b), n);
        let both = MatRef::from_column_major_slice(&forth, b, b) * MatRef::from_column_major_slice(r, b, b);
        r.iter_mut().enumerate().for_each(|(at, r)| *r = both[(at % b, at / b)]);
        if !lost.is_empty() {
            let random = self.random(pass);
            for j in &lost {
                x[j * n..(j + 1) * n].copy_from_slice(&random[j * n..(j + 1) * n]);
            }
        }
        (b - lost.len(), (s[0] / strongest).max(0.0).sqrt())
    }

    fn ritz(&self, r: &[f64]) -> Result<Ritz, EigenError> {
        let m = self.t.len();
        let mut full = vec![0f64; m * m];
        for (j, column) in self.t.iter().enumerate() {
            for (i, value) in column.iter().enumerate().take(j + 1) {
                (full[j * m + i], full[i * m + j]) = (*value, *value);
            }
        }
        let (values, vectors) = in_pieces(&full, m)?;
        let theta: Vec<f64> = values.into_iter().rev().collect();
        let y: Vec<f64> = vectors.chunks_exact(m).rev().flatten().copied().collect();
        // ‖R·Eᵀy‖.
        let filtered = |y: &[f64]| {
            let last = &y[m - WIDTH..];
            let row = |i: usize| (0..WIDTH).map(|j| r[j * WIDTH + i] * last[j]).sum::<f64>();
            (0..WIDTH).map(|i| row(i).powi(2)).sum::<f64>().sqrt()
        };
        let factor = |theta: &f64| self.filter.residual_factor(*theta);
        let residual = y.chunks_exact(m).zip(&theta).map(|(y, theta)| filtered(y) * factor(theta)).collect();
        Ok(Ritz { theta, y, residual })
    }

    /// What a round that looks for missed pairs says.
    fn verdict(&self, ritz: &Ritz, steps: usize, converged: usize) -> Verdict {
        let cut = self.locked.get(self.task.wanted - self.known - 1).copied().unwrap_or(f64::INFINITY);
        let threshold = self.filter.at(cut - CLUSTER);
        let beyond = ritz.theta.iter().take_while(|theta| **theta >= threshold).count();
        if beyond > 0 {
            // Something was missed; wait until it has converged.
            return if converged >= beyond { Verdict::Lock(converged) } else { Verdict::Doubt };
        }
        // Shifted by one, so that the spectrum of B is not negative.
        let epsilon = 1.0 - (ritz.theta[0] + 1.0) / (threshold + 1.0);
        #[expect(clippy::cast_precision_loss, reason = "few steps, and far fewer than 2^53 nodes")]
        let (steps, n, block) = (steps as f64, self.n as f64, WIDTH as f64);
        let one = 1.648f64.ln() + n.ln() / 2.0 - epsilon.max(0.0).sqrt() * (2.0 * steps - 1.0);
        if one * block <= DOUBT.ln() {
            return Verdict::Certain;
        }
        // Pairs close behind the cut keep the bound weak: locking them helps.
        if converged >= WIDTH { Verdict::Lock(converged) } else { Verdict::Doubt }
    }

    /// Locks the leading Ritz pairs, with values and residuals from A itself.
    fn lock(&mut self, ritz: &Ritz, count: usize) -> Result<(), EigenError> {
        let (n, fixed) = (self.n, self.fixed());
        if fixed + count > self.task.columns - 5 * WIDTH {
            let columns = self.task.columns;
            return Err(EigenError::Room { columns, least: columns + columns / 4, nodes: n });
        }
        if fixed + count > 2 * self.task.wanted + SPARE {
            let value = self.locked.last().copied().unwrap_or_default() * self.task.end.sign();
            return Err(EigenError::Repeated { end: self.task.end, value, wanted: self.task.wanted });
        }
        let vectors = self.take(ritz, count);
        let products = self.task.operator.product(&vectors);
        self.products += count;
        for (u, product) in vectors.chunks_exact(n).zip(products.chunks_exact(n)) {
            let value: f64 = u.iter().zip(product).map(|(u, p)| u * p).sum();
            if distance(product, value, u) <= self.task.tolerance {
                self.q.extend_from_slice(u);
                self.locked.push(value * self.task.end.sign());
            }
        }
        self.sort();
        Ok(())
    }

    /// Replaces the basis by nothing, and returns its leading Ritz vectors.
    fn take(&mut self, ritz: &Ritz, count: usize) -> Vec<f64> {
        let (m, start) = (self.t.len(), self.fixed() * self.n);
        let y = MatRef::from_column_major_slice(&ritz.y[..count * m], m, count);
        let vectors = rotate(&self.q[start..], y, self.n);
        self.q.truncate(start);
        vectors
    }

    /// Sorts locked pairs from the end inwards.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.locked.len()).collect();
        order.sort_by(|a, b| self.locked[*b].total_cmp(&self.locked[*a]));
        if order.is_sorted() {
            return;
        }
        let start = self.known * self.n;
        let sorted: Vec<f64> =
            order.iter().flat_map(|i| &self.q[start + i * self.n..start + (i + 1) * self.n]).copied().collect();
        self.q[start..].copy_from_slice(&sorted);
        self.locked = order.iter().map(|i| self.locked[*i]).collect();
    }

    /// Replaces a full basis by its best Ritz vectors.
    fn restart(&mut self, ritz: &Ritz, missing: usize) {
        let room = self.task.columns - self.fixed();
        let keep = (missing + missing / 8 + WIDTH).min(room.saturating_sub(4 * WIDTH)).min(self.t.len());
        let vectors = self.take(ritz, keep);
        self.q.extend_from_slice(&vectors);
        self.t = (0..keep).map(|j| (0..=j).map(|i| if i == j { ritz.theta[j] } else { 0.0 }).collect()).collect();
    }
}

enum Verdict {
    /// Nothing was missed.
    Certain,
    /// These many have converged and should be locked.
    Lock(usize),
    /// Go on.
    Doubt,
}

/// How many eigenvalues should be beyond the edge of a filter.
fn beyond(wanted: usize, margin: usize) -> f64 {
    share(wanted) * (1.0 + MARGINS[margin]) + 8.0
}

#[expect(clippy::cast_precision_loss, reason = "few pairs")]
fn share(pairs: usize) -> f64 {
    pairs as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few columns")]
fn grown(columns: usize) -> usize {
    (share(columns) * GROWTH) as usize
}
