use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::formats::testing::{
    Members, after_name, fuzz_reader, mutated, mutated_member, read_bytes, replaced, with_job, without, zipped,
};
use crate::kinds::Names;

/// Three nodes, two features, four edges; members as text.
fn members() -> Members {
    let texts = [
        ("arxiv/raw/num-node-list.csv.gz", "3\n"),
        ("arxiv/raw/num-edge-list.csv.gz", "4\n"),
        ("arxiv/raw/edge.csv.gz", "0,1\n2,1\n1,1\n0,1\n"),
        ("arxiv/raw/node-feat.csv.gz", "0.5,-1\n1e-3,2.0\r\n3,4\n"),
        ("arxiv/raw/node-label.csv.gz", "0\n2\n\n0"),
        ("arxiv/split/time/train.csv.gz", "1\n"),
        ("arxiv/split/time/valid.csv.gz", ""),
        ("arxiv/split/time/test.csv.gz", "0\n"),
        (IDS, "node idx,paper id\n1,007\n0,9657784\n2,\"a, \"\"b\"\"\",more\n"),
        (CLASSES, "label idx,arxiv category\n0,arxiv cs na\n2,arxiv cs mm\n7,arxiv cs lo\n"),
        ("arxiv/README.md", "none of our business"),
    ];
    texts.map(|(name, text)| (name, text.as_bytes().to_vec())).to_vec()
}

const EDGES: &str = "arxiv/raw/edge.csv.gz";
const FEATURES: &str = "arxiv/raw/node-feat.csv.gz";
const IDS: &str = "arxiv/mapping/nodeidx2paperid.csv.gz";
const CLASSES: &str = "arxiv/mapping/labelidx2arxivcategeory.csv.gz";
const LABELS: &str = "arxiv/raw/node-label.csv.gz";

/// Stored, not deflated: the cost of a test is in starting compressors.
fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn packed(members: &Members) -> Vec<u8> {
    let gzipped: Vec<_> = members.iter().map(|(name, bytes)| ((*name).to_owned(), gz(bytes))).collect();
    zipped(gzipped.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())))
}

/// The data set with one member that is not compressed by this test.
fn with_raw(name: &str, raw: &[u8]) -> Vec<u8> {
    let gzipped: Vec<_> = members()
        .into_iter()
        .map(|(member, bytes)| (member.to_owned(), if member == name { raw.to_vec() } else { gz(&bytes) }))
        .collect();
    zipped(gzipped.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())))
}

fn read(bytes: &[u8]) -> Result<Graph, StageError> {
    read_bytes::<Ogb>(bytes, "my.zip", |path| Params { path })
}

fn read_path(path: &Path) -> Result<Graph, StageError> {
    with_job(|job| Ogb::read(&Params { path: FilePath(path.to_owned()) }, job))
}

fn message(bytes: &[u8]) -> String {
    after_name(&read(bytes).unwrap_err(), "my.zip")
}

#[test]
fn a_valid_file_is_read_as_stored() {
    let graph = read(&packed(&members())).unwrap();
    assert_eq!(graph.edges, [(0, 1), (2, 1), (1, 1), (0, 1)]);
    assert_eq!(graph.features.values(), [0.5, -1.0, 1e-3, 2.0, 3.0, 4.0]);
    assert_eq!((graph.labels, graph.classes), (vec![0, 2, 0], 3));
    assert_eq!(graph.masks.unwrap().parts, [[Part::Test, Part::Train, Part::None]]);
    assert_eq!(graph.names.ids, ["9657784", "007", "a, \"b\""]);
    assert_eq!(graph.names.classes, ["arxiv cs na", "1", "arxiv cs mm"], "a class without a name goes by its number");
}

#[test]
fn names_are_there_or_not() {
    let bare = without(&without(&members(), IDS), CLASSES);
    assert_eq!(read(&packed(&bare)).unwrap().names, Names::default());
    let ids = read(&packed(&without(&members(), CLASSES))).unwrap().names;
    assert_eq!((ids.ids.len(), ids.classes.len()), (3, 0));
    let mut twice = members();
    twice.push(("arxiv/mapping/nodeidx2asin.csv.gz", Vec::new()));
    assert!(message(&packed(&twice)).starts_with(": has several members `mapping/nodeidx2….csv.gz`"));
}

#[test]
fn every_problem_names_member_and_line() {
    let cases = [
        ("arxiv/raw/num-node-list.csv.gz", "", ": is empty, expected the number of nodes"),
        ("arxiv/raw/num-node-list.csv.gz", "0", ": announces no nodes, expected at least one"),
        ("arxiv/raw/num-node-list.csv.gz", "-3", ", line 1: `-3` is not a number of nodes, expected 0 to 536870912"),
        ("arxiv/raw/num-node-list.csv.gz", "3\n3", ", line 2: has a second graph, expected one"),
        ("arxiv/raw/num-edge-list.csv.gz", "9999999999", ", line 1: `9999999999` is not a number of edges"),
        (EDGES, "0,1\n", ": has 1 edges, expected 4, as in `num-edge-list`"),
        (EDGES, "0,1\n0,1\n0,1\n0,1\n0,1\n", ", line 5: is edge 5, expected 4, as in `num-edge-list`"),
        (EDGES, "0,1\n0,3\n", ", line 2: `3` is not a node, expected 0 to 2"),
        (EDGES, "0,1\nx,1\n", ", line 2: `x` is not a node, expected 0 to 2"),
        (EDGES, "0,1\n0\n", ", line 2: has 1 numbers, expected source and target"),
        (EDGES, "0,1\n0,1,2\n", ", line 2: has 3 numbers, expected source and target"),
        (FEATURES, "1,2\n3\n", ", line 2: has 1 features, expected 2, as on the first line"),
        (FEATURES, "1,2\n3,nan\n", ", line 2: feature 1: `nan` is not a finite 32-bit number"),
        (FEATURES, "1,2\n3,1e39\n", ", line 2: feature 1: `1e39` is not a finite 32-bit number"),
        (FEATURES, "1,2\n,1\n", ", line 2: feature 0: `` is not a finite 32-bit number"),
        (FEATURES, "1,2\n3,4\n", ": has features of 2 nodes, expected 3, as in `num-node-list`"),
        (FEATURES, "1\n2\n3\n4\n", ", line 4: has features of node 3, expected 3 nodes, as in `num-node-list`"),
        (LABELS, "0\n1\n", ": has 2 labels, expected 3, the nodes of `num-node-list`"),
        (LABELS, "0\n1\n2\n3\n", ", line 4: is label 4, expected 3, the nodes of `num-node-list`"),
        (LABELS, "0\nnan\n2\n", ", line 2: label `nan` is not a class, expected 0 to 65535"),
        (LABELS, "0\n65536\n2\n", ", line 2: label `65536` is not a class, expected 0 to 65535"),
        (LABELS, "0\n1,0,1\n2\n", ", line 2: has 3 classes, expected one class per node"),
        (IDS, "node idx,id\n0,a\n1,b\n", ": has no line for node 2, expected one for each of 3 nodes"),
        (IDS, "node idx,id\n0,a\n3,b\n", ", line 3: `3` is not a number of a node or class"),
        (IDS, "0,a\nx,b\n", ", line 2: `x` is not a number of a node or class"),
        (IDS, "-1,a\n", ", line 1: `-1` is not a number of a node or class"),
        (IDS, "0,a\n0,b\n", ", line 2: 0 has a name already, expected one line each"),
        (IDS, "0\n", ", line 1: has one field, expected a number and a name"),
        (CLASSES, "0,\"a\n", ", line 1: `\"a` is not a name: its quotes do not match, or it is not UTF-8 text"),
        ("arxiv/split/time/test.csv.gz", "7\n", ", line 1: `7` is not a node, expected 0 to 2"),
        ("arxiv/split/time/test.csv.gz", "0\n1\n", ", line 2: node 1 is in `train.csv.gz` as well, expected one part"),
    ];
    for (name, text, expected) in cases {
        let found = message(&packed(&replaced(&members(), name, text.as_bytes())));
        let shown = if expected.contains("announces") { &name["arxiv/".len()..] } else { name };
        assert!(found.starts_with(&format!(", member `{shown}`{expected}")), "{found}");
    }
}

#[test]
fn members_are_found_by_the_end_of_their_path_and_only_once() {
    let elsewhere: Vec<_> =
        members().into_iter().map(|(n, b)| (n.trim_start_matches("arxiv/").to_owned(), gz(&b))).collect();
    assert!(read(&zipped(elsewhere.iter().map(|(n, b)| (n.clone(), b.as_slice())))).is_ok());
    let missing = read(&packed(&without(&members(), EDGES))).unwrap_err();
    assert_eq!(after_name(&missing, "my.zip"), ": has no member `raw/edge.csv.gz`");
    assert!(missing.hint().unwrap().starts_with("its members are `arxiv/raw/num-node-list.csv.gz`, "));
    let mut twice = members();
    twice.push(("copy/raw/edge.csv.gz", Vec::new()));
    let expected = ": has several members `raw/edge.csv.gz`: `arxiv/raw/edge.csv.gz`, `copy/raw/edge.csv.gz`";
    assert_eq!(message(&packed(&twice)), expected);
    let found = message(&packed(&without(&members(), "arxiv/split/time/valid.csv.gz")));
    assert_eq!(found, ": has no member `split/…/valid.csv.gz`");
}

#[test]
fn a_member_that_would_escape_is_refused_by_name() {
    for name in ["../evil", "/etc/evil", "arxiv/../../evil", "C:/evil", "a\\..\\evil"] {
        let mut members = members();
        members.push((name, Vec::new()));
        let expected = format!(": has a member `{}` that points outside its folder", name.escape_debug());
        assert_eq!(message(&packed(&members)), expected);
    }
}

#[test]
fn foreign_and_broken_files_are_recognised() {
    let whole = packed(&members());
    assert_eq!(message(b"<!DOCTYPE html><html>"), ": is a web page, expected a zip file");
    assert_eq!(message(b""), ": is empty, expected a zip file");
    assert!(message(b"nonsense").starts_with(": is not a zip file"));
    assert!(message(&whole[..whole.len() / 2]).starts_with(": is damaged or cut off"));
    let edges = gz(&members()[2].1);
    let found = message(&with_raw(EDGES, &edges[..edges.len() - 9]));
    assert!(found.starts_with(&format!(", member `{EDGES}`, line ")) && found.ends_with(": is cut off"), "{found}");
    let mut wrong = edges.clone();
    let crc = wrong.len() - 8;
    wrong[crc] ^= 1;
    let found = message(&with_raw(EDGES, &wrong));
    assert!(found.contains(": is damaged: "), "{found}");
    let found = message(&with_raw(EDGES, b"0,1\n"));
    assert!(found.starts_with(&format!(", member `{EDGES}`, line 1: is ")), "{found}");
    let found = message(&with_raw(EDGES, b"<html>Not here, but there</html>"));
    assert!(found.contains("is not compressed by gzip"), "{found}");
}

/// Four gigabytes in one member, from 16 MiB of zeros or of lines that are compressed once and repeated.
#[cfg(target_os = "linux")]
#[test]
fn a_member_that_inflates_to_gigabytes_is_given_up_early() {
    let before = crate::formats::testing::peak("VmHWM");
    let begun = std::time::Instant::now();
    let bomb = |unit: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        (0..(16 << 20) / unit.len()).for_each(|_| encoder.write_all(unit).unwrap());
        encoder.finish().unwrap().repeat(256)
    };
    let zeros = bomb(&[0; 1024]);
    assert!(zeros.len() < 8 << 20);
    for member in [EDGES, FEATURES, LABELS, "arxiv/raw/num-node-list.csv.gz", "arxiv/split/time/train.csv.gz"] {
        let found = message(&with_raw(member, &zeros));
        assert_eq!(
            found,
            format!(", member `{member}`, line 1: is longer than 1048576 bytes, expected a line of numbers")
        );
    }
    let lines = bomb("0,1\n".repeat(256).as_bytes());
    assert!(message(&with_raw(EDGES, &lines)).ends_with(", line 5: is edge 5, expected 4, as in `num-edge-list`"));
    assert!(message(&with_raw(FEATURES, &lines)).contains(", line 4: has features of node 3, expected 3"));
    assert!(crate::formats::testing::peak("VmHWM") - before < 1 << 30);
    // Decoding all of it six times would take minutes.
    assert!(begun.elapsed().as_secs() < 60);
}

#[test]
fn an_interrupted_run_stops_reading() {
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.zip");
    std::fs::write(&path, packed(&members())).unwrap();
    with_job(|job| {
        let job = Job { cancel: &cancel, ..*job };
        assert!(matches!(Ogb::read(&Params { path: FilePath(path.clone()) }, &job), Err(StageError::Cancelled)));
        Ok(())
    })
    .unwrap();
}

#[test]
fn random_damage_gives_a_graph_or_an_error_but_never_a_panic() {
    let refused = fuzz_reader(3000, &mutated(packed(&members())), read_path);
    assert!(refused > 1500, "{refused}");
    let refused = fuzz_reader(10_000, &mutated_member(members(), packed), read_path);
    assert!((3000..10_000).contains(&refused), "{refused}");
}
