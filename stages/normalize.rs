//! `normalize`: makes the symmetric operator that models propagate with.
//!
//! The stored edges lose duplicates and loops and are symmetrised (an edge in either direction is an edge in both).
//! With A the resulting 0/1 adjacency (nodes × nodes) and D its degrees:
//!
//! - with self-loops: Ã = (D + I)^{-1/2} (A + I) (D + I)^{-1/2};
//! - without: Â₀ = D^{-1/2} A D^{-1/2} with 0^{-1/2} := 0, so a node without neighbours has an empty row.
//!
//! Values are f64; entries are stored by ascending row and column, and mirrored entries are equal bit for bit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params;
use crate::contract::{Artifact, Job, Slot, Stage, StageError};
use crate::kinds::{Graph, Operator};
use crate::math::csr::Csr;

/// Parameters of `normalize`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Whether every node gets a loop before the adjacency is normalised.
    pub self_loops: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { self_loops: true }
    }
}

impl params::Params for Params {}

/// The stage.
pub struct Normalize;

impl Stage for Normalize {
    const NAME: &'static str = "normalize";
    const ABOUT: &'static str = "Makes the symmetric normalised adjacency of a graph";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND)];
    type Params = Params;
    type Output = Operator;

    fn run(params: &Params, job: &Job) -> Result<Operator, StageError> {
        let graph: Graph = job.input("graph")?;
        let matrix = operator(graph.nodes(), &graph.edges, params.self_loops).ok_or_else(|| {
            StageError::unusable("the graph has an edge to a node that it does not have", "load it again")
        })?;
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
    let mut indptr = vec![0u64];
    let mut start = 0;
    indptr.extend(counts.iter().map(|count| {
        start += count;
        start
    }));
    #[expect(clippy::cast_precision_loss, reason = "a product of two counts below 2^26 is exact, others are near")]
    let value = |(a, b): (u32, u32)| 1.0 / (counts[a as usize] as f64 * counts[b as usize] as f64).sqrt();
    let values = entries.iter().map(|e| value(*e)).collect();
    Csr::new(n, indptr, entries.into_iter().map(|(_, column)| column).collect(), values)
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

    #[test]
    fn without_self_loops_an_isolated_node_has_an_empty_row() {
        let a = operator(3, &[(0, 2), (1, 1)], false).unwrap();
        assert_eq!((a.indptr, a.indices, a.values), (vec![0, 1, 1, 2], vec![2, 0], vec![1.0, 1.0]));
    }
}
