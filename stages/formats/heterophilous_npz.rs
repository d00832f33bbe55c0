//! The `.npz` layout of the heterophilous graph benchmark, often used for a person's own data.
//!
//! | member | type | shape |
//! | --- | --- | --- |
//! | `node_features` | f4 (any number type is read) | nodes × features |
//! | `node_labels` | i8 (any whole-number type) | nodes |
//! | `edges` | i8 (any whole-number type) | edges × 2, as source and target |
//! | `train_masks`, `val_masks`, `test_masks` | bool (or whole numbers 0 and 1) | splits × nodes; all three or none |
//!
//! Labels are 0 to C − 1, where C is the largest label plus one: a number in between that no node has is a class
//! without nodes, which is fine. Other members are ignored. Edges stay as they are stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Format;
use crate::contract::params::{self, FilePath};
use crate::contract::{Job, StageError};
use crate::kinds::{Features, Graph, Matrix, Part, Splits};
use crate::reading::npz::{Array, Expected, Misfit, Npz, Numbers};

const MASKS: [(&str, Part); 3] = [("train_masks", Part::Train), ("val_masks", Part::Val), ("test_masks", Part::Test)];

/// Parameters of `heterophilous-npz`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// The file. It counts by its content, not by its path.
    pub path: FilePath,
}

impl params::Params for Params {}

/// The format.
pub struct HeterophilousNpz;

impl Format for HeterophilousNpz {
    const NAME: &'static str = "heterophilous-npz";
    const ABOUT: &'static str = "A NumPy archive with node_features, node_labels, edges and optional masks";
    const VERSION: u32 = 1;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let mut file = Npz::open(&params.path.0)?;
        let labels = labels(&mut file)?;
        job.check_cancelled()?;
        let features = features(&mut file, labels.len(), job)?;
        job.check_cancelled()?;
        let edges = edges(&mut file, labels.len(), job)?;
        let masks = masks(&mut file, labels.len())?;
        let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
        Ok(Graph { edges, features: Features::Dense(features), labels, classes, unlabelled: Vec::new(), masks })
    }
}

fn labels(file: &mut Npz) -> Result<Vec<u32>, StageError> {
    let expected = Expected { member: "node_labels", dims: &[("nodes", None)], numbers: Numbers::Whole };
    let labels = file.read(&expected, |node, _, label| label.class(node))?;
    if labels.values.is_empty() {
        return Err(file.error("node_labels", "has no nodes, expected at least one"));
    }
    if u32::try_from(labels.values.len()).is_err() {
        return Err(file.error("node_labels", format!("has {} nodes, expected below 2^32", labels.values.len())));
    }
    Ok(labels.values)
}

fn features(file: &mut Npz, nodes: usize, job: &Job) -> Result<Matrix, StageError> {
    let dims = [("nodes", Some(nodes)), ("features", None)];
    let expected = Expected { member: "node_features", dims: &dims, numbers: Numbers::Real };
    let Array { shape, values } =
        file.read_watched(&expected, job, |node, feature, number| number.feature(node, feature))?;
    let cols = shape.get(1).copied().unwrap_or(0);
    if cols == 0 {
        return Err(file.error("node_features", "has no features, expected at least one"));
    }
    Ok(Matrix { rows: nodes, cols, data: values })
}

fn edges(file: &mut Npz, nodes: usize, job: &Job) -> Result<Vec<(u32, u32)>, StageError> {
    let dims = [("edges", None), ("source and target", Some(2))];
    let expected = Expected { member: "edges", dims: &dims, numbers: Numbers::Whole };
    let bound = u32::try_from(nodes).unwrap_or(u32::MAX);
    let ends = file.read_watched(&expected, job, |edge, _, node| {
        node.below(bound).ok_or_else(|| Misfit {
            at: format!("edge {edge}"),
            what: format!("endpoint {node} is not a node, expected 0 to {}", nodes.saturating_sub(1)),
        })
    })?;
    Ok(ends.values.chunks_exact(2).map(|e| (e[0], e[1])).collect())
}

fn masks(file: &mut Npz, nodes: usize) -> Result<Option<Splits>, StageError> {
    let (given, absent): (Vec<_>, Vec<_>) = MASKS.iter().map(|(name, _)| *name).partition(|name| file.has(name));
    match (given.first(), absent.first()) {
        (None, _) => return Ok(None),
        (Some(given), Some(absent)) => {
            return Err(file.error(given, format!("stands without `{absent}`, expected all three masks or none")));
        }
        (Some(_), None) => {}
    }
    let mut parts: Vec<Vec<Part>> = Vec::new();
    let mut splits = None;
    for (member, part) in MASKS {
        let dims = [("splits", splits), ("nodes", Some(nodes))];
        let mask = file.read(&Expected { member, dims: &dims, numbers: Numbers::Truth }, |split, node, number| {
            number.below(2).map(|truth| truth == 1).ok_or_else(|| Misfit {
                at: format!("split {split}, node {node}"),
                what: format!("`{number}` is not a truth value, expected 0 or 1"),
            })
        })?;
        splits = mask.shape.first().copied();
        if parts.is_empty() {
            parts = vec![vec![Part::None; nodes]; splits.unwrap_or(0)];
        }
        for (at, _) in mask.values.iter().enumerate().filter(|(_, inside)| **inside) {
            let (split, node) = (at / nodes, at % nodes);
            let earlier = std::mem::replace(&mut parts[split][node], part);
            if earlier != Part::None {
                let other = MASKS.iter().find(|(_, p)| *p == earlier).map_or("", |(name, _)| name);
                let what = format!("node {node} of split {split} is in `{other}` as well, expected one part a node");
                return Err(file.error(member, what));
            }
        }
    }
    if parts.is_empty() {
        return Err(file.error("train_masks", "has no splits, expected at least one or no masks at all"));
    }
    Ok(Some(Splits { parts }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
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
        with_job(|job| HeterophilousNpz::read(&Params { path: FilePath(path.to_owned()) }, job))
    }

    fn read(bytes: &[u8]) -> Result<Graph, StageError> {
        read_bytes::<HeterophilousNpz>(bytes, "my.npz", |path| Params { path })
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
            ("edges", npy(&[2, 2], &[0i32, 1, 2, 1])),
            ("edges", npy_ordered(&[2, 2], &[0u16, 2, 1, 1], npyz::Order::Fortran)),
            ("val_masks", npy(&[2, 3], &[0u8, 1, 0, 0, 0, 0])),
        ] {
            assert_eq!(read(&with(name, &bytes)).unwrap(), plain, "{name}");
        }
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
            ("node_labels", npy(&[3], &[0i64, -1, 0]), ", node 1: label -1 is not a class, expected 0 to 65535"),
            ("node_labels", npy(&[3], &[0i64, 0, 1 << 40]), ", node 2: label 1099511627776 is not a class"),
            ("node_labels", npy(&[3], &[0f32, 0.0, 1.0]), ": has type `<f4`, expected whole numbers"),
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
        let header = |version: u8, length: &[u8], text: &str| {
            [b"\x93NUMPY", &[version, 0][..], length, text.as_bytes()].concat()
        };
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
        let refused = fuzz_reader(5000, &mutated_member(members(), npz), read_path);
        assert!(refused > 2500, "{refused}");
    }
}
