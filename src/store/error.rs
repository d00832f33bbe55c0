//! What can go wrong with a store. A damaged artifact is not an error: it is a miss with a warning.

use std::io;
use std::path::{Path, PathBuf};

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Something else is where a folder of the store should be.
    #[error("`{}` is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The folder has other content where a store would put its own files.
    #[error("`{}` is not a store, but has a folder `{folder}` that is not empty", root.display())]
    Foreign {
        /// The folder that should become a store.
        root: PathBuf,
        /// What is in the way.
        folder: String,
    },
    /// The store was written by a later version.
    #[error("the store `{}` has format {found}, but this version knows formats up to {known}", root.display())]
    NewerFormat {
        /// Root of the store.
        root: PathBuf,
        /// Its format.
        found: u64,
        /// The latest format known here.
        known: u32,
    },
    /// A file that the store itself keeps does not hold what it should.
    #[error("`{}` does not hold {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected in it.
        expected: String,
    },
    /// Writing was asked of a store that was opened for reading.
    #[error("the store `{}` is open for reading only", root.display())]
    ReadOnly {
        /// Root of the store.
        root: PathBuf,
    },
    /// Deletion was asked while a run holds the store.
    #[error("a run is using the store `{}`", root.display())]
    InUse {
        /// Root of the store.
        root: PathBuf,
    },
    /// A name would not stay inside its folder.
    #[error("`{name}` cannot be the name of a {what}")]
    BadName {
        /// The name.
        name: String,
        /// What it was to name.
        what: &'static str,
    },
    /// A stage left something in its folder that the store does not keep.
    #[error("`{}` is not something an artifact can hold", path.display())]
    Unstorable {
        /// The file or folder.
        path: PathBuf,
    },
    /// An artifact was to be committed under a key that is not its own.
    #[error("`{node}` was claimed under a key that its ingredients do not have")]
    WrongKey {
        /// The node.
        node: String,
    },
}

impl StoreError {
    /// Returns whether nothing can be written to the store, though it may be read.
    pub fn is_unwritable(&self) -> bool {
        match self {
            Self::Io { source, .. } => stops_everything(source),
            other => matches!(other, Self::ReadOnly { .. }),
        }
    }

    /// Returns what a person can do about it, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } => hint_for(source),
            Self::Foreign { .. } => Some("choose an empty or absent folder for the store"),
            Self::NotADirectory { .. } => Some("move it away, or choose another folder for the store"),
            Self::NewerFormat { .. } => Some("use the version that wrote the store, or choose another folder"),
            Self::Malformed { .. } => Some("restore the file, or delete it if nothing depends on it"),
            Self::ReadOnly { .. } => Some("make the folder writable, or choose another folder for the store"),
            Self::InUse { .. } => Some("try again when the run has ended"),
            Self::BadName { .. } => Some("use letters, digits, `-`, `_` and `.`, not starting with `.`"),
            Self::Unstorable { .. } => {
                Some("an artifact is regular files directly in its folder, none called `manifest.json`")
            }
            Self::WrongKey { .. } => Some("this is a bug in ppgnn"),
        }
    }
}

/// Returns whether an error of the operating system will affect every other write too.
pub(crate) fn stops_everything(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied)
}

/// Returns what a person can do about an error of the operating system.
pub(crate) fn hint_for(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space (finished results are kept), then run again")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            Some("make the folder writable, or choose another folder for the store")
        }
        _ => None,
    }
}

/// Turns an error that says that something is not there into `None`, and names operation and path of any other.
pub(super) fn if_there<T>(
    result: io::Result<T>,
    operation: &'static str,
    path: &Path,
) -> Result<Option<T>, StoreError> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(io_error(operation, path)),
    }
}

/// Names operation and path of an error of the operating system.
pub(super) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { operation, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_file_and_says_what_to_do() {
        let full = io_error("write", Path::new("artifacts/x"))(io::ErrorKind::StorageFull.into());
        assert_eq!(full.to_string(), "cannot write `artifacts/x`");
        assert!(full.hint().unwrap().contains("free some space"));
    }
}
