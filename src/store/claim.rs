//! Claims and the store-wide lock: who may compute a node, and when nothing may be deleted.
//!
//! Both are locks of the operating system on a file, so they vanish with the process that holds them, however it
//! ended. There is nothing to remove by hand, and no age or process number to guess from.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plan::ArtifactKey;

use super::disk::Store;
use super::error::{StoreError, if_there, io_error};
use super::holder::Holder;
use super::layout::{CLAIMS, LOCK_FILE, TMP, key_of_temporary, list};

/// How often, and at what interval, a deletion tries to lock the store before it gives up.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(10);

/// The answer to a claim.
pub enum Claim {
    /// The node is ours until the guard is dropped.
    Held(ClaimGuard),
    /// Another live process or thread holds it.
    Busy,
}

/// The right to compute a node, given back on drop.
pub struct ClaimGuard {
    key: ArtifactKey,
    path: PathBuf,
    /// Keeps the lock; closed after the file is removed, so a waiter finds its file gone and takes a new one.
    _file: File,
}

impl ClaimGuard {
    /// Returns the claimed key.
    pub fn key(&self) -> &ArtifactKey {
        &self.key
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the file of a claim");
        }
    }
}

/// The right to rely on what is in the store: nothing is deleted while a run holds this.
pub struct InUse {
    _file: Option<File>,
}

impl Store {
    /// Claims a node, without waiting. Leftovers of an earlier owner are deleted.
    ///
    /// # Errors
    /// When the lock file cannot be made or locked.
    pub fn claim(&self, key: &ArtifactKey) -> Result<Claim, StoreError> {
        self.must_write()?;
        let path = self.root().join(CLAIMS).join(key.to_string());
        loop {
            let Some(file) = try_exclusive(&path)? else { return Ok(Claim::Busy) };
            // The last owner may have removed the file between our opening and our locking it. Then this lock is
            // void, because the next process creates a new file.
            if is_at(&file, &path) {
                self.delete_leftovers(key)?;
                Holder::sign(&file);
                return Ok(Claim::Held(ClaimGuard { key: *key, path, _file: file }));
            }
        }
    }

    /// Returns whether a node is being computed now. Changes nothing.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn is_claimed(&self, key: &ArtifactKey) -> Result<bool, StoreError> {
        let path = self.root().join(CLAIMS).join(key.to_string());
        let Some(file) = if_there(File::open(&path), "open the lock", &path)? else { return Ok(false) };
        // The lock is released immediately; a claim attempted at this moment finds it busy and tries again.
        Ok(!got_lock(file.try_lock_shared(), &path)?)
    }

    /// Returns which process computes a node, if its claim says so. For people: the process may be gone.
    pub fn holder(&self, key: &ArtifactKey) -> Option<Holder> {
        Holder::read(&self.root().join(CLAIMS).join(key.to_string()))
    }

    /// Keeps others from deleting anything until the guard is dropped. Waits while a deletion is going on.
    ///
    /// # Errors
    /// When the lock file cannot be made or locked.
    pub fn hold(&self) -> Result<InUse, StoreError> {
        let path = self.root().join(LOCK_FILE);
        let opened = if self.is_writable() { lock_file(&path).map(Some)? } else { File::open(&path).ok() };
        if let Some(file) = &opened {
            file.lock_shared().map_err(io_error("lock", &path))?;
        }
        Ok(InUse { _file: opened })
    }

    /// Takes the store for a deletion. Looks again for a moment: a process that is just ending, or being started by one
    /// that held the store, still counts as a holder.
    pub(super) fn hold_alone(&self) -> Result<InUse, StoreError> {
        self.must_write()?;
        for _ in 0..LOOKS {
            if let Some(file) = try_exclusive(&self.root().join(LOCK_FILE))? {
                return Ok(InUse { _file: Some(file) });
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(StoreError::InUse { root: self.root().to_owned() })
    }

    fn delete_leftovers(&self, key: &ArtifactKey) -> Result<(), StoreError> {
        let tmp = self.root().join(TMP);
        for (name, kind) in list(&tmp)? {
            if kind.is_dir() && key_of_temporary(&name) == Some(*key) {
                let path = tmp.join(name);
                fs::remove_dir_all(&path).map_err(io_error("delete", &path))?;
            }
        }
        Ok(())
    }
}

fn lock_file(path: &Path) -> Result<File, StoreError> {
    if fs::symlink_metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(StoreError::Malformed { path: path.to_owned(), expected: "a lock: it is not a file".to_owned() });
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(io_error("open the lock", path))
}

fn try_exclusive(path: &Path) -> Result<Option<File>, StoreError> {
    let file = lock_file(path)?;
    Ok(got_lock(file.try_lock(), path)?.then_some(file))
}

/// Returns whether a lock was free.
fn got_lock(tried: Result<(), TryLockError>, path: &Path) -> Result<bool, StoreError> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(io_error("lock", path)(e)),
    }
}

/// Returns whether an open file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}
