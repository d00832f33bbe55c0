//! Looks at one artifact on disk and says whether it is whole. Changes nothing.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::plan::ArtifactKey;

use super::disk::{Entry, Opened, Store};
use super::error::{StoreError, if_there, io_error};
use super::layout::MANIFEST;
use super::manifest::{FileRecord, Manifest};

/// How closely to look at the files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Digests are checked unless this process did so before.
    FirstRead,
    /// Digests are always checked.
    Always,
}

impl Store {
    /// Looks at an artifact. Damage is not moved anywhere.
    ///
    /// # Errors
    /// When the look itself failed, which says nothing about the artifact: no permission, too many open files.
    pub(super) fn inspect(&self, key: &ArtifactKey, stage: &str, care: Care) -> Result<Opened, StoreError> {
        let dir = self.object(key, stage)?;
        let Some(meta) = if_there(fs::symlink_metadata(&dir), "look at", &dir)? else {
            return self.behind().map_or(Ok(Opened::Miss), |behind| behind.inspect(key, stage, care));
        };
        let found = if meta.is_dir() {
            self.read_whole(&dir, key, stage, care)
        } else {
            Err(Fault::Damage("it is not a folder".to_owned()))
        };
        match found {
            Ok(manifest) => Ok(Opened::Hit(Box::new(Entry { dir, manifest }))),
            Err(Fault::Damage(what)) => Ok(Opened::Damaged { what, moved_to: None }),
            Err(Fault::Unreadable(error)) => Err(error),
        }
    }

    fn read_whole(&self, dir: &Path, key: &ArtifactKey, stage: &str, care: Care) -> Result<Manifest, Fault> {
        let manifest = read_manifest(dir, stage, key)?;
        let known = care == Care::FirstRead && self.is_verified(&manifest);
        check_names(dir, &manifest)?;
        check_files(dir, &manifest, !known)?;
        self.remember_verified(&manifest);
        Ok(manifest)
    }
}

/// Why an artifact could not be found whole.
pub(super) enum Fault {
    /// It is damaged, for this reason.
    Damage(String),
    /// It could not be looked at.
    Unreadable(StoreError),
}

impl Fault {
    /// Sorts an error of the operating system: does it speak about the file or about this process?
    fn of(path: &Path, name: &str, error: io::Error) -> Self {
        // The descriptor limits of the process and of the system, which have no kind of their own.
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        let of_process = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::OutOfMemory)
            || matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
        if of_process {
            Self::Unreadable(io_error("read", path)(error))
        } else if error.kind() == io::ErrorKind::NotFound {
            Self::Damage(format!("`{name}` is missing"))
        } else {
            Self::Damage(format!("`{name}` cannot be read: {error}"))
        }
    }
}

/// Reads and checks the manifest in a folder.
pub(super) fn read_manifest(dir: &Path, stage: &str, key: &ArtifactKey) -> Result<Manifest, Fault> {
    let path = dir.join(MANIFEST);
    if fs::symlink_metadata(&path).is_ok_and(|m| !m.is_file()) {
        return Err(Fault::Damage(format!("`{MANIFEST}` is not a regular file")));
    }
    let bytes = fs::read(&path).map_err(|e| Fault::of(&path, MANIFEST, e))?;
    Manifest::parse(&bytes, stage, key).map_err(Fault::Damage)
}

/// Finds what is in the folder but not in the manifest.
fn check_names(dir: &Path, manifest: &Manifest) -> Result<(), Fault> {
    let found = fs::read_dir(dir).map_err(|e| Fault::of(dir, "the folder", e))?;
    for entry in found {
        let name = entry.map_err(|e| Fault::of(dir, "the folder", e))?.file_name();
        let listed = name == MANIFEST || manifest.files.iter().any(|f| name == f.name.as_str());
        if !listed {
            return Err(Fault::Damage(format!("`{}` is not in the manifest", name.to_string_lossy().escape_debug())));
        }
    }
    Ok(())
}

/// Compares the files with the manifest: kind, size and, on demand, digest.
fn check_files(dir: &Path, manifest: &Manifest, digests: bool) -> Result<(), Fault> {
    for file in &manifest.files {
        let path = dir.join(&file.name);
        let meta = fs::symlink_metadata(&path).map_err(|e| Fault::of(&path, &file.name, e))?;
        if !meta.is_file() {
            return Err(Fault::Damage(format!("`{}` is not a regular file", file.name)));
        }
        if meta.len() != file.size {
            let (name, size) = (&file.name, file.size);
            return Err(Fault::Damage(format!("`{name}` has {} bytes, expected {size}", meta.len())));
        }
        if digests && digest(&path).map_err(|e| Fault::of(&path, &file.name, e))? != *file {
            return Err(Fault::Damage(format!("`{}` does not match its digest", file.name)));
        }
    }
    Ok(())
}

/// Reads a file and says what it is.
pub(super) fn digest(path: &Path) -> io::Result<FileRecord> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
    Ok(FileRecord { name, size: hasher.count(), blake3: hasher.finalize().to_hex().to_string() })
}
