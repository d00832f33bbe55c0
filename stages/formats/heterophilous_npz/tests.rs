//! Reading the format, and files that are damaged.

use std::path::Path;

use super::*;
use crate::contract::params::FilePath;
use crate::formats::testing::{
    Members, after_name, fuzz_reader, mutated, mutated_member, npy, npy_ordered, npz, peak, read_bytes, replaced,
    with_job, without,
};

/// Three nodes, two features, two edges, two splits.
fn members() -> Members {
    vec![
        ("node_features", npy(&[3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("node_labels", npy(&[3], &[0i64, 2, 0])),
        ("edges", npy(&[2, 2], &[0i64, 1, 2, 1])),
        ("train_masks", npy(&[2, 3], &[true, false, false, false, false, true])),
        ("val_masks", npy(&[2, 3], &[false, true, false, false, false, false])),
        ("test_masks", npy(&[2, 3], &[false, false, true, true, false, false])),
    ]
}

fn with(name: &str, bytes: &[u8]) -> Vec<u8> {
    npz(&replaced(&members(), name, bytes))
}

fn read_path(path: &Path) -> Result<Graph, StageError> {
    with_job(|job| HeterophilousNpz::read(&OneFile { path: FilePath(path.to_owned()) }, job))
}

fn read(bytes: &[u8]) -> Result<Graph, StageError> {
    read_bytes::<HeterophilousNpz>(bytes, "my.npz", |path| OneFile { path })
}

fn message(bytes: &[u8]) -> String {
    after_name(&read(bytes).unwrap_err(), "my.npz")
}

#[test]
fn a_valid_file_is_read_as_stored() {
    let graph = read(&npz(&members())).unwrap();
    assert_eq!(graph.features.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!((graph.labels, graph.classes), (vec![0, 2, 0], 3));
    assert_eq!(graph.edges, [(0, 1), (2, 1)]);
    let masks = graph.masks.unwrap();
    assert_eq!(masks.parts[0], [Part::Train, Part::Val, Part::Test]);
    assert_eq!(masks.parts[1], [Part::Test, Part::None, Part::Train]);
}

#[test]
fn related_types_and_column_order_mean_the_same() {
    let plain = read(&npz(&members())).unwrap();
    for (name, bytes) in [
        ("node_features", npy(&[3, 2], &[1f64, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("node_features", npy(&[3, 2], &[1u8, 2, 3, 4, 5, 6])),
        ("node_features", npy_ordered(&[3, 2], &[1f32, 3.0, 5.0, 2.0, 4.0, 6.0], npyz::Order::Fortran)),
        ("node_labels", npy(&[3], &[0u8, 2, 0])),
        ("node_labels", npy(&[3], &[0f64, 2.0, -0.0])),
        ("edges", npy(&[2, 2], &[0i32, 1, 2, 1])),
        ("edges", npy_ordered(&[2, 2], &[0u16, 2, 1, 1], npyz::Order::Fortran)),
        ("val_masks", npy(&[2, 3], &[0u8, 1, 0, 0, 0, 0])),
    ] {
        assert_eq!(read(&with(name, &bytes)).unwrap(), plain, "{name}");
    }
}

#[test]
fn a_node_without_a_label_is_in_no_part() {
    let none: Members = members().into_iter().filter(|(n, _)| !n.ends_with("masks")).collect();
    for labels in [npy(&[3], &[0i64, -1, 2]), npy(&[3], &[0f32, f32::NAN, 2.0]), npy(&[3], &[0i8, -1, 2])] {
        let graph = read(&npz(&replaced(&none, "node_labels", &labels))).unwrap();
        assert_eq!((graph.labels, graph.classes, graph.unlabelled), (vec![0, 0, 2], 3, vec![1]));
        let found = message(&with("node_labels", &labels));
        let expected = ", member `val_masks`: node 1 of split 0 has no label, expected one of every node in a part";
        assert_eq!(found, expected);
    }
    let truth = read(&npz(&replaced(&none, "node_labels", &npy(&[3], &[true, false, true])))).unwrap();
    assert_eq!((truth.labels, truth.classes), (vec![1, 0, 1], 2));
}

/// An array of 16-bit floats from their bits.
fn npy_half(shape: &str, bits: &[u16]) -> Vec<u8> {
    let text = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut bytes = [b"\x93NUMPY\x01\x00", &u16::try_from(text.len()).unwrap().to_le_bytes()[..]].concat();
    bytes.extend(text.as_bytes());
    bytes.extend(bits.iter().flat_map(|b| b.to_le_bytes()));
    bytes
}

#[test]
fn short_floats_and_truth_values_are_numbers() {
    let read = |bytes: &[u8]| read(&with("node_features", bytes)).map(|graph| graph.features.to_dense().data);
    // NumPy: np.array([1, -2, 65504, 2**-24, 0.333251953125, -0.0], "f2").view("u2").
    let half = read(&npy_half("3, 2", &[0x3c00, 0xc000, 0x7bff, 0x0001, 0x3555, 0x8000])).unwrap();
    assert_eq!(half, [1.0, -2.0, 65504.0, 2f32.powi(-24), 0.333_251_95, 0.0]);
    for (bits, word) in [(0x7c00, "inf"), (0xfc00, "-inf"), (0x7e00, "NaN")] {
        let error = read(&npy_half("3, 2", &[0, 0, 0, bits, 0, 0])).unwrap_err().to_string();
        assert!(error.ends_with(&format!("node 1, feature 1: `{word}` is not a finite 32-bit number")), "{error}");
    }
    let truth = read(&npy(&[3, 2], &[true, false, true, true, false, false])).unwrap();
    assert_eq!(truth, [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn few_non_zeros_are_kept_sparse() {
    let mut values = [0f32; 15];
    (values[3], values[14]) = (2.0, -1.0);
    let graph = read(&with("node_features", &npy(&[3, 5], &values))).unwrap();
    assert!(matches!(graph.features, Features::Sparse(_)));
    assert_eq!(graph.features.to_dense().data, values);
}

#[test]
fn weights_belong_to_edges() {
    let mut members = members();
    members.push(("edge_weights", npy(&[2], &[0.5f64, 3.0])));
    assert_eq!(read(&npz(&members)).unwrap().weights, Some(vec![0.5, 3.0]));
    let message = |bytes: &[u8]| message(&npz(&replaced(&members, "edge_weights", bytes)));
    let shape = ", member `edge_weights`: has shape [3], expected edges (2)";
    assert_eq!(message(&npy(&[3], &[1f32; 3])), shape);
    let nan = ", member `edge_weights`, edge 1: `NaN` is not a finite 32-bit number";
    assert_eq!(message(&npy(&[2], &[1f32, f32::NAN])), nan);
}

#[test]
fn masks_come_together_or_not_at_all() {
    let none: Members = members().into_iter().filter(|(n, _)| !n.ends_with("masks")).collect();
    assert_eq!(read(&npz(&none)).unwrap().masks, None);
    let expected = ", member `train_masks`: stands without `val_masks`, expected all three masks or none";
    assert_eq!(message(&npz(&without(&members(), "val_masks"))), expected);
}

#[test]
fn every_problem_names_member_and_place() {
    let inf = npy(&[3, 2], &[1f32, 2.0, 3.0, f32::NAN, 5.0, 6.0]);
    let far = npy(&[3, 2], &[1f64, 2.0, 3.0, 4.0, 1e300, 6.0]);
    let cases: Vec<(&'static str, Vec<u8>, &str)> = vec![
        ("node_features", inf, ", node 1, feature 1: `NaN` is not a finite 32-bit number"),
        ("node_features", far, ", node 2, feature 0: `1000"),
        ("node_features", npy(&[2, 2], &[1f32; 4]), ": has shape [2, 2], expected nodes (3) × features"),
        ("node_features", npy(&[3, 0], &[0f32; 0]), ": has no features, expected at least one"),
        ("node_labels", npy(&[3], &[0i64, -2, 0]), ", node 1: label -2 is not a class, expected 0 to 65535, or -1"),
        ("node_labels", npy(&[3], &[0f32, 0.0, 1.5]), ", node 2: label 1.5 is not a class"),
        ("node_labels", npy(&[3], &[0f32, 0.0, f32::INFINITY]), ", node 2: label inf is not a class"),
        ("node_labels", npy(&[3], &[-1i64; 3]), ": labels no node, expected the class of at least one"),
        ("node_labels", npy(&[3], &[0i64, 0, 1 << 40]), ", node 2: label 1099511627776 is not a class"),
        ("node_labels", npy(&[0], &[0i64; 0]), ": has no nodes, expected at least one"),
        ("edges", npy(&[2, 2], &[0i64, 1, 3, 1]), ", edge 1: endpoint 3 is not a node, expected 0 to 2"),
        ("edges", npy(&[1, 2], &[0i64, -1]), ", edge 0: endpoint -1 is not a node"),
        ("edges", npy(&[2, 3], &[0i64; 6]), ": has shape [2, 3], expected edges × source and target (2)"),
        ("edges", npy(&[4], &[0i64; 4]), ": has shape [4], expected edges × source and target (2)"),
        ("val_masks", npy(&[2, 2], &[false; 4]), ": has shape [2, 2], expected splits (2) × nodes (3)"),
        ("val_masks", npy(&[1, 3], &[false; 3]), ": has shape [1, 3], expected splits (2) × nodes (3)"),
        ("val_masks", npy(&[2, 3], &[0u8, 7, 0, 0, 0, 0]), ", split 0, node 1: `7` is not a truth value"),
        ("test_masks", npy(&[2, 3], &[0u8, 0, 0, 0, 0, 1]), ": node 2 of split 1 is in `train_masks` as well"),
    ];
    for (name, bytes, expected) in cases {
        let found = message(&with(name, &bytes));
        assert!(found.starts_with(&format!(", member `{name}`{expected}")), "{found}");
    }
}

#[test]
fn foreign_and_broken_files_are_recognised() {
    let whole = npz(&members());
    assert_eq!(message(b"<!DOCTYPE html><html>"), ": is a web page, expected an npz file");
    assert_eq!(message(b""), ": is empty, expected an npz file");
    assert!(message(b"nonsense").starts_with(": is not an npz file"));
    assert!(message(&whole[..whole.len() / 2]).starts_with(": is damaged or cut off"));
    assert_eq!(message(&npz(&without(&members(), "edges"))), ": has no member `edges`");
    let (mut cut, mut long) = (npy(&[3], &[0i64, 2, 0]), npy(&[3], &[0i64, 2, 0]));
    cut.truncate(cut.len() - 1);
    long.push(0);
    assert!(message(&with("node_labels", &cut)).contains("ends or breaks at number 2 of 3"));
    assert!(message(&with("node_labels", &long)).contains("has bytes after its last number"));
    assert!(message(&with("edges", b"hello")).contains("expected a NumPy array"));
    let missing = read_path(Path::new("no/such/my.npz")).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/my.npz: cannot open"), "{missing}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_header_that_lies_about_its_size_allocates_nothing() {
    let header =
        |version: u8, length: &[u8], text: &str| [b"\x93NUMPY", &[version, 0][..], length, text.as_bytes()].concat();
    let array = |shape: &str| {
        let text = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape}), }}");
        header(1, &u16::try_from(text.len()).unwrap().to_le_bytes(), &text)
    };
    let before = peak("VmPeak");
    for lie in [
        header(2, &[255; 4], "{"),
        array("536870912,"),
        array("9223372036854775807, 9223372036854775807"),
        array("99999999999999999999999,"),
        array(&"(".repeat(2000)),
        array(&"9,".repeat(1000)),
    ] {
        message(&with("node_labels", &lie));
    }
    // The third lie alone would have taken 4 GiB.
    assert!(peak("VmPeak") - before < 2 << 30);
}

#[test]
fn random_damage_gives_a_graph_or_an_error_but_never_a_panic() {
    let refused = fuzz_reader(5000, &mutated(npz(&members())), read_path);
    assert!(refused > 2500, "{refused}");
    let mut members = members();
    members.push(("edge_weights", npy(&[2], &[0.5f64, 3.0])));
    members[0].1 = npy_half("3, 2", &[0x3c00, 0xc000, 0x7bff, 0x0001, 0x3555, 0x8000]);
    let refused = fuzz_reader(5000, &mutated_member(members, npz), read_path);
    assert!(refused > 2500, "{refused}");
}
