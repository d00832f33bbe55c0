//! What the stage makes of its parameters, resuming, cancelling and slices.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::contract::InputDir;
use crate::math::csr::Csr;
use crate::math::random::Stream;

fn run(matrix: Csr, params: &Params) -> Result<Spectrum, StageError> {
    let folder = tempfile::tempdir().unwrap();
    Operator { matrix }.save(folder.path()).unwrap();
    let inputs =
        [InputDir { slot: "operator", key: String::new(), dir: folder.path().to_owned(), remarks: Vec::new() }];
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
    let inputs =
        [InputDir { slot: "operator", key: String::new(), dir: folder.path().to_owned(), remarks: Vec::new() }];
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
