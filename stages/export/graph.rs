//! A graph as its publisher stored it: edges, features, labels and splits.

use std::sync::Arc;

use super::operator::whole;
use super::{Arrays, Data, Frame, Values};
use crate::kinds::{Features, Graph, Nodes, Splits};

/// `edges` (2 × edges: sources, then targets), `weights` (edges, if there are any), `features` (nodes × features, or
/// `features.indptr`, `features.indices`, `features.values` and `features.shape` where they are sparse), `labels` (nodes, −1
/// where there is none), `classes` (their number), and `masks` (splits × nodes) where the file came with splits.
pub fn graph_arrays(graph: &Graph) -> Arrays {
    let mut arrays = Arrays::default();
    let (sources, targets): (Vec<i64>, Vec<i64>) =
        graph.edges.iter().map(|&(a, b)| (i64::from(a), i64::from(b))).unzip();
    arrays.add("edges", &[2, sources.len()], Data::I64([sources, targets].concat()));
    if let Some(weights) = &graph.weights {
        arrays.add("weights", &[weights.len()], Data::F32(weights.clone().into()));
    }
    add_features(&mut arrays, &graph.features);
    arrays.add("labels", &[graph.nodes()], Data::I64(labels(graph)));
    arrays.add("classes", &[1], Data::I64(vec![i64::try_from(graph.classes).unwrap_or(i64::MAX)]));
    if let Some(masks) = &graph.masks {
        add_splits(&mut arrays, "masks", masks);
    }
    arrays
}

/// The features as models see them: `features`, or the four arrays of sparse ones.
pub fn feature_arrays(nodes: &Nodes) -> Arrays {
    let mut arrays = Arrays::default();
    add_features(&mut arrays, &nodes.features);
    arrays
}

fn add_features(arrays: &mut Arrays, features: &Features) {
    let (rows, cols) = (features.rows(), features.cols());
    match features {
        Features::Dense(m) => arrays.add("features", &[rows, cols], Data::F32(m.data.clone().into())),
        Features::Sparse(s) => {
            let shape = [rows, cols].iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect();
            arrays.add("features.shape", &[2], Data::I64(shape));
            arrays.add("features.indptr", &[s.indptr.len()], Data::I64(whole(&s.indptr)));
            let indices = s.indices.iter().copied().map(i64::from).collect();
            arrays.add("features.indices", &[s.indices.len()], Data::I64(indices));
            arrays.add("features.values", &[s.values.len()], Data::F32(s.values.clone().into()));
        }
    }
}

/// Adds splits, splits × nodes: 0 unused, 1 train, 2 val, 3 test.
pub fn add_splits(arrays: &mut Arrays, name: &str, splits: &Splits) {
    let nodes = splits.parts.first().map_or(0, Vec::len);
    let parts = splits.parts.iter().flatten().map(|part| *part as u8).collect();
    arrays.add(name, &[splits.len(), nodes], Data::U8(parts));
}

/// A row for every edge: `source` and `target` by id, and `weight` if edges have one.
pub fn graph_edges(graph: &Graph) -> Frame {
    let ids: Vec<Option<Arc<str>>> = (0..graph.nodes()).map(|n| Some(Arc::from(&*graph.names.id(n)))).collect();
    let ends = |end: fn(&(u32, u32)) -> u32| {
        Values::Text(graph.edges.iter().map(|e| ids.get(end(e) as usize).cloned().flatten()).collect())
    };
    let frame = Frame::of_rows(graph.edges.len()).with("source", ends(|e| e.0)).with("target", ends(|e| e.1));
    match &graph.weights {
        Some(weights) => frame.with("weight", Values::numbers(weights.iter().copied().map(f64::from))),
        None => frame,
    }
}

/// A row for every node: `number` (its place in arrays), `id`, and `class` by name.
pub fn graph_nodes(graph: &Graph) -> Frame {
    let names = &graph.names;
    let class = |label: i64| usize::try_from(label).ok().map(|class| Arc::from(&*names.class(class)));
    Frame::of_rows(graph.nodes())
        .with("number", Values::wholes(0..graph.nodes()))
        .with("id", Values::texts((0..graph.nodes()).map(|node| names.id(node).into_owned())))
        .with("class", Values::Text(labels(graph).into_iter().map(class).collect()))
}

/// The class of every node, −1 where there is none.
pub(super) fn labels(graph: &Graph) -> Vec<i64> {
    let mut labels: Vec<i64> = graph.labels.iter().copied().map(i64::from).collect();
    for node in &graph.unlabelled {
        labels.get_mut(*node as usize).into_iter().for_each(|label| *label = -1);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Matrix, Names, Part};
    use crate::math::csr::Csr;

    fn graph() -> Graph {
        Graph {
            edges: vec![(0, 1), (1, 0), (1, 1)],
            weights: Some(vec![0.5, 1.0, 2.0]),
            features: Features::Dense(Matrix { rows: 2, cols: 2, data: vec![1.0, 2.0, 3.0, 4.0] }),
            labels: vec![1, 0],
            classes: 2,
            unlabelled: vec![1],
            masks: Some(Splits { parts: vec![vec![Part::Train, Part::Test]] }),
            names: Names { ids: vec!["a".into(), "b;c".into()], classes: vec![] },
        }
    }

    #[test]
    fn arrays_say_what_the_graph_holds() {
        let mut graph = graph();
        let arrays = graph_arrays(&graph);
        assert_eq!(arrays.get("edges"), Some((&[2, 3][..], &Data::I64(vec![0, 1, 1, 1, 0, 1]))));
        assert_eq!(arrays.get("labels"), Some((&[2][..], &Data::I64(vec![1, -1]))));
        assert_eq!(arrays.get("masks"), Some((&[1, 2][..], &Data::U8(vec![1, 3]))));
        assert!(arrays.get("weights").is_some() && arrays.get("features").is_some());
        graph.features = Features::Sparse(Csr::rectangular(2, 5, vec![0, 1, 1], vec![4], vec![7.0]).unwrap());
        let arrays = graph_arrays(&graph);
        assert_eq!(arrays.get("features.shape"), Some((&[2][..], &Data::I64(vec![2, 5]))));
        assert_eq!(arrays.get("features.indices"), Some((&[1][..], &Data::I64(vec![4]))));
        assert!(arrays.get("features").is_none());
    }

    #[test]
    fn edges_are_written_by_id() {
        let mut bytes = Vec::new();
        graph_edges(&graph()).write_csv(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "source,target,weight\na,b;c,0.5\nb;c,a,1.0\nb;c,b;c,2.0\n");
    }
}
