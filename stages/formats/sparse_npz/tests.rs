use std::path::Path;

use super::*;
use crate::contract::params::FilePath;
use crate::formats::testing::{
    Members, after_name, fuzz_reader, mutated, mutated_member, npy, npz, read_bytes, real_data, replaced, with_job,
    without,
};
use crate::kinds::Features;

/// Three nodes, four features. One edge has the value zero; the features of node 0 come in no order.
fn members() -> Members {
    vec![
        ("adj_shape", npy(&[2], &[3i64, 3])),
        ("adj_indptr", npy(&[4], &[0i32, 2, 2, 5])),
        ("adj_indices", npy(&[5], &[2i32, 1, 0, 2, 1])),
        ("adj_data", npy(&[5], &[1f32, 1.0, 0.5, 1.0, 0.0])),
        ("attr_shape", npy(&[2], &[3i64, 4])),
        ("attr_indptr", npy(&[4], &[0i32, 3, 3, 5])),
        ("attr_indices", npy(&[5], &[3i32, 0, 2, 1, 0])),
        ("attr_data", npy(&[5], &[1f32, 2.0, 3.0, 4.0, 0.0])),
        ("labels", npy(&[3], &[0i64, 2, 0])),
        ("class_names", npy_text("<U2", "2,", &["a", "b\u{e9}"])),
        ("other", b"whatever".to_vec()),
    ]
}

/// An array of texts of two letters or bytes.
fn npy_text(descr: &str, shape: &str, texts: &[&str]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut bytes = [b"\x93NUMPY\x01\x00", &u16::try_from(text.len()).unwrap().to_le_bytes()[..]].concat();
    bytes.extend(text.as_bytes());
    for text in texts {
        let mut word: Vec<u8> = match &descr[..2] {
            "<U" => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            ">U" => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            _ => text.as_bytes().to_vec(),
        };
        word.resize(if descr.contains('U') { 8 } else { 2 }, 0);
        bytes.extend(word);
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<Graph, StageError> {
    read_bytes::<SparseNpz>(bytes, "my.npz", |path| OneFile { path })
}

fn read_path(path: &Path) -> Result<Graph, StageError> {
    with_job(|job| SparseNpz::read(&OneFile { path: FilePath(path.to_owned()) }, job))
}

fn message(members: &Members) -> String {
    after_name(&read(&npz(members)).unwrap_err(), "my.npz")
}

#[test]
fn edges_stay_as_stored_and_features_are_sorted_without_zeros() {
    let graph = read(&npz(&members())).unwrap();
    assert_eq!(graph.edges, [(0, 2), (0, 1), (2, 0), (2, 2)]);
    assert_eq!((&graph.labels[..], graph.classes), (&[0, 2, 0][..], 3));
    let Features::Sparse(features) = &graph.features else { panic!("dense") };
    assert_eq!((features.n(), features.cols()), (3, 4));
    assert_eq!(features.row(0), (&[0, 2, 3][..], &[2.0, 3.0, 1.0][..]));
    assert_eq!((features.row(1), features.row(2)), ((&[][..], &[][..]), (&[1][..], &[4.0][..])));
    assert_eq!(graph.masks, None);
    assert_eq!(graph.weights, Some(vec![1.0, 1.0, 0.5, 1.0]));
    let graph = read(&npz(&without(&members(), "adj_data"))).unwrap();
    assert_eq!((graph.edges.len(), graph.weights), (5, None));
    let ones = npy(&[5], &[true, true, true, true, false]);
    let graph = read(&npz(&replaced(&members(), "adj_data", &ones))).unwrap();
    assert_eq!((graph.edges.len(), graph.weights), (4, None));
}

#[test]
fn names_are_read_where_they_are_text() {
    let names = |name: &'static str, bytes: Vec<u8>| {
        let mut members = without(&members(), name);
        members.push((name, bytes));
        read(&npz(&members)).map(|graph| graph.names)
    };
    assert_eq!(read(&npz(&members())).unwrap().names.classes, ["a", "bé", "2"], "a class without a name is a number");
    let wide = |descr| npy_text(descr, "4,", &["1", "", "xy", "z"]);
    for descr in [">U2", "|S2"] {
        assert_eq!(names("class_names", wide(descr)).unwrap().classes, ["1", "", "xy"], "{descr}");
    }
    assert_eq!(names("class_names", npy_text("|O", "2,", &[])).unwrap(), Names::default());
    assert_eq!(names("node_names", npy_text("<U2", "3,", &["07", "b", "c"])).unwrap().ids, ["07", "b", "c"]);
    let refused = |name, bytes| after_name(&names(name, bytes).unwrap_err(), "my.npz");
    let few = refused("node_names", npy_text("<U2", "2,", &["a", "b"]));
    assert_eq!(few, ", member `node_names`: has 2 names, expected 3, one per node");
    let number = refused("class_names", npy(&[2], &[1i64, 2]));
    assert_eq!(number, ", member `class_names`: has type `<i8`, expected text");
    let cut = refused("class_names", npy_text("<U2", "3,", &["a", "b"]));
    assert_eq!(cut, ", member `class_names`: has 16 bytes of text, or more, expected 24");
    let flat = refused("class_names", npy_text("<U2", "2, 2", &["a"; 4]));
    assert_eq!(flat, ", member `class_names`: has shape [2, 2], expected a list of texts");
    let large = refused("class_names", npy_text("<U2", "99999999999,", &["a"]));
    assert_eq!(large, ", member `class_names`: has 99999999999 texts, expected at most 65536");
    let wide = refused("class_names", npy_text("<U99999999", "3,", &["a"]));
    assert_eq!(wide, ", member `class_names`: holds 1199999988 bytes of text, expected at most 268435456");
    assert_eq!(refused("class_names", b"whatever".to_vec()), ", member `class_names`: is not a NumPy array");
}

#[test]
fn a_node_without_a_label_is_unlabelled() {
    for labels in [npy(&[3], &[0i64, -1, 2]), npy(&[3], &[0f64, f64::NAN, 2.0])] {
        let graph = read(&npz(&replaced(&members(), "labels", &labels))).unwrap();
        assert_eq!((graph.labels, graph.classes, graph.unlabelled), (vec![0, 0, 2], 3, vec![1]));
    }
    let nobody = message(&replaced(&members(), "labels", &npy(&[3], &[-1i64; 3])));
    assert_eq!(nobody, ", member `labels`: labels no node, expected the class of at least one");
}

#[test]
fn related_types_mean_the_same() {
    let plain = read(&npz(&members())).unwrap();
    for (name, bytes) in [
        ("adj_indptr", npy(&[4], &[0u64, 2, 2, 5])),
        ("adj_data", npy(&[5], &[1f64, 1.0, 0.5, 1.0, 0.0])),
        ("attr_indices", npy(&[5], &[3i64, 0, 2, 1, 0])),
        ("attr_data", npy(&[5], &[1f64, 2.0, 3.0, 4.0, 0.0])),
        ("labels", npy(&[3], &[0u8, 2, 0])),
    ] {
        assert_eq!(read(&npz(&replaced(&members(), name, &bytes))).unwrap(), plain, "{name}");
    }
}

#[test]
fn every_problem_names_member_and_place() {
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("adj_shape", npy(&[2], &[3i64, 4]), ": is 3 × 4, expected a square matrix"),
        ("adj_shape", npy(&[2], &[0i64, 0]), ", number 0: has 0 rows, expected 1 to 4294967294"),
        ("adj_shape", npy(&[3], &[3i64, 3, 3]), ": has shape [3], expected rows and columns (2)"),
        (
            "adj_shape",
            npy(&[2], &[1i64 << 40, 1 << 40]),
            ", number 0: has 1099511627776 rows, expected 1 to 4294967294",
        ),
        ("adj_indptr", npy(&[3], &[0i32, 2, 5]), ": has shape [3], expected rows and one (4)"),
        ("adj_indptr", npy(&[4], &[1i32, 2, 2, 5]), ", number 0: the first row starts at 1, expected 0"),
        (
            "adj_indptr",
            npy(&[4], &[0i32, 2, 1, 5]),
            ", number 2: row 1 ends at 1, expected at least 2, where it starts",
        ),
        ("adj_indptr", npy(&[4], &[0i32, 2, -1, 5]), ", number 2: row 1 ends at -1, expected at least 2"),
        ("adj_indices", npy(&[4], &[2i32, 1, 0, 2]), ": has shape [4], expected entries (5)"),
        ("adj_indices", npy(&[5], &[2i32, 1, 3, 2, 1]), ", entry 2: column 3 is outside the matrix, expected 0 to 2"),
        ("adj_data", npy(&[5], &[1f32, f32::NAN, 1.0, 1.0, 1.0]), ", entry 1: `NaN` is not a finite 32-bit number"),
        ("adj_data", npy(&[4], &[1f32; 4]), ": has shape [4], expected entries (5)"),
        ("attr_shape", npy(&[2], &[2i64, 4]), ": has shape [4], expected rows and one (3)"),
        ("attr_shape", npy(&[2], &[3i64, 1 << 30]), ", number 1: has 1073741824 columns, expected 1 to 16777215"),
        (
            "attr_indices",
            npy(&[5], &[3i32, 0, 3, 1, 0]),
            ": node 0 has feature 3 twice, expected one value per feature",
        ),
        ("attr_data", npy(&[5], &[1f64, 1e300, 1.0, 1.0, 1.0]), ", entry 1: `1000"),
        ("labels", npy(&[3], &[0i64, -2, 0]), ", node 1: label -2 is not a class, expected 0 to 65535"),
        ("labels", npy(&[2], &[0i64, 1]), ": has shape [2], expected nodes (3)"),
    ];
    for (name, bytes, expected) in cases {
        let found = message(&replaced(&members(), name, &bytes));
        // A shape that does not fit is noticed at the next member.
        let at = if expected.contains("(3)") && name == "attr_shape" { "attr_indptr" } else { name };
        assert!(found.starts_with(&format!(", member `{at}`{expected}")), "{found}");
    }
    let two = replaced(&members(), "attr_shape", &npy(&[2], &[2i64, 4]));
    let two = replaced(&two, "attr_indptr", &npy(&[3], &[0i32, 3, 5]));
    assert_eq!(message(&two), ", member `attr_shape`: has 2 rows, expected 3, one per node");
}

#[test]
fn foreign_and_broken_files_are_recognised() {
    let text = |bytes: &[u8]| after_name(&read(bytes).unwrap_err(), "my.npz");
    let whole = npz(&members());
    assert_eq!(text(b"<html><body>Not found"), ": is a web page, expected an npz file");
    assert_eq!(text(b""), ": is empty, expected an npz file");
    assert!(text(&whole[..whole.len() / 2]).starts_with(": is damaged or cut off"));
    assert_eq!(message(&without(&members(), "attr_indptr")), ": has no member `attr_indptr`");
    let mut cut = npy(&[5], &[3i32, 0, 2, 1, 0]);
    cut.truncate(cut.len() - 3);
    let found = message(&replaced(&members(), "attr_indices", &cut));
    assert!(found.starts_with(", member `attr_indices`: ends or breaks at number 4 of 5"), "{found}");
}

/// A member of 512 MiB that compresses to half a megabyte.
#[cfg(target_os = "linux")]
#[test]
fn a_member_that_inflates_to_much_more_than_it_should_is_not_read_on() {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_level(Some(1));
    for (name, bytes) in members() {
        zip.start_file(format!("{name}.npy"), options).unwrap();
        zip.write_all(&bytes).unwrap();
        if name == "attr_data" {
            let zeros = vec![0; 1 << 20];
            (0..512).for_each(|_| zip.write_all(&zeros).unwrap());
        }
    }
    let bytes = zip.finish().unwrap().into_inner();
    assert!(bytes.len() < 1 << 23);
    let found = after_name(&read(&bytes).unwrap_err(), "my.npz");
    assert_eq!(found, ", member `attr_data`: has bytes after its last number");
    // And one whose header is honest about 2^33 zeros.
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (8589934592,), }";
    let header = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let found = message(&replaced(&members(), "labels", &header));
    assert_eq!(found, ", member `labels`: has shape [8589934592], expected nodes (3)");
}

#[test]
fn amazon_has_the_published_counts() {
    let cases = [
        ("amazon_computers", "amazon_electronics_computers.npz", [13752, 767, 10, 287_209, 245_861]),
        ("amazon_photo", "amazon_electronics_photo.npz", [7650, 745, 8, 143_663, 119_081]),
    ];
    for (folder, file, counts) in cases {
        let Some(folder) = real_data(folder) else { return };
        let facts = read_path(&folder.join(file)).unwrap().facts();
        let keys = ["nodes", "features", "classes", "edges-stored", "edges-undirected"];
        assert_eq!(keys.map(|key| facts[key].as_u64().unwrap()), counts);
        assert_eq!(facts["self-loops"], u64::from(file.contains("photo")));
        let names = read_path(&folder.join(file)).unwrap().names.classes;
        assert_eq!(
            (names.len() as u64, &names[0][..]),
            (counts[2], if counts[2] == 10 { "Desktops" } else { "Film Photography" })
        );
    }
}

#[test]
fn random_damage_gives_a_graph_or_an_error_but_never_a_panic() {
    let refused = fuzz_reader(4000, &mutated(npz(&members())), read_path);
    assert!(refused > 2000, "{refused}");
    let refused = fuzz_reader(8000, &mutated_member(members(), npz), read_path);
    assert!(refused > 4000, "{refused}");
}
