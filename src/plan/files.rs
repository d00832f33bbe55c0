//! Content digests of files outside the store.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ppgnn_stages::contract::bounded;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Text that a person writes, which is small.
    Text,
    /// Data of any size.
    Data,
}

/// Digests files, each once.
#[derive(Default)]
pub struct FileDigests {
    known: Mutex<HashMap<PathBuf, String>>,
}

impl FileDigests {
    /// Returns the BLAKE3 digest of a file's content as hex.
    ///
    /// # Errors
    /// When the file cannot be read, is none (a device would never end), or is too large for a text.
    pub fn digest(&self, path: &Path, contents: Contents) -> io::Result<String> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known().get(path) {
            return Ok(digest.clone());
        }
        match contents {
            Contents::Text => bounded::small(path),
            Contents::Data => bounded::regular(path).map(|_| ()),
        }?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        let digest = hasher.finalize().to_hex().to_string();
        known().insert(path.to_owned(), digest.clone());
        Ok(digest)
    }
}
