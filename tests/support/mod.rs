//! A temporary project to run the program in, so that a test reads like a transcript.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A pipeline that exercises every stage in about a second: two graphs of 60 nodes, two models, two splits.
pub const TINY: &str = include_str!("tiny.yaml");

/// A folder with files in it, gone when dropped.
pub struct Project {
    dir: tempfile::TempDir,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; −1 if a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Project {
    /// An empty project.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A project with [`TINY`] as `tiny.yaml`.
    pub fn tiny() -> Self {
        Self::new().file("tiny.yaml", TINY)
    }

    /// Adds a file.
    pub fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A path inside the project.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, ready to run in the project.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ppgnn"));
        command.args(args).current_dir(self.dir.path()).env("NO_COLOR", "1").env_remove("PPGNN_ARTIFACTS");
        command.env("XDG_CONFIG_HOME", self.path("settings"));
        command.env_remove("PPGNN_DATA_DIR").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Finished {
        finish(&mut self.command(args))
    }

    /// Digests of every artifact file but manifests, by path below `store`.
    pub fn artifact_bytes(&self, store: &str) -> BTreeMap<PathBuf, String> {
        let root = self.path(store).join("objects");
        let mut found = BTreeMap::new();
        for path in files(&root) {
            if path.file_name().unwrap() != "manifest.json" {
                let digest = blake3::hash(&std::fs::read(&path).unwrap()).to_hex().to_string();
                found.insert(path.strip_prefix(&root).unwrap().to_owned(), digest);
            }
        }
        found
    }

    /// The events of every run in `store`, in the order of their logs.
    pub fn events(&self, store: &str) -> Vec<Value> {
        let mut logs = files(&self.path(store).join("runs"));
        // Names end in the number of the process, which may begin anew within a second.
        logs.sort_by_key(|log| (std::fs::metadata(log).unwrap().modified().unwrap(), log.clone()));
        let lines = logs
            .iter()
            .flat_map(|l| std::fs::read_to_string(l).unwrap().lines().map(str::to_owned).collect::<Vec<_>>());
        // A process that was killed may leave half a line.
        lines.filter_map(|l| serde_json::from_str(&l).ok()).collect()
    }
}

impl Finished {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exit(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not in stderr:\n{}", self.stderr);
        self
    }

    /// Asserts that stdout contains a text.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "`{text}` is not in stdout:\n{}", self.stdout);
        self
    }

    /// Parses stdout as one JSON object.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// Runs a command to its end.
pub fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The folder with real data: `PPGNN_DATA_DIR`, or `shared/data` beside the project. Says so and returns `None` where
/// there is neither.
pub fn real_data() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let root = std::env::var_os("PPGNN_DATA_DIR").map_or_else(beside, PathBuf::from);
    let found = Some(root).filter(|path| path.join("texas").is_dir());
    if found.is_none() {
        // Written past the test runner, which shows nothing of a test that passes.
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped: {test}: real data is neither in PPGNN_DATA_DIR nor beside the project\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}

/// Every file below a folder; none if it is not there.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path) } else { vec![path] }
        })
        .collect()
}

/// A table in Markdown without the notes on its cells.
pub fn without_notes(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.split(" <sup>1</sup> ").next().unwrap_or(line);
        let mut pieces = line.split("<sup>");
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |kept, piece| kept + piece.split_once("</sup>").map_or(piece, |(_, rest)| rest)) + "\n"
    });
    lines.collect()
}

/// Compares with a golden file, or writes it where `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "differs from tests/golden/{name}; UPDATE_GOLDEN=1 writes it anew");
}
