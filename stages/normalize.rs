//! `normalize`: makes the symmetric operator that models propagate with.
//!
//! The stored edges lose duplicates and loops and are symmetrised (an edge in either direction is an edge in both).
//! With A the resulting 0/1 adjacency (nodes × nodes) and D its degrees:
//!
//! - with self-loops: Ã = (D + I)^{-1/2} (A + I) (D + I)^{-1/2};
//! - without: Â₀ = D^{-1/2} A D^{-1/2} with 0^{-1/2} := 0, so a node without neighbours has an empty row.
//!
//! With `weights: use`, A holds the weights of the edges and D the sums of its rows; the loops that are added weigh 1,
//! and stored loops are left out whatever they weigh. Weights must be finite and not negative. An edge that is stored
//! several times, in one direction or in both, must have the same weight each time; stored in one direction only, it has
//! that weight in both. An edge of weight 0 is none. If all weights are 1 the operator is the same, bit for bit.
//!
//! With `hops: 2`, A joins the nodes at distance exactly two instead: A₂ = 1[(A + I)² > 0] − 1[A + I > 0], which is normalised by
//! degrees of its own, for models that look beyond neighbours (`second-operator` of `train`). It has as many entries as there are
//! ordered pairs at that distance, a share of n² on dense graphs: they are counted first, and refused if they take more than `memory`.
//! Weights of edges say nothing about such pairs, and are refused.
//!
//! Values are f64; entries are stored by ascending row and column, and mirrored entries are equal bit for bit.

use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{self, Bytes, Problem};
use crate::contract::{
    Artifact, Estimate, Job, Known, Memory, Progress, Size, Sizes, Slot, Stage, StageError, Sureness, Term, Work,
};
use crate::kinds::{Graph, Names, Operator, size};
use crate::math::csr::Csr;
use crate::math::two_hops;

/// Bytes of an entry: a column and a value.
const ENTRY: u64 = 12;
/// Memory that entries of two hops may take.
const MEMORY: Bytes = Bytes(12 << 30);

/// Parameters of `normalize`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Whether every node gets a loop before the adjacency is normalised.
    pub self_loops: bool,
    /// Whether the weights of the edges count, where the file has them.
    // Not in the key unless they do: results without them stay what they are.
    #[serde(skip_serializing_if = "Weights::are_ignored")]
    pub weights: Weights,
    /// Distance of the nodes that the operator joins: 1 is neighbours, 2 their neighbours that are no neighbours.
    #[serde(skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 2), extend("default" = 1))]
    pub hops: usize,
    /// Memory that the entries of two hops may take, such as `8GiB`.
    #[serde(skip_serializing_if = "is_usual")]
    #[schemars(extend("default" = "12GiB"))]
    pub memory: Bytes,
}

fn is_one(hops: &usize) -> bool {
    *hops == 1
}

fn is_usual(memory: &Bytes) -> bool {
    *memory == MEMORY
}

/// Whether the weights of the edges count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// Every edge counts as 1.
    #[default]
    Ignore,
    /// An edge counts as its weight; a graph without weights is an error.
    Use,
}

impl Weights {
    fn are_ignored(&self) -> bool {
        *self == Self::Ignore
    }
}

impl Default for Params {
    fn default() -> Self {
        Self { self_loops: true, weights: Weights::default(), hops: 1, memory: MEMORY }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if self.hops == 2 && self.weights == Weights::Use {
            let what = "weights of edges say nothing about nodes that are two hops apart";
            problems.push(Problem::value("weights", what).with_help("leave it out, or use `hops: 1`"));
        }
        if self.hops == 1 && self.memory != MEMORY {
            problems.push(Problem::name("memory", "`memory` is read with `hops: 2` only"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The stage.
pub struct Normalize;

/// Walks of two steps, from every node.
const WALKS: &str = "walks";

impl Stage for Normalize {
    const NAME: &'static str = "normalize";
    const ABOUT: &'static str = "Makes the symmetric normalised adjacency of a graph";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND)];
    const TERMS: &'static [Term] =
        &[Term::alone("entries", 3e-8), Term::alone("values", 1e-9), Term::shared(WALKS, 3e-9)];
    type Params = Params;
    type Output = Operator;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        let graph = known.sizes("graph");
        let nodes = graph.or_guess(size::NODES, 5000.0);
        let loops = if params.self_loops { nodes } else { Size::ZERO };
        let links = graph.get(size::LINKS).unwrap_or_else(|| graph.or_guess(size::EDGES, 1e5).at_most(Sureness::About));
        // An edge of weight 0 is none.
        let sure = if params.weights == Weights::Use { Sureness::About } else { Sureness::Exact };
        let entries = (links * 2 + loops).at_most(sure);
        if params.hops == 2 {
            return two_hop_estimate(known, nodes, links * 2, loops);
        }
        Estimate {
            sizes: Sizes::default().with(size::NODES, nodes).with(size::ENTRIES, entries).with(size::LOOPS, loops),
            work: Work::default()
                .and("entries", entries + graph.or_guess(size::EDGES, 1e5))
                .and("values", graph.or_guess(size::STORED, 1e5))
                .shared_by(1),
            memory: Memory::default()
                .and(size::graph_bytes(&graph))
                .and_for(entries * 40, "use a graph with fewer edges (`degree` or `nodes` of a generated one)"),
            notes: Vec::new(),
        }
    }

    fn run(params: &Params, job: &Job) -> Result<Operator, StageError> {
        let graph: Graph = job.input("graph")?;
        let outside = || StageError::unusable("the graph has an edge to a node that it does not have", "load it again");
        if params.hops == 2 {
            let near = operator(graph.nodes(), &graph.edges, false).ok_or_else(outside)?;
            drop(graph);
            return Ok(Operator { matrix: two_hop_operator(&near, params, job)? });
        }
        let matrix = match params.weights {
            Weights::Ignore => operator(graph.nodes(), &graph.edges, params.self_loops),
            Weights::Use => {
                let Some(weights) = &graph.weights else {
                    let hint = "leave `weights: use` out, or name the weights where the graph is loaded (`weight` of \
                                `tables`, a member `edge_weights` of `heterophilous-npz`)";
                    return Err(StageError::unusable("the edges of the graph have no weights", hint));
                };
                let edges = weighted(&graph.edges, weights, &graph.names)?;
                weighted_operator(graph.nodes(), &edges, params.self_loops)
            }
        };
        let matrix = matrix.ok_or_else(outside)?;
        Ok(Operator { matrix })
    }
}

/// Ã or Â₀ of stored edges; `None` if an edge leaves the graph.
fn operator(n: usize, edges: &[(u32, u32)], self_loops: bool) -> Option<Csr> {
    let mut entries: Vec<(u32, u32)> =
        edges.iter().filter(|(a, b)| a != b).flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    if self_loops {
        entries.extend((0u32..).take(n).map(|i| (i, i)));
    }
    entries.sort_unstable();
    entries.dedup();
    let mut counts = vec![0u64; n];
    for (row, _) in &entries {
        *counts.get_mut(*row as usize)? += 1;
    }
    by_degrees(&counts, entries.into_iter().map(|(_, column)| column).collect())
}

/// D^{-1/2} A D^{-1/2} of a 0/1 matrix by its degrees and the columns of its entries; `None` if they do not fit together.
fn by_degrees(degrees: &[u64], columns: Vec<u32>) -> Option<Csr> {
    let mut indptr = vec![0u64];
    let mut start = 0;
    indptr.extend(degrees.iter().map(|count| {
        start += count;
        start
    }));
    let mut values = Vec::with_capacity(columns.len());
    let mut rest = &columns[..];
    for own in degrees {
        let row = rest.split_off(..usize::try_from(*own).ok()?)?;
        #[expect(clippy::cast_precision_loss, reason = "a product of two counts below 2^26 is exact, others are near")]
        values.extend(row.iter().map(|j| 1.0 / (*own as f64 * degrees[*j as usize] as f64).sqrt()));
    }
    Csr::new(degrees.len(), indptr, columns, values)
}

/// The operator of nodes two hops apart, from that of neighbours.
fn two_hop_operator(near: &Csr, params: &Params, job: &Job) -> Result<Csr, StageError> {
    let (done, total) = (AtomicU64::new(0), 2 * near.n().div_ceil(two_hops::ROWS) as u64);
    let go_on = || {
        job.check_cancelled()?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        job.progress(&Progress { done, total, note: String::new() });
        Ok::<(), StageError>(())
    };
    let degrees = two_hops::counts(near, params.self_loops, go_on)?;
    within_memory(degrees.iter().sum(), params.memory)?;
    let columns = two_hops::columns(near, params.self_loops, &degrees, go_on)?;
    by_degrees(&degrees, columns)
        .ok_or_else(|| StageError::unusable("the nodes two hops apart do not fit together", "load the graph again"))
}

/// Refuses entries that take more than the memory.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn within_memory(entries: u64, memory: Bytes) -> Result<(), StageError> {
    let (bytes, Bytes(allowed)) = (entries.saturating_mul(ENTRY), memory);
    if bytes <= allowed {
        return Ok(());
    }
    Err(StageError::unusable(
        format!(
            "`{entries}` ordered pairs of nodes are two hops apart; they take {:.1} GB, and `memory` allows {memory}",
            bytes as f64 / 1e9
        ),
        "use a graph with fewer edges, or raise `memory`; training takes about three times as much",
    ))
}

/// What two hops will be and take: `near` entries between neighbours.
fn two_hop_estimate(known: &Known, nodes: Size, near: Size, loops: Size) -> Estimate {
    let degree = (near / nodes).value;
    // Neighbours have more neighbours than nodes have, and some of those are met twice: within a factor of four for the graphs of
    // the paper (Texas has more, Squirrel and Chameleon fewer).
    let walks = nodes * Size::guess(2.0 * degree * degree.max(1.0));
    let entries = match known.made.map(Operator::sizes).and_then(|made| made.get(size::ENTRIES)) {
        Some(made) => made,
        None => walks.min(nodes * nodes) + loops,
    };
    let graph = known.sizes("graph");
    Estimate {
        sizes: Sizes::default().with(size::NODES, nodes).with(size::ENTRIES, entries).with(size::LOOPS, loops),
        work: Work::default()
            .and("entries", near + graph.or_guess(size::EDGES, 1e5) + entries * 0.1)
            .and("values", graph.or_guess(size::STORED, 1e5))
            .and(WALKS, walks * 2 + entries),
        memory: Memory::default()
            .and(size::graph_bytes(&graph))
            .and(near * 40)
            .and_each(nodes * 12, "use a smaller graph")
            .and_for(entries * 12, "use a graph with fewer edges"),
        notes: Vec::new(),
    }
}

/// Every edge once, as (smaller, larger), with its weight; loops and edges of weight 0 are left out.
fn weighted(edges: &[(u32, u32)], weights: &[f32], names: &Names) -> Result<Vec<(u32, u32, f64)>, StageError> {
    let between =
        |a: u32, b: u32| format!("between `{}` and `{}`", names.id_shown(a as usize), names.id_shown(b as usize));
    let mut all = Vec::with_capacity(edges.len());
    for (&(a, b), &weight) in edges.iter().zip(weights).filter(|((a, b), _)| a != b) {
        if !(weight.is_finite() && weight >= 0.0) {
            let what = format!("the edge {} has weight {weight}, expected 0 or more", between(a, b));
            return Err(StageError::unusable(what, "change it in the data, or use `weights: ignore`"));
        }
        all.push((a.min(b), a.max(b), f64::from(weight)));
    }
    all.sort_unstable_by(|x, y| (x.0, x.1).cmp(&(y.0, y.1)).then(x.2.total_cmp(&y.2)));
    let apart = |pair: &&[(u32, u32, f64)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[0].2 != pair[1].2;
    if let Some(&[(a, b, one), (_, _, other)]) = all.windows(2).find(apart) {
        let what = format!("the edge {} has weights {one} and {other}, expected one weight", between(a, b));
        let hint = "models see an undirected graph: give both directions and all copies of an edge the same weight, or \
                    use `weights: ignore`";
        return Err(StageError::unusable(what, hint));
    }
    all.dedup_by_key(|(a, b, _)| (*a, *b));
    all.retain(|(_, _, weight)| *weight > 0.0);
    Ok(all)
}

/// Ã or Â₀ of undirected edges with positive weights; `None` if an edge leaves the graph.
fn weighted_operator(n: usize, edges: &[(u32, u32, f64)], self_loops: bool) -> Option<Csr> {
    let mut entries: Vec<_> = edges.iter().flat_map(|&(a, b, weight)| [(a, b, weight), (b, a, weight)]).collect();
    if self_loops {
        entries.extend((0u32..).take(n).map(|i| (i, i, 1.0)));
    }
    entries.sort_unstable_by_key(|(row, column, _)| (*row, *column));
    let (mut indptr, mut degrees) = (vec![0u64; n + 1], vec![0.0; n]);
    for (row, _, weight) in &entries {
        *degrees.get_mut(*row as usize)? += weight;
        indptr[*row as usize + 1] += 1;
    }
    for row in 0..n {
        indptr[row + 1] += indptr[row];
    }
    let value = |(a, b, weight): &(u32, u32, f64)| weight / (degrees[*a as usize] * degrees[*b as usize]).sqrt();
    let values = entries.iter().map(value).collect();
    Csr::new(n, indptr, entries.iter().map(|(_, column, _)| *column).collect(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::eigen::{Ends, Request, Solver, Unwatched, ends};
    use crate::math::random::Stream;

    /// Any directed edges, loops and duplicates among them.
    fn random_edges(n: u32, edges: usize, seed: u64) -> Vec<(u32, u32)> {
        let mut stream = Stream::new(seed, &["test", "edges"]);
        let mut node = || u32::try_from(stream.below(u64::from(n))).unwrap();
        (0..edges).map(|_| (node(), node())).collect()
    }

    fn components(n: u32, edges: &[(u32, u32)]) -> usize {
        let mut group: Vec<u32> = (0..n).collect();
        for &(a, b) in edges {
            let (from, to) = (group[a as usize], group[b as usize]);
            group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
        }
        group.sort_unstable();
        group.dedup();
        group.len()
    }

    #[test]
    fn the_operator_has_the_spectrum_of_a_normalised_adjacency() {
        for seed in 0..40 {
            let n = 2 + u32::try_from(seed).unwrap();
            // From forests of many components to one dense component.
            let edges = random_edges(n, usize::try_from(seed * seed / 10).unwrap(), seed);
            let a = operator(n as usize, &edges, true).unwrap();
            for i in 0..n {
                let mirrored =
                    |j: &u32| a.get(*j as usize, i as usize).to_bits() == a.get(i as usize, *j as usize).to_bits();
                assert!(a.row(i as usize).0.iter().all(mirrored));
            }
            let root = |i: usize| (a.row(i).0.len() as f64).sqrt();
            for i in 0..n as usize {
                let (columns, values) = a.row(i);
                let product: f64 = columns.iter().zip(values).map(|(c, v)| v * root(*c as usize)).sum();
                assert!((product - root(i)).abs() < 1e-12 * root(i).max(1.0));
            }
            let request = Request::new(n as usize, Solver::Dense);
            let Ends { low, high, .. } = ends(&a, &request, &Unwatched).unwrap();
            let ones = low.values.iter().chain(&high.values).filter(|v| (**v - 1.0).abs() < 1e-9).count();
            // An odd number of nodes leaves the middle pair out, which is 1 only if almost all are.
            let expected = components(n, &edges);
            assert!(ones == expected || (n % 2 == 1 && expected > n as usize / 2), "{ones} {expected}");
            assert!(low.values.iter().chain(&high.values).all(|v| *v > -1.0 && *v < 1.0 + 1e-12));
        }
    }

    #[test]
    fn duplicates_loops_and_directions_do_not_count() {
        let once = operator(3, &[(0, 1), (1, 2)], true).unwrap();
        assert_eq!(once, operator(3, &[(1, 0), (0, 1), (0, 1), (2, 2), (2, 1)], true).unwrap());
        // Degrees with loops 2, 3, 2: 1/2, 1/√6, 1/3.
        assert!((once.get(0, 0) - 0.5).abs() < 1e-15);
        assert!((once.get(0, 1) - 1.0 / 6f64.sqrt()).abs() < 1e-15);
        assert!((once.get(1, 1) - 1.0 / 3.0).abs() < 1e-15);
        assert_eq!(once.get(0, 2), 0.0);
    }

    fn with_weights(n: usize, edges: &[(u32, u32)], weights: &[f32], self_loops: bool) -> Csr {
        weighted_operator(n, &weighted(edges, weights, &Names::default()).unwrap(), self_loops).unwrap()
    }

    #[test]
    fn weights_of_one_change_no_bit() {
        for seed in 0..20 {
            let n = 2 + u32::try_from(seed).unwrap();
            let edges = random_edges(n, 60, seed);
            for self_loops in [true, false] {
                let plain = operator(n as usize, &edges, self_loops).unwrap();
                assert_eq!(with_weights(n as usize, &edges, &vec![1.0; edges.len()], self_loops), plain);
            }
        }
    }

    #[test]
    fn weights_are_normalised_by_their_sums() {
        // 0 –2– 1 –0.5– 2, the first stored in both directions and twice, the second once; 3 by an edge that is none.
        let edges = [(0, 1), (1, 0), (1, 0), (2, 1), (2, 2), (3, 0)];
        let a = with_weights(4, &edges, &[2.0, 2.0, 2.0, 0.5, 9.0, 0.0], true);
        // Sums with loops 3, 3.5, 1.5, 1.
        for (i, j, expected) in [(0, 1, 2.0 / 10.5f64.sqrt()), (1, 2, 0.5 / 5.25f64.sqrt()), (2, 2, 1.0 / 1.5)] {
            assert!((a.get(i, j) - expected).abs() < 1e-15 && a.get(i, j).to_bits() == a.get(j, i).to_bits());
        }
        assert_eq!((a.get(3, 3), a.get(0, 3), a.row(3).0.len()), (1.0, 0.0, 1));
        // √sums is the eigenvector of 1.
        let roots = [3f64, 3.5, 1.5, 1.0].map(f64::sqrt);
        for (i, root) in roots.iter().enumerate() {
            let (columns, values) = a.row(i);
            let product: f64 = columns.iter().zip(values).map(|(c, v)| v * roots[*c as usize]).sum();
            assert!((product - root).abs() < 1e-14);
        }
        let bare = with_weights(4, &edges, &[2.0, 2.0, 2.0, 0.5, 9.0, 0.0], false);
        assert_eq!((bare.row(3).0.len(), bare.get(0, 1)), (0, 2.0 / 5f64.sqrt()));
    }

    #[test]
    fn weights_that_are_no_undirected_graph_are_refused_by_name() {
        let names = Names { ids: vec!["ann".into(), "007".into()], classes: Vec::new() };
        let refused = |edges: &[(u32, u32)], weights: &[f32]| weighted(edges, weights, &names).unwrap_err().to_string();
        let both = "the edge between `ann` and `007` has weights 1.5 and 2, expected one weight";
        assert_eq!(refused(&[(0, 1), (1, 0)], &[2.0, 1.5]), both);
        assert_eq!(refused(&[(0, 1), (1, 0), (0, 1)], &[1.5, 1.5, 2.0]), both);
        let negative = "the edge between `007` and `ann` has weight -1, expected 0 or more";
        assert_eq!(refused(&[(1, 0)], &[-1.0]), negative);
        assert!(refused(&[(1, 0)], &[f32::NAN]).contains("weight NaN"));
        assert!(refused(&[(1, 0), (0, 1)], &[0.0, 1.0]).contains("weights 0 and 1"));
        let plain = serde_json::to_value(Params::default()).unwrap();
        assert_eq!(plain, serde_json::json!({"self-loops": true}), "weights are in the key only where they count");
    }

    fn two_hops_of(n: usize, edges: &[(u32, u32)], params: &Params) -> Result<Csr, StageError> {
        let cancel = std::sync::atomic::AtomicBool::new(false);
        two_hop_operator(&operator(n, edges, false).unwrap(), params, &Job::alone(&cancel))
    }

    #[test]
    fn two_hops_are_what_squares_say_and_have_degrees_of_their_own() {
        for seed in 0..30 {
            let n = 2 + 3 * usize::try_from(seed).unwrap();
            let edges = random_edges(u32::try_from(n).unwrap(), n, seed);
            let near = operator(n, &edges, false).unwrap();
            for self_loops in [false, true] {
                let found = two_hops_of(n, &edges, &Params { self_loops, hops: 2, ..Params::default() }).unwrap();
                // (A + I)² and A + I, dense.
                let step = |i: usize, j: usize| i == j || near.get(i, j) != 0.0;
                let apart = |i: usize, j: usize| !step(i, j) && (0..n).any(|k| step(i, k) && step(k, j));
                let joins = |i: usize, j: usize| apart(i, j) || (self_loops && i == j);
                let degree = |i: usize| (0..n).filter(|j| joins(i, *j)).count() as f64;
                for i in 0..n {
                    for j in 0..n {
                        let expected = if joins(i, j) { 1.0 / (degree(i) * degree(j)).sqrt() } else { 0.0 };
                        assert!((found.get(i, j) - expected).abs() < 1e-15, "{i}, {j} of {n}");
                        assert_eq!(found.get(i, j).to_bits(), found.get(j, i).to_bits());
                        // Neighbours and nodes two hops apart have nothing in common.
                        assert!(self_loops || found.get(i, j) * (near.get(i, j) + f64::from(u8::from(i == j))) == 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn a_node_without_second_neighbours_has_an_empty_row() {
        // A path of three nodes, and a node alone.
        let params = Params { self_loops: false, hops: 2, ..Params::default() };
        let found = two_hops_of(4, &[(0, 1), (1, 2)], &params).unwrap();
        assert_eq!((found.indptr, found.indices, found.values), (vec![0, 1, 1, 2, 2], vec![2, 0], vec![1.0, 1.0]));
    }

    #[test]
    fn more_pairs_than_the_memory_allows_are_refused_and_counted() {
        // A star: all pairs of its ten leaves.
        let edges: Vec<(u32, u32)> = (1..=10).map(|leaf| (0, leaf)).collect();
        let with =
            |memory| two_hops_of(11, &edges, &Params { self_loops: false, hops: 2, memory, ..Params::default() });
        assert_eq!(with(Bytes(90 * ENTRY)).unwrap().indices.len(), 90);
        let error = with(Bytes(90 * ENTRY - 1)).unwrap_err();
        assert!(error.to_string().starts_with("`90` ordered pairs of nodes are two hops apart"), "{error}");
        let check = |params: Params| params::Params::check(&params).map_err(|p| p[0].message.clone());
        assert!(check(Params { hops: 2, memory: Bytes(1 << 30), ..Params::default() }).is_ok());
        assert!(check(Params { memory: Bytes(1 << 30), ..Params::default() }).is_err());
        assert!(check(Params { hops: 2, weights: Weights::Use, ..Params::default() }).is_err());
        let written = serde_json::to_value(Params { hops: 2, ..Params::default() }).unwrap();
        assert_eq!(written, serde_json::json!({"self-loops": true, "hops": 2}));
    }

    #[test]
    fn two_hops_stop_when_cancelled_and_do_not_depend_on_threads() {
        let edges = random_edges(500, 1500, 3);
        let params = Params { self_loops: false, hops: 2, ..Params::default() };
        let made = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| two_hops_of(500, &edges, &params).unwrap())
        };
        assert!(made(1) == made(3));
        let cancel = std::sync::atomic::AtomicBool::new(true);
        let near = operator(500, &edges, false).unwrap();
        assert!(matches!(two_hop_operator(&near, &params, &Job::alone(&cancel)), Err(StageError::Cancelled)));
    }

    #[test]
    fn without_self_loops_an_isolated_node_has_an_empty_row() {
        let a = operator(3, &[(0, 2), (1, 1)], false).unwrap();
        assert_eq!((a.indptr, a.indices, a.values), (vec![0, 1, 1, 2], vec![2, 0], vec![1.0, 1.0]));
    }
}
