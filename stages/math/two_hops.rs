//! The nodes that are exactly two hops from every node of a graph.
//!
//! A row of 1[(A + I)² > 0] − 1[A + I > 0] is found by walking from a node to its neighbours and on to theirs, with a mark on every
//! node that was met. No product is formed: beside the result there is one mark per node and thread. Rows are counted first and
//! filled then, so that the memory is known before it is taken; a row depends on nothing but the graph, so threads change no byte.

use std::ops::Range;

use rayon::prelude::*;

use super::csr::Csr;

/// Rows that one task handles.
pub const ROWS: usize = 64;

/// Counts the nodes two hops from every node of a symmetric graph, and the node itself with `loops`. `go_on` is asked before every
/// block of rows.
///
/// # Errors
/// Those of `go_on`.
pub fn counts<E: Send>(graph: &Csr, loops: bool, go_on: impl Fn() -> Result<(), E> + Sync) -> Result<Vec<u64>, E> {
    let count = |walk: &mut Walk, rows: &Range<usize>| {
        go_on()?;
        Ok(rows.clone().map(|i| walk.reach(graph, i, loops).len() as u64).collect())
    };
    let all: Vec<Vec<u64>> =
        blocks(graph.n()).par_iter().map_init(|| Walk::new(graph.n()), count).collect::<Result<_, E>>()?;
    Ok(all.concat())
}

/// Lists the same nodes, ascending, for all nodes one after the other; `counts` says how many each has.
///
/// # Errors
/// Those of `go_on`.
pub fn columns<E: Send>(
    graph: &Csr,
    loops: bool,
    counts: &[u64],
    go_on: impl Fn() -> Result<(), E> + Sync,
) -> Result<Vec<u32>, E> {
    #[expect(clippy::cast_possible_truncation, reason = "a count of nodes, which stand in memory")]
    let length = |rows: &Range<usize>| counts[rows.clone()].iter().sum::<u64>() as usize;
    let blocks = blocks(graph.n());
    let mut all = vec![0u32; length(&(0..counts.len()))];
    let mut rest = &mut all[..];
    let pieces: Vec<&mut [u32]> =
        blocks.iter().map(|rows| rest.split_off_mut(..length(rows)).unwrap_or_default()).collect();
    pieces.into_par_iter().zip(&blocks).try_for_each_init(
        || Walk::new(graph.n()),
        |walk, (mut piece, rows)| {
            go_on()?;
            for i in rows.clone() {
                let found = walk.reach(graph, i, loops);
                found.sort_unstable();
                if let Some(row) = piece.split_off_mut(..found.len()) {
                    row.copy_from_slice(found);
                }
            }
            Ok(())
        },
    )?;
    Ok(all)
}

fn blocks(n: usize) -> Vec<Range<usize>> {
    (0..n).step_by(ROWS).map(|first| first..(first + ROWS).min(n)).collect()
}

/// What a walk of two steps remembers.
struct Walk {
    /// The last node, counted from 1, from which a node was met.
    met: Vec<usize>,
    found: Vec<u32>,
}

impl Walk {
    fn new(n: usize) -> Self {
        Self { met: vec![0; n], found: Vec::new() }
    }

    /// Returns the nodes two hops from a node, in the order in which they are met.
    fn reach(&mut self, graph: &Csr, node: usize, loops: bool) -> &mut Vec<u32> {
        let Self { met, found } = self;
        let (mark, (near, _)) = (node + 1, graph.row(node));
        found.clear();
        met[node] = mark;
        near.iter().for_each(|j| met[*j as usize] = mark);
        for j in near {
            for k in graph.row(*j as usize).0 {
                if std::mem::replace(&mut met[*k as usize], mark) != mark {
                    found.push(*k);
                }
            }
        }
        if loops {
            found.extend(u32::try_from(node));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::testing::symmetric;

    fn of(graph: &Csr, loops: bool) -> Vec<Vec<u32>> {
        let go_on = || Ok::<(), ()>(());
        let counts = counts(graph, loops, go_on).unwrap();
        let mut columns = &columns(graph, loops, &counts, go_on).unwrap()[..];
        let rows = counts.iter().map(|count| columns.split_off(..*count as usize).unwrap().to_vec()).collect();
        assert!(columns.is_empty());
        rows
    }

    #[test]
    fn rows_are_those_of_products_of_dense_matrices() {
        for (n, degree, seed) in [(1, 1, 1), (30, 1, 2), (150, 2, 3), (150, 5, 4)] {
            let graph = symmetric(n, degree, seed);
            let near = |i: usize, j: usize| i == j || graph.get(i, j) != 0.0;
            for loops in [false, true] {
                for (i, row) in of(&graph, loops).iter().enumerate() {
                    let apart = |j: &usize| !near(i, *j) && (0..n).any(|k| near(i, k) && near(k, *j));
                    let expected: Vec<u32> =
                        (0..n).filter(|j| apart(j) || (loops && i == *j)).map(|j| j as u32).collect();
                    assert_eq!(*row, expected, "node {i} of {n}");
                }
            }
        }
    }

    #[test]
    fn threads_change_nothing_and_a_cancelled_walk_ends() {
        let graph = symmetric(400, 3, 5);
        let with = |threads| {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| of(&graph, false))
        };
        assert!(with(1) == with(3));
        assert_eq!(counts(&graph, false, || Err("enough")), Err("enough"));
        let known = counts(&graph, false, || Ok::<(), ()>(())).unwrap();
        assert_eq!(columns(&graph, false, &known, || Err("enough")), Err("enough"));
    }
}
