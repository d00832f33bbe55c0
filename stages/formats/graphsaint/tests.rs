use std::collections::BTreeMap;

use super::*;
use crate::formats::testing::{
    Members, after_name, fuzz_reader, mutated, npy, npz, replaced, with_job, without_column,
};

/// NumPy's `array(b"csr")`: text of no dimension.
fn word(text: &str) -> Vec<u8> {
    let header = format!("{{'descr': '|S{}', 'fortran_order': False, 'shape': (), }}", text.len());
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), text.as_bytes()].concat()
}

fn adjacency() -> Members {
    vec![
        ("indices", npy(&[3], &[1i32, 2, 0])),
        ("indptr", npy(&[4], &[0i32, 2, 2, 3])),
        ("format", word("csr")),
        ("shape", npy(&[2], &[3i64, 3])),
        ("data", npy(&[3], &[true, true, true])),
    ]
}

type Files = BTreeMap<&'static str, Vec<u8>>;

/// Three nodes, two features.
fn files() -> Files {
    BTreeMap::from([
        ("adj_full.npz", npz(&adjacency())),
        ("feats.npy", npy(&[3, 2], &[1f64, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("class_map.json", br#"{"0": 1, "2": 0, "1": 3}"#.to_vec()),
        ("role.json", br#"{"tr": [2], "va": [], "te": [0]}"#.to_vec()),
    ])
}

fn read(files: &Files) -> Result<Graph, StageError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, &files[name]).unwrap();
        FilePath(path)
    };
    let params = Params {
        adjacency: write("adj_full.npz"),
        features: write("feats.npy"),
        classes: write("class_map.json"),
        roles: write("role.json"),
    };
    with_job(|job| GraphSaint::read(&params, job))
}

fn message(name: &'static str, bytes: impl AsRef<[u8]>) -> String {
    let mut files = files();
    files.insert(name, bytes.as_ref().to_vec());
    without_column(&after_name(&read(&files).unwrap_err(), name))
}

#[test]
fn four_valid_files_make_a_graph() {
    let graph = read(&files()).unwrap();
    assert_eq!(graph.edges, [(0, 1), (0, 2), (2, 0)]);
    assert_eq!(graph.features.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!((graph.labels, graph.classes), (vec![1, 3, 0], 4));
    assert_eq!(graph.masks.unwrap().parts, [[Part::Test, Part::None, Part::Train]]);
}

#[test]
fn every_problem_names_file_and_place() {
    let adjacency = |name: &str, bytes: &[u8]| message("adj_full.npz", npz(&replaced(&adjacency(), name, bytes)));
    let expected = ", member `format`: is `csc`, expected compressed sparse rows (`csr`)";
    assert_eq!(adjacency("format", &word("csc")), expected);
    assert_eq!(adjacency("format", &npy(&[1], &[1i32])), ", member `format`: has type `<i4`, expected text");
    assert_eq!(adjacency("shape", &npy(&[2], &[3i64, 5])), ", member `shape`: is 3 × 5, expected a square matrix");
    let expected = ", member `indices`, entry 1: column 3 is outside the matrix, expected 0 to 2";
    assert_eq!(adjacency("indices", &npy(&[3], &[1i32, 3, 0])), expected);
    assert_eq!(message("adj_full.npz", "<html>"), ": is a web page, expected an npz file");

    let expected = ", node 1, feature 0: `inf` is not a finite 32-bit number";
    assert_eq!(message("feats.npy", npy(&[3, 2], &[1f64, 2.0, f64::INFINITY, 4.0, 5.0, 6.0])), expected);
    let expected = ": has shape [2, 2], expected nodes (3) × features";
    assert_eq!(message("feats.npy", npy(&[2, 2], &[1f64; 4])), expected);
    assert_eq!(message("feats.npy", npy(&[3, 0], &[1f64; 0])), ": has no features, expected at least one");
    assert_eq!(message("feats.npy", "<html>"), ": is a web page, expected a NumPy array");
    assert_eq!(message("feats.npy", ""), ": is empty, expected a NumPy array");
    assert_eq!(message("feats.npy", "PK"), ": is not a NumPy array");
    let whole = &files()["feats.npy"];
    assert!(message("feats.npy", &whole[..whole.len() - 9]).starts_with(": ends or breaks at number 4 of 6"));

    let cases = [
        (r#"{"0": [0, 1], "1": 0}"#, ", line 1: a list of classes: several classes per node are not supported"),
        (r#"{"0": 1, "1": 0}"#, ": has classes of 2 nodes, expected 3; node 2 is the first without one"),
        (r#"{"0": 1, "3": 0}"#, ", line 1: `3` is not a node, expected 0 to 2"),
        (r#"{"0": 1, "x": 0}"#, ", line 1: `x` is not a node, expected 0 to 2"),
        (r#"{"0": 1, "0": 0}"#, ", line 1: node 0 is there twice"),
        (r#"{"0": -1}"#, ", line 1: invalid type: integer `-1`, expected a class from 0 to 65535"),
        (r#"{"0": 70000}"#, ", line 1: invalid value: integer `70000`, expected a class from 0 to 65535"),
        (r#"{"0": 1.5}"#, ", line 1: invalid type: floating point `1.5`, expected a class"),
        (r#"{"0": 1"#, ", line 1: is cut off"),
        ("[]", ", line 1: invalid type: sequence, expected an object of nodes and their classes"),
        ("<html>", ": is a web page, expected a JSON file"),
    ];
    for (text, expected) in cases {
        let found = message("class_map.json", text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let cases = [
        (r#"{"tr": [0], "te": [1]}"#, ": has no `va`, expected `tr`, `va` and `te`"),
        (r#"{"tr": [0, 3]}"#, ", line 1: entry 1 of `tr`: 3 is not a node, expected 0 to 2"),
        (r#"{"tr": [0], "te": [0]}"#, ", line 1: node 0 is in `te` and in `tr`, expected one part per node"),
        (r#"{"tr": 0}"#, ", line 1: invalid type: integer `0`, expected a list"),
        (r#"{"tr": [-1]}"#, ", line 1: invalid value: integer `-1`, expected u64"),
    ];
    for (text, expected) in cases {
        let found = message("role.json", text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn random_damage_gives_a_graph_or_an_error_but_never_a_panic() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), files());
    for (name, bytes) in &whole {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = |name: &str| FilePath(folder.path().join(name));
    for name in ["class_map.json", "role.json", "feats.npy"] {
        fuzz_reader(3500, &mutated(whole[name].clone()), |damaged| {
            let chosen = |n: &str| if n == name { FilePath(damaged.to_owned()) } else { path(n) };
            with_job(|job| {
                let labels = classes(&chosen("class_map.json").0, 3, job)?;
                let masks = Some(Splits { parts: vec![roles(&chosen("role.json").0, 3, job)?] });
                let features = Features::Dense(features(&chosen("feats.npy").0, 3, job)?);
                Ok(Graph { edges: Vec::new(), features, labels, classes: 1 << 16, masks, ..Graph::default() })
            })
        });
    }
}
