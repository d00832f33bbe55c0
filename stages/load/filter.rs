//! Removes nodes.
//!
//! `duplicates` keeps one node of every group of [twins]. It is meant for Chameleon and Squirrel, where most nodes are
//! clones of others: 868 of 2277 nodes and 2216 of 5201 are kept. The published filtered graphs have 890 and 2223
//! nodes (8854 and 46998 undirected edges instead of 8413 and 46835): a rule that compares the
//! pages' exact monthly traffic, of which these files have five classes only, tells more pages apart. Use the published files where a number must be comparable with theirs.
//!
//! Where every edge is stored in both directions, the rule keeps one node of every class and identical neighbourhood,
//! which removes many leaves of hubs that are not clones of anything: on such graphs it is rarely what is wanted.

use crate::inspect::twins;
use crate::kinds::{Graph, Names, Splits};

/// Keeps one node of every group of twins.
pub(super) fn without_duplicates(graph: &Graph) -> Graph {
    select(graph, &twins(graph).kept())
}

/// Keeps some nodes, ascending, and the edges between them. Classes keep their numbers even if no node of one is left.
fn select(graph: &Graph, nodes: &[u32]) -> Graph {
    let mut places = vec![None; graph.nodes()];
    for (place, node) in (0u32..).zip(nodes) {
        places[*node as usize] = Some(place);
    }
    let place = |node: u32| places[node as usize];
    let masks = graph.masks.as_ref().map(|masks| Splits {
        parts: masks.parts.iter().map(|row| nodes.iter().map(|i| row[*i as usize]).collect()).collect(),
    });
    let inside: Vec<bool> = graph.edges.iter().map(|&(a, b)| place(a).is_some() && place(b).is_some()).collect();
    let weights = graph
        .weights
        .as_ref()
        .map(|weights| weights.iter().zip(&inside).filter(|(_, inside)| **inside).map(|(weight, _)| *weight).collect());
    let ids = nodes.iter().filter_map(|i| graph.names.ids.get(*i as usize).cloned()).collect();
    Graph {
        edges: graph.edges.iter().filter_map(|&(a, b)| Some((place(a)?, place(b)?))).collect(),
        weights,
        features: graph.features.select(nodes),
        labels: nodes.iter().map(|i| graph.labels[*i as usize]).collect(),
        classes: graph.classes,
        unlabelled: graph.unlabelled.iter().filter_map(|i| place(*i)).collect(),
        masks,
        names: Names { ids, classes: graph.names.classes.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::{geom_gcn, graph};
    use crate::inspect::warnings;
    use crate::kinds::{Features, Matrix, Part};

    #[test]
    fn everything_about_the_kept_nodes_is_kept_and_renumbered() {
        let [tr, va, te, no] = [Part::Train, Part::Val, Part::Test, Part::None];
        let mut graph = graph(&[(0, 1), (2, 2), (3, 1), (1, 3)], vec![0, 1, 2, 1], 3);
        graph.features = Features::Dense(Matrix { rows: 4, cols: 2, data: (0..8u8).map(f32::from).collect() });
        graph.unlabelled = vec![0, 3];
        graph.weights = Some(vec![0.1, 0.2, 0.3, 0.4]);
        graph.names = Names { ids: ["a", "b", "c", "d"].map(String::from).to_vec(), classes: Vec::new() };
        graph.masks = Some(Splits { parts: vec![vec![tr, va, te, no], vec![no, te, va, tr]] });
        let kept = select(&graph, &[1, 2, 3]);
        assert_eq!(kept.edges, [(1, 1), (2, 0), (0, 2)]);
        assert_eq!(
            (kept.weights.unwrap(), kept.names.ids),
            (vec![0.2, 0.3, 0.4], vec!["b".into(), "c".into(), "d".into()])
        );
        assert_eq!(kept.features.values(), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!((kept.labels, kept.classes, kept.unlabelled), (vec![1, 2, 1], 3, vec![2]));
        assert_eq!(kept.masks.unwrap().parts, [[va, te, no], [te, va, tr]]);
    }

    #[test]
    fn real_graphs_lose_their_clones_and_with_them_the_leak() {
        // Counted by a separate script with Python's sets.
        let expected = [("chameleon", 868, 13_131, 50, 8413), ("squirrel", 2216, 65_553, 140, 46_835)];
        for (name, nodes, distinct, loops, undirected) in expected {
            let Some(graph) = geom_gcn(name) else { return };
            let kept = without_duplicates(&graph);
            let counts = kept.counts();
            assert_eq!((counts.nodes, counts.edges_distinct, counts.self_loops), (nodes, distinct, loops), "{name}");
            assert_eq!((counts.edges_undirected, counts.isolated_nodes), (undirected, 0), "{name}");
            assert_eq!((kept.features.rows(), kept.masks.as_ref().unwrap().parts[9].len()), (nodes, nodes));
            assert_eq!(without_duplicates(&kept), kept);
            let warnings = warnings(&kept, kept.masks.as_ref(), false);
            assert!(warnings.iter().all(|w| w.code != "twins-across-parts"), "{warnings:?}");
        }
    }
}
