//! A small data set of five nodes, what must be refused, and the three published ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::pickle::tests::{pickled_array, pickled_lists, pickled_sparse};
use super::*;
use crate::formats::testing::{real_data, with_job};
use crate::kinds::Part;

type Files = BTreeMap<&'static str, Vec<u8>>;

fn one_hot(rows: &[&[i32]]) -> Vec<u8> {
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.iter()).flat_map(|n| n.to_le_bytes()).collect();
    let size = |n: usize| i32::try_from(n).unwrap();
    pickled_array(&[size(rows.len()), size(rows[0].len())], "<i4", false, &bytes)
}

/// Two known nodes, test nodes 4 and 2, and node 3 without a row.
fn files() -> Files {
    BTreeMap::from([
        ("allx", pickled_sparse(3, &[0, 1, 3], &[0, 1, 2], &[1.0, 2.0, 3.0])),
        ("tx", pickled_sparse(3, &[0, 1, 2], &[1, 2], &[4.0, 5.0])),
        ("ally", one_hot(&[&[0, 1], &[1, 0]])),
        ("ty", one_hot(&[&[0, 1], &[0, 0]])),
        ("graph", pickled_lists(&[(0, &[4, 2, 4]), (4, &[0]), (2, &[0, 2]), (1, &[]), (3, &[])])),
        ("test.index", b"4\n2\n".to_vec()),
    ])
}

fn params(file: impl Fn(&str) -> PathBuf) -> Params {
    let path = |name| FilePath(file(name));
    Params {
        x: None,
        tx: path("tx"),
        allx: path("allx"),
        y: None,
        ty: path("ty"),
        ally: path("ally"),
        graph: path("graph"),
        test_index: path("test.index"),
        splits: Vec::new(),
    }
}

fn read_with(files: &Files, change: impl FnOnce(&mut Params)) -> Result<Graph, StageError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut params = params(|name| folder.path().join(name));
    change(&mut params);
    for extra in [&mut params.x, &mut params.y].into_iter().flatten().chain(&mut params.splits) {
        extra.0 = folder.path().join(&extra.0);
    }
    with_job(|job| Planetoid::read(&params, job))
}

/// The message, with the folder left out.
fn message(result: Result<Graph, StageError>) -> String {
    let text = result.unwrap_err().to_string();
    let folder = std::env::temp_dir().display().to_string();
    let words =
        text.split(&folder).map(|part| part.strip_prefix("/.tmp").map_or(part, |p| p.split_once('/').unwrap().1));
    words.collect()
}

#[test]
fn test_rows_go_to_their_nodes_and_gaps_stay_empty() {
    let graph = read_with(&files(), |_| ()).unwrap();
    let expected = [1.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0];
    assert_eq!(graph.features.to_dense().data, expected);
    assert_eq!((graph.labels, graph.classes, graph.unlabelled), (vec![1, 0, 0, 0, 1], 2, vec![2, 3]));
    assert_eq!(graph.edges, [(0, 4), (0, 2), (0, 4), (2, 0), (2, 2), (4, 0)]);
    assert_eq!(graph.masks, None);
}

#[test]
fn the_training_rows_are_compared_when_they_are_given() {
    let mut files = files();
    files.insert("x", pickled_sparse(3, &[0, 1], &[0], &[1.0]));
    files.insert("y", one_hot(&[&[0, 1]]));
    let given = |params: &mut Params| {
        params.x = Some(FilePath("x".into()));
        params.y = Some(FilePath("y".into()));
    };
    assert_eq!(read_with(&files, given).unwrap(), read_with(&files, |_| ()).unwrap());
    files.insert("y", one_hot(&[&[0, 1, 0]]));
    assert_eq!(message(read_with(&files, given)), "y: has 3 columns, expected 2 as in `ally`");
    files.insert("x", pickled_sparse(2, &[0, 1], &[0], &[1.0]));
    assert_eq!(message(read_with(&files, given)), "x: has 2 columns, expected 3 as in `allx`");
}

#[test]
fn every_problem_names_file_and_place() {
    let empty = || pickled_sparse(0, &[0, 0, 0], &[], &[]);
    for (name, bytes, expected) in [
        ("tx", pickled_sparse(2, &[0, 0, 0], &[], &[]), "tx: has 2 columns, expected 3 as in `allx`"),
        ("tx", pickled_sparse(3, &[0, 0], &[], &[]), "ty: has 2 rows, expected 1 as in `tx`"),
        ("allx", empty(), "allx: has no columns, expected at least one feature"),
        ("allx", b"<html>".to_vec(), "allx: is a web page, expected a pickle"),
        ("ally", one_hot(&[&[0, 1]]), "ally: has 1 rows, expected 2 as in `allx`"),
        ("ally", one_hot(&[&[0, 1, 0], &[0, 1, 0]]), "ty: has 2 columns, expected 3 as in `ally`"),
        ("ally", one_hot(&[&[0, 1], &[1, 1]]), "ally, row 1: has more than one class, expected one"),
        ("ally", one_hot(&[&[0, 1], &[2, 0]]), "ally, row 1, column 0: `2` is not part of a one-hot label"),
        ("ally", pickled_array(&[2], "<i4", false, &[0; 8]), "ally: has shape [2], expected nodes × classes"),
        ("ally", pickled_array(&[i32::MAX, 0], "<i4", false, &[]), "ally: has shape [2147483647, 0], expected nodes"),
        ("test.index", b"4\n".to_vec(), "test.index: has 1 rows, expected 2 as in `tx`"),
        ("test.index", b"4\n\n4\n".to_vec(), "test.index, line 3: node 4 stands in line 1 as well"),
        ("test.index", b"4\n1\n".to_vec(), "test.index, line 2: node 1 is one of the 2 nodes of `allx`"),
        ("test.index", b"4\n2.5\n".to_vec(), "test.index, line 2: `2.5` is not a node, expected a whole number"),
        ("test.index", b"4\n4294967295\n".to_vec(), "graph: has entries for 5 nodes, but `allx` and `test-index` tell"),
        ("test.index", b"".to_vec(), "test.index: is empty, expected one test node a line"),
        ("test.index", b"\n \n".to_vec(), "test.index: names no node, expected at least one"),
        ("graph", pickled_lists(&[(0, &[])]), "graph: has entries for 1 nodes, but `allx` and `test-index` tell of 5"),
        (
            "graph",
            pickled_lists(&[(0, &[]), (1, &[]), (2, &[5]), (3, &[]), (4, &[])]),
            "graph, node 2: neighbour 5 is not a node, expected 0 to 4",
        ),
        (
            "graph",
            pickled_lists(&[(0, &[]), (1, &[]), (2, &[]), (3, &[]), (-4, &[])]),
            "graph, node -4: is not a node, expected 0 to 4",
        ),
    ] {
        let mut files = files();
        files.insert(name, bytes);
        let found = message(read_with(&files, |_| ()));
        assert!(found.starts_with(expected), "{found}");
    }
}

fn npz(masks: [&[u8]; 3]) -> Vec<u8> {
    use std::io::Write;

    use npyz::WriterBuilder;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for ((name, _), mask) in split_masks::MASKS.iter().zip(masks) {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        let mut bytes = std::io::Cursor::new(Vec::new());
        let options = npyz::WriteOptions::new().default_dtype().shape(&[mask.len() as u64]);
        let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
        writer.extend(mask.iter().copied()).unwrap();
        writer.finish().unwrap();
        zip.write_all(bytes.get_ref()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn masks_are_one_file_a_split() {
    let read = |masks| {
        let mut files = files();
        files.insert("s0", npz([&[1, 0, 0, 0, 0], &[0, 0, 1, 0, 0], &[0, 1, 0, 0, 0]]));
        files.insert("s1", npz(masks));
        read_with(&files, |params| params.splits = ["s0", "s1"].map(|name| FilePath(name.into())).to_vec())
    };
    let graph = read([&[0, 0, 0, 0, 1], &[0; 5], &[1, 0, 0, 0, 0]]).unwrap();
    let (none, train, val, test) = (Part::None, Part::Train, Part::Val, Part::Test);
    assert_eq!(graph.masks.unwrap().parts, [[train, test, val, none, none], [test, none, none, none, train]]);
    let twice = message(read([&[0, 0, 0, 0, 1], &[0, 0, 0, 0, 1], &[0; 5]]));
    assert_eq!(twice, "s1, member `val_mask`, node 4: is in `train_mask` as well, expected one part per node");
    let seven = message(read([&[0, 7, 0, 0, 0], &[0; 5], &[0; 5]]));
    assert_eq!(seven, "s1, member `train_mask`, node 1: `7` is not a truth value, expected 0 or 1");
    let short = message(read([&[0; 4], &[0; 5], &[0; 5]]));
    assert_eq!(short, "s1, member `train_mask`: has shape [4], expected nodes (5)");
}

#[test]
fn every_file_counts_and_what_is_left_out_does_not() {
    let stage = crate::contract::StageDef::of::<crate::load::Load>();
    let mut written = serde_json::json!({"format": "planetoid", "tx": "a", "allx": "b", "ty": "c", "ally": "d",
        "graph": "e", "test-index": "f", "splits": ["g", "h"]});
    let files = |written: &serde_json::Value| {
        let checked = stage.check(&crate::built_in(), written.as_object().unwrap()).unwrap();
        let mut files: Vec<_> = checked.files().map(|(_, path)| path.display().to_string()).collect();
        files.sort_unstable();
        files.concat()
    };
    assert_eq!(files(&written), "abcdefgh");
    written["x"] = "i".into();
    assert_eq!(files(&written), "abcdefghi");
}

fn published(name: &str) -> Option<Graph> {
    let folder = real_data(name)?;
    let file = |end: &str| folder.join(format!("ind.{name}.{end}"));
    let mut params = params(file);
    params.x = Some(FilePath(file("x")));
    params.y = Some(FilePath(file("y")));
    let split = |i| FilePath(folder.join(format!("splits/{name}_split_0.6_0.2_{i}.npz")));
    params.splits = (0..10).map(split).collect();
    Some(with_job(|job| Planetoid::read(&params, job)).unwrap())
}

fn facts<const N: usize>(graph: &Graph, names: [&str; N]) -> [u64; N] {
    let facts = graph.facts();
    names.map(|name| facts[name].as_u64().unwrap())
}

const COUNTS: [&str; 9] = [
    "nodes",
    "features",
    "classes",
    "edges-stored",
    "edges-distinct",
    "edges-undirected",
    "self-loops",
    "isolated-nodes",
    "unlabelled-nodes",
];

/// Nodes of every class, and two sums that depend on where every label and every feature stands:
/// Σ (node + 1) · label, and Σ (node + 1) · (feature + 1) over all non-zeros, modulo 2³².
fn sums(graph: &Graph) -> (Vec<usize>, u64, u64) {
    let labelled = |i: &u32| !graph.unlabelled.contains(i);
    let classes = (0..u32::try_from(graph.classes).unwrap())
        .map(|c| (0u32..).zip(&graph.labels).filter(|(i, l)| **l == c && labelled(i)).count())
        .collect();
    let labels = (1u64..).zip(&graph.labels).map(|(i, l)| i * u64::from(*l)).sum::<u64>();
    let Features::Sparse(csr) = &graph.features else { panic!("not sparse") };
    let row = |i: usize| csr.row(i).0.iter().map(|c| u64::from(*c) + 1).sum::<u64>() * (i as u64 + 1);
    (classes, labels % (1 << 32), (0..csr.n()).map(row).sum::<u64>() % (1 << 32))
}

fn sizes(graph: &Graph) -> Vec<[usize; 3]> {
    let masks = graph.masks.as_ref().unwrap();
    (0..masks.len()).map(|s| [Part::Train, Part::Val, Part::Test].map(|part| masks.nodes(s, part).len())).collect()
}

// Expected numbers: Python's own unpickler with stand-ins for the classes, and the assembly that the module describes.

#[test]
fn cora_is_as_published() {
    let Some(graph) = published("cora") else { return };
    assert_eq!(facts(&graph, COUNTS), [2708, 1433, 7, 10858, 10556, 5278, 0, 0, 0]);
    assert_eq!(sums(&graph), (vec![351, 217, 418, 818, 426, 298, 180], 10_514_174, 997_905_030));
    assert_eq!(graph.features.non_zeros(), 49_216);
    assert_eq!(graph.edges[..3], [(0, 633), (0, 1862), (0, 2582)]);
    assert!((graph.facts()["edge-homophily"].as_f64().unwrap() - 4275.0 / 5278.0).abs() < 1e-12);
    // The masks cover the largest component only: 2485 nodes.
    assert_eq!(sizes(&graph), [[1192, 796, 497]; 10]);
}

#[test]
fn citeseer_is_as_published() {
    let Some(graph) = published("citeseer") else { return };
    // Every one of the 124 loops is stored twice.
    assert_eq!(facts(&graph, COUNTS), [3327, 3703, 6, 9464, 9228, 4552, 124, 48, 15]);
    assert_eq!(sums(&graph), (vec![249, 590, 668, 701, 596, 508], 14_899_555, 4_285_195_412));
    assert_eq!(graph.features.non_zeros(), 105_165);
    let gaps = [2407, 2489, 2553, 2682, 2781, 2953, 3042, 3063, 3212, 3214, 3250, 3292, 3305, 3306, 3309];
    assert_eq!(graph.unlabelled, gaps);
    // 16 edges have an end without a label; 3348 of all 4552 would be in one class with class 0 in its place.
    assert!((graph.facts()["edge-homophily"].as_f64().unwrap() - 3346.0 / 4536.0).abs() < 1e-12);
    let mut expected = [[1596, 1065, 666]; 10];
    expected[4] = [1017, 679, 424];
    expected[5] = [1017, 679, 424];
    assert_eq!(sizes(&graph), expected);
}

#[test]
fn pubmed_is_as_published() {
    let Some(graph) = published("pubmed") else { return };
    // Every one of the 3 loops is stored twice.
    assert_eq!(facts(&graph, COUNTS), [19717, 500, 3, 88676, 88651, 44324, 3, 0, 0]);
    assert_eq!(sums(&graph), (vec![4103, 7739, 7875], 231_043_241, 4_181_503_886));
    assert_eq!(graph.features.non_zeros(), 988_031);
    assert!((graph.facts()["edge-homophily"].as_f64().unwrap() - 35565.0 / 44324.0).abs() < 1e-12);
    assert_eq!(sizes(&graph), [[9463, 6310, 3944]; 10]);
}
