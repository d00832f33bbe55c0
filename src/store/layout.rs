//! Where things are in a store, and which names may stand there. Names read from disk pass through here first, so
//! that none of them can lead outside the root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::ArtifactKey;

use super::error::{StoreError, if_there, io_error};

pub(super) const OBJECTS: &str = "objects";
pub(super) const TMP: &str = "tmp";
pub(super) const RESUME: &str = "resume";
pub(super) const CLAIMS: &str = "claims";
pub(super) const QUARANTINE: &str = "quarantine";
pub(super) const RESULTS: &str = "results";
pub(super) const RUNS: &str = "runs";
pub(super) const UNFINISHED: &str = "unfinished";
pub(super) const FAILED: &str = "failed";
pub(super) const ENDED: &str = "ended";
pub(super) const FOLDERS: [&str; 10] =
    [OBJECTS, TMP, RESUME, CLAIMS, QUARANTINE, RESULTS, RUNS, UNFINISHED, FAILED, ENDED];
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const STORE_FILE: &str = "store.json";
pub(super) const LOCK_FILE: &str = "store.lock";

/// An artifact by stage and key. As text: `train/3f9a…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactRef {
    /// Name of the stage.
    pub stage: String,
    /// The key.
    pub key: ArtifactKey,
}

impl ArtifactRef {
    /// Names an artifact.
    pub fn new(stage: impl Into<String>, key: ArtifactKey) -> Self {
        Self { stage: stage.into(), key }
    }
}

impl std::fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.stage, self.key)
    }
}

impl Serialize for ArtifactRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArtifactRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.split_once('/').filter(|(stage, _)| is_plain(stage));
        let parsed = parsed.and_then(|(stage, key)| Some(Self::new(stage, key.parse().ok()?)));
        parsed.ok_or_else(|| serde::de::Error::custom(format!("`{text}` does not name an artifact")))
    }
}

/// Returns whether a name stays inside its folder and is safe to show.
pub(super) fn is_plain(name: &str) -> bool {
    let fine = |c: char| !c.is_control() && c != '/' && c != '\\';
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.chars().all(fine)
}

/// Refuses a name that would not stay inside its folder.
pub(super) fn plain<'n>(name: &'n str, what: &'static str) -> Result<&'n str, StoreError> {
    if is_plain(name) { Ok(name) } else { Err(StoreError::BadName { name: name.to_owned(), what }) }
}

/// Splits `<key>.<pid>.<n>`, the name of a folder that is being written.
pub(super) fn key_of_temporary(name: &str) -> Option<ArtifactKey> {
    name.split_once('.')?.0.parse().ok()
}

/// Makes a folder unless it is there. A link in its place is refused: it could lead anywhere.
pub(super) fn ensure_folder(path: &Path) -> Result<(), StoreError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = fs::symlink_metadata(path).is_ok_and(|m| m.is_dir());
            if is_folder { Ok(()) } else { Err(StoreError::NotADirectory { path: path.to_owned() }) }
        }
        Err(e) => Err(io_error("create the folder", path)(e)),
    }
}

/// Lists a folder by name. A missing folder is empty; names that are not text are left out.
pub(super) fn list(folder: &Path) -> Result<Vec<(String, fs::FileType)>, StoreError> {
    let mut entries = Vec::new();
    for entry in if_there(fs::read_dir(folder), "list", folder)?.into_iter().flatten() {
        let entry = entry.map_err(io_error("list", folder))?;
        let kind = entry.file_type().map_err(io_error("list", folder))?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, kind));
        }
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

/// Lists the real folders in a folder whose names are plain; links are left out.
pub(super) fn folders(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = list(folder)?.into_iter();
    Ok(entries.filter(|(name, kind)| kind.is_dir() && is_plain(name)).map(|(name, _)| name).collect())
}

/// Flushes a folder, so that the names in it survive a power cut.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    fs::File::open(path).and_then(|f| f.sync_all()).map_err(io_error("flush", path))
}

/// Adds up the sizes of the regular files under a path, following no links.
pub(super) fn size_of(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return if meta.is_file() { meta.len() } else { 0 };
    }
    let children = fs::read_dir(path).into_iter().flatten().flatten();
    children.map(|child| size_of(&child.path())).sum()
}

/// Returns a path in `folder` that nothing has yet: `<prefix>-0`, `<prefix>-1`, …
pub(super) fn unused(folder: &Path, prefix: &str) -> Option<PathBuf> {
    (0..10_000u32).map(|n| folder.join(format!("{prefix}-{n}"))).find(|p| fs::symlink_metadata(p).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_their_folder_are_not_plain() {
        for name in ["", ".", "..", ".hidden", "a/b", "../a", "/etc", "a\\b", "a\nb", "a\0b"] {
            assert!(!is_plain(name), "{name:?}");
        }
        assert!(is_plain("PP-GNN_1.md"));
    }

    #[test]
    fn an_artifact_reference_from_disk_cannot_lead_outside() {
        let key = "0".repeat(64);
        assert!(serde_json::from_str::<ArtifactRef>(&format!("\"train/{key}\"")).is_ok());
        for text in [format!("../{key}"), format!("a/b/{key}"), "train/../x".to_owned(), key] {
            assert!(serde_json::from_str::<ArtifactRef>(&format!("\"{text}\"")).is_err(), "{text}");
        }
    }
}
