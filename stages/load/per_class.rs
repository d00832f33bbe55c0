//! Splits with a fixed number of training and validation nodes of every class, as published code draws them for the
//! Amazon graphs and Cora-Full (20 and 30 of every class, seed 12345 + split).
//!
//! For split s, Python's `random` is seeded with seed + s. Class by class, the nodes of the class in ascending order
//! are shuffled: the first ones train, the next ones validate, all others test. A class with too few nodes trains and
//! validates with what it has.

use crate::kinds::{Graph, Part, Splits};
use crate::math::python_random::PythonRandom;

/// Draws `count` splits. Nodes without a label are in no part.
pub(crate) fn per_class_masks(graph: &Graph, train: usize, val: usize, count: usize, seed: u64) -> Splits {
    let mut classes = vec![Vec::new(); graph.classes];
    let mut unlabelled = graph.unlabelled.iter().peekable();
    for (node, label) in (0u32..).zip(&graph.labels) {
        if unlabelled.next_if(|u| **u == node).is_none()
            && let Some(class) = classes.get_mut(*label as usize)
        {
            class.push(node as usize);
        }
    }
    let split = |seed: u64| {
        let mut parts = vec![Part::None; graph.nodes()];
        let mut random = PythonRandom::new(seed);
        for class in &classes {
            // Shuffling the nodes makes the same draws as shuffling their places.
            let mut nodes = class.clone();
            random.shuffle(&mut nodes);
            for (place, node) in nodes.into_iter().enumerate() {
                parts[node] = match place {
                    p if p < train => Part::Train,
                    p if p - train < val => Part::Val,
                    _ => Part::Test,
                };
            }
        }
        parts
    };
    Splits { parts: (0..count as u64).map(|s| split(seed.wrapping_add(s))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Features, Matrix};

    // Expected parts, with Python 3.11 (t trains, v validates, x tests, - is in no part):
    //
    //   import random
    //   labels = [(i * i + i // 3) % 4 for i in range(40)]
    //   labels[5] = labels[9] = 4
    //   for s in range(2):
    //       random.seed(12345 + s)
    //       parts = ['-'] * 40
    //       for c in range(5):
    //           idx = [i for i in range(40) if labels[i] == c and i not in (3, 12)]
    //           perm = list(range(len(idx)))
    //           random.shuffle(perm)
    //           for p in perm: parts[idx[p]] = 'x'
    //           for p in perm[:2]: parts[idx[p]] = 't'
    //           for p in perm[2:5]: parts[idx[p]] = 'v'
    //       print(''.join(parts))
    const EXPECTED: [&str; 2] =
        ["xtv-vtvvxtxx-vxtxtxvxxtxxvvxtxxvvvtxtxtv", "txx-vtxtttvx-vxxxxxvvvtvxvxxtvvxxtvxvtxt"];

    fn graph() -> Graph {
        let label = |i: u32| if i == 5 || i == 9 { 4 } else { (i * i + i / 3) % 4 };
        Graph {
            edges: Vec::new(),
            features: Features::Dense(Matrix { rows: 40, cols: 1, data: vec![0.0; 40] }),
            labels: (0..40).map(label).collect(),
            classes: 5,
            unlabelled: vec![3, 12],
            ..Graph::default()
        }
    }

    #[test]
    fn splits_are_those_that_python_draws() {
        let splits = per_class_masks(&graph(), 2, 3, 2, 12345);
        let shown = |parts: &Vec<Part>| -> String { parts.iter().map(|p| ['-', 't', 'v', 'x'][*p as usize]).collect() };
        assert_eq!(splits.parts.iter().map(shown).collect::<Vec<_>>(), EXPECTED);
    }

    #[test]
    fn a_class_with_few_nodes_gives_what_it_has() {
        let splits = per_class_masks(&graph(), 9, 1, 1, 0);
        let count = |part| splits.nodes(0, part).len();
        // The classes have 12, 7, 11, 6 and 2 labelled nodes.
        assert_eq!((count(Part::Train), count(Part::Val), count(Part::Test)), (9 + 7 + 9 + 6 + 2, 2, 3));
        assert!(per_class_masks(&graph(), 1, 1, 0, 0).is_empty());
    }
}
