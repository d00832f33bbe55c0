//! `evd`: eigenpairs of an operator from both ends of its spectrum.
//!
//! Ã uⱼ = λⱼ uⱼ, with k pairs a side: the largest eigenvalues (low frequency) and the smallest (high frequency), each
//! side sorted by descending eigenvalue. k is clipped at ⌊n/2⌋, so that no pair is on both sides. What makes the pairs
//! unique is said in [`crate::math::eigen`]. The solver works in f64; vectors are stored as f32, and their quality is
//! measured before that.
//!
//! Which solver: the graph is cut into connected parts, and nodes with equal neighbours become one row. `auto` finds the ends
//! only (`lanczos`) of parts of more than 1000 rows in which the pairs that are wanted, a quarter more, and 256 have room;
//! other parts are decomposed as a whole (`dense`). `lanczos` does so without the 1000; `dense` and `lapack` decompose every
//! part as a whole.
//!
//! Fewer pairs of an operator whose larger k is in the plan are not computed again: they are a slice of those.

use std::sync::Mutex;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::checkpoint::Log;
use crate::contract::params::{self, Bytes};
use crate::contract::{Artifact, Job, Progress, Shared, Slot, Stage, StageError};
use crate::kinds::{Operator, Side, Spectrum};
use crate::math::eigen::{self, EigenError, End, Ends, Pairs, Request, Watch};

/// The slot with more pairs of the same operator.
const LARGER: &str = "larger";
/// The most rows of a matrix that is decomposed as a whole: at this size that takes about 13 GB.
const MOST_ROWS: usize = 20_000;
/// The largest overlap of two vectors that are worth storing.
const OVERLAP: f64 = 1e-8;
/// Numbers in the vectors of an end above which steps are kept for a run that may have to go on: about a minute of work.
const LONG: usize = 20_000_000;

/// Parameters of `evd`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Pairs a side, at most half of the nodes.
    #[schemars(range(min = 1))]
    pub k: usize,
    /// What computes them.
    pub solver: Solver,
    /// The largest residual ‖Ãu − λu‖₂ of a pair.
    #[schemars(range(min = 1e-10, max = 1e-3))]
    pub tolerance: f64,
    /// What `lanczos` may hold at a time: it restarts in place of growing beyond.
    pub memory: Bytes,
    /// Products of the operator with a vector after which `lanczos` gives up an end.
    #[schemars(range(min = 1))]
    pub products: usize,
}

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

impl Default for Params {
    fn default() -> Self {
        let Request { tolerance, memory, products, .. } = Request::new(0, eigen::Solver::Auto);
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
        let solver = match self.solver {
            Solver::Auto => eigen::Solver::Auto,
            Solver::Dense => eigen::Solver::Dense,
            Solver::Lanczos => eigen::Solver::Lanczos,
            Solver::Lapack => eigen::Solver::Lapack,
        };
        let (k, tolerance, memory, products) = (self.k, self.tolerance, self.memory.0, self.products);
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
    type Params = Params;
    type Output = Spectrum;

    fn run(params: &Params, job: &Job) -> Result<Spectrum, StageError> {
        if let Some(larger) = job.optional::<Spectrum>(LARGER)? {
            return Ok(larger.slice(params.k));
        }
        let operator: Operator = job.input("operator")?;
        let n = operator.nodes();
        if n < 2 {
            return Err(StageError::unusable(
                format!("a graph of {n} nodes has no two ends of a spectrum"),
                "use a larger graph",
            ));
        }
        decompose(params, job, &operator, LONG)
    }
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
    if params.k > n / 2 {
        #[expect(clippy::cast_precision_loss, reason = "a fact for people")]
        job.measured("k-clipped-to", (n / 2) as f64);
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
            // Without a log the work is only not kept.
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
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::contract::InputDir;
    use crate::math::csr::Csr;
    use crate::math::random::Stream;

    fn run(matrix: Csr, params: &Params) -> Result<Spectrum, StageError> {
        let folder = tempfile::tempdir().unwrap();
        Operator { matrix }.save(folder.path()).unwrap();
        let inputs = [InputDir { slot: "operator", key: String::new(), dir: folder.path().to_owned() }];
        let cancel = AtomicBool::new(false);
        Evd::run(params, &Job { inputs: &inputs, ..Job::alone(&cancel) })
    }

    /// Ã of a random graph, dense in memory.
    fn random(n: usize, share: f64, seed: u64) -> (Csr, Vec<f64>) {
        let mut stream = Stream::new(seed, &["test", "graph"]);
        let mut full = vec![0f64; n * n];
        for i in 0..n {
            full[i * n + i] = 1.0;
            for j in 0..i {
                let edge = if stream.uniform() < share { 1.0 } else { 0.0 };
                (full[i * n + j], full[j * n + i]) = (edge, edge);
            }
        }
        let degree: Vec<f64> = full.chunks(n).map(|row| row.iter().sum()).collect();
        full.iter_mut().enumerate().for_each(|(at, v)| *v /= (degree[at / n] * degree[at % n]).sqrt());
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in full.chunks(n) {
            for (column, value) in (0u32..).zip(row).filter(|(_, v)| **v != 0.0) {
                indices.push(column);
                values.push(*value);
            }
            indptr.push(indices.len() as u64);
        }
        (Csr::new(n, indptr, indices, values).unwrap(), full)
    }

    #[test]
    fn all_pairs_rebuild_the_operator_and_sides_descend() {
        let (matrix, full) = random(24, 0.2, 7);
        let spectrum = run(matrix, &Params { k: 1000, ..Params::default() }).unwrap();
        assert_eq!((spectrum.low.values.len(), spectrum.high.values.len()), (12, 12));
        let values = [&spectrum.low.values[..], &spectrum.high.values].concat();
        assert!(values.windows(2).all(|w| w[0] >= w[1]));
        assert!(spectrum.worst_residual < 1e-12 && spectrum.worst_overlap < 1e-12);
        let vectors = [&spectrum.low.vectors[..], &spectrum.high.vectors].concat();
        for (at, wanted) in full.iter().enumerate() {
            let pairs = values.iter().zip(vectors.chunks(24));
            let found: f64 = pairs.map(|(l, u)| l * f64::from(u[at / 24]) * f64::from(u[at % 24])).sum();
            // Vectors were rounded to f32.
            assert!((found - wanted).abs() < 1e-6);
        }
    }

    #[test]
    fn k_pairs_a_side_are_the_ends_of_all_pairs() {
        let (matrix, _) = random(40, 0.1, 3);
        let all = run(matrix.clone(), &Params { k: 20, ..Params::default() }).unwrap();
        let some = run(matrix, &Params { k: 6, ..Params::default() }).unwrap();
        assert_eq!(some.low.values, all.low.values[..6]);
        assert_eq!(some.high.values, all.high.values[14..]);
        assert_eq!(some.low.vectors, all.low.vectors[..6 * 40]);
        assert_eq!(some.high.vectors, all.high.vectors[14 * 40..]);
    }

    #[test]
    fn bytes_do_not_depend_on_the_number_of_threads() {
        let (matrix, _) = random(150, 0.05, 1);
        let within = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(matrix.clone(), &Params { k: 30, ..Params::default() }).unwrap())
        };
        let one = within(1);
        let bits = |s: &Spectrum| s.low.vectors.iter().chain(&s.high.vectors).map(|x| x.to_bits()).collect::<Vec<_>>();
        for threads in [2, 3] {
            let other = within(threads);
            assert_eq!(bits(&one), bits(&other));
            assert_eq!(one, other);
        }
    }

    #[test]
    fn a_graph_that_is_too_small_empty_or_too_large_is_refused() {
        let empty = |n: usize| Csr::new(n, vec![0; n + 1], vec![], vec![]).unwrap();
        assert!(matches!(run(empty(1), &Params::default()), Err(StageError::Unusable { .. })));
        let error = run(empty(9), &Params::default()).unwrap_err();
        assert_eq!(error.to_string(), "the operator is empty: it has no entry");
        // A path.
        let n = 20_001u32;
        let ends = |i: u32| [i.checked_sub(1), (i + 1 < n).then_some(i + 1)].into_iter().flatten();
        let indptr = (0..=n).map(|i| u64::from(i * 2).saturating_sub(u64::from(i > 0)) - u64::from(i == n)).collect();
        let indices: Vec<u32> = (0..n).flat_map(ends).collect();
        let values = vec![0.5; indices.len()];
        let path = Csr::new(n as usize, indptr, indices, values).unwrap();
        let error = run(path, &Params { solver: Solver::Dense, ..Params::default() }).unwrap_err();
        assert!(error.to_string().contains("at most 20000"), "{error}");
    }

    #[test]
    fn progress_says_that_k_was_clipped_and_how_many_pairs_have_converged() {
        struct Notes(std::sync::Mutex<Vec<String>>);
        impl crate::contract::ProgressSink for Notes {
            fn progress(&self, progress: &Progress) {
                self.0.lock().unwrap().push(progress.note.clone());
            }
        }
        let folder = tempfile::tempdir().unwrap();
        Operator { matrix: random(700, 0.01, 2).0 }.save(folder.path()).unwrap();
        let inputs = [InputDir { slot: "operator", key: String::new(), dir: folder.path().to_owned() }];
        let (cancel, notes) = (AtomicBool::new(false), Notes(std::sync::Mutex::default()));
        let job = Job { inputs: &inputs, progress: &notes, ..Job::alone(&cancel) };
        Evd::run(&Params { k: 20, solver: Solver::Lanczos, ..Params::default() }, &job).unwrap();
        Evd::run(&Params { k: 1000, ..Params::default() }, &job).unwrap();
        let notes = notes.0.lock().unwrap().clone();
        assert!(notes.iter().any(|n| n.starts_with("converged low ") && n.contains(", high 20 of 20")), "{notes:?}");
        assert!(notes.iter().any(|n| n.starts_with("k clipped to 350, half of the nodes; ")), "{notes:?}");
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(Evd::run(&Params::default(), &job), Err(StageError::Cancelled)));
    }

    /// Cancels a job as soon as it reports pairs that have converged, if it may.
    struct Stopper<'a> {
        cancel: &'a AtomicBool,
        stop: bool,
        reports: std::sync::atomic::AtomicUsize,
    }

    impl crate::contract::ProgressSink for Stopper<'_> {
        fn progress(&self, progress: &Progress) {
            if progress.note.starts_with("converged") {
                self.reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.cancel.store(self.stop, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn an_interrupted_decomposition_goes_on_from_its_resume_point() {
        let scratch = tempfile::tempdir().unwrap();
        let operator = Operator { matrix: random(700, 0.01, 4).0 };
        let params = Params { k: 20, solver: Solver::Lanczos, ..Params::default() };
        let attempt = |stop: bool, scratch: Option<&std::path::Path>| {
            let cancel = AtomicBool::new(false);
            let stopper = Stopper { cancel: &cancel, stop, reports: 0.into() };
            let job = Job { progress: &stopper, scratch, ..Job::alone(&cancel) };
            decompose(&params, &job, &operator, 0)
        };
        let whole = attempt(false, None).unwrap();
        let size = || std::fs::metadata(scratch.path().join("low.log")).unwrap().len();
        assert!(matches!(attempt(true, Some(scratch.path())), Err(StageError::Cancelled)));
        let kept = size();
        assert!(kept > 0);
        assert_eq!(attempt(false, Some(scratch.path())).unwrap(), whole);
        let after = size();
        assert!(after > kept);
        // Everything is there now, and nothing is added.
        assert_eq!(attempt(false, Some(scratch.path())).unwrap(), whole);
        assert_eq!(size(), after);
        // A damaged tail is computed again.
        let path = scratch.path().join("low.log");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 100;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(attempt(false, Some(scratch.path())).unwrap(), whole);
        assert_eq!(size(), after);
    }

    #[cfg(not(feature = "lapack"))]
    #[test]
    fn without_the_feature_lapack_is_refused_with_a_hint() {
        let error = run(random(6, 0.5, 1).0, &Params { solver: Solver::Lapack, ..Params::default() }).unwrap_err();
        assert_eq!(error.to_string(), "this build has no LAPACK solver");
        assert!(error.hint().unwrap().contains("solver: dense"));
    }
}
