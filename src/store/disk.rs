//! `Store`: opening it, finding artifacts in it, and setting damaged ones aside.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;

use crate::plan::ArtifactKey;

use super::claim::{Claim, ClaimGuard};
use super::clock;
use super::error::{StoreError, io_error};
use super::inspect::{Care, Inspection, read_manifest};
use super::layout::{
    ArtifactRef, FOLDERS, MANIFEST, OBJECTS, QUARANTINE, RUNS, STORE_FILE, TMP, ensure_folder, folders, plain,
    sync_folder, unused,
};
use super::manifest::Manifest;

const FORMAT: u32 = 1;

/// Artifacts on disk, found by key. See the [module documentation](super) for the layout.
pub struct Store {
    root: PathBuf,
    writable: bool,
    /// Artifacts whose every byte this process has checked, with the checksum of the manifest they had then.
    verified: Mutex<HashMap<ArtifactKey, String>>,
    /// A second store to search for what this one lacks.
    behind: Option<Box<Store>>,
}

/// An artifact in the store.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the stage that made it.
    pub stage: String,
    /// Its key.
    pub key: ArtifactKey,
    /// The folder that holds its files.
    pub dir: PathBuf,
    /// How it was made.
    pub manifest: Manifest,
}

/// What opening an artifact found.
#[derive(Debug)]
pub enum Opened {
    /// It is there, and every byte is what was written.
    Hit(Box<Entry>),
    /// It is not there.
    Miss,
    /// It was there but not whole. It counts as a miss.
    Damaged {
        /// The first difference found.
        what: String,
        /// Where it is now; `None` if it could not be moved.
        moved_to: Option<PathBuf>,
    },
}

/// The state of an artifact after every byte of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Every byte is what was written.
    Whole,
    /// It is gone.
    Absent,
    /// It is not what was written.
    Damaged {
        /// The first difference found.
        what: String,
    },
}

#[derive(Deserialize)]
struct StoreFile {
    format: u64,
}

impl Store {
    /// Opens a store for reading and writing; what is missing is made.
    ///
    /// # Errors
    /// When the root is not a directory, cannot be written, or has a newer format.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        if fs::metadata(root).is_ok_and(|m| !m.is_dir()) {
            return Err(StoreError::NotADirectory { path: root.to_owned() });
        }
        fs::create_dir_all(root).map_err(io_error("create the store", root))?;
        let store = Self { root: root.to_owned(), writable: true, verified: Mutex::default(), behind: None };
        if !store.check_format()? {
            store.refuse_foreign()?;
            // Before any folder, so that a process that sees a folder of the store also sees its marker.
            let aside = root.join(format!(".{STORE_FILE}.{}.{}", std::process::id(), next_number()));
            let path = root.join(STORE_FILE);
            fs::write(&aside, format!("{{\"format\": {FORMAT}}}\n")).map_err(io_error("write", &aside))?;
            fs::rename(&aside, &path).map_err(io_error("write", &path))?;
        }
        for folder in FOLDERS {
            ensure_folder(&root.join(folder))?;
        }
        Ok(store)
    }

    /// Opens a store for reading. Never writes; an absent root is an empty store.
    ///
    /// # Errors
    /// When the root is not a directory, cannot be read, or has a newer format.
    pub fn open_existing_read_only(root: &Path) -> Result<Self, StoreError> {
        if fs::metadata(root).is_ok_and(|m| !m.is_dir()) {
            return Err(StoreError::NotADirectory { path: root.to_owned() });
        }
        let store = Self { root: root.to_owned(), writable: false, verified: Mutex::default(), behind: None };
        store.check_format()?;
        Ok(store)
    }

    /// Lets the store find what is in another one as well. It still writes only into its own root.
    pub(super) fn in_front_of(mut self, behind: Store) -> Self {
        self.behind = Some(Box::new(behind));
        self
    }

    pub(super) fn behind(&self) -> Option<&Store> {
        self.behind.as_deref()
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether the store was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns whether an artifact is there, by the presence of its manifest alone.
    pub fn has(&self, key: &ArtifactKey, stage: &str) -> bool {
        self.object(key, stage).is_ok_and(|dir| dir.join(MANIFEST).is_file())
            || self.behind().is_some_and(|behind| behind.has(key, stage))
    }

    /// Returns when an artifact was put there, as far as the file system knows.
    pub fn modified(&self, artifact: &ArtifactRef) -> Option<SystemTime> {
        let dir = self.object(&artifact.key, &artifact.stage).ok()?;
        fs::metadata(dir).and_then(|m| m.modified()).ok()
    }

    /// Finds an artifact by its manifest alone: fast, and enough to plan with. Damage to its files goes unnoticed.
    pub fn get(&self, key: &ArtifactKey, stage: &str) -> Option<Entry> {
        let dir = self.object(key, stage).ok()?;
        match read_manifest(&dir, stage, key) {
            Ok(manifest) => Some(Entry { stage: stage.to_owned(), key: *key, dir, manifest }),
            Err(_) => self.behind()?.get(key, stage),
        }
    }

    /// Finds an artifact to read it. Every byte is checked, once in the life of this value; what is damaged goes to
    /// quarantine and counts as a miss.
    ///
    /// # Errors
    /// When the look itself failed, which says nothing about the artifact.
    pub fn open_artifact(&self, key: &ArtifactKey, stage: &str) -> Result<Opened, StoreError> {
        let what = match self.inspect(key, stage, Care::FirstRead)? {
            Inspection::Whole(entry) => return Ok(Opened::Hit(entry)),
            Inspection::Absent => return Ok(Opened::Miss),
            Inspection::Damaged(what) => what,
        };
        // Only the owner of the claim moves anything: otherwise a slow reader could move away what another process
        // has just recomputed.
        match self.claim(key) {
            Ok(Claim::Held(claim)) => self.open_claimed(&claim, stage),
            Ok(Claim::Busy) | Err(_) => Ok(Opened::Damaged { what, moved_to: None }),
        }
    }

    /// Does the same for the owner of the claim.
    ///
    /// # Errors
    /// When the look itself failed.
    pub fn open_claimed(&self, claim: &ClaimGuard, stage: &str) -> Result<Opened, StoreError> {
        Ok(match self.inspect(claim.key(), stage, Care::FirstRead)? {
            Inspection::Whole(entry) => Opened::Hit(entry),
            Inspection::Absent => Opened::Miss,
            Inspection::Damaged(what) => Opened::Damaged { what, moved_to: self.set_aside(claim, stage).ok() },
        })
    }

    /// Lists the artifacts, of one stage or of all, by stage and key. Whether they are whole is not looked at.
    ///
    /// # Errors
    /// When a folder cannot be listed.
    pub fn entries(&self, stage: Option<&str>) -> Result<Vec<ArtifactRef>, StoreError> {
        let objects = self.root.join(OBJECTS);
        let mut found = Vec::new();
        for name in folders(&objects)?.into_iter().filter(|name| stage.is_none_or(|s| s == name)) {
            let keys = folders(&objects.join(&name))?;
            found.extend(keys.iter().filter_map(|key| Some(ArtifactRef::new(name.clone(), key.parse().ok()?))));
        }
        Ok(found)
    }

    /// Returns the manifest of an artifact, if it has one that is intact.
    pub fn manifest(&self, key: &ArtifactKey, stage: &str) -> Option<Manifest> {
        self.get(key, stage).map(|entry| entry.manifest)
    }

    /// Reads every byte of an artifact and compares. Moves nothing.
    ///
    /// # Errors
    /// When the look itself failed.
    pub fn verify(&self, artifact: &ArtifactRef) -> Result<Integrity, StoreError> {
        Ok(match self.inspect(&artifact.key, &artifact.stage, Care::Always)? {
            Inspection::Whole(_) => Integrity::Whole,
            Inspection::Absent => Integrity::Absent,
            Inspection::Damaged(what) => {
                // The next reader must check again, and set it aside.
                self.verified().remove(&artifact.key);
                Integrity::Damaged { what }
            }
        })
    }

    /// Verifies every artifact, one after the other.
    ///
    /// # Errors
    /// When the store cannot be listed; what happened to each artifact comes with it.
    pub fn verify_all(&self) -> Result<impl Iterator<Item = (ArtifactRef, Result<Integrity, StoreError>)>, StoreError> {
        Ok(self.entries(None)?.into_iter().map(|artifact| {
            let integrity = self.verify(&artifact);
            (artifact, integrity)
        }))
    }

    /// Makes the log file of a run, named by time, pipeline and process.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create_run_log(&self, pipeline: &str) -> Result<(PathBuf, File), StoreError> {
        self.must_write()?;
        let name = format!("{}-{}-{}", clock::stamp(), plain(pipeline, "pipeline")?, std::process::id());
        // Two runs of one process in one second get different names.
        let mut path = self.root.join(RUNS).join(format!("{name}.jsonl"));
        loop {
            match File::create_new(&path) {
                Ok(file) => return Ok((path, file)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    path = self.root.join(RUNS).join(format!("{name}.{}.jsonl", next_number()));
                }
                Err(e) => return Err(io_error("create", &path)(e)),
            }
        }
    }

    /// Moves what is under a claimed key to quarantine.
    pub(super) fn set_aside(&self, claim: &ClaimGuard, stage: &str) -> Result<PathBuf, StoreError> {
        let from = self.object(claim.key(), stage)?;
        let folder = self.root.join(QUARANTINE);
        let to = unused(&folder, &format!("{stage}-{}", claim.key())).unwrap_or(folder);
        self.verified().remove(claim.key());
        fs::rename(&from, &to).map_err(io_error("move to quarantine", &from))?;
        Ok(to)
    }

    /// Writes a file as a whole or not at all.
    pub(super) fn replace_file(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let staged = self.stage_file(bytes)?;
        fs::rename(&staged, path).map_err(io_error("write", path))?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    /// Writes a file in `tmp`, flushed and ready to be renamed.
    fn stage_file(&self, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        self.stage_with(|file| io::Write::write_all(file, bytes))
    }

    /// Copies a file into `tmp`, flushed and ready to be renamed.
    pub(super) fn stage_copy(&self, from: &Path) -> Result<PathBuf, StoreError> {
        let mut source = File::open(from).map_err(io_error("read", from))?;
        self.stage_with(|file| io::copy(&mut source, file).map(drop))
    }

    fn stage_with(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<PathBuf, StoreError> {
        self.must_write()?;
        let path = self.temporary("file");
        let written = File::create_new(&path).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()
        });
        written.map_err(|e| {
            // A partial file is useless; if it cannot be deleted either, `prune` offers it later.
            let _ = fs::remove_file(&path);
            io_error("write", &path)(e)
        })?;
        Ok(path)
    }

    /// Returns an unused path in `tmp`: `<what>.<pid>.<n>`.
    pub(super) fn temporary(&self, what: &str) -> PathBuf {
        self.root.join(TMP).join(format!("{what}.{}.{}", std::process::id(), next_number()))
    }

    pub(super) fn object(&self, key: &ArtifactKey, stage: &str) -> Result<PathBuf, StoreError> {
        Ok(self.root.join(OBJECTS).join(plain(stage, "stage")?).join(key.to_string()))
    }

    pub(super) fn must_write(&self) -> Result<(), StoreError> {
        if self.writable { Ok(()) } else { Err(StoreError::ReadOnly { root: self.root.clone() }) }
    }

    pub(super) fn is_verified(&self, manifest: &Manifest) -> bool {
        self.verified().get(&manifest.key).is_some_and(|checksum| checksum == manifest.checksum())
    }

    pub(super) fn remember_verified(&self, manifest: &Manifest) {
        self.verified().insert(manifest.key, manifest.checksum().to_owned());
    }

    fn verified(&self) -> std::sync::MutexGuard<'_, HashMap<ArtifactKey, String>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the root is a store, and not just any folder.
    pub fn is_store(&self) -> bool {
        self.root.join(STORE_FILE).is_file()
    }

    /// Refuses a folder that has other content where a store would put its own files, and later delete them.
    fn refuse_foreign(&self) -> Result<(), StoreError> {
        let full = |folder: &&&str| fs::read_dir(self.root.join(folder)).is_ok_and(|mut d| d.next().is_some());
        match FOLDERS.iter().find(full) {
            // Another process may have made the store since we looked.
            Some(_) if self.check_format()? => Ok(()),
            Some(folder) => Err(StoreError::Foreign { root: self.root.clone(), folder: (*folder).to_owned() }),
            None => Ok(()),
        }
    }

    /// Reads `store.json`. Returns whether there is one.
    fn check_format(&self) -> Result<bool, StoreError> {
        let path = self.root.join(STORE_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(io_error("read", &path)(e)),
        };
        let expected = || StoreError::Malformed { path, expected: "the format of a store".to_owned() };
        let file: StoreFile = serde_json::from_slice(&bytes).map_err(|_| expected())?;
        if file.format > u64::from(FORMAT) {
            return Err(StoreError::NewerFormat { root: self.root.clone(), found: file.format, known: FORMAT });
        }
        Ok(true)
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
