//! Known spectra, agreement of the solvers, and what they do when they cannot go on.

use std::f64::consts::PI;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::math::random::Stream;

fn csr(n: usize, entries: impl Iterator<Item = (usize, usize, f64)>) -> Csr {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|e| (e.0, e.1));
    let mut indptr = vec![0u64; n + 1];
    entries.iter().for_each(|e| indptr[e.0 + 1] += 1);
    (0..n).for_each(|i| indptr[i + 1] += indptr[i]);
    let columns = entries.iter().map(|e| u32::try_from(e.1).unwrap()).collect();
    Csr::new(n, indptr, columns, entries.iter().map(|e| e.2).collect()).unwrap()
}

/// Adjacency of undirected edges, unnormalised.
fn adjacency(n: usize, edges: &[(usize, usize)]) -> Csr {
    csr(n, edges.iter().flat_map(|&(a, b)| [(a, b, 1.0), (b, a, 1.0)]))
}

/// D^{-1/2} (A + I) D^{-1/2} of undirected edges, which may repeat.
fn normalised(n: usize, edges: &[(usize, usize)]) -> Csr {
    let mut all: Vec<_> = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).chain((0..n).map(|i| (i, i))).collect();
    all.sort_unstable();
    all.dedup();
    let mut degree = vec![0f64; n];
    all.iter().for_each(|(a, _)| degree[*a] += 1.0);
    csr(n, all.iter().map(|&(a, b)| (a, b, 1.0 / (degree[a] * degree[b]).sqrt())))
}

fn path(n: usize) -> Vec<(usize, usize)> {
    (1..n).map(|i| (i - 1, i)).collect()
}

fn complete(nodes: std::ops::Range<usize>) -> Vec<(usize, usize)> {
    nodes.clone().flat_map(|i| (i + 1..nodes.end).map(move |j| (i, j))).collect()
}

/// A random graph: `groups` blocks with `inside` and `outside` edges a node, and leaves that hang on hubs.
fn random_edges(n: usize, per_node: usize, leaves: usize, seed: u64) -> Vec<(usize, usize)> {
    let mut stream = Stream::new(seed, &["test", "edges"]);
    let mut below = |bound: usize| usize::try_from(stream.below(bound as u64)).unwrap();
    let inner = n - leaves;
    let mut edges: Vec<_> = (0..inner * per_node).map(|_| (below(inner), below(inner))).collect();
    edges.extend((inner..n).map(|leaf| (leaf, below(inner / 8 + 1))));
    edges.retain(|(a, b)| a != b);
    edges
}

/// Residuals are made small, so that eigenvalues, whose error is their square over a gap, are exact to 1e-10.
fn request(k: usize, solver: Solver) -> Request {
    Request { tolerance: 1e-9, ..Request::new(k, solver) }
}

fn both(a: &Csr, k: usize, solver: Solver) -> Ends {
    ends(a, &request(k, solver), &Unwatched).unwrap()
}

fn assert_values(found: &Ends, mut expected: Vec<f64>) {
    expected.sort_by(|a, b| b.total_cmp(a));
    let k = found.low.values.len();
    let ends = expected[..k].iter().chain(&expected[expected.len() - k..]);
    for (at, (found, wanted)) in found.low.values.iter().chain(&found.high.values).zip(ends).enumerate() {
        assert!((found - wanted).abs() < 1e-10, "{at}: {found} is not {wanted}");
    }
}

fn assert_good(a: &Csr, found: &Ends) {
    let (residual, overlap) = quality(a, &found.low, &found.high);
    assert!(residual < 1e-8 && overlap < 1e-10, "{residual} {overlap}");
}

/// Names, matrices and all eigenvalues: Brouwer and Haemers, Spectra of Graphs, section 1.4.
fn textbook(scale: usize) -> Vec<(&'static str, Csr, Vec<f64>)> {
    let n = 8 * scale;
    let wave = |i: usize, over: usize| 2.0 * (PI * i as f64 / over as f64).cos();
    let mut cycle = path(n);
    cycle.push((0, n - 1));
    let star: Vec<_> = (1..n).map(|i| (0, i)).collect();
    let halves: Vec<_> = (0..n / 4).flat_map(|i| (n / 4..n).map(move |j| (i, j))).collect();
    let root = ((n / 4 * (n - n / 4)) as f64).sqrt();
    let bits = scale.ilog2() as usize + 3;
    let cube: Vec<_> =
        (0..1 << bits).flat_map(|i| (0..bits).map(move |b| (i, i ^ (1 << b)))).filter(|(a, b)| a < b).collect();
    let cube_values = (0..1usize << bits).map(|i| bits as f64 - 2.0 * f64::from(i.count_ones()));
    // Two cycles and lone edges beside each other.
    let third = n / 3;
    let mut union = path(third);
    union.push((0, third - 1));
    union.extend((third + 1..2 * third).map(|i| (i - 1, i)).chain([(third, 2 * third - 1)]));
    union.extend((0..n / 8).map(|i| (2 * third + 2 * i, 2 * third + 2 * i + 1)));
    let union_nodes = 2 * third + n / 4;
    let cycles = (0..third).flat_map(|i| [wave(2 * i, third); 2]);
    vec![
        ("path", adjacency(n, &path(n)), (1..=n).map(|i| wave(i, n + 1)).collect()),
        ("cycle", adjacency(n, &cycle), (0..n).map(|i| wave(2 * i, n)).collect()),
        ("complete", adjacency(n, &complete(0..n)), [vec![(n - 1) as f64], vec![-1.0; n - 1]].concat()),
        (
            "star",
            adjacency(n, &star),
            [vec![((n - 1) as f64).sqrt(), -((n - 1) as f64).sqrt()], vec![0.0; n - 2]].concat(),
        ),
        ("complete bipartite", adjacency(n, &halves), [vec![root, -root], vec![0.0; n - 2]].concat()),
        ("hypercube", adjacency(1 << bits, &cube), cube_values.collect()),
        ("union", adjacency(union_nodes, &union), cycles.chain((0..n / 8).flat_map(|_| [1.0, -1.0])).collect()),
    ]
}

/// Cliques of `size`, whose first nodes form a ring, with self-loops: for every frequency ω of the ring the pair
/// of [[1 + 2 cos ω, √(size − 1)], [√(size − 1), size − 1]], and 0 for every other node.
fn ring_of_cliques(cliques: usize, size: usize) -> (Csr, Vec<f64>) {
    let n = cliques * size;
    let mut edges: Vec<_> = (0..cliques).flat_map(|c| complete(c * size..(c + 1) * size)).collect();
    edges.extend((0..cliques).map(|c| (c * size, (c + 1) % cliques * size)));
    let entries = edges.iter().flat_map(|&(a, b)| [(a, b, 1.0), (b, a, 1.0)]).chain((0..n).map(|i| (i, i, 1.0)));
    let rest = (size - 1) as f64;
    let mut values: Vec<f64> = (0..cliques)
        .flat_map(|c| {
            let corner = 1.0 + 2.0 * (2.0 * PI * c as f64 / cliques as f64).cos();
            let (middle, radius) = ((corner + rest) / 2.0, (((corner - rest) / 2.0).powi(2) + rest).sqrt());
            [middle + radius, middle - radius]
        })
        .collect();
    values.resize(n, 0.0);
    (csr(n, entries), values)
}

#[test]
fn small_spectra_are_those_of_the_textbook() {
    for (name, a, values) in textbook(2) {
        let found = both(&a, a.n(), Solver::Dense);
        assert_values(&found, values);
        assert_good(&a, &found);
        assert_eq!(found.low.values.len(), a.n() / 2, "{name}");
    }
    let (a, values) = ring_of_cliques(5, 6);
    assert_values(&both(&a, 15, Solver::Dense), values);
}

#[test]
fn lanczos_finds_the_ends_of_textbook_spectra() {
    // 1024 nodes: repeated eigenvalues in pairs (cycles), and 120 times, which the cut of 60 splits (hypercube). What
    // twins and components leave of the others is small, and dense.
    for (name, a, values) in textbook(128) {
        let found = both(&a, 60, Solver::Lanczos);
        assert_eq!(found.effort.iterated, ["path", "cycle", "hypercube"].contains(&name), "{name}");
        assert_values(&found, values);
        assert_good(&a, &found);
    }
    let (a, values) = ring_of_cliques(200, 6);
    let found = both(&a, 40, Solver::Lanczos);
    assert!(found.effort.iterated);
    assert_values(&found, values);
}

#[test]
fn lanczos_and_dense_agree_vector_by_vector() {
    for (seed, n, per_node) in [(1, 900, 2), (2, 1200, 5)] {
        let a = normalised(n, &random_edges(n, per_node, n / 6, seed));
        let (iterated, whole) = (both(&a, 40, Solver::Lanczos), both(&a, 40, Solver::Dense));
        assert!(iterated.effort.iterated && !whole.effort.iterated);
        assert_good(&a, &iterated);
        for (one, other) in [(&iterated.low, &whole.low), (&iterated.high, &whole.high)] {
            for (x, y) in one.values.iter().zip(&other.values) {
                assert!((x - y).abs() < 1e-10, "{x} {y}");
            }
            let worst = one.vectors.iter().zip(&other.vectors).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-5, "{worst}");
        }
    }
}

#[test]
fn a_small_memory_restarts_and_finds_the_same() {
    // A path is hard: its eigenvalues crowd at both ends.
    let n = 5000;
    let a = adjacency(n, &path(n));
    let free = both(&a, 20, Solver::Lanczos);
    let tight = Request { memory: 2 * 8 * 5000 * 366, ..request(20, Solver::Lanczos) };
    let bound = ends(&a, &tight, &Unwatched).unwrap();
    assert_good(&a, &bound);
    assert!(bound.effort.memory < free.effort.memory, "{} {}", bound.effort.memory, free.effort.memory);
    assert!(bound.effort.products > free.effort.products);
    assert_values(&bound, (1..=n).map(|i| 2.0 * (PI * i as f64 / (n + 1) as f64).cos()).collect());
    let error = ends(&a, &Request { memory: 1 << 20, ..tight }, &Unwatched).unwrap_err();
    assert!(matches!(error, EigenError::Room { .. }), "{error}");
}

#[test]
fn threads_do_not_change_a_byte() {
    let a = normalised(1100, &random_edges(1100, 3, 150, 4));
    for solver in [Solver::Lanczos, Solver::Dense] {
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| both(&a, 30, solver))
        };
        let bits = |e: &Ends| e.low.vectors.iter().chain(&e.high.vectors).map(|x| x.to_bits()).collect::<Vec<_>>();
        let one = with(1);
        for threads in [1, 2, 3] {
            let other = with(threads);
            assert_eq!(one, other);
            assert!(bits(&one) == bits(&other));
        }
    }
}

/// Records steps, and stops after some of them.
struct Recorder {
    steps: Mutex<[Vec<Vec<f64>>; 2]>,
    recalled: AtomicUsize,
    stop_after: usize,
}

impl Watch for Recorder {
    fn cancelled(&self) -> bool {
        self.steps.lock().unwrap().iter().map(Vec::len).sum::<usize>() >= self.stop_after
    }
    fn recall(&self, end: End, step: usize) -> Option<Vec<f64>> {
        let found = self.steps.lock().unwrap()[usize::from(end == End::High)].get(step - 1).cloned();
        self.recalled.fetch_add(usize::from(found.is_some()), Ordering::Relaxed);
        found
    }
    fn record(&self, end: End, step: usize, parts: &[&[f64]]) {
        let mut steps = self.steps.lock().unwrap();
        let of = &mut steps[usize::from(end == End::High)];
        assert_eq!(of.len(), step - 1, "steps are recorded in order");
        of.push(parts.concat());
    }
}

#[test]
fn a_search_that_was_stopped_goes_on_where_it_was_and_ends_the_same() {
    let a = normalised(1000, &random_edges(1000, 3, 100, 5));
    let request = request(40, Solver::Lanczos);
    let whole = ends(&a, &request, &Unwatched).unwrap();
    let recorder = |steps, stop_after| Recorder { steps: Mutex::new(steps), recalled: AtomicUsize::new(0), stop_after };
    let first = recorder(Default::default(), 7);
    assert!(matches!(ends(&a, &request, &first), Err(EigenError::Cancelled)));
    let steps = first.steps.into_inner().unwrap();
    let kept = steps.iter().map(Vec::len).sum::<usize>();
    assert!(kept >= 7);
    let second = recorder(steps, usize::MAX);
    assert_eq!(ends(&a, &request, &second).unwrap(), whole);
    assert_eq!(second.recalled.load(Ordering::Relaxed), kept);
    // A record of the wrong length is not taken.
    let mut damaged = second.steps.into_inner().unwrap();
    damaged[0][3].pop();
    damaged[0].truncate(4);
    let third = recorder([Vec::new(), Vec::new()], usize::MAX);
    assert_eq!(ends(&a, &request, &third).unwrap(), whole);
}

#[test]
fn no_convergence_says_what_did_converge() {
    let a = normalised(1000, &random_edges(1000, 3, 0, 6));
    let error = ends(&a, &Request { products: 700, ..request(40, Solver::Lanczos) }, &Unwatched).unwrap_err();
    let EigenError::NoConvergence { converged, wanted, products, .. } = error else { panic!("{error}") };
    assert!(converged < wanted && wanted <= 40 && products >= 700, "{converged} {wanted} {products}");
}

#[test]
fn an_eigenvalue_repeated_too_often_to_complete_is_said() {
    // 1, 13 and 78 times, then 286 times, of which a hundred pairs would be eight.
    let cube: Vec<_> =
        (0..1 << 13).flat_map(|i| (0..13).map(move |b| (i, i ^ (1 << b)))).filter(|(a, b)| a < b).collect();
    let result = ends(&adjacency(1 << 13, &cube), &Request::new(100, Solver::Lanczos), &Unwatched);
    let Err(EigenError::Repeated { value, wanted: 100, .. }) = result else { panic!("it was not said") };
    assert!((value.abs() - 7.0).abs() < 1e-6, "{value}");
}

#[test]
fn both_ends_may_lie_in_the_space_of_eigenvalue_one() {
    // Six lone nodes with self-loops: every eigenvalue is 1, and no vector may stand at both ends.
    let a = csr(6, (0..6).map(|i| (i, i, 1.0)));
    assert_good(&a, &both(&a, 3, Solver::Dense));
}

#[test]
fn eigenvalue_one_has_a_vector_a_component_largest_first() {
    // D^{-1/2} A D^{-1/2} of a triangle {1, 3, 5}, an edge {0, 4} and a lone node 2.
    let triangle = [(1, 3), (1, 5), (3, 5)].map(|(a, b)| (a, b, 0.5));
    let all: Vec<_> = triangle.into_iter().chain([(0, 4, 1.0)]).collect();
    let pieces = csr(6, all.into_iter().flat_map(|(a, b, v)| [(a, b, v), (b, a, v)]));
    let found = both(&pieces, 3, Solver::Dense);
    // Triangle: 1, −½, −½; edge: 1, −1; lone node: 0.
    assert_values(&found, vec![1.0, 1.0, 0.0, -0.5, -0.5, -1.0]);
    let (third, half) = (1.0 / 3f64.sqrt(), 0.5f64.sqrt());
    let expected = [[0.0, third, 0.0, third, 0.0, third], [half, 0.0, 0.0, 0.0, half, 0.0]];
    for (u, wanted) in found.low.vectors.chunks(6).zip(expected) {
        assert!(u.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-15), "{u:?}");
    }
}

#[test]
fn with_negative_entries_one_need_not_be_the_largest() {
    // Rows add up to 1, so (1, 1, 1) has the eigenvalue 1, and so has the difference of the twins; the trace leaves −5.
    let rows = [[-3.0, 2.0, 2.0], [2.0, 0.0, -1.0], [2.0, -1.0, 0.0]];
    let entries = (0..9).map(|i| (i / 3, i % 3, rows[i / 3][i % 3])).filter(|e| e.2 != 0.0);
    // The zero on the diagonal is an entry, so that all rows are equally long.
    let a = csr(3, entries.chain([(1, 1, 0.0), (2, 2, 0.0)]));
    let found = both(&a, 1, Solver::Dense);
    assert_values(&found, vec![1.0, 1.0, -5.0]);
    assert_good(&a, &found);
}

#[test]
fn twins_are_written_down() {
    // Leaves 1, 2, 3 of hub 0, and a triangle {4, 5, 6} that hangs on it: leaves are twins, and so are 5 and 6.
    let a = normalised(7, &[(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6), (5, 6)]);
    let parts = reduce(&a);
    assert_eq!(parts.len(), 1);
    // Without self-loops, adjacent twins have −1/degree.
    let bare = reduce(&adjacency(7, &[(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6), (5, 6)]));
    let bare: Vec<_> = bare[0].twins.iter().map(|t| (t.value, &t.members[..])).collect();
    assert_eq!(bare, [(0.0, &[1, 2, 3][..]), (-1.0, &[5, 6][..])]);
    let groups: Vec<_> = parts[0].twins.iter().map(|t| (t.value, &t.members[..])).collect();
    assert_eq!(groups.len(), 2);
    assert!((groups[0].0 - 0.5).abs() < 1e-15 && groups[0].1 == [1, 2, 3] && groups[1] == (0.0, &[5, 6][..]));
    let found = both(&a, 3, Solver::Dense);
    let at = found.low.values.iter().position(|v| (v - 0.5).abs() < 1e-12);
    let first = at.map(|at| &found.low.vectors[at * 7..(at + 1) * 7]).unwrap();
    let half = 0.5f64.sqrt();
    assert!(first.iter().zip([0.0, half, -half, 0.0, 0.0, 0.0, 0.0]).all(|(x, y)| (x - y).abs() < 1e-15), "{first:?}");
    assert_good(&a, &found);
}

#[test]
fn an_eigenvalue_very_near_to_one_is_not_mixed_with_it() {
    // Two cliques at the ends of a path: λ₂ = 1 − 2e-9 or so.
    let mut edges = [complete(0..120), complete(200..320)].concat();
    edges.extend((119..200).map(|i| (i, i + 1)));
    let a = normalised(320, &edges);
    let found = both(&a, 10, Solver::Dense);
    assert!(found.low.values[1] > 1.0 - 1e-5);
    let (residual, overlap) = quality(&a, &found.low, &found.high);
    assert!(residual < 1e-8 && overlap < 1e-12, "{residual} {overlap}");
}

#[test]
fn one_eigenvalue_from_end_to_end_is_complete() {
    // Bipartite, without loops: 0 is there at least 530 times, and both cuts lie in it.
    let mut stream = Stream::new(1, &["test", "bipartite"]);
    let edges: std::collections::BTreeSet<(usize, usize)> =
        (0..1020).flat_map(|i| [0; 4].map(|_| (i, 1020 + usize::try_from(stream.below(490)).unwrap()))).collect();
    let a = adjacency(1510, &edges.into_iter().collect::<Vec<_>>());
    let found = both(&a, 495, Solver::Lanczos);
    assert_good(&a, &found);
}

#[test]
fn an_entry_of_largest_magnitude_is_positive() {
    let a = normalised(31, &random_edges(31, 2, 4, 5));
    let found = both(&a, 15, Solver::Dense);
    for u in found.low.vectors.chunks(31).chain(found.high.vectors.chunks(31)) {
        let largest = u.iter().fold(0f64, |m, x| m.max(x.abs()));
        assert!(*u.iter().find(|x| x.abs() >= largest * (1.0 - 1e-6)).unwrap() > 0.0);
    }
}

#[test]
fn an_asymmetric_infinite_or_empty_matrix_is_refused() {
    let refused = |a: &Csr| ends(a, &request(1, Solver::Auto), &Unwatched).unwrap_err();
    let lopsided = csr(2, [(0, 1, 1.0)].into_iter());
    assert!(matches!(refused(&lopsided), EigenError::NotSymmetric { row: 0, column: 1 }));
    let infinite = csr(2, [(1, 1, f64::INFINITY)].into_iter());
    assert!(matches!(refused(&infinite), EigenError::NotFinite { row: 1, column: 1 }));
    assert!(matches!(refused(&csr(3, std::iter::empty())), EigenError::Empty));
}

#[test]
fn a_part_that_is_too_large_for_a_dense_solver_is_refused() {
    let a = normalised(50, &path(50));
    let error = ends(&a, &Request { most_rows: 40, ..request(5, Solver::Auto) }, &Unwatched).unwrap_err();
    assert!(matches!(error, EigenError::TooLarge { rows: 50, most: 40 }), "{error}");
}

#[cfg(feature = "lapack")]
#[test]
fn lapack_agrees_vector_by_vector() {
    let a = normalised(200, &random_edges(200, 3, 20, 3));
    let (one, other) = (both(&a, 60, Solver::Dense), both(&a, 60, Solver::Lapack));
    assert!(one.low.vectors.iter().zip(&other.low.vectors).all(|(x, y)| (x - y).abs() < 1e-9));
    assert!(one.high.vectors.iter().zip(&other.high.vectors).all(|(x, y)| (x - y).abs() < 1e-9));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Without any reduction: one dense decomposition of everything.
    #[test]
    fn reductions_change_no_eigenvalue(n in 2usize..50, per_node in 0usize..4, leaves in 0usize..20, seed in 0u64..1000) {
        let a = normalised(n, &random_edges(n, per_node, leaves.min(n / 2), seed));
        let found = both(&a, n, Solver::Dense);
        let (mut values, _) = symmetric(&dense::entries(&a).unwrap(), n).unwrap();
        values.reverse();
        let k = n / 2;
        for (x, y) in found.low.values.iter().chain(&found.high.values).zip(values[..k].iter().chain(&values[n - k..])) {
            prop_assert!((x - y).abs() < 1e-10, "{} {}", x, y);
        }
        let (residual, overlap) = quality(&a, &found.low, &found.high);
        prop_assert!(residual < 1e-8 && overlap < 1e-10, "{} {}", residual, overlap);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn lanczos_finds_what_the_dense_solver_finds(n in 420usize..700, per_node in 1usize..5, k in 2usize..24, seed in 0u64..1000) {
        let a = normalised(n, &random_edges(n, per_node, n / 10, seed));
        let (found, expected) = (both(&a, k, Solver::Lanczos), both(&a, k, Solver::Dense));
        for (x, y) in found.low.values.iter().chain(&found.high.values).zip(expected.low.values.iter().chain(&expected.high.values)) {
            prop_assert!((x - y).abs() < 1e-10, "{} {}", x, y);
        }
        let (residual, overlap) = quality(&a, &found.low, &found.high);
        prop_assert!(residual < 1e-8 && overlap < 1e-8, "{} {}", residual, overlap);
    }
}
