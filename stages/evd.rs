//! `evd`: eigenpairs of an operator from both ends of its spectrum.
//!
//! Ã uⱼ = λⱼ uⱼ, with k pairs a side: the largest eigenvalues (low frequency) and the smallest (high frequency), each
//! side sorted by descending eigenvalue. k is clipped at ⌊n/2⌋, so that no pair is on both sides. How signs and
//! the vectors of eigenvalue 1 are made unique is said in [`crate::math::eigen`]. The solver works in f64; vectors
//! are stored as f32, and their quality is measured before that.
//!
//! Fewer pairs of an operator whose larger k is in the plan are not computed again: they are a slice of those.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, Job, Progress, Shared, Slot, Stage, StageError};
use crate::kinds::{Operator, Side, Spectrum};
use crate::math::eigen::{self, EigenError, Pairs};
use crate::params;

/// The most nodes of a dense solver: at this size its matrices take about 13 GB.
const MOST_NODES: usize = 20_000;
/// The slot with more pairs of the same operator.
const LARGER: &str = "larger";
/// The largest residual or overlap of pairs that are worth storing.
const TOLERANCE: f64 = 1e-5;

/// Parameters of `evd`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Pairs a side, at most half of the nodes.
    #[schemars(range(min = 1))]
    pub k: usize,
    /// What computes them.
    pub solver: Solver,
}

/// What computes the eigenpairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Solver {
    /// The dense solver of faer, always there.
    #[default]
    Dense,
    /// LAPACK's `syev`, in builds with the feature `lapack`; its bytes may depend on the threads of its BLAS.
    Lapack,
}

impl Default for Params {
    fn default() -> Self {
        Self { k: 256, solver: Solver::default() }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<params::Problem>> {
        if self.solver == Solver::Lapack && !cfg!(feature = "lapack") {
            let problem = params::Problem::value("solver", "`solver`: this build has no LAPACK solver");
            return Err(vec![problem.with_help("use `dense`, or build with `--features lapack`")]);
        }
        Ok(())
    }
}

/// The stage.
pub struct Evd;

impl Stage for Evd {
    const NAME: &'static str = "evd";
    const ABOUT: &'static str = "Computes eigenpairs from both ends of an operator's spectrum";
    const VERSION: u32 = 1;
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
        if n > MOST_NODES {
            return Err(StageError::unusable(
                format!("a graph of {n} nodes is too large for a dense solver, expected at most {MOST_NODES}"),
                "the solver needs memory for four dense n × n matrices of 8-byte numbers; use a model without a spectrum",
            ));
        }
        job.check_cancelled()?;
        let clipped =
            if params.k > n / 2 { format!("; k clipped to {}, half of the nodes", n / 2) } else { String::new() };
        job.progress(&Progress { done: 0, total: 2, note: format!("decomposing {n} × {n}{clipped}") });
        let solver = match params.solver {
            Solver::Dense => eigen::Solver::Faer,
            Solver::Lapack => eigen::Solver::Lapack,
        };
        let (low, high) = eigen::ends(&operator.matrix, params.k, solver).map_err(explained)?;
        job.check_cancelled()?;
        job.progress(&Progress { done: 1, total: 2, note: "checking residuals and orthogonality".into() });
        let (worst_residual, worst_overlap) = eigen::quality(&operator.matrix, &low, &high);
        if !(worst_residual < TOLERANCE && worst_overlap < TOLERANCE) {
            return Err(StageError::numeric(
                format!(
                    "eigenpairs have residual {worst_residual:e} and overlap {worst_overlap:e}, expected below {TOLERANCE:e}"
                ),
                "try the other solver",
            ));
        }
        Ok(Spectrum { nodes: n, low: stored(low), high: stored(high), worst_residual, worst_overlap })
    }
}

fn stored(pairs: Pairs) -> Side {
    #[expect(clippy::cast_possible_truncation, reason = "vectors are stored as f32")]
    let vectors = pairs.vectors.into_iter().map(|x| x as f32).collect();
    Side { values: pairs.values, vectors }
}

fn explained(error: EigenError) -> StageError {
    let what = error.to_string();
    match error {
        EigenError::NoConvergence => StageError::numeric(what, "try the other solver"),
        EigenError::Memory { .. } => StageError::unusable(what, "use a machine with more memory, or a smaller graph"),
        EigenError::Unavailable => StageError::unusable(what, "use `solver: dense`, or build with `--features lapack`"),
        EigenError::NotFinite { .. } | EigenError::NotSymmetric { .. } => {
            StageError::unusable(what, "decompose what `normalize` makes")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use serde_json::Value;

    use super::*;
    use crate::contract::{InputDir, Quiet};
    use crate::math::csr::Csr;
    use crate::math::random::Stream;

    fn run(matrix: Csr, params: &Params) -> Result<Spectrum, StageError> {
        let folder = tempfile::tempdir().unwrap();
        Operator { matrix }.save(folder.path()).unwrap();
        let inputs = [InputDir { slot: "operator", key: String::new(), dir: folder.path().to_owned() }];
        let cancel = AtomicBool::new(false);
        Evd::run(
            params,
            &Job {
                inputs: &inputs,
                threads: 1,
                progress: &Quiet,
                cancel: &cancel,
                variant: &Value::Null,
                scratch: None,
            },
        )
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
    fn a_graph_that_is_too_small_or_too_large_is_refused() {
        let empty = |n: usize| Csr::new(n, vec![0; n + 1], vec![], vec![]).unwrap();
        assert!(matches!(run(empty(1), &Params::default()), Err(StageError::Unusable { .. })));
        let error = run(empty(20_001), &Params::default()).unwrap_err();
        assert!(error.to_string().contains("at most 20000"), "{error}");
    }

    #[cfg(not(feature = "lapack"))]
    #[test]
    fn without_the_feature_lapack_is_refused_with_a_hint() {
        let error = run(random(6, 0.5, 1).0, &Params { solver: Solver::Lapack, ..Params::default() }).unwrap_err();
        assert_eq!(error.to_string(), "this build has no LAPACK solver");
        assert!(error.hint().unwrap().contains("solver: dense"));
    }
}
