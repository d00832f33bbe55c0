//! Logs of runs: `runs/<time>-<pipeline>-<pid>.jsonl`, written line by line by the run and read by whoever follows it.
//!
//! A run locks its log for as long as it lives, so that a reader knows whether more will come without asking a clock or a process number.
//! Readers go on where they stopped, so a long log costs no more than a short one.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::disk::Store;
use super::error::{StoreError, if_there, io_error};
use super::layout::{RUNS, list, plain};

const ENDING: &str = ".jsonl";

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Whole lines, or what is there of one that does not fit.
    pub bytes: Vec<u8>,
    /// Where it begins.
    pub from: u64,
    /// How long the log is.
    pub length: u64,
}

impl Store {
    /// Lists the logs by name, the latest first.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn run_logs(&self) -> Result<Vec<String>, StoreError> {
        let entries = list(&self.root().join(RUNS))?.into_iter();
        let logs = entries.filter(|(name, kind)| kind.is_file() && name.ends_with(ENDING));
        let mut names: Vec<String> = logs.map(|(name, _)| name).collect();
        names.reverse();
        Ok(names)
    }

    /// Returns whether the run that writes a log is alive.
    ///
    /// # Errors
    /// When the name would leave its folder.
    pub fn is_running(&self, log: &str) -> Result<bool, StoreError> {
        let Ok(file) = File::open(self.log_path(log)?) else { return Ok(false) };
        Ok(matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Reads at most so many bytes of a log, from a place on. Nothing if there is no such log.
    ///
    /// # Errors
    /// When the name would leave its folder, or the file cannot be read.
    pub fn read_log(&self, log: &str, from: u64, most: u64) -> Result<Option<LogPart>, StoreError> {
        let path = self.log_path(log)?;
        // A link could lead anywhere.
        if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file()) {
            return Ok(None);
        }
        let Some(mut file) = if_there(File::open(&path), "open", &path)? else { return Ok(None) };
        let mut part = LogPart { from, ..LogPart::default() };
        let read = file.metadata().and_then(|meta| {
            part.length = meta.len();
            file.seek(SeekFrom::Start(from))?;
            file.take(most).read_to_end(&mut part.bytes)
        });
        read.map_err(io_error("read", &path))?;
        Ok(Some(part))
    }

    fn log_path(&self, log: &str) -> Result<PathBuf, StoreError> {
        Ok(self.root().join(RUNS).join(plain(log, "log of a run")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_log_is_read_in_parts_while_its_run_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, mut file) = store.create_run_log("p").unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(store.run_logs().unwrap(), [name]);
        assert!(store.is_running(name).unwrap());
        let part = store.read_log(name, 4, 3).unwrap().unwrap();
        assert_eq!((&part.bytes[..], part.from, part.length), (&b"two"[..], 4, 8));
        assert_eq!(store.read_log(name, 99, 3).unwrap().unwrap().bytes, b"");
        drop(file);
        assert!(!store.is_running(name).unwrap());
        assert_eq!(store.read_log("none.jsonl", 0, 9).unwrap(), None);
        for name in ["../store.json", "", ".", "a/b", "a\\b"] {
            assert!(store.read_log(name, 0, 9).is_err() && store.is_running(name).is_err(), "{name}");
        }
        std::os::unix::fs::symlink(folder.path().join("store.json"), folder.path().join("runs/x.jsonl")).unwrap();
        assert_eq!(store.read_log("x.jsonl", 0, 9).unwrap(), None);
    }
}
