//! Opens untrusted files, and recognises what is often found instead of data.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::contract::{StageError, bounded};

/// Opens a file.
///
/// # Errors
/// When it cannot be opened, or is no regular file.
pub fn open(path: &Path) -> Result<File, StageError> {
    let opened = bounded::regular(path).and_then(|_| File::open(path));
    opened.map_err(|e| StageError::data(path.display(), format!("cannot open: {e}")))
}

/// Opens a file that should be `expected`, as [`foreign`] says.
///
/// # Errors
/// When it cannot be opened, or is something else.
pub fn open_as(path: &Path, expected: &str) -> Result<File, StageError> {
    let file = open(path)?;
    foreign(path, expected).map_or(Ok(file), Err)
}

/// Reads a whole file.
///
/// # Errors
/// When it cannot be read, or has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, StageError> {
    let mut bytes = Vec::new();
    match open(path)?.take(limit + 1).read_to_end(&mut bytes) {
        Ok(read) if read as u64 > limit => {
            Err(StageError::data(path.display(), format!("is larger than {limit} bytes")))
        }
        Ok(_) => Ok(bytes),
        Err(e) => Err(StageError::data(path.display(), format!("cannot be read: {e}"))),
    }
}

/// Recognises a file that is not `expected` (`an npz file`, `a table`) at all: empty, a web page, a Git LFS pointer.
pub fn foreign(path: &Path, expected: &str) -> Option<StageError> {
    let mut start = Vec::new();
    let read = bounded::regular(path).and_then(|_| File::open(path)?.take(256).read_to_end(&mut start));
    let text = start.trim_ascii_start().to_ascii_lowercase();
    let about = |what: String| StageError::data(path.display(), what);
    if let Err(e) = read {
        return Some(about(format!("cannot be read: {e}")));
    }
    let (what, hint) = if start.is_empty() {
        ("is empty", "write or download it again")
    } else if [&b"<!doctype"[..], b"<html", b"<head", b"<?xml"].iter().any(|tag| text.starts_with(tag)) {
        ("is a web page", "download the file itself, not the page that shows it")
    } else if text.starts_with(b"version https://git-lfs") {
        ("is a Git LFS pointer", "fetch the file itself with `git lfs pull`")
    } else {
        return None;
    };
    Some(about(format!("{what}, expected {expected}")).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_instead_of_data_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            foreign(&path, "a table").map(|e| e.to_string().rsplit_once(": ").unwrap().1.to_owned())
        };
        assert_eq!(found(b"").as_deref(), Some("is empty, expected a table"));
        assert_eq!(found(b" <!DOCTYPE html>").as_deref(), Some("is a web page, expected a table"));
        assert_eq!(
            found(b"version https://git-lfs.github.com/spec/v1\n").as_deref(),
            Some("is a Git LFS pointer, expected a table")
        );
        assert_eq!(found(b"node_id\tnode_id\n"), None);
        assert!(open(folder.path()).unwrap_err().to_string().ends_with("cannot open: it is a folder"));
    }
}
