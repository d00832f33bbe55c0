//! Whether a file holds what its manifest says: by size, by digest, or by digest of its arrays.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ppgnn_stages::reading::npz_digest::arrays_sha256;
use ppgnn_stages::reading::source::foreign;
use sha2::{Digest, Sha256};

use super::manifest::DataFile;

/// How a file was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It has one of the known digests.
    Digest,
    /// It is packed differently, but its arrays have the known digest.
    Arrays,
    /// There is nothing to compare with.
    NoDigestKnown {
        /// The digest it has.
        sha256: String,
    },
}

/// A file that is not what its manifest says.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {misfit}", path.display())]
pub struct VerifyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub misfit: Misfit,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Misfit {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is something else altogether, such as a web page.
    #[error("{0}")]
    Foreign(String),
    /// It has another size.
    #[error("has {found} bytes, expected {expected}")]
    Size {
        /// Its size.
        found: u64,
        /// The size it should have.
        expected: u64,
    },
    /// It has another digest.
    #[error("has SHA-256 {found}, expected {}", expected.join(" or "))]
    Digest {
        /// Its digest.
        found: String,
        /// The digests it may have; where only the arrays' digest is known, that one.
        expected: Vec<String>,
    },
}

impl DataFile {
    /// Reads the file at `path` and compares it with everything that is known of it.
    ///
    /// # Errors
    /// When it cannot be read or is not this file.
    pub fn verify(&self, path: &Path) -> Result<Verified, VerifyError> {
        self.compare(path).map_err(|misfit| VerifyError { path: path.to_owned(), misfit })
    }

    pub(super) fn compare(&self, path: &Path) -> Result<Verified, Misfit> {
        let found = std::fs::metadata(path).map_err(Misfit::Unreadable)?.len();
        if let Some(what) = foreign_text(path) {
            return Err(Misfit::Foreign(what));
        }
        if let Some(expected) = self.bytes.filter(|expected| *expected != found) {
            return Err(Misfit::Size { found, expected });
        }
        let found = sha256_file(path).map_err(Misfit::Unreadable)?;
        if self.sha256.contains(&found) {
            return Ok(Verified::Digest);
        }
        match &self.arrays_sha256 {
            None if self.sha256.is_empty() => Ok(Verified::NoDigestKnown { sha256: found }),
            // A file that cannot be decoded is one with the wrong digest, and that says more.
            Some(arrays) if arrays_sha256(path).is_ok_and(|digest| digest == *arrays) => Ok(Verified::Arrays),
            arrays => {
                let mut expected = self.sha256.clone();
                if expected.is_empty() {
                    expected.extend(arrays.clone());
                }
                Err(Misfit::Digest { found, expected })
            }
        }
    }
}

/// Says what a file is that is no data at all: empty, a web page, a Git LFS pointer.
fn foreign_text(path: &Path) -> Option<String> {
    match foreign(path, "the data")? {
        ppgnn_stages::contract::StageError::Data { what, .. } => Some(what),
        other => Some(other.to_string()),
    }
}

/// Returns the SHA-256 digest of a file as hex.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
