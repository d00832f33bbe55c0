use std::path::Path;

use super::*;
use crate::formats::testing::{after_name, apply, fuzz, mutations, real_data, with_job};
use crate::kinds::Features;

/// 0 → 1, 2 → 1 and a loop of 2.
fn graph() -> Graph {
    let features = Features::Sparse(Csr::rectangular(3, 1, vec![0; 4], vec![], vec![]).unwrap());
    Graph { edges: vec![(0, 1), (2, 1), (2, 2)], features, labels: vec![0; 3], classes: 1, ..Graph::default() }
}

const FILE: &str = "node1,node2\tspace\trelation_type\n0,1\tgraph\t3\n1,0\tgraph\t0\n1,2\tgraph\t1\n2,1\tgraph\t2\n\
                    0,2\tlatent_space\t0\n0,1\tlatent_space\t2\n";

fn read(text: impl AsRef<[u8]>) -> Result<Relations, StageError> {
    with_job(|job| relations(&mut Lines::new(Path::new("pairs.txt"), text.as_ref()), &graph(), job))
}

#[test]
fn a_later_row_wins_and_every_node_has_a_relation_to_itself() {
    let pairs = read(FILE).unwrap().pairs;
    // Who hears whom: 0 is heard by 1 and 2, of which 1 has it as a neighbour in both spaces, last in the plane.
    let expected = [(0, 0, 8), (0, 1, 0), (1, 0, 4 + 2), (1, 1, 8), (1, 2, 2), (2, 0, 4), (2, 1, 1), (2, 2, 8)];
    let found = (0..3).flat_map(|i| {
        let (columns, relations) = pairs.row(i);
        columns.iter().zip(relations).map(move |(j, r)| (i, *j, *r))
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_loop_of_the_file_is_the_nodes_own_relation_whatever_it_says() {
    let with = format!("{FILE}2,2\tgraph\t0\n0,0\tlatent_space\t1\n");
    assert_eq!(read(with).unwrap(), read(FILE).unwrap());
}

#[test]
fn mistakes_are_named_with_their_place() {
    let line = |text: &str| format!("{FILE}{text}\n");
    let cases = [
        (line("0,1\tgraph"), ", line 8: has 2 fields between tabs, expected `node1,node2<TAB>space<TAB>relation_type`"),
        (line("0\tgraph\t1"), ", line 8: `0` is no pair of nodes, expected `node1,node2`"),
        (line("0,1,2\tgraph\t1"), ", line 8: `0,1,2` is no pair of nodes, expected `node1,node2`"),
        (line("0,3\tlatent_space\t1"), ", line 8: `3` is not a node, expected 0 to 2"),
        (line("x,1\tgraph\t1"), ", line 8: `x` is not a node, expected 0 to 2"),
        (line("0,1\tgraph\t4"), ", line 8: `4` is no relation, expected 0 to 3"),
        (line("0,1\tplane\t1"), ", line 8: `plane` is no space, expected `graph` or `latent_space`"),
        (line("0,2\tgraph\t1"), ", line 8: the graph has no edge between the nodes `0` and `2`"),
        (
            FILE.replace("1,2\tgraph\t1\n", ""),
            ": has no row that says how node `1` is related to node `2`, between which there is an edge",
        ),
        (
            FILE.replace("relation_type", "relation"),
            ", line 1: is `node1,node2�space�relation`, expected the header `node1,node2<TAB>space<TAB>relation_type`",
        ),
        (String::new(), ": has no lines, expected the header `node1,node2<TAB>space<TAB>relation_type`"),
    ];
    for (text, expected) in cases {
        let message = after_name(&read(text).unwrap_err(), "pairs.txt");
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn damaged_files_give_sound_relations_or_an_error() {
    let accepted = std::cell::Cell::new(0);
    fuzz(10_000, &mutations(), |changes| match read(apply(&changes, FILE.as_bytes())) {
        Ok(relations) => {
            assert_eq!(relations.nodes(), 3);
            assert!(relations.pairs.values.iter().all(|relation| *relation <= Relations::OWN));
            assert!((0..3).all(|node| relations.pairs.get(node, node) == Relations::OWN));
            accepted.set(accepted.get() + 1);
        }
        Err(StageError::Data { .. }) => {}
        Err(other) => panic!("{other}"),
    });
    assert!(accepted.get() > 50, "{}", accepted.get());
}

/// A graph of nothing but the edges of a published file.
fn edges_of(folder: &str, nodes: usize) -> Option<Graph> {
    let text = std::fs::read_to_string(real_data(folder)?.join("out1_graph_edges.txt")).unwrap();
    let edge = |line: &str| line.split_once('\t').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).unwrap();
    let features = Features::Sparse(Csr::rectangular(nodes, 1, vec![0; nodes + 1], vec![], vec![]).unwrap());
    let edges = text.lines().skip(1).map(edge).collect();
    Some(Graph { edges, features, labels: vec![0; nodes], classes: 1, ..Graph::default() })
}

/// Rows, distinct pairs and relations, as a script that shares nothing with this reader has counted them.
#[test]
fn published_files_have_the_counts_that_were_counted_independently() {
    let expected = [
        ("chameleon", "chameleon", 2277, "MDS", 113_092, 8),
        ("chameleon", "chameleon", 2277, "poincare", 62_993, 6),
        ("chameleon", "chameleon", 2277, "struc2vec", 118_018, 8),
        ("actor", "film", 7600, "MDS", 101_076, 8),
        ("texas", "texas", 183, "poincare", 1089, 8),
        ("cornell", "cornell", 183, "MDS", 1002, 8),
        ("wisconsin", "wisconsin", 251, "struc2vec", 1580, 8),
    ];
    for (folder, name, nodes, embedding, pairs, used) in expected {
        let (Some(graph), Some(files)) = (edges_of(folder, nodes), real_data("geom_neighbourhoods")) else { continue };
        let path = files.join(format!("outf_nodes_space_relation_{name}_{embedding}.txt"));
        let file = BufReader::new(source::open(&path).unwrap());
        let found = with_job(|job| relations(&mut Lines::new(&path, file), &graph, job)).unwrap();
        let sizes = found.sizes_of_all();
        assert_eq!(found.pairs.indices.len(), pairs + nodes, "{name} {embedding}");
        assert_eq!((sizes[8], sizes.iter().filter(|size| **size > 0).count()), (nodes, used + 1), "{name} {embedding}");
    }
}

/// Texas and Cornell have as many nodes.
#[test]
fn a_published_file_of_another_graph_is_refused() {
    let (Some(graph), Some(files)) = (edges_of("texas", 183), real_data("geom_neighbourhoods")) else { return };
    let path = files.join("outf_nodes_space_relation_cornell_MDS.txt");
    let file = BufReader::new(source::open(&path).unwrap());
    let error = with_job(|job| relations(&mut Lines::new(&path, file), &graph, job)).unwrap_err();
    assert!(after_name(&error, "cornell_MDS.txt, line ").contains(": the graph has no edge between"), "{error}");
}
