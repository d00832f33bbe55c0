//! A digest of the arrays in an `.npz` file, whatever way the file packs them.
//!
//! The same arrays are in circulation stored, deflated and written anew by other tools, each with a digest of its own
//! as a file. This digest is SHA-256 over, for every member in the order of its name:
//!
//! ```text
//! name 0 descr 0 shape 0 bytes        amazon.npy␀<f4␀13752,767␀…
//! ```
//!
//! where `descr` is the type as the NumPy header writes it, `shape` the dimensions in decimal joined by commas, with
//! an `F` after them where the array is stored by column, and `bytes` the array as stored.

use std::io::{BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::npz::Header;
use super::source;
use super::watched::MEMBER_LIMIT;
use crate::contract::StageError;

/// A file with more members is not a data set.
const MOST_MEMBERS: usize = 10_000;

/// Returns the digest of the arrays in a file, as hex. Nothing is held in memory but a buffer.
///
/// # Errors
/// When the file cannot be read, is not a zip, or holds something other than plain arrays.
pub fn arrays_sha256(path: &Path) -> Result<String, StageError> {
    let file = source::open(path)?;
    let not_zip = |e| StageError::data(path.display(), format!("is not an npz file: {e}"));
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(not_zip)?;
    if archive.len() > MOST_MEMBERS {
        return Err(StageError::data(path.display(), format!("has {} members, which are too many", archive.len())));
    }
    let mut members = Vec::new();
    for index in 0..archive.len() {
        match archive.name_for_index(index) {
            Some(Ok(name)) => members.push((name.into_owned(), index)),
            _ => return Err(StageError::data(path.display(), format!("member {index} has a name that is not text"))),
        }
    }
    members.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, index) in members {
        let damaged = |what: String| StageError::data(format!("{}, member `{name}`", path.display()), what);
        let member = archive.by_index(index).map_err(|e| damaged(format!("cannot be decoded: {e}")))?;
        hash_member(&name, member, &mut hasher).map_err(damaged)?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn hash_member(name: &str, member: impl Read, hasher: &mut Sha256) -> Result<(), String> {
    let mut member = BufReader::with_capacity(1 << 16, member).take(MEMBER_LIMIT);
    let header = Header::read(&mut member)?;
    let shape: Vec<String> = header.shape.iter().map(usize::to_string).collect();
    let column = if header.by_column { "F" } else { "" };
    hasher.update(format!("{name}\0{}\0{}{column}\0", header.descr, shape.join(",")));
    let mut buffer = vec![0; 1 << 16];
    loop {
        match member.read(&mut buffer) {
            Ok(0) if member.limit() == 0 => return Err(format!("holds more than {MEMBER_LIMIT} bytes")),
            Ok(0) => return Ok(()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("cannot be decoded: {e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::real_data;
    use std::io::Write;
    use zip::CompressionMethod;
    use zip::write::SimpleFileOptions;

    fn npy(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    fn digest(members: &[(&str, Vec<u8>)], method: CompressionMethod) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        for (name, bytes) in members {
            zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        arrays_sha256(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn packing_and_order_of_members_do_not_count() {
        let (a, b) = (npy("<f4", "False", "(2,)", &[0; 8]), npy("|b1", "True", "(1, 2)", &[1, 0]));
        let stored = digest(&[("a.npy", a.clone()), ("b.npy", b.clone())], CompressionMethod::Stored).unwrap();
        let packed = digest(&[("b.npy", b.clone()), ("a.npy", a.clone())], CompressionMethod::Deflated).unwrap();
        assert_eq!(stored, packed);
        let expected = Sha256::digest(b"a.npy\0<f4\x002\0\0\0\0\0\0\0\0\0b.npy\0|b1\x001,2F\0\x01\0");
        assert_eq!(stored, expected.iter().map(|b| format!("{b:02x}")).collect::<String>());
        let other = npy("|b1", "False", "(1, 2)", &[1, 0]);
        assert_ne!(stored, digest(&[("a.npy", a), ("b.npy", other)], CompressionMethod::Stored).unwrap());
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let bad = digest(&[("a.npy", b"nothing of the kind".to_vec())], CompressionMethod::Stored).unwrap_err();
        assert!(bad.ends_with("member `a.npy`: is not a NumPy array"), "{bad}");
        let maybe = digest(&[("a.npy", npy("<f4", "Maybe", "(2,)", &[]))], CompressionMethod::Stored).unwrap_err();
        assert!(maybe.contains("has an unreadable header"), "{maybe}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npz");
        std::fs::write(&path, "<html>").unwrap();
        assert!(arrays_sha256(&path).unwrap_err().to_string().contains("is not an npz file"));
    }

    #[test]
    fn the_published_arrays_have_the_digest_that_was_computed_independently() {
        // The digest comes from a separate implementation of the definition above in Python.
        let Some(folder) = real_data("amazon_photo") else { return };
        let digest = arrays_sha256(&folder.join("amazon_electronics_photo.npz")).unwrap();
        assert_eq!(digest, "e221095053a5b6c9194ced4dbc8651000a6257ec309f1503d25258cd297020b6");
    }
}
