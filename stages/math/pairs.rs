//! Pairs of nodes drawn at random, without replacement: some edges of a graph, and some pairs that are no edges.
//!
//! All pairs (i, j) are ordered; (i, i) is an edge where the graph has a self-loop. Every set of that many edges is equally likely,
//! and so is every set of that many others. Published code draws pairs in rounds and takes what it gets; here the number is exact.

use super::csr::Csr;
use super::random::Stream;

/// Draws `count` entries of a matrix, in their order; nothing if there are fewer, or more than 32 bits count.
pub fn some_edges<T>(of: &Csr<T>, count: usize, stream: &mut Stream) -> Option<Vec<[u32; 2]>> {
    let mut chosen = subset(of.indices.len(), count, stream)?.into_iter();
    let mut edges = Vec::with_capacity(count);
    for (i, row) in (0u32..).zip(0..of.n()) {
        let columns = of.indices[of.range(row)].iter().zip(chosen.by_ref());
        edges.extend(columns.filter(|(_, chosen)| *chosen).map(|(j, _)| [i, *j]));
    }
    Some(edges)
}

/// Returns how many pairs of nodes have no entry in a square matrix.
pub fn count_others(nodes: usize, entries: usize) -> u64 {
    (nodes as u64).saturating_mul(nodes as u64).saturating_sub(entries as u64)
}

/// Draws `count` pairs that have no entry in a square matrix; nothing if there are fewer, or more than 32 bits count.
pub fn some_others<T>(of: &Csr<T>, count: usize, stream: &mut Stream) -> Option<Vec<[u32; 2]>> {
    let (n, there) = (u32::try_from(of.n()).ok()?, count_others(of.n(), of.indices.len()));
    let (wanted, is_edge) =
        (count as u64, |[i, j]: [u32; 2]| of.indices[of.range(i as usize)].binary_search(&j).is_ok());
    if wanted > there {
        return None;
    }
    if 2 * wanted > there {
        // Most of them: tries would hit what is drawn already.
        let mut chosen = subset(usize::try_from(there).ok()?, count, stream)?.into_iter();
        let all = (0..n).flat_map(|i| (0..n).map(move |j| [i, j])).filter(|pair| !is_edge(*pair));
        return Some(all.filter(|_| chosen.next() == Some(true)).collect());
    }
    let (mut pairs, mut seen) = (Vec::with_capacity(count), Seen::new(count));
    while pairs.len() < count {
        let pair = [below(n, stream), below(n, stream)];
        if !is_edge(pair) && seen.insert(pair) {
            pairs.push(pair);
        }
    }
    Some(pairs)
}

/// Which `count` of `total` things are chosen. The smaller part, chosen or left out, is drawn by trial.
fn subset(total: usize, count: usize, stream: &mut Stream) -> Option<Vec<bool>> {
    let (bound, left) = (u32::try_from(total).ok()?, total.checked_sub(count)?);
    let draws_chosen = count <= left;
    let (mut chosen, mut missing) = (vec![!draws_chosen; total], count.min(left));
    while missing > 0 {
        let at = below(bound, stream) as usize;
        if chosen[at] != draws_chosen {
            (chosen[at], missing) = (draws_chosen, missing - 1);
        }
    }
    Some(chosen)
}

/// Draws a whole number below `bound` > 0 without bias: the upper half of a product, whose lower half is rejected where it would
/// count twice (Lemire, 2019). It needs no division but for the few that may be rejected.
fn below(bound: u32, stream: &mut Stream) -> u32 {
    const LOW: u64 = u32::MAX as u64;
    loop {
        let wide = u64::from(stream.bits()) * u64::from(bound);
        if wide & LOW >= u64::from(bound) || wide & LOW >= u64::from(bound.wrapping_neg() % bound) {
            return u32::try_from(wide >> 32).unwrap_or(0);
        }
    }
}

/// Pairs that were drawn already: a table with open addresses, at most half full.
struct Seen {
    /// Codes of pairs, plus one; zero where there is none.
    slots: Vec<u64>,
}

impl Seen {
    fn new(count: usize) -> Self {
        Self { slots: vec![0; (2 * count).next_power_of_two().max(16)] }
    }

    /// Enters a pair, and returns whether it is new. No node has the number 2^32 − 1, so that a code plus one fits.
    fn insert(&mut self, [i, j]: [u32; 2]) -> bool {
        let (code, last) = ((u64::from(i) << 32 | u64::from(j)) + 1, self.slots.len() - 1);
        // The upper bits of a product with an odd number that has no pattern (the golden ratio) are spread evenly.
        let spread = code.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mut at = usize::try_from(spread).unwrap_or(0) & last;
        while self.slots[at] != 0 {
            if self.slots[at] == code {
                return false;
            }
            at = (at + 1) & last;
        }
        self.slots[at] = code;
        true
    }
}

/// For every node, the pairs that it is an end of: with the other end, and the place of the pair. A pair (i, i) counts twice.
pub struct Incidence {
    /// Where the pairs of a node begin, and the end of the last.
    pub indptr: Vec<u64>,
    /// The other end.
    pub others: Vec<u32>,
    /// Which pair it is.
    pub places: Vec<u32>,
}

impl Incidence {
    /// Sorts pairs by their ends, in the order of the pairs.
    #[expect(clippy::cast_possible_truncation, reason = "counts of a list in memory, and fewer than 2^32 pairs")]
    pub fn of(pairs: &[[u32; 2]], nodes: usize) -> Self {
        let mut next = vec![0u64; nodes + 1];
        pairs.iter().flatten().for_each(|end| next[*end as usize + 1] += 1);
        (0..nodes).for_each(|i| next[i + 1] += next[i]);
        let indptr = next.clone();
        let (mut others, mut places) = (vec![0; 2 * pairs.len()], vec![0; 2 * pairs.len()]);
        for (place, [i, j]) in pairs.iter().enumerate() {
            for (end, other) in [(i, j), (j, i)] {
                let at = next[*end as usize] as usize;
                (others[at], places[at]) = (*other, place as u32);
                next[*end as usize] += 1;
            }
        }
        Self { indptr, others, places }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::math::testing::symmetric;

    /// A ring of `n` nodes with self-loops: 3n entries.
    fn ring(n: usize) -> Csr {
        let row = |i: usize| BTreeSet::from([(i + n - 1) % n, i, (i + 1) % n]);
        let indices = (0..n).flat_map(|i| row(i).into_iter().map(|j| j as u32)).collect();
        Csr::new(n, (0..=n as u64).map(|i| 3 * i).collect(), indices, vec![1.0; 3 * n]).unwrap()
    }

    fn stream(seed: u64) -> Stream {
        Stream::new(seed, &["test", "pairs"])
    }

    fn distinct(pairs: &[[u32; 2]]) -> bool {
        pairs.iter().collect::<BTreeSet<_>>().len() == pairs.len()
    }

    #[test]
    fn edges_are_edges_and_others_never_are_nor_repeat() {
        for (graph, seed) in [(ring(5), 1), (ring(40), 2), (symmetric(200, 4, 3), 4)] {
            let (n, entries) = (graph.n(), graph.indices.len());
            let others = (n * n - entries) as u64;
            assert_eq!(count_others(n, entries), others);
            for share in [0.0, 0.1, 0.45, 0.5, 0.55, 0.9, 1.0] {
                let count = (share * entries as f64) as usize;
                let edges = some_edges(&graph, count, &mut stream(seed)).unwrap();
                assert!(edges.len() == count && distinct(&edges) && edges.is_sorted());
                assert!(edges.iter().all(|[i, j]| graph.get(*i as usize, *j as usize) != 0.0));
                let count = (share * others as f64) as usize;
                let pairs = some_others(&graph, count, &mut stream(seed)).unwrap();
                assert!(pairs.len() == count && distinct(&pairs));
                assert!(pairs.iter().all(|[i, j]| graph.get(*i as usize, *j as usize) == 0.0));
            }
            assert!(some_edges(&graph, entries + 1, &mut stream(seed)).is_none());
            assert!(some_others(&graph, others as usize + 1, &mut stream(seed)).is_none());
        }
    }

    /// How often every pair is drawn, if `draw` is called `times` times.
    fn counted(times: u64, draw: impl Fn(&mut Stream) -> Vec<[u32; 2]>) -> BTreeMap<[u32; 2], u64> {
        let (mut stream, mut counts) = (stream(11), BTreeMap::new());
        (0..times).flat_map(|_| draw(&mut stream)).for_each(|pair| *counts.entry(pair).or_default() += 1);
        counts
    }

    #[test]
    fn every_edge_and_every_other_pair_is_equally_likely() {
        // Nine nodes: 27 edges, 54 others. A few and most of them are drawn in different ways.
        let (graph, times) = (ring(9), 20_000);
        let of_edges = |count| counted(times, |stream| some_edges(&graph, count, stream).unwrap());
        let of_others = |count| counted(times, |stream| some_others(&graph, count, stream).unwrap());
        for (counts, there, count) in [
            (of_edges(5), 27, 5),
            (of_edges(21), 27, 21),
            (of_others(7), 54, 7),
            (of_others(26), 54, 26),
            (of_others(40), 54, 40),
        ] {
            assert_eq!(counts.len(), there, "every pair comes up");
            let share = count as f64 / there as f64;
            let (mean, variance) = (times as f64 * share, times as f64 * share * (1.0 - share));
            // A sum of `there` squares of mean 1, whose deviation is about √(2·there): six of them.
            let statistic: f64 = counts.values().map(|c| (*c as f64 - mean).powi(2) / variance).sum();
            let far = (statistic - there as f64) / (2.0 * there as f64).sqrt();
            assert!(far.abs() < 6.0, "{count} of {there}: {statistic}");
        }
    }

    #[test]
    fn two_others_are_drawn_independently_but_for_being_distinct() {
        // Of five nodes, 10 others and 45 sets of two, each as likely.
        let (graph, mut stream, mut counts) = (ring(5), stream(5), BTreeMap::new());
        for _ in 0..45_000 {
            let mut pairs = some_others(&graph, 2, &mut stream).unwrap();
            pairs.sort_unstable();
            *counts.entry(pairs).or_insert(0.0) += 1.0;
        }
        assert_eq!(counts.len(), 45);
        // χ² with 44 degrees of freedom: 44 and six deviations of √88.
        let statistic: f64 = counts.values().map(|c: &f64| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!((statistic - 44.0).abs() < 6.0 * 88f64.sqrt(), "{statistic}");
    }

    #[test]
    fn numbers_below_a_bound_have_no_bias() {
        // A bound of ¾·2^32: without rejection, a third of the numbers would come up twice as often as the others.
        let (bound, draws, mut stream) = (3u32 << 30, 60_000, stream(7));
        let mut thirds = [0.0; 3];
        for _ in 0..draws {
            let x = below(bound, &mut stream);
            assert!(x < bound);
            thirds[x as usize % 3] += 1.0;
        }
        // Five deviations of a binomial count.
        let (mean, deviation) = (f64::from(draws) / 3.0, (f64::from(draws) * 2.0 / 9.0).sqrt());
        assert!(thirds.iter().all(|count: &f64| (count - mean).abs() < 5.0 * deviation), "{thirds:?}");
        assert_eq!((0..100).map(|_| below(1, &mut stream)).max(), Some(0));
    }

    #[test]
    fn both_ends_of_a_pair_know_it() {
        let pairs = [[0, 2], [1, 1], [2, 0], [3, 2]];
        let found = Incidence::of(&pairs, 5);
        assert_eq!(found.indptr, [0, 2, 4, 7, 8, 8]);
        assert_eq!(found.others, [2, 2, 1, 1, 0, 0, 3, 2]);
        assert_eq!(found.places, [0, 2, 1, 1, 0, 2, 3, 3]);
    }
}
