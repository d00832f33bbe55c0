use std::path::Path;

use super::*;
use crate::formats::testing::{after_name, fuzz_reader, mutated, read_bytes, with_job, without_column};

/// Four nodes, two features, two splits; laid out by hand so that places in messages are known.
const TEXT: &str = r#"{"features": [[0.5, -1], [1e-3, 2.0], [3, 4], [5, 6]],
"labels": [0, 2, 0, 1], "links": [[1, 1], [], [0], [3]], "extra": {"a": [null]},
"train_masks": [[true, false, false, false], [false, true, false, false]],
"val_masks": [[false, true, false, false], [true, false, false, false]],
"stopping_masks": [[0, 0, 1, 0], [0, 0, 1, 0]],
"test_mask": [false, false, false, true]}"#;

fn read(text: &str) -> Result<Graph, StageError> {
    read_as(text, Validation::default())
}

fn read_as(text: &str, validation: Validation) -> Result<Graph, StageError> {
    read_bytes::<WikiCs>(text.as_bytes(), "data.json", |path| Params { path, validation })
}

fn message(text: &str) -> String {
    without_column(&after_name(&read(text).unwrap_err(), "data.json"))
}

#[test]
fn a_valid_file_is_read_as_stored() {
    let graph = read(TEXT).unwrap();
    assert_eq!(graph.features.values(), [0.5, -1.0, 1e-3, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(graph.edges, [(0, 1), (0, 1), (2, 0), (3, 3)]);
    assert_eq!((graph.labels, graph.classes), (vec![0, 2, 0, 1], 3));
    let parts = graph.masks.unwrap().parts;
    assert_eq!(parts[0], [Part::Train, Part::Val, Part::None, Part::Test]);
    assert_eq!(parts[1], [Part::Val, Part::Train, Part::None, Part::Test]);
}

#[test]
fn either_or_both_of_the_validation_sets_can_be_used() {
    let first = |validation| read_as(TEXT, validation).unwrap().masks.unwrap().parts[0].clone();
    assert_eq!(first(Validation::StoppingMasks), [Part::Train, Part::None, Part::Val, Part::Test]);
    assert_eq!(first(Validation::Both), [Part::Train, Part::Val, Part::Val, Part::Test]);
}

#[test]
fn masks_come_together_or_not_at_all() {
    let without = TEXT.replace("_mask", "_sets");
    assert_eq!(read(&without).unwrap().masks, None);
    let expected = ": has `train_masks` but no `test_mask`, expected all masks or none";
    assert_eq!(message(&TEXT.replace("test_mask", "other")), expected);
    assert!(read(&TEXT.replace("stopping_masks", "other")).is_ok());
}

#[test]
fn every_problem_names_key_and_place() {
    let cases = [
        (
            "1e-3",
            "1e39",
            ", line 1: feature 0 of node 1: `1000000000000000000000000000000000000000` is not a finite 32-bit number",
        ),
        ("1e-3", "1e999", ", line 1: is not JSON: number out of range"),
        ("1e-3", "NaN", ", line 1: is not JSON: expected value"),
        ("1e-3", "\"a\"", ", line 1: invalid type: string \"a\", expected f64"),
        ("[1e-3, 2.0]", "[1e-3]", ": `features` has 1 numbers for node 1, expected 2, as for node 0"),
        ("[1e-3, 2.0], ", "", ": `features` has 3 nodes, expected 4, as many as `labels`"),
        (
            "[[0.5, -1], [1e-3, 2.0], [3, 4], [5, 6]]",
            "[[], [], [], []]",
            ": `features` has no features, expected at least",
        ),
        ("[[0.5, -1], ", "[7, ", ", line 1: invalid type: integer `7`, expected a list"),
        ("2, 0, 1]", "-2, 0, 1]", ", line 2: label -2 of node 1 is not a class, expected 0 to 65535"),
        ("2, 0, 1]", "65536, 0, 1]", ", line 2: label 65536 of node 1 is not a class, expected 0 to 65535"),
        ("[], [0]", "[0]", ": `links` has 3 nodes, expected 4, as many as `labels`"),
        ("[], [0]", "[4], [0]", ": `links`: neighbour 4 of node 1 is not a node, expected 0 to 3"),
        ("[], [0]", "[-1], [0]", ", line 2: neighbour -1 of node 1 is not a node"),
        ("\"links\"", "\"nothing\"", ": has no `links`"),
        ("\"extra\"", "\"links\"", ", line 2: `links` is there twice"),
        ("[[true, false, false, false]", "[[true, false, false]", ": `train_masks` has 3 nodes in split 0, expected 4"),
        ("[[true, false, false, false], ", "[", ": `val_masks` has 2 splits, expected 1, as many as `train_masks`"),
        ("[true, false, false, false]]", "[]]", ": `val_masks` has 0 nodes in split 1, expected 4"),
        ("[false, false, false, true]", "[true]", ": `test_mask` has 1 nodes, expected 4"),
        ("false, true]}", "false, 2]}", ", line 6: invalid value: integer `2`, expected `true` or `false`"),
        ("false, false, true]}", "true, false, true]}", ": `test_mask`: node 1 of split 0 is a val node as well"),
        ("[[false, true, ", "[[true, true, ", ": `val_masks`: node 0 of split 0 is a train node as well, expected one"),
        ("true]}", "true]}}", ", line 6: is not JSON: trailing characters"),
    ];
    for (old, new, expected) in cases {
        assert!(TEXT.contains(old), "{old}");
        let found = message(&TEXT.replacen(old, new, 1));
        assert!(found.starts_with(expected), "{old} → {new}: {found}");
    }
    assert_eq!(message(r#"{"features": [], "labels": [], "links": []}"#), ": has no nodes, expected at least one");
    assert!(message("[1]").ends_with("expected an object with `features`, `labels` and `links`"));
}

#[test]
fn foreign_and_broken_files_are_recognised() {
    assert_eq!(message("<!DOCTYPE html>"), ": is a web page, expected a JSON file");
    assert_eq!(message(""), ": is empty, expected a JSON file");
    assert!(message("version https://git-lfs.github.com/spec/v1\n").starts_with(": is a Git LFS pointer"));
    let cut = read(&TEXT[..100]).unwrap_err();
    assert_eq!(message(&TEXT[..100]), ", line 2: is cut off: EOF while parsing a value");
    assert_eq!(cut.hint(), Some("write or download it again"));
    assert!(message(&"[".repeat(100_000)).contains("expected an object"));
    assert!(message(&format!("{{\"extra\": {}", "[".repeat(100_000))).contains("is cut off"));
}

#[test]
fn many_empty_masks_allocate_nothing() {
    let masks = format!("\"train_masks\": [{}[]]", "[], ".repeat(100_000));
    let text = TEXT.replace("\"train_masks\": [[true, false, false, false], [false, true, false, false]]", &masks);
    assert_eq!(message(&text), ": `train_masks` has 0 nodes in split 0, expected 4");
}

#[test]
fn random_damage_gives_a_graph_or_an_error_but_never_a_panic() {
    let read = |path: &Path| {
        let params = Params { path: FilePath(path.to_owned()), validation: Validation::Both };
        with_job(|job| WikiCs::read(&params, job))
    };
    let refused = fuzz_reader(12_000, &mutated(TEXT.into()), read);
    assert!((6000..12_000).contains(&refused), "{refused}");
}
