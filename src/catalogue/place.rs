//! Puts files into a data directory; a half-written file is never visible under its name.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::DataFile;
use super::verify::{Misfit, Verified};

/// The right to write into a data directory, until it is dropped.
pub struct Hold {
    _lock: File,
}

/// Waits for the right to write into a data directory, which is created if missing. `waiting` is called if another
/// process holds it.
///
/// # Errors
/// When the directory or the lock in it cannot be made.
pub fn hold(data_dir: &Path, waiting: impl FnOnce()) -> io::Result<Hold> {
    fs::create_dir_all(data_dir)?;
    let lock = File::create(data_dir.join(".lock"))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => {
            waiting();
            lock.lock()?;
        }
        // A file system without locks is no reason to refuse.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    Ok(Hold { _lock: lock })
}

/// Copies a file into place if it is what the manifest says: both as it is found and as it has been copied.
///
/// # Errors
/// What is wrong with the file, or why it cannot be copied.
pub fn import(file: &DataFile, from: &Path, target: &Path) -> Result<Verified, Misfit> {
    file.compare(from)?;
    let copy = beside(target, ".copy.part");
    let copied = make_parent(target).and_then(|()| {
        io::copy(&mut File::open(from)?, &mut File::create(&copy)?)?;
        Ok(())
    });
    let placed = copied.map_err(Misfit::Unreadable).and_then(|()| file.compare(&copy)).and_then(|verified| {
        put(&copy, target).map_err(Misfit::Unreadable)?;
        Ok(verified)
    });
    if placed.is_err() {
        // A leftover part is ignored and overwritten the next time.
        let _ = fs::remove_file(&copy);
    }
    placed
}

/// Returns the path with an ending added to its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Creates the parent folder of a file.
pub(super) fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Flushes a whole file and renames it into place.
pub(super) fn put(whole: &Path, target: &Path) -> io::Result<()> {
    File::options().write(true).open(whole)?.sync_all()?;
    fs::rename(whole, target)?;
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}
