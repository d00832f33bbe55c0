//! Neighbour lists: sorted, without duplicates.

use crate::kinds::Graph;

/// The neighbours of every node, ascending.
pub(crate) struct Lists {
    starts: Vec<usize>,
    ends: Vec<u32>,
}

impl Lists {
    /// Where every node's stored edges go, loops included.
    pub(crate) fn out(graph: &Graph) -> Self {
        Self::of(graph.nodes(), graph.edges.iter().copied())
    }

    /// Where the stored edges into every node come from, without loops.
    pub(crate) fn into(graph: &Graph) -> Self {
        Self::of(graph.nodes(), others(graph).map(|(a, b)| (b, a)))
    }

    /// Neighbours in either direction, without loops.
    pub(crate) fn around(graph: &Graph) -> Self {
        Self::of(graph.nodes(), others(graph).flat_map(|(a, b)| [(a, b), (b, a)]))
    }

    fn of(nodes: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0; nodes + 1];
        pairs.clone().for_each(|(a, _)| starts[a as usize + 1] += 1);
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut ends = vec![0; starts[nodes]];
        let mut free = starts.clone();
        for (a, b) in pairs {
            ends[free[a as usize]] = b;
            free[a as usize] += 1;
        }
        // Every row is sorted on its own, and moved to the front as far as duplicates before it leave room.
        let mut kept = 0;
        for i in 0..nodes {
            let row = starts[i]..free[i];
            ends[row.clone()].sort_unstable();
            starts[i] = kept;
            for at in row {
                if kept == starts[i] || ends[kept - 1] != ends[at] {
                    ends[kept] = ends[at];
                    kept += 1;
                }
            }
        }
        starts[nodes] = kept;
        ends.truncate(kept);
        Self { starts, ends }
    }

    /// Returns the neighbours of a node.
    pub(crate) fn row(&self, node: usize) -> &[u32] {
        &self.ends[self.starts[node]..self.starts[node + 1]]
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }
}

fn others(graph: &Graph) -> impl Iterator<Item = (u32, u32)> + Clone {
    graph.edges.iter().copied().filter(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::graph;

    #[test]
    fn lists_are_sorted_and_hold_everyone_once() {
        let graph = graph(&[(2, 1), (0, 2), (2, 2), (2, 1), (2, 0), (0, 2), (3, 2)], vec![0; 5], 1);
        let rows = |lists: &Lists| (0..lists.len()).map(|i| lists.row(i).to_vec()).collect::<Vec<_>>();
        assert_eq!(rows(&Lists::out(&graph)), [vec![2], vec![], vec![0, 1, 2], vec![2], vec![]]);
        assert_eq!(rows(&Lists::into(&graph)), [vec![2], vec![2], vec![0, 3], vec![], vec![]]);
        assert_eq!(rows(&Lists::around(&graph)), [vec![2], vec![2], vec![0, 1, 3], vec![2], vec![]]);
    }
}
