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
use super::error::{StoreError, if_there, io_error};
use super::inspect::{Care, read_manifest};
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
        let store = Self::at(root, true)?;
        fs::create_dir_all(root).map_err(io_error("create the store", root))?;
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
        let store = Self::at(root, false)?;
        store.check_format()?;
        Ok(store)
    }

    fn at(root: &Path, writable: bool) -> Result<Self, StoreError> {
        if fs::metadata(root).is_ok_and(|m| !m.is_dir()) {
            return Err(StoreError::NotADirectory { path: root.to_owned() });
        }
        Ok(Self { root: root.to_owned(), writable, verified: Mutex::default(), behind: None })
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

    /// Returns the folder of an artifact that is there, by the presence of its manifest alone.
    pub fn folder(&self, key: &ArtifactKey, stage: &str) -> Option<PathBuf> {
        let own = self.object(key, stage).ok().filter(|dir| dir.join(MANIFEST).is_file());
        own.or_else(|| self.behind()?.folder(key, stage))
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
            Ok(manifest) => Some(Entry { dir, manifest }),
            Err(_) => self.behind()?.get(key, stage),
        }
    }

    /// Finds an artifact to read it. Every byte is checked, once in the life of this value; what is damaged goes to
    /// quarantine and counts as a miss.
    ///
    /// # Errors
    /// When the look itself failed, which says nothing about the artifact.
    pub fn open_artifact(&self, key: &ArtifactKey, stage: &str) -> Result<Opened, StoreError> {
        let opened = self.inspect(key, stage, Care::FirstRead)?;
        // Only the owner of the claim moves anything: otherwise a slow reader could move away what another process
        // has just recomputed.
        if matches!(opened, Opened::Damaged { .. })
            && let Ok(Claim::Held(claim)) = self.claim(key)
        {
            return self.open_claimed(&claim, stage);
        }
        Ok(opened)
    }

    /// Does the same for the owner of the claim.
    ///
    /// # Errors
    /// When the look itself failed.
    pub fn open_claimed(&self, claim: &ClaimGuard, stage: &str) -> Result<Opened, StoreError> {
        let mut opened = self.inspect(claim.key(), stage, Care::FirstRead)?;
        if let Opened::Damaged { moved_to, .. } = &mut opened {
            *moved_to = self.set_aside(claim, stage).ok();
        }
        Ok(opened)
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
    pub fn verify(&self, artifact: &ArtifactRef) -> Result<Opened, StoreError> {
        let opened = self.inspect(&artifact.key, &artifact.stage, Care::Always)?;
        if matches!(opened, Opened::Damaged { .. }) {
            // The next reader must check again, and set it aside.
            self.verified().remove(&artifact.key);
        }
        Ok(opened)
    }

    /// Makes the log file of a run, named by time, pipeline and process, and locks it while it is open.
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
                Ok(file) => {
                    // Whoever follows the run sees by it that the run lives; nothing relies on it.
                    let _ = file.lock();
                    return Ok((path, file));
                }
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
        let staged = self.stage_bytes(bytes)?;
        fs::rename(&staged, path).map_err(io_error("write", path))?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    /// Writes bytes into `tmp`, flushed and ready to be renamed.
    pub(super) fn stage_bytes(&self, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        self.stage_with(|file| io::Write::write_all(file, bytes))
    }

    /// Copies a file into `tmp`, flushed and ready to be renamed.
    pub(super) fn stage_copy(&self, from: &Path) -> Result<PathBuf, StoreError> {
        let mut source = File::open(from).map_err(io_error("read", from))?;
        self.stage_with(|file| io::copy(&mut source, file).map(drop))
    }

    /// Writes a file in `tmp`, flushed and ready to be renamed.
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
        let Some(bytes) = if_there(fs::read(&path), "read", &path)? else { return Ok(false) };
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
