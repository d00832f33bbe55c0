//! Resume points: `resume/<key>/`, where a long-running stage leaves checkpoints for its next attempt.
//!
//! The owner of the claim on a key has its folder, so one process at a time does. It outlives failed and killed runs
//! and is deleted when the artifact is committed; the rest is left to [`prune`](super::prune).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::plan::ArtifactKey;

use super::claim::ClaimGuard;
use super::disk::Store;
use super::error::{StoreError, io_error};
use super::layout::{RESUME, ensure_folder, folders, size_of};

/// What a stage left for its next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// Key of the node.
    pub key: ArtifactKey,
    /// The bytes it takes.
    pub bytes: u64,
    /// When something in it changed last, as far as the file system knows.
    pub changed: Option<SystemTime>,
}

impl Store {
    /// Lists the resume points by key, those in use among them.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn resume_points(&self) -> Result<Vec<ResumePoint>, StoreError> {
        let keys = folders(&self.root().join(RESUME))?.into_iter().filter_map(|name| name.parse().ok());
        let point = |key| {
            let dir = self.resume_folder(&key);
            ResumePoint { key, bytes: size_of(&dir), changed: last_change(&dir) }
        };
        Ok(keys.map(point).collect())
    }

    /// Deletes the resume point of a claimed node, so that its next attempt starts from nothing.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn forget_resume_point(&self, claim: &ClaimGuard) -> Result<(), StoreError> {
        self.discard(&self.resume_folder(claim.key())).map(|_| ())
    }

    /// Makes the folder of a claimed node unless an earlier attempt left it.
    pub(super) fn open_resume_point(&self, claim: &ClaimGuard) -> Result<PathBuf, StoreError> {
        let dir = self.resume_folder(claim.key());
        ensure_folder(&dir)?;
        Ok(dir)
    }

    pub(super) fn resume_folder(&self, key: &ArtifactKey) -> PathBuf {
        self.root().join(RESUME).join(key.to_string())
    }

    /// Deletes a file or folder of the store. It vanishes at once, by a rename, and is then taken apart. Returns whether
    /// it was there.
    pub(super) fn discard(&self, path: &Path) -> Result<bool, StoreError> {
        let Ok(meta) = fs::symlink_metadata(path) else { return Ok(false) };
        let trash = self.temporary("trash");
        fs::rename(path, &trash).map_err(io_error("delete", path))?;
        let deleted = if meta.is_dir() { fs::remove_dir_all(&trash) } else { fs::remove_file(&trash) };
        deleted.map_err(io_error("delete", &trash))?;
        Ok(true)
    }
}

/// Returns the time of the last change to a folder or anything in it: files grow without their folder knowing.
fn last_change(path: &Path) -> Option<SystemTime> {
    let meta = fs::symlink_metadata(path).ok()?;
    let children = if meta.is_dir() { fs::read_dir(path).ok() } else { None };
    let inside = children.into_iter().flatten().flatten().filter_map(|child| last_change(&child.path()));
    inside.chain(meta.modified().ok()).max()
}
