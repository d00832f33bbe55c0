use std::io::{Cursor, Write};
use std::path::PathBuf;

use npyz::WriterBuilder;

use super::*;
use crate::formats::testing::{self, real_data, with_job};
use crate::kinds::Part;

const EDGES: &str = "node_id\tnode_id\n0\t1\n2\t1\n2\t1\n1\t1\n";
const NODES: &str = "node_id\tfeature\tlabel\n2\t0,0,1,0\t3\n0\t1,0,0,0.5\t0\n1\t0,0,0,0\t1\n";
const LISTED: &str = "node_id\tfeature(feature_amount:4)\tlabel\n2\t2\t3\n0\t3,0,3\t0\n1\t\t1\n";

fn parse(edges_text: &[u8], nodes_text: &[u8], layout: Layout, width: Option<usize>) -> Result<Graph, StageError> {
    with_job(|job| {
        let (features, labels) = nodes(&mut Lines::new(Path::new("nodes"), nodes_text), layout, width, job)?;
        let edges = edges(&mut Lines::new(Path::new("edges"), edges_text), labels.len(), job)?;
        Ok(labelled(edges, Features::Sparse(features), labels, None))
    })
}

fn dense(edges: &str, nodes: &str) -> Result<Graph, StageError> {
    parse(edges.as_bytes(), nodes.as_bytes(), Layout::Dense, None)
}

#[test]
fn nodes_come_in_any_order_and_edges_stay_as_stored() {
    let graph = dense(EDGES, NODES).unwrap();
    let rows = [1.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    assert_eq!(graph.features.to_dense().data, rows);
    assert_eq!(graph.features.values().len(), 3, "zeros are not kept");
    assert_eq!((graph.labels, graph.classes), (vec![0, 1, 3], 4));
    assert_eq!(graph.edges, [(0, 1), (2, 1), (2, 1), (1, 1)]);
}

#[test]
fn listed_features_are_ones_and_count_once() {
    let read = |width| parse(EDGES.as_bytes(), LISTED.as_bytes(), Layout::Indices, width);
    let graph = read(None).unwrap();
    let rows = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    assert_eq!(graph.features.to_dense().data, rows);
    assert_eq!(read(Some(9)).unwrap().features.cols(), 9);
    let narrow = read(Some(3)).unwrap_err().to_string();
    assert_eq!(narrow, "nodes, line 3: `3` is not the index of a feature, expected 0 to 2");
}

#[test]
fn line_ends_of_other_systems_and_a_missing_last_one_are_fine() {
    let plain = dense(EDGES, NODES).unwrap();
    assert_eq!(dense(&EDGES.replace('\n', "\r\n"), &NODES.replace('\n', "\r\n")).unwrap(), plain);
    assert_eq!(dense(EDGES.trim_end(), NODES.trim_end()).unwrap(), plain);
    assert_eq!(dense(&format!("{EDGES}\n\r\n"), &format!("{NODES}\n")).unwrap(), plain);
}

#[test]
fn every_problem_names_file_line_and_what_was_expected() {
    let swap = |from: &str, to: &str| dense(EDGES, &NODES.replacen(from, to, 1)).unwrap_err().to_string();
    let cases = [
        (swap("0,0,1,0", "0,0,1"), "nodes, line 3: has 4 features, expected 3"),
        (swap("0,0,1,0", "0,x,1,0"), "nodes, line 2: feature 1 is `x`, expected a finite 32-bit number"),
        (swap("0,0,1,0", "0,0,1,inf"), "nodes, line 2: feature 3 is `inf`, expected a finite 32-bit number"),
        (swap("0,0,1,0", "0,0,1,"), "nodes, line 2: feature 3 is ``, expected a finite 32-bit number"),
        (swap("0,0,1,0\t3", "0,0,1,0"), "nodes, line 2: has 2 fields, expected 3 between tabs: id, features and label"),
        (swap("\t3", "\t-3"), "nodes, line 2: label `-3` is not a class, expected 0 to 65535"),
        (swap("\t3", "\t65536"), "nodes, line 2: label `65536` is not a class, expected 0 to 65535"),
        (swap("\t3", "\t1.5"), "nodes, line 2: label `1.5` is not a class, expected 0 to 65535"),
        (swap("2\t", "two\t"), "nodes, line 2: `two` is not a node id, expected 0, 1, …"),
        (swap("2\t", "1\t"), "nodes, line 4: node 1 is in line 2 already, expected every node once"),
        (
            swap("2\t", "3\t"),
            "nodes, line 2: node 3 is beyond the 3 nodes of the file, where node 2 is missing; \
             expected every id from 0 to 2",
        ),
        (swap("\n0", "\n\n0"), "nodes, line 3: is blank, expected blank lines at the end alone"),
        (
            swap("node_id\tfeature\tlabel\n", ""),
            "nodes, line 1: is not a header, expected `node_id<TAB>feature<TAB>label`",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let swap = |from: &str, to: &str| dense(&EDGES.replacen(from, to, 1), NODES).unwrap_err().to_string();
    let cases = [
        (swap("0\t1", "0\t3"), "edges, line 2: endpoint `3` is not a node, expected 0 to 2"),
        (swap("0\t1", "0 1"), "edges, line 2: has 1 field, expected 2 between tabs: source and target"),
        (swap("0\t1", "0\t1\t1"), "edges, line 2: has 3 fields, expected 2 between tabs: source and target"),
        (swap("node_id\tnode_id\n", ""), "edges, line 1: is not a header, expected `node_id<TAB>node_id`"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let fixed = parse(EDGES.as_bytes(), NODES.as_bytes(), Layout::Dense, Some(5)).unwrap_err().to_string();
    assert_eq!(fixed, "nodes, line 2: has 4 features, expected 5");
    let none = dense(EDGES, "node_id\tfeature\tlabel\n").unwrap_err().to_string();
    assert_eq!(none, "nodes: has no nodes, expected at least one");
    let listed = parse(EDGES.as_bytes(), b"id\tfeature\tlabel\n0\t\t0\n", Layout::Indices, None).unwrap_err();
    assert_eq!(listed.to_string(), "nodes: has no features, expected at least one");
    let far = parse(EDGES.as_bytes(), b"id\tfeature\tlabel\n0\t4000000000\t0\n", Layout::Indices, None).unwrap_err();
    assert!(far.to_string().starts_with("nodes, line 2: `4000000000` is not the index of a feature"), "{far}");
}

#[test]
fn a_last_line_without_an_end_is_suspected_to_be_cut_off() {
    let cut = dense(EDGES, &NODES[..NODES.len() - 4]).unwrap_err();
    let expected = "nodes, line 4: has 2 fields, expected 3 between tabs: id, features and label";
    assert_eq!(cut.to_string(), expected);
    assert!(cut.hint().unwrap().contains("cut off"));
    assert_eq!(dense(EDGES, &NODES.replacen("0,0,1,0", "0", 1)).unwrap_err().hint(), None);
}

fn npz(masks: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mask) in masks {
        let mut bytes = Cursor::new(Vec::new());
        let options = npyz::WriteOptions::new().default_dtype().shape(&[mask.len() as u64]);
        let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
        writer.extend(mask.iter().copied()).unwrap();
        writer.finish().unwrap();
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes.get_ref()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn masks_are_one_archive_a_split() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        FilePath(path)
    };
    let read = |val: &[u8]| {
        let second = npz(&[("train_mask", &[0, 0, 1]), ("val_mask", val), ("test_mask", &[1, 0, 0])]);
        let params = Params {
            edges: file("edges", EDGES.as_bytes()),
            nodes: file("nodes", NODES.as_bytes()),
            splits: vec![
                file("0", &npz(&[("train_mask", &[1, 0, 0]), ("val_mask", &[0, 1, 0]), ("test_mask", &[0, 0, 1])])),
                file("1", &second),
            ],
            layout: Layout::Dense,
            features: None,
        };
        with_job(|job| GeomGcn::read(&params, job))
    };
    let parts = read(&[0, 0, 0]).unwrap().masks.unwrap().parts;
    assert_eq!(parts, [[Part::Train, Part::Val, Part::Test], [Part::Test, Part::None, Part::Train]]);
    let message = |val: &[u8]| read(val).unwrap_err().to_string().rsplit_once('/').unwrap().1.to_owned();
    let expected = "1, member `val_mask`, node 2: is in `train_mask` as well, expected one part per node";
    assert_eq!(message(&[0, 0, 1]), expected);
    assert_eq!(message(&[0, 9, 0]), "1, member `val_mask`, node 1: `9` is not a truth value, expected 0 or 1");
    assert_eq!(message(&[0, 0]), "1, member `val_mask`: has shape [2], expected nodes (3)");
}

#[test]
fn what_stands_in_place_of_a_list_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = open(&path, "a list of nodes").err().unwrap().to_string();
        error.rsplit_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(message(b""), "is empty, expected a list of nodes");
    assert_eq!(message(b"<html>"), "is a web page, expected a list of nodes");
    assert!(open(folder.path(), "a list").is_err());
}

#[test]
fn damaged_files_give_a_sound_graph_or_an_error() {
    for (nodes, layout) in [(NODES, Layout::Dense), (LISTED, Layout::Indices)] {
        let accepted = testing::survive(10_000, &[EDGES.as_bytes(), nodes.as_bytes()], |files| {
            parse(&files[0], &files[1], layout, None)
        });
        assert!(accepted > 500, "{accepted}");
    }
}

/// Reads a real data set with its ten splits, and how long that took.
fn real(folder: &str, prefix: &str, layout: Layout) -> Option<Graph> {
    let root = real_data(folder)?;
    let file = |path: PathBuf| FilePath(path);
    let splits = (0..10).map(|i| file(root.join(format!("splits/{prefix}_split_0.6_0.2_{i}.npz")))).collect();
    let params = Params {
        edges: file(root.join("out1_graph_edges.txt")),
        nodes: file(root.join("out1_node_feature_label.txt")),
        splits,
        layout,
        features: None,
    };
    let start = std::time::Instant::now();
    let graph = with_job(|job| GeomGcn::read(&params, job)).unwrap();
    eprintln!("{folder}: read in {:?}", start.elapsed());
    Some(graph)
}

/// Counts: nodes, features, classes, edge lines, loops, undirected edges without loops; then the sizes of all splits.
fn counts(graph: &Graph) -> ([u64; 6], Vec<[usize; 3]>) {
    let facts = graph.facts();
    let names = ["nodes", "features", "classes", "edges-stored", "self-loops", "edges-undirected"];
    let masks = graph.masks.as_ref().unwrap();
    let sizes = |split| Part::SCORED.map(|(part, _)| masks.nodes(split, part).len());
    (names.map(|name| facts[name].as_u64().unwrap()), (0..masks.len()).map(sizes).collect())
}

/// The counts are those of the published files, counted independently of this reader.
#[test]
fn the_published_files_have_the_published_counts() {
    let expected = [
        ("texas", [183, 1703, 5, 325, 16, 279], [87, 59, 37]),
        ("wisconsin", [251, 1703, 5, 515, 16, 450], [120, 80, 51]),
        ("cornell", [183, 1703, 5, 298, 3, 277], [87, 59, 37]),
        ("chameleon", [2277, 2325, 5, 36101, 50, 31371], [1092, 729, 456]),
        ("squirrel", [5201, 2089, 5, 217_073, 140, 198_353], [2496, 1664, 1041]),
    ];
    for (name, sizes, split) in expected {
        let Some(graph) = real(name, name, Layout::Dense) else { continue };
        assert_eq!(counts(&graph), (sizes, vec![split; 10]), "{name}");
    }
}

/// Actor lists indices, some twice. 122 of its lines are loops, 93 of them distinct; 30019 of all lines are distinct.
#[test]
fn the_published_file_of_actor_lists_indices() {
    let Some(graph) = real("actor", "film", Layout::Indices) else { return };
    assert_eq!(counts(&graph), ([7600, 932, 5, 33391, 93, 26659], vec![[3648, 2432, 1520]; 10]));
    assert_eq!(graph.facts()["edges-distinct"], 30019);
    assert!(graph.features.values().iter().all(|x| (*x - 1.0).abs() < f32::EPSILON));
}
