//! Graphs for tests: made by hand, and read from the real files with as little code as possible.

use crate::datasets::testing::real_data;
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::math::csr::Csr;

/// A graph with one feature that is 1 everywhere.
pub(crate) fn graph(edges: &[(u32, u32)], labels: Vec<u32>, classes: usize) -> Graph {
    let features = Features::Dense(Matrix { rows: labels.len(), cols: 1, data: vec![1.0; labels.len()] });
    Graph { edges: edges.to_vec(), features, labels, classes, unlabelled: vec![], masks: None }
}

/// Reads a data set in the Geom-GCN layout with dense rows, without a check of anything.
pub(crate) fn geom_gcn(name: &str) -> Option<Graph> {
    let folder = real_data(name)?;
    let lines = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let number = |text: &str| text.parse::<u32>().unwrap();
    let edges = lines("out1_graph_edges.txt");
    let edges = edges.iter().map(|l| l.split_once('\t').unwrap()).map(|(a, b)| (number(a), number(b))).collect();
    let mut nodes: Vec<(u32, String, u32)> = Vec::new();
    for line in lines("out1_node_feature_label.txt") {
        let fields: Vec<_> = line.split('\t').collect();
        nodes.push((number(fields[0]), fields[1].to_owned(), number(fields[2])));
    }
    nodes.sort();
    let (mut indptr, mut indices, mut cols) = (vec![0], Vec::new(), 0);
    for (_, row, _) in &nodes {
        cols = row.split(',').count();
        indices.extend((0u32..).zip(row.split(',')).filter(|(_, x)| *x != "0").map(|(i, _)| i));
        indptr.push(indices.len() as u64);
    }
    let values = vec![1.0; indices.len()];
    let features = Features::Sparse(Csr::rectangular(nodes.len(), cols, indptr, indices, values).unwrap());
    let labels: Vec<_> = nodes.iter().map(|(_, _, label)| *label).collect();
    let classes = *labels.iter().max().unwrap() as usize + 1;
    let split = |i| {
        let file = std::fs::File::open(folder.join(format!("splits/{name}_split_0.6_0.2_{i}.npz"))).unwrap();
        let mut zip = zip::ZipArchive::new(file).unwrap();
        let mut row = vec![Part::None; labels.len()];
        for (part, part_name) in Part::SCORED {
            let mut bytes = Vec::new();
            let mut member = zip.by_name(&format!("{part_name}_mask.npy")).unwrap();
            std::io::Read::read_to_end(&mut member, &mut bytes).unwrap();
            let mask = &bytes[bytes.len() - labels.len()..];
            (0..row.len()).filter(|i| mask[*i] == 1).for_each(|i| row[i] = part);
        }
        row
    };
    let masks = Some(Splits { parts: (0..10).map(split).collect() });
    Some(Graph { edges, features, labels, classes, unlabelled: vec![], masks })
}
