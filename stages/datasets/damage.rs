//! Damages valid files at random, for tests: whatever a file holds, its reader gives a sound graph or an error.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::contract::StageError;
use crate::kinds::Graph;

/// Bytes that mean something in the formats that are read.
const TELLING: &[u8] = b"\t,\n\r\"0123456789-+.e;ainNtrue \0\xff\xef";

/// One place that is damaged: how, in which file, where, how much, and with what.
type Damage = (u8, u8, u16, u16, u8);

fn apply(files: &mut [Vec<u8>], &(how, file, at, much, with): &Damage) {
    let count = files.len();
    let bytes = &mut files[usize::from(file) % count];
    let at = usize::from(at) % (bytes.len() + 1);
    let end = (at + 1 + usize::from(much) % 16).min(bytes.len());
    match how {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.insert(at, TELLING[usize::from(with) % TELLING.len()]),
        3 => {
            let chunk = bytes[at..end].to_vec();
            let to = usize::from(much) % (bytes.len() + 1);
            drop(bytes.splice(to..to, chunk));
        }
        4 if at < end => bytes[at] ^= 1 << (with % 8),
        _ if at < end => bytes[at] = TELLING[usize::from(with) % TELLING.len()],
        _ => {}
    }
}

/// Reads `cases` damaged versions of the files (or `PROPTEST_CASES`, if that is more), always the same ones. Returns
/// how many were graphs still.
pub(crate) fn survive(cases: u32, valid: &[&[u8]], read: impl Fn(&[Vec<u8>]) -> Result<Graph, StageError>) -> u32 {
    let config = Config::default();
    let config = Config { cases: cases.max(config.cases), failure_persistence: None, ..config };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let accepted = Cell::new(0);
    let damages = prop::collection::vec((0u8..6, any::<u8>(), any::<u16>(), any::<u16>(), any::<u8>()), 1..4);
    let outcome = runner.run(&damages, |damages| {
        let mut files: Vec<Vec<u8>> = valid.iter().map(|bytes| bytes.to_vec()).collect();
        damages.iter().for_each(|damage| apply(&mut files, damage));
        match read(&files) {
            Ok(graph) => {
                accepted.set(accepted.get() + 1);
                sound(&graph)
            }
            Err(StageError::Data { .. }) => Ok(()),
            Err(other) => Err(TestCaseError::fail(other.to_string())),
        }
    });
    outcome.unwrap();
    accepted.get()
}

fn sound(graph: &Graph) -> Result<(), TestCaseError> {
    let n = graph.nodes();
    prop_assert!(n > 0 && graph.features.cols() > 0);
    prop_assert_eq!(graph.features.rows(), n);
    prop_assert!(graph.features.values().iter().all(|x| x.is_finite()));
    prop_assert!(graph.edges.iter().all(|(a, b)| (*a as usize) < n && (*b as usize) < n));
    prop_assert!(graph.labels.iter().all(|l| (*l as usize) < graph.classes));
    prop_assert!(graph.unlabelled.iter().all(|u| (*u as usize) < n));
    prop_assert!(graph.masks.iter().flat_map(|m| &m.parts).all(|parts| parts.len() == n));
    Ok(())
}
