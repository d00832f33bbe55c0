//! What tests of several formats share.

use std::cell::Cell;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use npyz::WriterBuilder;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Format;
use crate::contract::params::FilePath;
use crate::contract::{Job, StageError};
use crate::kinds::Graph;

/// The folder of a real data set: below `PPGNN_DATA_DIR`, or below the folder `shared/data` beside the project. Says
/// so and returns `None` where there is neither.
pub(crate) fn real_data(folder: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let root = std::env::var_os("PPGNN_DATA_DIR").map_or_else(beside, PathBuf::from);
    let found = Some(root.join(folder)).filter(|path| path.is_dir());
    if found.is_none() {
        // Written past the test runner, which shows nothing of a test that passes.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped: {test}: no `{folder}` in PPGNN_DATA_DIR or beside the project\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}

/// Runs something that wants a job.
pub(crate) fn with_job<R>(f: impl FnOnce(&Job) -> Result<R, StageError>) -> Result<R, StageError> {
    let cancel = AtomicBool::new(false);
    f(&Job::alone(&cancel))
}

/// Reads a graph from a file of these bytes.
pub(crate) fn read_bytes<F: Format>(
    bytes: &[u8],
    name: &str,
    params: impl FnOnce(FilePath) -> F::Params,
) -> Result<Graph, StageError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    with_job(|job| F::read(&params(FilePath(path)), job))
}

/// What an error says after the name of the file.
pub(crate) fn after_name(error: &StageError, name: &str) -> String {
    assert!(matches!(error, StageError::Data { .. }), "{error}");
    let text = error.to_string();
    text.split_once(name).unwrap_or_else(|| panic!("no `{name}` in: {text}")).1.to_owned()
}

/// A message about JSON without the column, which is where the parser noticed, not where the problem is.
pub(crate) fn without_column(text: &str) -> String {
    let Some((before, after)) = text.split_once(", column ") else { return text.to_owned() };
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// What no reader may get wrong, whatever it was given.
pub(crate) fn assert_consistent(graph: &Graph) {
    let n = graph.labels.len();
    assert!(n > 0 && graph.features.rows() == n && graph.features.cols() > 0);
    assert!(graph.features.values().iter().all(|x| x.is_finite()));
    assert!(graph.labels.iter().all(|class| (*class as usize) < graph.classes));
    assert!(graph.edges.iter().all(|(a, b)| (*a as usize) < n && (*b as usize) < n));
    assert!(graph.unlabelled.iter().all(|node| (*node as usize) < n));
    assert!(graph.weights.iter().all(|w| w.len() == graph.edges.len() && w.iter().all(|x| x.is_finite())));
    assert!(graph.names.ids.is_empty() || graph.names.ids.len() == n);
    assert!(graph.names.classes.is_empty() || graph.names.classes.len() == graph.classes);
    assert!(graph.masks.iter().all(|masks| !masks.is_empty() && masks.parts.iter().all(|parts| parts.len() == n)));
}

/// The bytes of an array in row-major order.
pub(crate) fn npy<T: npyz::AutoSerialize + Copy>(shape: &[u64], values: &[T]) -> Vec<u8> {
    npy_ordered(shape, values, npyz::Order::C)
}

/// The bytes of an array whose values come in the given order.
pub(crate) fn npy_ordered<T: npyz::AutoSerialize + Copy>(shape: &[u64], values: &[T], order: npyz::Order) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
    let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
    writer.extend(values.iter().copied()).unwrap();
    writer.finish().unwrap();
    bytes.into_inner()
}

/// Members of an archive by name.
pub(crate) type Members = Vec<(&'static str, Vec<u8>)>;

/// The bytes of an `.npz` file; names without `.npy`.
pub(crate) fn npz(members: &Members) -> Vec<u8> {
    zipped(members.iter().map(|(name, bytes)| (format!("{name}.npy"), bytes.as_slice())))
}

/// The bytes of a zip whose members are stored as they are: compressing small ones takes most of a test's time.
pub(crate) fn zipped<'m>(members: impl Iterator<Item = (String, &'m [u8])>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The members with another content for one of them.
pub(crate) fn replaced(members: &Members, name: &str, bytes: &[u8]) -> Members {
    members.iter().map(|(n, b)| (*n, if *n == name { bytes.to_vec() } else { b.clone() })).collect()
}

/// The members without one of them.
pub(crate) fn without(members: &Members, name: &str) -> Members {
    members.iter().filter(|(n, _)| *n != name).cloned().collect()
}

/// The most that this process ever had of something, in bytes: `VmPeak` is address space, `VmHWM` memory in use.
#[cfg(target_os = "linux")]
pub(crate) fn peak(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// One change to some bytes: what, where (a share of the length), with what.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    kind: u8,
    at: u32,
    other: u32,
    byte: u8,
}

/// What parsers stumble over.
const TOKENS: [&[u8]; 16] = [
    b"-1",
    b"NaN",
    b"1e999",
    b"4294967296",
    b"99999999999999999999",
    b"0.5",
    b"inf",
    b"\"",
    b"[",
    b"]",
    b"{",
    b",",
    b"\n",
    b"\0",
    b"null",
    b"\xff\xff\xff\xff",
];

/// One to four changes of any bytes; [`apply`] makes them.
pub(crate) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let one = (0u8..7, any::<u32>(), any::<u32>(), any::<u8>());
    let one = one.prop_map(|(kind, at, other, byte)| Mutation { kind, at, other, byte });
    proptest::collection::vec(one, 1..5)
}

/// Bytes with one to four changes: flipped, changed, inserted, deleted and duplicated bytes, words that parsers stumble
/// over, truncation.
pub(crate) fn mutated(bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    mutations().prop_map(move |changes| apply(&changes, &bytes))
}

/// Makes changes to a copy of some bytes.
pub(crate) fn apply(changes: &[Mutation], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for Mutation { kind, at, other, byte } in changes {
        let within = |share: u32, length: usize| (share as usize * (length + 1)) >> 32;
        let at = within(*at, bytes.len());
        let chunk = at..(at + within(*other, 16)).min(bytes.len());
        match kind {
            0 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
            1 if at < bytes.len() => bytes[at] = *byte,
            2 => bytes.insert(at, *byte),
            3 => drop(bytes.drain(chunk)),
            4 => {
                let copy = bytes[chunk].to_vec();
                let to = within(other.rotate_left(16), bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            5 => drop(bytes.splice(at..at, TOKENS[usize::from(byte % 16)].iter().copied())),
            6 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

/// An archive of which one member was damaged before it was packed, so that no checksum protects the reader.
pub(crate) fn mutated_member(members: Members, pack: fn(&Members) -> Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    (0..members.len(), mutations()).prop_map(move |(which, changes)| {
        let (name, bytes) = &members[which];
        pack(&replaced(&members, name, &apply(&changes, bytes)))
    })
}

/// Runs a test on many drawn values, the same ones every time, and says which one it failed on.
pub(crate) fn fuzz<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Reads damaged files many times: a graph or an error, never a panic. Returns how many were refused.
pub(crate) fn fuzz_reader<S: Strategy<Value = Vec<u8>>>(
    cases: u32,
    strategy: &S,
    read: impl Fn(&Path) -> Result<Graph, StageError>,
) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let refused = Cell::new(0);
    fuzz(cases, strategy, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let graph = read(&path);
        // Writing over a file makes some file systems wait for the disk.
        std::fs::remove_file(&path).unwrap();
        match graph {
            Ok(graph) => assert_consistent(&graph),
            Err(StageError::Data { .. }) => refused.set(refused.get() + 1),
            Err(other) => panic!("{other}"),
        }
    });
    refused.get()
}

/// Reads damaged versions of some texts that belong together, one of them damaged at a time: a graph or an error, never
/// a panic. Returns how many were graphs still.
pub(crate) fn survive(cases: u32, valid: &[&[u8]], read: impl Fn(&[Vec<u8>]) -> Result<Graph, StageError>) -> u32 {
    let accepted = Cell::new(0);
    fuzz(cases, &(0..valid.len(), mutations()), |(which, changes)| {
        let mut files: Vec<Vec<u8>> = valid.iter().map(|bytes| bytes.to_vec()).collect();
        files[which] = apply(&changes, &files[which]);
        match read(&files) {
            Ok(graph) => {
                assert_consistent(&graph);
                accepted.set(accepted.get() + 1);
            }
            Err(StageError::Data { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    });
    accepted.get()
}
