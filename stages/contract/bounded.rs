//! Reads files outside the store that are meant to be small, or at least to end.
//!
//! A pipe never answers, a device never ends, and a file of gigabytes is no pipeline: all of them are refused before a byte is
//! read. Large data has readers of its own, in [`crate::reading`].

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// The most bytes of a text that a person writes: pipelines, manifests of data sets, tables of published values.
pub const MOST_TEXT: u64 = 4 << 20;

/// Returns what is known of a regular file, without opening it: to open a pipe may wait forever.
///
/// # Errors
/// When there is no such file, or something else has its name.
pub fn regular(path: &Path) -> io::Result<Metadata> {
    let about = fs::metadata(path)?;
    match about.is_file() {
        true => Ok(about),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}", kind(about.file_type())))),
    }
}

/// Reads a text of at most [`MOST_TEXT`] bytes, without the byte-order mark that some editors begin a file with.
///
/// # Errors
/// When there is no such file, it is not a regular one, too large, or no text.
pub fn text(path: &Path) -> io::Result<String> {
    small(path)?;
    let mut bytes = Vec::new();
    // Some files say that they are empty and never end.
    File::open(path)?.take(MOST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_TEXT {
        return refuse(&format!("it does not end, {}", most()));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(_) => refuse("it is not UTF-8 text"),
    }
}

/// Looks whether a file is small enough to be a text that a person wrote, without opening it.
///
/// # Errors
/// When there is no such file, it is not a regular one, or too large.
pub fn small(path: &Path) -> io::Result<()> {
    let size = regular(path)?.len();
    if size <= MOST_TEXT { Ok(()) } else { refuse(&format!("it has {} MiB, {}", size.div_ceil(1 << 20), most())) }
}

fn refuse<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

fn most() -> String {
    format!("expected a text of at most {} MiB", MOST_TEXT >> 20)
}

#[cfg(unix)]
fn kind(of: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if of.is_dir() {
        "a folder"
    } else if of.is_fifo() {
        "a pipe"
    } else if of.is_char_device() || of.is_block_device() {
        "a device"
    } else {
        "a socket"
    }
}

#[cfg(not(unix))]
fn kind(of: FileType) -> &'static str {
    if of.is_dir() { "a folder" } else { "a device" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_without_its_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for written in ["\u{feff}ppgnn: 1\n", "ppgnn: 1\n"] {
            fs::write(&path, written).unwrap();
            assert_eq!(text(&path).unwrap(), "ppgnn: 1\n");
        }
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        // A file with a hole takes no space.
        File::create(&path).unwrap().set_len(3 << 40).unwrap();
        assert_eq!(text(&path).unwrap_err().to_string(), "it has 3145728 MiB, expected a text of at most 4 MiB");
        fs::write(&path, [b'a', 0xff]).unwrap();
        assert_eq!(text(&path).unwrap_err().to_string(), "it is not UTF-8 text");
        assert_eq!(text(dir.path()).unwrap_err().to_string(), "it is a folder");
        assert_eq!(text(&dir.path().join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, what) in [(Path::new("/dev/zero"), "a device"), (&pipe, "a pipe")] {
            assert_eq!(text(path).unwrap_err().to_string(), format!("it is {what}"));
        }
        let socket = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(regular(&socket).unwrap_err().to_string(), "it is a socket");
    }
}
