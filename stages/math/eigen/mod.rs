//! Eigenpairs of a symmetric sparse matrix A (n × n) from both ends of its spectrum, A uⱼ = λⱼ uⱼ.
//!
//! The problem is made smaller exactly (`reduce`: twins, components); each part that is left is decomposed as a whole
//! (`dense`) or at its ends (`lanczos`), whichever is faster for its size; and the pairs of all parts are sorted
//! together. Everything is in f64. These rules make the result unique, whatever solver found it:
//!
//! - Pairs are sorted by descending eigenvalue. Values that are at most 1e-9 apart from the next are one repeated
//!   eigenvalue, which has one value: the exact one where it is known, else their mean.
//! - The space of a repeated eigenvalue has a basis of its own: first by component (larger first, ties by the smallest
//!   node), then the vectors of λ = 1, then differences of twins by smallest node, then the rest in the basis of
//!   `canonical::basis`. Solvers complete such a space even where it goes on beyond the last pair asked for.
//! - λ = 1 of a normalised adjacency has one vector per component, u_S(i) = √rᵢ / √(Σ_{j∈S} rⱼ) for i in component S and 0
//!   elsewhere, where rᵢ counts the entries of row i (degree, plus one with self-loops). It is written down, not computed.
//! - Sign: the first entry whose magnitude is within 1e-6 (relative) of its vector's largest is positive.

mod canonical;
mod dense;
mod error;
mod filter;
mod lanczos;
mod panel;
mod reduce;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::Csr;
pub(super) use canonical::is_negative;
pub(super) use dense::symmetric;
pub use error::EigenError;
use filter::Density;
use panel::{Operator, WIDTH, inner, norms, subtract};
use reduce::{Part, reduce, root};

/// How far the values of one repeated eigenvalue may be apart.
const CLUSTER: f64 = 1e-9;
/// How far a residual may be from 0 to be that of the vector of λ = 1.
const UNIT_TOLERANCE: f64 = 1e-9;
/// How far two mirrored entries may differ.
const SYMMETRY_TOLERANCE: f64 = 1e-12;
/// Parts up to this size are decomposed as a whole.
const SMALL: usize = 1000;
/// Parts up to this size are decomposed as a whole if the cut would split an eigenvalue that is repeated very often.
const RESCUE: usize = 5000;

/// What computes the eigenpairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// Dense for small parts and for most of the pairs of a part, Lanczos otherwise.
    #[default]
    Auto,
    /// The dense solver of faer for every part of the graph.
    Dense,
    /// Block Lanczos on a Chebyshev filter; parts that are too small for it are dense.
    Lanczos,
    /// LAPACK's `syev`, in builds with the feature `lapack`; its bytes may depend on the threads of its BLAS.
    Lapack,
}

impl Solver {
    /// Returns whether only the ends of a part with so many rows are computed, for this many pairs of both ends together.
    pub fn iterates(self, pairs: usize, rows: usize) -> bool {
        // Both ends and what an iteration needs beyond them have to fit.
        let fits = pairs.saturating_mul(5) / 4 + 16 * WIDTH <= rows;
        match self {
            Self::Dense | Self::Lapack => false,
            Self::Lanczos => fits,
            Self::Auto => fits && rows > SMALL,
        }
    }
}

/// What to find.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Pairs per side; clipped at ⌊n/2⌋.
    pub k: usize,
    /// The solver.
    pub solver: Solver,
    /// The largest ‖Au − λu‖₂.
    pub tolerance: f64,
    /// Bytes that an iterative solver may take.
    pub memory: u64,
    /// Products of the matrix with a vector that each end of a part may take.
    pub products: usize,
    /// The most rows of a part that is decomposed as a whole.
    pub most_rows: usize,
}

impl Request {
    /// `k` pairs per side, and the rest as it is by default.
    pub fn new(k: usize, solver: Solver) -> Self {
        Self { k, solver, tolerance: 1e-6, memory: 4 << 30, products: 2_000_000, most_rows: 20_000 }
    }
}

/// An end of the spectrum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The largest eigenvalues: low frequencies.
    Low,
    /// The smallest: high frequencies.
    High,
}

impl End {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
        }
    }

    /// s with the end at the top of sA.
    fn sign(self) -> f64 {
        match self {
            Self::Low => 1.0,
            Self::High => -1.0,
        }
    }
}

/// What the caller of a solver sees and decides while it runs. Every method may be called from several threads.
pub trait Watch: Sync {
    /// Returns whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
    /// Is told how many of the pairs that an end has to compute have converged.
    fn converged(&self, _end: End, _pairs: usize, _of: usize) {}
    /// Returns what was recorded for a step of an end by a solver that was stopped.
    fn recall(&self, _end: End, _step: usize) -> Option<Vec<f64>> {
        None
    }
    /// Keeps what a step of an end has computed, so that it need not be computed again. Steps are numbered from 1.
    fn record(&self, _end: End, _step: usize, _parts: &[&[f64]]) {}
}

/// A caller that only waits for the result.
pub struct Unwatched;

impl Watch for Unwatched {}

/// Eigenpairs, sorted by descending eigenvalue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Eigenvalues.
    pub values: Vec<f64>,
    /// Eigenvectors, one after the other: pairs × n.
    pub vectors: Vec<f64>,
}

/// Both ends of a spectrum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    /// The largest eigenvalues.
    pub low: Pairs,
    /// The smallest.
    pub high: Pairs,
    /// What it took.
    pub effort: Effort,
}

/// What a decomposition took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effort {
    /// Products of the matrix with a vector.
    pub products: usize,
    /// Bytes of the largest arrays that were held at a time.
    pub memory: u64,
    /// Rows of the largest part that was decomposed.
    pub rows: usize,
    /// Whether any part was decomposed at its ends only.
    pub iterated: bool,
}

/// Returns the `k` pairs of the largest and the `k` of the smallest eigenvalues.
///
/// # Errors
/// Any [`EigenError`].
pub fn ends(a: &Csr, request: &Request, watch: &dyn Watch) -> Result<Ends, EigenError> {
    check(a)?;
    let (n, k) = (a.n(), request.k.min(a.n() / 2));
    let parts = reduce(a);
    // Without negative entries, a positive vector belongs to the largest eigenvalue in magnitude, which a connected part has
    // once (Perron and Frobenius).
    let positive = a.values.iter().all(|value| *value >= 0.0);
    let units: Vec<Option<Vec<f64>>> = parts.iter().map(|part| unit(a, part).filter(|_| positive)).collect();
    // Where every part has the eigenvalue 1, one pair per part stands before all others.
    let low = if units.iter().all(Option::is_some) { (k + 1).saturating_sub(parts.len()).max(1) } else { k };
    let mut work = Work { low, high: k, request, watch, effort: Effort::default() };
    let mut solved = Vec::with_capacity(parts.len());
    for (part, unit) in parts.iter().zip(&units) {
        if watch.cancelled() {
            return Err(EigenError::Cancelled);
        }
        solved.push(work.solve(part, unit.as_deref())?);
    }
    let order = sorted(&parts, &solved);
    let side = |of: &[Candidate]| {
        let mut vectors = vec![0f64; of.len() * n];
        vectors.par_chunks_mut(n.max(1)).zip(of).for_each(|(into, candidate)| {
            let part = &parts[candidate.part];
            match candidate.source {
                Source::Twins { group, place } => part.twins[group].vector(place, into),
                Source::Solved(at) => part.lift(solved[candidate.part].vector(at), into),
            }
            canonical::fix_sign(into);
        });
        Pairs { values: of.iter().map(|candidate| candidate.value).collect(), vectors }
    };
    Ok(Ends { low: side(&order[..k]), high: side(&order[order.len() - k..]), effort: work.effort })
}

/// Returns the largest ‖Au − λu‖₂ over all pairs and the largest entry of |UᵀU − I| over both sides together.
pub fn quality(a: &Csr, low: &Pairs, high: &Pairs) -> (f64, f64) {
    let n = a.n();
    let operator = Operator::new(a);
    let mut residual = 0f64;
    for side in [low, high] {
        for (values, vectors) in side.values.chunks(WIDTH).zip(side.vectors.chunks((n * WIDTH).max(1))) {
            let products = operator.product(vectors);
            for (lambda, (u, product)) in values.iter().zip(vectors.chunks_exact(n).zip(products.chunks_exact(n))) {
                residual = worst(residual, distance(product, *lambda, u));
            }
        }
    }
    let mut overlap = 0f64;
    for (one, other, same) in [(low, low, true), (low, high, false), (high, high, true)] {
        let columns = other.values.len();
        for (at, product) in inner(&one.vectors, &other.vectors, n.max(1)).iter().enumerate() {
            let identity = if same && at / columns == at % columns { 1.0 } else { 0.0 };
            overlap = worst(overlap, (product - identity).abs());
        }
    }
    (residual, overlap)
}

/// The larger of two errors; unlike `max`, NaN is the largest of all.
fn worst(a: f64, b: f64) -> f64 {
    if b.is_nan() || b > a { b } else { a }
}

/// ‖p − λu‖₂, with p = Au.
fn distance(product: &[f64], lambda: f64, u: &[f64]) -> f64 {
    product.iter().zip(u).map(|(p, u)| (p - lambda * u).powi(2)).sum::<f64>().sqrt()
}

fn check(a: &Csr) -> Result<(), EigenError> {
    if a.indices.is_empty() {
        return Err(EigenError::Empty);
    }
    let problem = |row: usize| {
        let (columns, values) = a.row(row);
        columns.iter().map(|c| *c as usize).zip(values).find_map(|(column, value)| {
            if !value.is_finite() {
                return Some(EigenError::NotFinite { row, column });
            }
            ((value - a.get(column, row)).abs() > SYMMETRY_TOLERANCE)
                .then_some(EigenError::NotSymmetric { row, column })
        })
    };
    (0..a.n()).into_par_iter().find_map_first(problem).map_or(Ok(()), Err)
}

/// The vector of λ = 1 of a part, if it has that of a normalised adjacency.
fn unit(a: &Csr, part: &Part) -> Option<Vec<f64>> {
    let weight = |group: &Vec<u32>| root(group.len() * a.row(group[0] as usize).0.len());
    let mut vector: Vec<f64> = part.groups.iter().map(weight).collect();
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    let row = |i: usize| {
        let (columns, values) = part.matrix.row(i);
        columns.iter().zip(values).map(|(c, v)| v * vector[*c as usize]).sum::<f64>()
    };
    let product: Vec<f64> = (0..vector.len()).map(row).collect();
    // Without an entry the length is 0, and the distance NaN.
    (distance(&product, 1.0, &vector) <= UNIT_TOLERANCE).then_some(vector)
}

/// Pairs of a part, by descending eigenvalue: all of them, or some of both ends.
struct Solved {
    rows: usize,
    values: Vec<f64>,
    vectors: Vec<f64>,
    /// Whether the first is the vector of λ = 1.
    unit: bool,
}

impl Solved {
    fn vector(&self, at: usize) -> &[f64] {
        &self.vectors[at * self.rows..(at + 1) * self.rows]
    }
}

/// Parts being decomposed.
struct Work<'a> {
    /// Pairs that a part has to give at either end.
    low: usize,
    high: usize,
    request: &'a Request,
    watch: &'a dyn Watch,
    effort: Effort,
}

impl Work<'_> {
    fn solve(&mut self, part: &Part, unit: Option<&[f64]>) -> Result<Solved, EigenError> {
        let rows = part.matrix.n();
        self.effort.rows = self.effort.rows.max(rows);
        let iterate = self.request.solver.iterates(self.low + self.high, rows);
        let ends = iterate.then(|| self.iterate(part, unit)).transpose();
        let ends = match ends {
            // What an iteration cannot tell apart, a decomposition of the whole can.
            Err(EigenError::Exhausted) => None,
            Err(EigenError::Repeated { .. }) if rows <= RESCUE => None,
            other => other?,
        };
        let mut solved = match ends {
            Some(ends) => ends,
            None if rows > self.request.most_rows => {
                return Err(EigenError::TooLarge { rows, most: self.request.most_rows });
            }
            None => {
                self.effort.memory = self.effort.memory.max(dense::bytes(rows));
                whole(part, unit, self.request.solver)?
            }
        };
        let first = usize::from(solved.unit);
        for cluster in canonical::clusters(&solved.values[first..]).filter(|cluster| cluster.len() > 1) {
            canonical::basis(&mut solved.vectors[(first + cluster.start) * rows..(first + cluster.end) * rows], rows);
        }
        Ok(solved)
    }

    /// Pairs of both ends of a part, each as if the other were not there, then made orthogonal to each other.
    fn iterate(&mut self, part: &Part, unit: Option<&[f64]>) -> Result<Solved, EigenError> {
        let (low, high, request) = (self.low, self.high, self.request);
        let rows = part.matrix.n();
        let operator = Operator::new(&part.matrix);
        let density = Density::new(&operator, &part.matrix)?;
        // Half of the memory for an end; what is not basis are locked vectors being turned, and panels.
        let vectors = usize::try_from(request.memory / 2 / (8 * rows as u64)).unwrap_or(usize::MAX);
        let find = |end, wanted: usize, known: &[f64]| {
            if wanted * rows <= known.len() {
                return Ok(lanczos::Found::default());
            }
            let columns = vectors.saturating_sub(wanted + 4 * WIDTH).min(rows);
            let (operator, density, watch) = (&operator, &density, self.watch);
            let (tolerance, products) = (request.tolerance, request.products);
            lanczos::find(lanczos::Task { operator, density, end, wanted, known, tolerance, columns, products, watch })
        };
        let known = unit.unwrap_or_default();
        let (top, bottom) = rayon::join(|| find(End::Low, low, known), || find(End::High, high, &[]));
        let (top, mut bottom) = (top?, bottom?);
        // One eigenvalue that is repeated from one end to the other: neither end can complete it alone.
        if let (Some(top), Some(bottom)) = (top.values.last(), bottom.values.last())
            && top - bottom <= CLUSTER
        {
            return Err(EigenError::Exhausted);
        }
        self.effort.iterated = true;
        self.effort.products += top.products + bottom.products + filter::PRODUCTS;
        self.effort.memory = self.effort.memory.max(8 * (rows * (top.columns + bottom.columns + low + high)) as u64);
        let mut values = vec![1.0; known.len() / rows];
        values.extend(&top.values);
        let mut vectors = [known, &top.vectors].concat();
        let overlap = inner(&vectors, &bottom.vectors, rows);
        subtract(&vectors, &overlap, &mut bottom.vectors, rows);
        let lengths = norms(&bottom.vectors, rows);
        for (value, (u, length)) in bottom.values.iter().zip(bottom.vectors.chunks_exact(rows).zip(lengths)).rev() {
            values.push(*value);
            vectors.extend(u.iter().map(|x| x / length));
        }
        Ok(Solved { rows, values, vectors, unit: unit.is_some() })
    }
}

/// All pairs of a part.
///
/// Where the vector u of λ = 1 is known, A − 3uuᵀ is decomposed: it has the same pairs, but −2 instead of 1, so that others
/// near to 1 are not mixed with it.
fn whole(part: &Part, unit: Option<&[f64]>, solver: Solver) -> Result<Solved, EigenError> {
    let rows = part.matrix.n();
    let mut full = dense::entries(&part.matrix)?;
    if let Some(unit) = unit {
        for (row, x) in full.chunks_exact_mut(rows).zip(unit) {
            row.iter_mut().zip(unit).for_each(|(entry, y)| *entry -= 3.0 * x * y);
        }
    }
    let (values, vectors) = match solver {
        Solver::Lapack => dense::with_lapack(full, rows)?,
        _ => dense::in_pieces(&full, rows)?,
    };
    let skip = usize::from(unit.is_some());
    let values = unit.map(|_| 1.0).into_iter().chain(values[skip..].iter().rev().copied()).collect();
    let known = unit.unwrap_or_default().iter();
    let vectors = known.chain(vectors[skip * rows..].chunks_exact(rows).rev().flatten()).copied().collect();
    Ok(Solved { rows, values, vectors, unit: unit.is_some() })
}

/// A pair, and where its vector comes from.
struct Candidate {
    value: f64,
    /// Whether the value is known without computing.
    exact: bool,
    part: usize,
    source: Source,
}

/// In the order of the basis of a repeated eigenvalue within a part; the vector of λ = 1 alone has that value there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Twins { group: usize, place: usize },
    Solved(usize),
}

/// All pairs of all parts in their final order.
fn sorted(parts: &[Part], solved: &[Solved]) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (part, (of, pairs)) in parts.iter().zip(solved).enumerate() {
        for (group, twins) in of.twins.iter().enumerate() {
            let source = |place| Source::Twins { group, place };
            let twin = |place| Candidate { value: twins.value, exact: true, part, source: source(place) };
            all.extend((0..twins.pairs()).map(twin));
        }
        for (at, value) in pairs.values.iter().enumerate() {
            all.push(Candidate { value: *value, exact: pairs.unit && at == 0, part, source: Source::Solved(at) });
        }
    }
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    for cluster in all.chunk_by_mut(|a, b| a.value - b.value <= CLUSTER) {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 pairs")]
        let mean = || cluster.iter().map(|c| c.value).sum::<f64>() / cluster.len() as f64;
        let value = cluster.iter().find(|c| c.exact).map_or_else(mean, |c| c.value);
        cluster.sort_by_key(|c| (c.part, c.source));
        cluster.iter_mut().for_each(|c| c.value = value);
    }
    all
}
