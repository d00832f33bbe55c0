//! `TemporaryStore`: for results that are inspected and not kept.

use std::fs;
use std::ops::Deref;

use super::claim::InUse;
use super::disk::Store;
use super::error::{StoreError, io_error};
use super::layout::unused;

/// A store that finds what is in another one, writes into a folder of its own, and deletes that when it is dropped.
pub struct TemporaryStore {
    store: Store,
    /// Keeps what is in the other one from being deleted.
    _in_use: InUse,
}

impl TemporaryStore {
    /// Makes an empty store in the system's folder for temporary files, in front of another one.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn in_front_of(behind: Store) -> Result<Self, StoreError> {
        let in_use = behind.hold()?;
        let folder = std::env::temp_dir();
        let root = unused(&folder, &format!("ppgnn-{}", std::process::id())).unwrap_or(folder);
        // Not `create_dir_all`: a folder that another process has just created is not ours.
        fs::create_dir(&root).map_err(io_error("create the folder", &root))?;
        Ok(Self { store: Store::open(&root)?.in_front_of(behind), _in_use: in_use })
    }
}

impl Deref for TemporaryStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        // There is nowhere to report a failure, and the system cleans the folder sooner or later.
        let _ = fs::remove_dir_all(self.store.root());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::prune::{Limits, delete};

    #[test]
    fn what_is_behind_it_cannot_be_deleted_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        // A run makes the lock, which a reader only opens.
        drop(store.hold().unwrap());
        let front = TemporaryStore::in_front_of(Store::open_existing_read_only(dir.path()).unwrap()).unwrap();
        assert!(matches!(delete(&store, &[], &Limits::default()), Err(StoreError::InUse { .. })));
        drop(front);
        assert!(delete(&store, &[], &Limits::default()).is_ok());
    }
}
