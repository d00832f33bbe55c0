//! How splits are drawn, and what is refused.

use super::*;
use crate::contract::params::Params as _;
use crate::kinds::{Features, Matrix};

fn graph(labels: Vec<u32>, classes: usize) -> Graph {
    let features = Features::Dense(Matrix { rows: labels.len(), cols: 0, data: vec![] });
    Graph { edges: vec![], features, labels, classes, ..Graph::default() }
}

fn count(splits: &Splits, graph: &Graph, split: usize, class: u32, part: Part) -> usize {
    splits.nodes(split, part).iter().filter(|n| graph.labels[**n as usize] == class).count()
}

#[test]
fn stratified_splits_use_every_node_once_and_keep_the_shares_of_every_class() {
    for seed in 0..50 {
        let mut stream = Stream::new(seed, &["test", "labels"]);
        let nodes = 3 + stream.below(200);
        let graph = graph((0..nodes).map(|_| u32::try_from(stream.below(4).pow(2)).unwrap()).collect(), 10);
        let train = 0.05 + 0.5 * stream.uniform();
        let params = Params { seed, train, val: 0.4 * (1.0 - train), count: 3, ..Params::default() };
        params.check().unwrap();
        let splits = random(&params, &graph).unwrap();
        for split in 0..3 {
            assert!(splits.parts[split].iter().all(|p| *p != Part::None));
            for class in 0..10 {
                let sizes = Part::SCORED.map(|(part, _)| count(&splits, &graph, split, class, part));
                let m = sizes.iter().sum::<usize>();
                if m < 3 {
                    continue;
                }
                assert!(sizes.iter().all(|s| *s > 0), "{sizes:?}");
                for (size, share) in sizes.iter().zip([params.train, params.val]) {
                    // Rounding moves half a node, keeping one node in every part at most two.
                    assert!((*size as f64 - share * m as f64).abs() <= 2.0, "{sizes:?}");
                }
            }
        }
    }
}

#[test]
fn shares_are_rounded_and_small_classes_keep_one_node_a_part() {
    let params = Params::default();
    // 0.48 and 0.32 of 100, 10, 4, 3, 2, 1.
    let expected = [(100, (48, 32)), (10, (5, 3)), (4, (2, 1)), (3, (1, 1)), (2, (1, 1)), (1, (0, 0))];
    for (m, wanted) in expected {
        assert_eq!(shares(&params, m), wanted, "{m}");
    }
    let greedy = Params { train: 0.98, val: 0.01, ..Params::default() };
    assert_eq!(shares(&greedy, 5), (3, 1));
}

#[test]
fn per_class_splits_have_fixed_numbers() {
    let graph = graph((0..100).map(|i| i % 3 % 2 * 2).collect(), 3);
    let params = Params { method: Method::PerClass, per_class_train: 4, per_class_val: 7, ..Params::default() };
    let splits = random(&params, &graph).unwrap();
    assert_eq!(splits.len(), 10);
    for (split, class) in (0..10).flat_map(|s| [(s, 0), (s, 2)]) {
        assert_eq!(count(&splits, &graph, split, class, Part::Train), 4);
        assert_eq!(count(&splits, &graph, split, class, Part::Val), 7);
    }
    assert_eq!(splits.nodes(0, Part::Test).len(), 100 - 22);
}

#[test]
fn a_class_with_too_few_nodes_is_named_with_its_size() {
    let graph = graph([vec![0; 60], vec![1; 50]].concat(), 2);
    let error = random(&Params { method: Method::PerClass, ..Params::default() }, &graph).unwrap_err();
    assert_eq!(error.to_string(), "class 1 has 50 nodes, expected more than 20 + 30");
}

#[test]
fn more_splits_leave_the_earlier_ones_alone_and_seeds_differ() {
    let graph = graph((0..90).map(|i| i % 2).collect(), 2);
    let splits = |count, seed| random(&Params { count, seed, ..Params::default() }, &graph).unwrap().parts;
    assert_eq!(splits(3, 1), splits(5, 1)[..3]);
    assert_ne!(splits(1, 1), splits(1, 2));
    assert_ne!(splits(2, 1)[0], splits(2, 1)[1]);
}

#[test]
fn the_files_own_masks_are_taken_up_to_count() {
    let mut graph = graph(vec![0; 2], 1);
    let of_file = |graph: &Graph, count| of_file(&Params { count, ..Params::default() }, graph.clone());
    assert!(matches!(of_file(&graph, 1), Err(StageError::Unusable { .. })));
    graph.masks = Some(Splits { parts: vec![vec![Part::Train, Part::None], vec![Part::Test, Part::Val]] });
    assert_eq!(of_file(&graph, 1).unwrap().parts, [[Part::Train, Part::None]]);
    assert_eq!(of_file(&graph, 9).unwrap(), graph.masks.unwrap());
}

#[test]
fn nodes_without_a_class_are_in_no_part_of_a_random_split() {
    let mut graph = graph(vec![0; 23], 1);
    graph.unlabelled = vec![0, 7, 22];
    for method in [Method::Stratified, Method::PerClass] {
        let params = Params { method, per_class_train: 10, per_class_val: 5, ..Params::default() };
        for row in random(&params, &graph).unwrap().parts {
            let outside: Vec<_> = (0..23).filter(|i| row[*i] == Part::None).collect();
            assert_eq!(outside, [0, 7, 22]);
        }
    }
    // Twenty nodes have a class: not more than 10 + 10.
    let params = Params { method: Method::PerClass, per_class_train: 10, per_class_val: 10, ..Params::default() };
    let error = random(&params, &graph).unwrap_err();
    assert_eq!(error.to_string(), "class 0 has 20 nodes, expected more than 10 + 10");
}

#[test]
fn nodes_without_a_class_stay_in_the_masks_of_a_file_unless_left_out() {
    let mut graph = graph(vec![0; 3], 1);
    let row = vec![Part::Train, Part::Val, Part::Test];
    graph.unlabelled = vec![1];
    graph.masks = Some(Splits { parts: vec![row.clone()] });
    let taken = |unlabelled| {
        let params = Params { method: Method::File, unlabelled, ..Params::default() };
        of_file(&params, graph.clone()).unwrap().parts
    };
    assert_eq!(taken(Unlabelled::Keep), [row]);
    assert_eq!(taken(Unlabelled::LeaveOut), [[Part::Train, Part::None, Part::Test]]);
}

#[test]
fn shares_that_leave_nothing_to_test_are_refused() {
    assert_eq!(Params { train: 0.7, val: 0.3, ..Params::default() }.check().unwrap_err()[0].param, "val");
    assert_eq!(Params { train: 0.0, ..Params::default() }.check().unwrap_err()[0].param, "train");
}
