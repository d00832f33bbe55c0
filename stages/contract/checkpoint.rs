//! Files for [`Job::scratch`](super::Job::scratch): what is read is what was written, or nothing.
//!
//! A stage may be killed at any moment, so every byte is covered by a BLAKE3 digest. [`write()`] replaces a file as a
//! whole; a [`Log`] grows record by record and loses at most the one that was being written.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use blake3::{Hash, Hasher, OUT_LEN};

use crate::contract::ArtifactError;

/// How often a stage leaves a checkpoint, unless its job says otherwise.
pub const EVERY: Duration = Duration::from_secs(60);

/// Replaces a file by `parts`, one after the other, and their digest. Whenever this is interrupted, the file is the old
/// or the new one.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, parts: &[&[u8]]) -> Result<(), ArtifactError> {
    // One name for every attempt, so that killed ones do not add up.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = File::create(&part).and_then(|mut file| {
        let mut digest = Hasher::new();
        for bytes in parts {
            digest.update(bytes);
            file.write_all(bytes)?;
        }
        file.write_all(digest.finalize().as_bytes())?;
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&part, path)).and_then(|()| sync_folder(path));
    placed.map_err(|e| {
        // What is half-written must not take the space that the result needs; it may be gone already.
        let _ = fs::remove_file(&part);
        ArtifactError::io(path, e)
    })
}

/// Returns what [`write()`] wrote; `None` if it is missing, cut short or otherwise not the same.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let digest = bytes.split_off(bytes.len().checked_sub(OUT_LEN)?);
    (blake3::hash(&bytes) == Hash::from_slice(&digest).ok()?).then_some(bytes)
}

/// A file that grows by whole records.
///
/// First iterate over what is there: records come in the order in which they were appended, up to the end or to the
/// first that is damaged. Then [`append`](Log::append): it writes after the last record taken, and all that follows
/// that one is gone. So a log that is never iterated over starts empty.
pub struct Log {
    file: File,
    path: PathBuf,
    /// Where the records taken so far end.
    end: u64,
    /// The digest of the last of them, which is in the digest of the next: a record counts only behind its predecessor.
    last: Hash,
}

/// The header of a record: the number of bytes, and the digest.
const HEAD: u64 = 8 + OUT_LEN as u64;

impl Log {
    /// Opens a log; a missing one is empty.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub fn open(path: &Path) -> Result<Self, ArtifactError> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let opened = opened.and_then(|file| sync_folder(path).map(|()| file));
        let file = opened.map_err(|e| ArtifactError::io(path, e))?;
        Ok(Self { file, path: path.to_owned(), end: 0, last: Hash::from_bytes([0; OUT_LEN]) })
    }

    /// Appends a record and flushes it.
    ///
    /// # Errors
    /// When it cannot be written; the records before it stay, and appending may be tried again.
    pub fn append(&mut self, record: &[u8]) -> Result<(), ArtifactError> {
        let digest = self.digest(record);
        self.write(record, digest).map_err(|e| ArtifactError::io(&self.path, e))?;
        self.taken(record, digest);
        Ok(())
    }

    fn write(&mut self, record: &[u8], digest: Hash) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&(record.len() as u64).to_le_bytes())?;
        self.file.write_all(digest.as_bytes())?;
        self.file.write_all(record)?;
        self.file.sync_data()
    }

    fn read(&mut self) -> io::Result<(Vec<u8>, Hash)> {
        let rest = self.file.metadata()?.len().saturating_sub(self.end);
        self.file.seek(SeekFrom::Start(self.end))?;
        let (mut length, mut digest) = ([0; 8], [0; OUT_LEN]);
        self.file.read_exact(&mut length)?;
        self.file.read_exact(&mut digest)?;
        let length = u64::from_le_bytes(length);
        // Nothing is allocated because a damaged length says so.
        if length > rest.saturating_sub(HEAD) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut record = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        (&self.file).take(length).read_to_end(&mut record)?;
        Ok((record, Hash::from_bytes(digest)))
    }

    fn digest(&self, record: &[u8]) -> Hash {
        Hasher::new().update(self.last.as_bytes()).update(record).finalize()
    }

    fn taken(&mut self, record: &[u8], digest: Hash) {
        self.end += HEAD + record.len() as u64;
        self.last = digest;
    }
}

impl Iterator for Log {
    type Item = Vec<u8>;

    /// Reads the next record; `None` at the end, and where the file cannot be read or is damaged.
    fn next(&mut self) -> Option<Vec<u8>> {
        let (record, digest) = self.read().ok()?;
        if digest != self.digest(&record) {
            return None;
        }
        self.taken(&record, digest);
        Some(record)
    }
}

/// Flushes the folder of a file, so that its name survives a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_written_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(read(&path), None);
        // Left by an attempt that was killed.
        fs::write(dir.path().join("state.part"), "a longer text than the one that follows").unwrap();
        for parts in [&[&b"one "[..], b"and two"][..], &[], &[b"three"]] {
            write(&path, parts).unwrap();
            assert_eq!(read(&path), Some(parts.concat()));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write(&dir.path().join("absent/state"), &[]).unwrap_err();
        assert!(error.to_string().contains("absent/state"), "{error}");
    }

    #[test]
    fn a_file_cut_short_grown_or_changed_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        write(&path, &[b"some bytes"]).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(read(&path), None, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), None, "byte {at}");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(read(&path), None);
    }

    const RECORDS: [&[u8]; 4] = [b"first", b"", b"the third", b"last"];

    /// Writes a log and returns its bytes, and where each record ends.
    fn log(path: &Path) -> (Vec<u8>, Vec<usize>) {
        let mut log = Log::open(path).unwrap();
        let mut ends = Vec::new();
        for record in RECORDS {
            log.append(record).unwrap();
            ends.push(fs::metadata(path).unwrap().len() as usize);
        }
        (fs::read(path).unwrap(), ends)
    }

    /// Reads what is whole, appends a record, and reads again.
    fn recover(path: &Path) -> Vec<Vec<u8>> {
        let mut log = Log::open(path).unwrap();
        let found: Vec<_> = log.by_ref().collect();
        log.append(b"appended").unwrap();
        drop(log);
        let mut again: Vec<_> = Log::open(path).unwrap().collect();
        assert_eq!(again.pop().as_deref(), Some(&b"appended"[..]));
        assert_eq!(again, found, "what was there stays");
        found
    }

    #[test]
    fn a_log_cut_short_anywhere_keeps_its_whole_records() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (whole, ends) = log(&path);
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let expected = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(recover(&path), RECORDS[..expected], "{length} bytes");
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_ends_a_log_before_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (whole, ends) = log(&path);
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, &bytes).unwrap();
                let expected = ends.iter().filter(|end| **end <= at).count();
                assert_eq!(Log::open(&path).unwrap().collect::<Vec<_>>(), RECORDS[..expected], "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn records_count_in_their_place_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (whole, ends) = log(&path);
        // Without the first record, with the second twice.
        for bytes in [&whole[ends[0]..], &[&whole[..ends[1]], &whole[ends[0]..ends[1]]].concat()] {
            fs::write(&path, bytes).unwrap();
            let found: Vec<_> = Log::open(&path).unwrap().collect();
            assert_eq!(found, RECORDS[..found.len()]);
            assert!(found.len() <= 2);
        }
    }

    #[test]
    fn appending_cuts_off_what_was_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        log(&path);
        let mut some = Log::open(&path).unwrap();
        assert_eq!(some.next().as_deref(), Some(RECORDS[0]));
        // The same bytes as before: what followed them would still fit.
        some.append(RECORDS[1]).unwrap();
        assert_eq!(Log::open(&path).unwrap().collect::<Vec<_>>(), RECORDS[..2]);
        Log::open(&path).unwrap().append(b"anew").unwrap();
        assert_eq!(Log::open(&path).unwrap().collect::<Vec<_>>(), [b"anew"]);
    }
}
