//! How much the class at one end of an edge tells about the class at the other: label informativeness (Platonov et al., 2023).
//!
//! With an undirected edge drawn at random, loops aside, and its ends in random order, y_u and y_v are the classes of its ends:
//!
//! ```text
//! LI = I(y_u, y_v) / H(y_u) = 2 − Σ_{a,b} p(a, b) ln p(a, b) / Σ_a p(a) ln p(a)
//! ```
//!
//! p(a, b) is the share of ends of edges that are of class a and lead to class b, so that p(a) = Σ_b p(a, b) counts every node
//! by its degree. 1 says that one end decides the other, whatever the classes are; homophily, that they are the same.
//!
//! Of a few edges this is above 0 by chance alone. So it is measured again with the labels shuffled over the nodes, which keeps the
//! graph and the sizes of the classes and nothing else: [`Informativeness::says_nothing`] compares the two. Nodes without a
//! label, and edges to them, do not count.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

use serde::Serialize;

use super::lists::Lists;
use crate::kinds::Graph;
use crate::math::random::Stream;
use crate::math::stats::{self, Divisor};

/// How often labels are shuffled: this often for graphs of a usual size, less often the more edges there are, since the spread
/// shrinks with them.
const MOST_SHUFFLES: usize = 100;
const LEAST_SHUFFLES: usize = 10;
/// Edges that are counted anew for all shuffles together, as far as [`LEAST_SHUFFLES`] lets it: a second at most.
const COUNTED: usize = 50_000_000;
/// More classes than this are not measured: there would be a count for every pair of them.
const MOST_CLASSES: usize = 1024;
/// As many spreads above the mean of shuffled labels are still chance.
const SPREADS: f64 = 2.0;

/// Label informativeness of the edges, and what chance gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Informativeness {
    /// That of the labels.
    pub edge: f64,
    /// The mean of that of shuffled labels.
    pub shuffled: f64,
    /// Its standard deviation over the shuffles.
    pub spread: f64,
    /// How often labels were shuffled.
    pub shuffles: usize,
}

impl Informativeness {
    /// Returns whether edges say no more about labels than chance: at most two spreads above the mean of shuffled labels.
    pub fn says_nothing(&self) -> bool {
        self.edge <= self.shuffled + SPREADS * self.spread
    }
}

/// Measures it; `None` without edges between labelled nodes, where all their ends are of one class, and of more than
/// 1024 classes.
pub(super) fn informativeness(graph: &Graph, around: &Lists) -> Option<Informativeness> {
    if graph.classes > MOST_CLASSES {
        return None;
    }
    let is_labelled = |node: u32| graph.unlabelled.binary_search(&node).is_err();
    let labelled: Vec<u32> = (0u32..).take(graph.nodes()).filter(|node| is_labelled(*node)).collect();
    // Every edge once, from its smaller end.
    let larger = |from: u32| around.row(from as usize).iter().copied().filter(move |to| from < *to && is_labelled(*to));
    let edges: Vec<(u32, u32)> = labelled.iter().flat_map(|from| larger(*from).map(|to| (*from, to))).collect();
    let mut labels = graph.labels.clone();
    let edge = of(&edges, &labels, graph.classes)?;
    let shuffles = (COUNTED / edges.len().max(1)).clamp(LEAST_SHUFFLES, MOST_SHUFFLES);
    let mut stream = Stream::new(0, &["inspect", "shuffled-labels"]);
    let mut drawn: Vec<u32> = labelled.iter().map(|node| graph.labels[*node as usize]).collect();
    let mut values = Vec::with_capacity(shuffles);
    for _ in 0..shuffles {
        stream.shuffle(&mut drawn);
        labelled.iter().zip(&drawn).for_each(|(node, label)| labels[*node as usize] = *label);
        // Of a few edges all ends may happen to be of one class: then one end says nothing about the other.
        values.push(of(&edges, &labels, graph.classes).unwrap_or(0.0));
    }
    let spread = stats::std(&values, Divisor::Population)?;
    Some(Informativeness { edge, shuffled: stats::mean(&values)?, spread, shuffles })
}

/// The formula, for labels of all nodes; `None` if all ends are of one class.
fn of(edges: &[(u32, u32)], labels: &[u32], classes: usize) -> Option<f64> {
    let mut pairs = vec![0usize; classes * classes];
    for (from, to) in edges {
        pairs[labels[*from as usize] as usize * classes + labels[*to as usize] as usize] += 1;
    }
    let ends = 2 * edges.len();
    let term = |count: usize| {
        let share = count as f64 / ends as f64;
        if count == 0 { 0.0 } else { share * share.ln() }
    };
    let (mut joint, mut single) = (0.0, 0.0);
    for a in 0..classes {
        let both = |b: usize| pairs[a * classes + b] + pairs[b * classes + a];
        joint += (0..classes).map(|b| term(both(b))).sum::<f64>();
        single += term((0..classes).map(both).sum());
    }
    (single < 0.0).then(|| 2.0 - joint / single)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{geom_gcn, graph};
    use super::super::warnings;
    use super::*;

    fn of_graph(graph: &Graph) -> Option<Informativeness> {
        informativeness(graph, &Lists::around(graph))
    }

    #[test]
    fn it_follows_its_formula_and_is_one_where_one_end_decides_the_other() {
        // Ends of ten: four of each class stay within it, one of each leaves: 1 − H(1/5) in bits.
        let two = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 3)];
        let found = of_graph(&graph(&two, vec![0, 0, 0, 1, 1, 1], 2)).unwrap();
        let entropy = -(0.2 * 0.2f64.log2() + 0.8 * 0.8f64.log2());
        assert!((found.edge - (1.0 - entropy)).abs() < 1e-12, "{found:?}");
        // Neighbours never have the same class, and still tell it. Stored twice, with a loop, an edge counts once.
        let found = of_graph(&graph(&[(0, 1), (1, 0), (1, 1), (2, 3), (3, 4)], vec![0, 1, 1, 0, 1], 2)).unwrap();
        assert!((found.edge - 1.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn nodes_without_a_label_do_not_count() {
        let mut path = graph(&[(0, 1), (1, 2), (2, 3)], vec![0, 1, 1, 1], 2);
        assert!(of_graph(&path).unwrap().edge < 0.99);
        path.unlabelled = vec![2];
        let found = of_graph(&path).unwrap();
        assert!((found.edge - 1.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn it_is_nothing_where_it_is_not_defined() {
        assert_eq!(of_graph(&graph(&[(1, 1)], vec![0, 1], 2)), None);
        assert_eq!(of_graph(&graph(&[(0, 1)], vec![1, 1, 0], 2)), None);
        assert_eq!(of_graph(&graph(&[(0, 1)], vec![0, 1], MOST_CLASSES + 1)), None);
    }

    #[test]
    fn only_what_is_above_shuffled_labels_says_something() {
        let ring: Vec<_> = (0..60).map(|i| (i, (i + 1) % 60)).collect();
        let said =
            |labels| warnings(&graph(&ring, labels, 2), None, true).iter().any(|w| w.code == "edges-say-nothing");
        assert!(!said((0..60).map(|i| i / 30).collect()));
        assert!(!said((0..60).map(|i| i % 2).collect()));
        let mut labels: Vec<u32> = (0..60).map(|i| i % 2).collect();
        Stream::new(5, &["test"]).shuffle(&mut labels);
        assert!(said(labels));
    }

    #[test]
    fn where_the_order_of_labels_does_not_matter_chance_has_no_spread() {
        let edges: Vec<_> = (0..1000u32).flat_map(|a| (a + 1..1000).map(move |b| (a, b))).collect();
        let found = of_graph(&graph(&edges, (0..1000).map(|i| i % 2).collect(), 2)).unwrap();
        // Of all pairs of 1000 nodes, labels in any order give the same.
        assert!(found.shuffles == MOST_SHUFFLES && found.spread < 1e-12 && found.says_nothing(), "{found:?}");
    }

    #[test]
    fn the_edges_of_cornell_say_nothing() {
        // By a separate script in Python, from counts of pairs; the means are of 200 to 300 shuffles of its own.
        let expected = [
            ("texas", 0.192_349_458_642_180_06, 0.0164, false),
            ("wisconsin", 0.131_097_274_655_619_66, 0.0102, false),
            ("cornell", 0.016_877_756_772_087_058, 0.0168, true),
            ("chameleon", 0.047_954_262_969_773_01, 0.000_098_6, false),
            ("squirrel", 0.001_471_462_569_085_517_8, 0.000_012_7, false),
        ];
        for (name, edge, shuffled, nothing) in expected {
            let Some(graph) = geom_gcn(name) else { return };
            let found = of_graph(&graph).unwrap();
            assert!((found.edge - edge).abs() < 1e-12, "{name}: {found:?}");
            // A mean of 100 differs from that of others by a tenth of the spread, or two.
            assert!((found.shuffled - shuffled).abs() < 0.3 * found.spread, "{name}: {found:?}");
            assert_eq!(found.says_nothing(), nothing, "{name}: {found:?}");
        }
    }
}
