//! `Pending`: an artifact being written, invisible until it is complete and flushed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::claim::ClaimGuard;
use super::disk::{Entry, Opened, Store};
use super::error::{StoreError, io_error};
use super::inspect::{Care, digest};
use super::layout::{MANIFEST, OBJECTS, ensure_folder, is_plain, sync_folder};
use super::manifest::{FileRecord, Manifest, Provenance};

/// An artifact being written. Dropped without [`Pending::commit`], it is deleted.
pub struct Pending<'s> {
    store: &'s Store,
    claim: &'s ClaimGuard,
    dir: PathBuf,
    scratch: PathBuf,
    moved: bool,
}

/// An artifact that has reached the store.
#[derive(Debug)]
pub struct Committed {
    /// The artifact.
    pub entry: Entry,
    /// Whether the bytes are those of the artifact that was there before; `None` if there was none.
    pub bytes_same: Option<bool>,
}

impl Store {
    /// Makes an empty folder for the artifact of a claimed node, and opens its resume point.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin<'s>(&'s self, claim: &'s ClaimGuard) -> Result<Pending<'s>, StoreError> {
        self.must_write()?;
        let dir = self.temporary(&claim.key().to_string());
        fs::create_dir(&dir).map_err(io_error("create the folder", &dir))?;
        let mut pending = Pending { store: self, claim, dir, scratch: PathBuf::new(), moved: false };
        pending.scratch = self.open_resume_point(claim)?;
        Ok(pending)
    }
}

impl Pending<'_> {
    /// Returns the folder to write into.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder of the resume point, which outlives this value unless it is empty or the artifact committed.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Takes the digests of all files, writes the manifest, flushes everything, and renames the folder into place.
    ///
    /// An artifact that was there before stays if its bytes are the same, and goes to quarantine otherwise. The resume
    /// point is deleted.
    ///
    /// # Errors
    /// When something cannot be written or flushed; nothing is visible then.
    pub fn commit(mut self, made: Provenance) -> Result<Committed, StoreError> {
        let committed = self.move_into_place(made)?;
        if let Err(error) = self.store.forget_resume_point(self.claim) {
            // The artifact is there, which is what matters; the rest is for `prune`.
            tracing::warn!(path = %self.scratch.display(), %error, "cannot delete a resume point");
        }
        Ok(committed)
    }

    fn move_into_place(&mut self, made: Provenance) -> Result<Committed, StoreError> {
        if made.ingredients.key() != *self.claim.key() {
            return Err(StoreError::WrongKey { node: made.node });
        }
        let stage = made.ingredients.stage.clone();
        let files = self.seal_files()?;
        let target = self.store.object(self.claim.key(), &stage)?;
        let bytes_same = match self.store.inspect(self.claim.key(), &stage, Care::Always)? {
            Opened::Hit(entry) if entry.manifest.files == files => {
                return Ok(Committed { entry: *entry, bytes_same: Some(true) });
            }
            Opened::Hit(_) => Some(false),
            Opened::Miss | Opened::Damaged { .. } => None,
        };
        let manifest = self.write_manifest(made, files)?;
        let folder = self.store.root().join(OBJECTS).join(&stage);
        ensure_folder(&folder)?;
        if fs::symlink_metadata(&target).is_ok() {
            self.store.set_aside(self.claim, &stage)?;
        }
        fs::rename(&self.dir, &target).map_err(io_error("move into place", &target))?;
        self.moved = true;
        sync_folder(&folder)?;
        sync_folder(&self.store.root().join(OBJECTS))?;
        self.store.remember_verified(&manifest);
        Ok(Committed { entry: Entry { dir: target, manifest }, bytes_same })
    }

    /// Flushes what the stage wrote and says what it is, sorted by name.
    fn seal_files(&self) -> Result<Vec<FileRecord>, StoreError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(io_error("list", &self.dir))? {
            let entry = entry.map_err(io_error("list", &self.dir))?;
            let path = entry.path();
            let is_file = entry.file_type().map_err(io_error("look at", &path))?.is_file();
            let named = entry.file_name().to_str().is_some_and(|name| is_plain(name) && name != MANIFEST);
            if !is_file || !named {
                return Err(StoreError::Unstorable { path });
            }
            File::open(&path).and_then(|f| f.sync_all()).map_err(io_error("flush", &path))?;
            files.push(digest(&path).map_err(io_error("read", &path))?);
        }
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn write_manifest(&self, made: Provenance, files: Vec<FileRecord>) -> Result<Manifest, StoreError> {
        let path = self.dir.join(MANIFEST);
        let (manifest, text) = Manifest::seal(made, files).map_err(|e| io_error("write", &path)(e.into()))?;
        let written = File::create_new(&path).and_then(|mut file| {
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(io_error("write", &path))?;
        sync_folder(&self.dir)?;
        Ok(manifest)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.moved {
            return;
        }
        // Fails where something is in it, which is meant to stay.
        let _ = fs::remove_dir(&self.scratch);
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(path = %self.dir.display(), %error, "cannot delete an unfinished artifact");
        }
    }
}
