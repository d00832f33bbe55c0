//! `evd`: eigenpairs of an operator from both ends of its spectrum.
//!
//! Ã uⱼ = λⱼ uⱼ, with k pairs per side: the largest eigenvalues (low frequency) and the smallest (high frequency), each
//! side sorted by descending eigenvalue. k is clipped at ⌊n/2⌋, so that no pair is on both sides. What makes the pairs
//! unique is said in [`crate::math::eigen`]. The solver works in f64; vectors are stored as f32, and their quality is
//! measured before that.
//!
//! Which solver: the graph is cut into connected parts, and nodes with equal neighbours become one row. `auto` finds only the
//! ends (`lanczos`) of parts of more than 1000 rows that have room for the wanted pairs, a quarter more, and another 256;
//! other parts are decomposed as a whole (`dense`). `lanczos` drops the limit of 1000; `dense` and `lapack` decompose every
//! part as a whole.
//!
//! Fewer pairs of an operator whose larger k is in the plan are not computed again: they are a slice of those.

mod estimate;

use std::sync::Mutex;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::checkpoint::Log;
use crate::contract::params::{self, Bytes};
use crate::contract::{Artifact, Estimate, Job, Known, Progress, Shared, Slot, Stage, StageError, Term};
use crate::kinds::{Operator, Side, Spectrum, size};
use crate::math::eigen::{self, EigenError, End, Ends, Pairs, Request, Solver, Watch};

/// The slot with more pairs of the same operator.
const LARGER: &str = "larger";
/// The most rows of a matrix that is decomposed as a whole: at this size that takes about 13 GB.
const MOST_ROWS: usize = 20_000;
/// The largest overlap of two vectors that is accepted.
const OVERLAP: f64 = 1e-8;
/// Numbers in the vectors of an end above which its steps are kept for a run that may be resumed: about a minute of work.
const LONG: usize = 20_000_000;

/// Parameters of `evd`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Pairs per side, at most half of the nodes.
    #[schemars(range(min = 1))]
    pub k: usize,
    /// What computes them.
    pub solver: Solver,
    /// The largest residual ‖Ãu − λu‖₂ of a pair.
    #[schemars(range(min = 1e-10, max = 1e-3))]
    pub tolerance: f64,
    /// Memory that `lanczos` may use: it restarts instead of growing beyond.
    pub memory: Bytes,
    /// Products of the operator with a vector after which `lanczos` fails for an end.
    #[schemars(range(min = 1))]
    pub products: usize,
}

impl Default for Params {
    fn default() -> Self {
        let Request { tolerance, memory, products, .. } = Request::new(0, Solver::Auto);
        Self { k: 256, solver: Solver::default(), tolerance, memory: Bytes(memory), products }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<params::Problem>> {
        if self.solver == Solver::Lapack && !cfg!(feature = "lapack") {
            let problem = params::Problem::value("solver", "`solver`: this build has no LAPACK solver");
            return Err(vec![problem.with_help("use `auto` or `dense`, or build with `--features lapack`")]);
        }
        Ok(())
    }
}

impl Params {
    fn request(&self) -> Request {
        let Self { k, solver, tolerance, memory: Bytes(memory), products } = *self;
        Request { k, solver, tolerance, memory, products, most_rows: MOST_ROWS }
    }
}

/// The stage.
pub struct Evd;

impl Stage for Evd {
    const NAME: &'static str = "evd";
    const ABOUT: &'static str = "Computes eigenpairs from both ends of an operator's spectrum";
    const VERSION: u32 = 3;
    const INPUTS: &'static [Slot] = &[Slot::one("operator", Operator::KIND)];
    const SHARED: Option<Shared> = Some(Shared { param: "k", slot: LARGER });
    const TERMS: &'static [Term] = estimate::TERMS;
    type Params = Params;
    type Output = Spectrum;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        estimate::estimate(params, known)
    }

    fn fits(_: &Params, known: &Known) -> Result<(), StageError> {
        known.sizes("operator").known(size::NODES).map_or(Ok(()), two_ends)
    }

    fn run(params: &Params, job: &Job) -> Result<Spectrum, StageError> {
        if let Some(larger) = job.optional::<Spectrum>(LARGER)? {
            clipped(params.k, larger.low.values.len()).iter().for_each(|what| job.remark(what));
            return Ok(larger.slice(params.k));
        }
        let operator: Operator = job.input("operator")?;
        two_ends(operator.nodes())?;
        decompose(params, job, &operator, LONG)
    }
}

fn two_ends(nodes: usize) -> Result<(), StageError> {
    if nodes >= 2 {
        return Ok(());
    }
    Err(StageError::unusable(format!("a graph of {nodes} nodes has no two ends of a spectrum"), "use a larger graph"))
}

/// Says that there are fewer pairs than were asked for, if so.
fn clipped(k: usize, pairs: usize) -> Option<String> {
    (k > pairs).then(|| format!("`k: {k}` counts as {pairs}: a side of the spectrum has no more pairs"))
}

/// Computes the pairs; an end whose vectors have at least `long` numbers leaves a resume point.
fn decompose(params: &Params, job: &Job, operator: &Operator, long: usize) -> Result<Spectrum, StageError> {
    let n = operator.nodes();
    let watching = Watching::new(job, n, params.k, long);
    watching.tell(&format!("decomposing {n} × {n}"));
    let begun = Instant::now();
    let Ends { low, high, effort } =
        eigen::ends(&operator.matrix, &params.request(), &watching).map_err(|error| explained(error, params))?;
    job.measured("solver-seconds", begun.elapsed().as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "facts for people")]
    for (name, value) in
        [("products", effort.products as f64), ("memory", effort.memory as f64), ("rows", effort.rows as f64)]
    {
        job.measured(name, value);
    }
    #[expect(clippy::cast_precision_loss, reason = "a fact for people")]
    job.measured("pairs", (low.values.len() + high.values.len()) as f64);
    if let Some(what) = clipped(params.k, n / 2) {
        #[expect(clippy::cast_precision_loss, reason = "a fact for people")]
        job.measured("k-clipped-to", (n / 2) as f64);
        job.remark(&what);
    }
    job.check_cancelled()?;
    watching.tell("checking residuals and orthogonality");
    let (worst_residual, worst_overlap) = eigen::quality(&operator.matrix, &low, &high);
    if !(worst_residual <= params.tolerance && worst_overlap <= OVERLAP) {
        return Err(StageError::numeric(
            format!(
                "eigenpairs have residual {worst_residual:e}, expected at most {:e}, and overlap {worst_overlap:e}, \
                     expected at most {OVERLAP:e}",
                params.tolerance
            ),
            "use `solver: dense`, or a larger tolerance",
        ));
    }
    Ok(Spectrum { nodes: n, low: stored(low), high: stored(high), worst_residual, worst_overlap })
}

fn stored(pairs: Pairs) -> Side {
    #[expect(clippy::cast_possible_truncation, reason = "vectors are stored as f32")]
    let vectors = pairs.vectors.into_iter().map(|x| x as f32).collect();
    Side { values: pairs.values, vectors }
}

/// Stands between the solver and the job: progress of both ends, cancellation, and steps of an earlier run.
struct Watching<'a> {
    job: &'a Job<'a>,
    /// What every note begins with.
    clipped: String,
    /// Converged and wanted pairs of both ends.
    pairs: Mutex<[(usize, usize); 2]>,
    /// For each end the steps that were kept.
    logs: [Option<Mutex<Kept>>; 2],
}

/// Steps of an end in the scratch folder of the job.
struct Kept {
    /// `None` once the disk refused a step: those after it would not be in order.
    log: Option<Log>,
    /// Whether everything that was there has been read, so that new steps may be added.
    at_end: bool,
}

impl<'a> Watching<'a> {
    fn new(job: &'a Job<'a>, n: usize, k: usize, long: usize) -> Self {
        let clipped = if k > n / 2 { format!("k clipped to {}, half of the nodes; ", n / 2) } else { String::new() };
        let open = |end: End| {
            let folder = job.scratch.filter(|_| n * k.min(n / 2) >= long)?;
            // Without a log the steps are not kept; nothing else changes.
            let log = Log::open(&folder.join(format!("{}.log", end.name()))).ok()?;
            Some(Mutex::new(Kept { log: Some(log), at_end: false }))
        };
        let wanted = (0, k.min(n / 2));
        Self { job, clipped, pairs: Mutex::new([wanted; 2]), logs: [open(End::Low), open(End::High)] }
    }

    fn tell(&self, note: &str) {
        let pairs = *self.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let [done, total] = [pairs[0].0 + pairs[1].0, pairs[0].1 + pairs[1].1];
        let note = format!("{}{note}", self.clipped);
        self.job.progress(&Progress { done: done as u64, total: total.max(1) as u64, note });
    }

    fn kept(&self, end: End) -> Option<std::sync::MutexGuard<'_, Kept>> {
        let kept = self.logs[place(end)].as_ref()?;
        Some(kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

fn place(end: End) -> usize {
    usize::from(end == End::High)
}

impl Watch for Watching<'_> {
    fn cancelled(&self) -> bool {
        self.job.check_cancelled().is_err()
    }

    fn converged(&self, end: End, pairs: usize, of: usize) {
        let [low, high] = {
            let mut both = self.pairs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            both[place(end)] = (pairs, of);
            *both
        };
        self.tell(&format!("converged low {} of {}, high {} of {}", low.0, low.1, high.0, high.1));
    }

    fn recall(&self, end: End, _step: usize) -> Option<Vec<f64>> {
        let mut kept = self.kept(end)?;
        if kept.at_end {
            return None;
        }
        let record = kept.log.as_mut().and_then(Iterator::next);
        kept.at_end = record.is_none();
        let (numbers, _) = record.as_ref()?.as_chunks::<8>();
        Some(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    fn record(&self, end: End, _step: usize, parts: &[&[f64]]) {
        let Some(mut kept) = self.kept(end) else { return };
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().flat_map(|x| x.to_le_bytes())).collect();
        kept.at_end = true;
        // A disk that is full costs the resume point, not the result: what was kept before still counts.
        if kept.log.as_mut().is_some_and(|log| log.append(&bytes).is_err()) {
            kept.log = None;
        }
    }
}

fn explained(error: EigenError, params: &Params) -> StageError {
    let what = error.to_string();
    match error {
        EigenError::Cancelled => StageError::Cancelled,
        EigenError::Empty => StageError::unusable(what, "use a graph with edges, or `self-loops: true` in `normalize`"),
        EigenError::NotFinite { .. } | EigenError::NotSymmetric { .. } => {
            StageError::unusable(what, "decompose what `normalize` makes")
        }
        EigenError::Dense { .. } | EigenError::Exhausted => {
            StageError::numeric(what, "use `solver: lanczos` and fewer pairs, or another graph")
        }
        EigenError::NoConvergence { .. } => {
            StageError::numeric(what, "raise `products` or `tolerance`, ask for fewer pairs, or use `solver: dense`")
        }
        EigenError::Repeated { .. } => StageError::unusable(what, "choose another `k`, or use `solver: dense`"),
        EigenError::Room { least, nodes, .. } => {
            // Both ends, with room for the pairs being turned.
            let mebibytes = (least + params.k + 64).saturating_mul(16 * nodes).div_ceil(1 << 20);
            StageError::unusable(
                what,
                format!("set `memory: {mebibytes}MiB`, now {}, or ask for fewer pairs", params.memory),
            )
        }
        EigenError::TooLarge { .. } => StageError::unusable(
            what,
            "use `solver: auto`, with fewer pairs if it is in use, or a model without a spectrum",
        ),
        EigenError::Memory { .. } => StageError::unusable(what, "use a machine with more memory, or a smaller graph"),
        EigenError::Unavailable => StageError::unusable(what, "use `solver: dense`, or build with `--features lapack`"),
    }
}

#[cfg(test)]
mod tests;
