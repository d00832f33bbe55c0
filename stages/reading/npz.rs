//! Reads arrays of an `.npz` file (a zip of `.npy` members) as untrusted input.
//!
//! Nothing is allocated because a header says so: members are decoded as a stream, and vectors grow with what has
//! really been read. A member may hold at most [`MEMBER_LIMIT`] bytes, stored or as what it becomes, whatever it
//! compresses to. Every error names the file, the member and, where it is about one number, that number's place.
//!
//! [`csr`] reads SciPy's compressed sparse rows, [`read_npy`] an array that is a file of its own.

pub mod csr;
mod header;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::read::ZipFile;

pub use self::header::Header;
use super::number::{BadValue, Number};
use super::source;
pub use super::watched::MEMBER_LIMIT;
use super::watched::{Steps, Watched};
use crate::contract::{Job, StageError};

/// How many bytes of numbers are decoded at once; a multiple of every number's size.
const CHUNK: usize = 1 << 16;
/// The most bytes of a list of texts.
const TEXTS_LIMIT: u64 = 1 << 28;

/// A member that is being decoded.
type MemberReader<'z> = BufReader<ZipFile<'z, BufReader<File>>>;

/// An open `.npz` file.
pub struct Npz {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

/// An array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values.
    pub values: Vec<T>,
}

/// What a member must be.
pub struct Expected<'e> {
    /// Its name, without `.npy`.
    pub member: &'e str,
    /// Its dimensions in words and, where it is known, in numbers.
    pub dims: &'e [(&'static str, Option<usize>)],
    /// Which number types it may have.
    pub numbers: Numbers,
}

/// The number types that a member may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Floating point or whole.
    Real,
    /// Whole numbers of any width.
    Whole,
    /// Truth values, or whole numbers instead.
    Truth,
}

impl Numbers {
    fn about(self) -> &'static str {
        match self {
            Self::Real => "numbers (such as f4 or f8)",
            Self::Whole => "whole numbers (such as i4 or i8)",
            Self::Truth => "truth values (bool or u1)",
        }
    }
    fn allow(self, kind: char) -> bool {
        match kind {
            'f' => self == Self::Real,
            'b' => self != Self::Whole,
            'i' | 'u' => true,
            _ => false,
        }
    }
}

impl Npz {
    /// Opens the file and reads its directory.
    ///
    /// # Errors
    /// When it cannot be read or is not a zip.
    pub fn open(path: &Path) -> Result<Self, StageError> {
        let file = source::open(path)?;
        match ZipArchive::new(BufReader::new(file)) {
            Ok(archive) => Ok(Self { path: path.to_owned(), archive }),
            Err(e) => Err(damaged_zip(path, "an npz file", &e)),
        }
    }

    /// Returns whether the file has a member.
    pub fn has(&self, member: &str) -> bool {
        self.index(member).is_some()
    }

    /// An error about a member.
    pub fn error(&self, member: &str, what: impl Into<String>) -> StageError {
        StageError::data(format!("{}, member `{member}`", self.path.display()), what)
    }

    /// Reads a member. `convert` sees every number with its row and column and says what it becomes.
    ///
    /// # Errors
    /// When there is no such member, its type or shape is not as expected, it is damaged, or `convert` refuses;
    /// [`StageError::Cancelled`].
    pub fn read<T: Copy>(
        &mut self,
        expected: &Expected,
        job: &Job,
        convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
    ) -> Result<Array<T>, StageError> {
        let (place, mut reader) = self.member(expected.member)?;
        array(&place, &mut reader, expected, job, convert)
    }

    /// Reads a short word, such as the `format` of a sparse matrix.
    ///
    /// # Errors
    /// When there is no such member, or it is not text.
    pub fn word(&mut self, member: &str) -> Result<String, StageError> {
        let (place, mut reader) = self.member(member)?;
        let header = Header::read(&mut reader).map_err(|what| StageError::data(&place, what))?;
        if !matches!(header.kind, 'S' | 'U') {
            return Err(StageError::data(place, format!("has type `{}`, expected text", header.descr)));
        }
        // Padding and, in wide text, the upper bytes of plain letters are zero.
        let mut bytes = Vec::new();
        let read = reader.take(256).read_to_end(&mut bytes);
        read.map_err(|e| StageError::data(&place, format!("cannot be decoded: {e}")))?;
        bytes.retain(|b| *b != 0);
        Ok(bytes.escape_ascii().to_string())
    }

    /// Reads a list of at most `most` texts, such as the names of classes; `None` if there is no such member, or it holds Python objects,
    /// which are not read.
    ///
    /// # Errors
    /// When it is no list of texts, is too large, or is damaged.
    pub fn texts(&mut self, member: &str, most: usize) -> Result<Option<Vec<String>>, StageError> {
        if !self.has(member) {
            return Ok(None);
        }
        let (place, mut reader) = self.member(member)?;
        let error = |what: String| StageError::data(&place, what);
        let header = Header::read(&mut reader).map_err(error)?;
        let wide = match header.kind {
            'O' => return Ok(None),
            'U' => true,
            'S' => false,
            _ => return Err(error(format!("has type `{}`, expected text", header.descr))),
        };
        let &[count] = &header.shape[..] else {
            return Err(error(format!("has shape {:?}, expected a list of texts", header.shape)));
        };
        let width = header.size.saturating_mul(if wide { 4 } else { 1 });
        let size = count.saturating_mul(width);
        if count > most {
            return Err(error(format!("has {count} texts, expected at most {most}")));
        }
        if size as u64 > TEXTS_LIMIT {
            return Err(error(format!("holds {size} bytes of text, expected at most {TEXTS_LIMIT}")));
        }
        let mut bytes = Vec::new();
        let read = reader.take(size as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| error(format!("cannot be decoded: {e}")))?;
        if bytes.len() != size {
            return Err(error(format!("has {} bytes of text, or more, expected {size}", bytes.len())));
        }
        let text = |at: usize| {
            let bytes = &bytes[at * width..(at + 1) * width];
            letters(bytes, wide, header.big_endian).ok_or_else(|| error(format!("text {at} is not UTF-8 or UTF-32")))
        };
        (0..count).map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A member's place in words, and its decoded bytes.
    fn member(&mut self, member: &str) -> Result<(String, MemberReader<'_>), StageError> {
        let index = self.index(member).ok_or_else(|| self.missing(member))?;
        let place = format!("{}, member `{member}`", self.path.display());
        match self.archive.by_index(index) {
            Ok(file) => Ok((place, BufReader::new(file))),
            Err(e) => Err(StageError::data(place, format!("cannot be decoded: {e}"))),
        }
    }

    fn index(&self, member: &str) -> Option<usize> {
        self.archive.index_for_name(&format!("{member}.npy"))
    }

    fn missing(&self, member: &str) -> StageError {
        let names: Vec<_> = self.archive.file_names_raw().take(20).map(|n| format!("`{}`", n.escape_ascii())).collect();
        StageError::data(self.path.display(), format!("has no member `{member}`"))
            .with_hint(format!("its members are {}", if names.is_empty() { "none".into() } else { names.join(", ") }))
    }
}

/// Reads an array that is a `.npy` file of its own; the member's name in `expected` is not used.
///
/// # Errors
/// Those of [`Npz::read`].
pub fn read_npy<T: Copy>(
    path: &Path,
    expected: &Expected,
    job: &Job,
    convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Array<T>, StageError> {
    let mut reader = BufReader::with_capacity(1 << 16, source::open(path)?);
    let start = reader.fill_buf().map_err(|e| StageError::data(path.display(), format!("cannot be read: {e}")))?;
    if !start.starts_with(b"\x93NUMPY") {
        let other = || StageError::data(path.display(), "is not a NumPy array");
        return Err(source::foreign(path, "a NumPy array").unwrap_or_else(other));
    }
    array(&path.display().to_string(), &mut reader, expected, job, convert)
}

/// Reads an array to its last byte.
fn array<T: Copy>(
    place: &str,
    reader: &mut impl Read,
    expected: &Expected,
    job: &Job,
    convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
) -> Result<Array<T>, StageError> {
    let damaged = |what: String| StageError::data(place, what);
    let header = Header::read(reader).map_err(damaged)?;
    check_header(&header, expected, size_of::<T>()).map_err(damaged)?;
    let size = header.bytes().unwrap_or(usize::MAX) as u64;
    let mut watched = Watched::new(&mut *reader, Steps::new(job, size, expected.member));
    let values = header.decode(&mut watched, convert);
    let values = values.map_err(|bad| job.check_cancelled().err().unwrap_or_else(|| bad.error(place)))?;
    // Reading on to the end also makes the zip reader compare the checksum.
    match reader.read(&mut [0; 1]) {
        Ok(0) => Ok(Array { shape: header.shape, values }),
        Ok(_) => Err(damaged("has bytes after its last number".into())),
        Err(e) => Err(damaged(format!("cannot be decoded: {e}"))),
    }
}

/// Says what a file is that should be `expected` (`an npz file`) but is not a zip.
pub fn damaged_zip(path: &Path, expected: &str, error: &zip::result::ZipError) -> StageError {
    let mut start = Vec::new();
    let zip = File::open(path).and_then(|f| f.take(2).read_to_end(&mut start)).is_ok() && start == b"PK";
    let damaged = || {
        let about = |what| StageError::data(path.display(), format!("{what}: {error}"));
        if zip {
            about("is damaged or cut off").with_hint("write or download it again")
        } else {
            about(&format!("is not {expected}"))
        }
    };
    source::foreign(path, expected).unwrap_or_else(damaged)
}

/// A number of 16 bits: sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The letters of a text of fixed width: four bytes each, or one byte of UTF-8. Zeros at its end are no part of it.
fn letters(bytes: &[u8], wide: bool, big_endian: bool) -> Option<String> {
    if !wide {
        let length = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        return String::from_utf8(bytes[..length].to_vec()).ok();
    }
    let number = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    let text: Option<String> = bytes.as_chunks().0.iter().map(|b| char::from_u32(number(*b))).collect();
    text.map(|text| text.trim_end_matches('\0').to_owned())
}

fn check_header(header: &Header, expected: &Expected, size: usize) -> Result<(), String> {
    if !expected.numbers.allow(header.kind) {
        return Err(format!("has type `{}`, expected {}", header.descr, expected.numbers.about()));
    }
    let fits = |(found, (_, size)): (&usize, &(_, Option<usize>))| size.is_none_or(|size| size == *found);
    if header.shape.len() != expected.dims.len() || !header.shape.iter().zip(expected.dims).all(fits) {
        let wanted = expected.dims.iter().map(|(name, size)| match size {
            Some(size) => format!("{name} ({size})"),
            None => (*name).to_owned(),
        });
        return Err(format!("has shape {:?}, expected {}", header.shape, wanted.collect::<Vec<_>>().join(" × ")));
    }
    let bytes = header.len().saturating_mul(header.size.max(size)) as u64;
    if bytes > MEMBER_LIMIT {
        return Err(format!("holds {bytes} bytes, expected at most {MEMBER_LIMIT}"));
    }
    Ok(())
}

impl Header {
    /// Decodes all numbers, whatever their stored type, into row-major order.
    ///
    /// # Errors
    /// When `convert` refuses a number, or the reader ends or breaks too early.
    pub fn decode<T: Copy>(
        &self,
        reader: &mut impl Read,
        convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
    ) -> Result<Vec<T>, BadValue> {
        match (self.kind, self.size) {
            ('f', 2) => self.decode_as(reader, |b| Number::Float(half(u16::from_le_bytes(b))), convert),
            ('f', 4) => self.decode_as(reader, |b| Number::Float(f32::from_le_bytes(b).into()), convert),
            ('f', 8) => self.decode_as(reader, |b| Number::Float(f64::from_le_bytes(b)), convert),
            ('i', 1) => self.decode_as(reader, |b| Number::Whole(i8::from_le_bytes(b).into()), convert),
            ('i', 2) => self.decode_as(reader, |b| Number::Whole(i16::from_le_bytes(b).into()), convert),
            ('i', 4) => self.decode_as(reader, |b| Number::Whole(i32::from_le_bytes(b).into()), convert),
            ('i', 8) => self.decode_as(reader, |b| Number::Whole(i64::from_le_bytes(b).into()), convert),
            ('u' | 'b', 1) => self.decode_as(reader, |b| Number::Whole(u8::from_le_bytes(b).into()), convert),
            ('u', 2) => self.decode_as(reader, |b| Number::Whole(u16::from_le_bytes(b).into()), convert),
            ('u', 4) => self.decode_as(reader, |b| Number::Whole(u32::from_le_bytes(b).into()), convert),
            ('u', 8) => self.decode_as(reader, |b| Number::Whole(u64::from_le_bytes(b).into()), convert),
            _ => Err(BadValue::new("", format!("has type `{}`, which is not supported", self.descr))),
        }
    }

    fn decode_as<const N: usize, T: Copy>(
        &self,
        reader: &mut impl Read,
        number: impl Fn([u8; N]) -> Number,
        mut convert: impl FnMut(usize, usize, Number) -> Result<T, BadValue>,
    ) -> Result<Vec<T>, BadValue> {
        let [rows, columns] = [0, 1].map(|at| self.shape.get(at).copied().unwrap_or(1));
        let total = rows * columns;
        let mut values = Vec::new();
        let (mut row, mut column) = (0, 0);
        let mut buffer = Vec::with_capacity(CHUNK.min(total.saturating_mul(N)));
        while values.len() < total {
            let wanted = CHUNK.min((total - values.len()) * N);
            buffer.clear();
            let read = reader.by_ref().take(wanted as u64).read_to_end(&mut buffer);
            for bytes in buffer.as_chunks::<N>().0 {
                let mut bytes = *bytes;
                if self.big_endian {
                    bytes.reverse();
                }
                values.push(convert(row, column, number(bytes))?);
                let (quick, length, slow) =
                    if self.by_column { (&mut row, rows, &mut column) } else { (&mut column, columns, &mut row) };
                *quick += 1;
                if *quick == length {
                    (*quick, *slow) = (0, *slow + 1);
                }
            }
            if buffer.len() < wanted {
                let why = read.map_or_else(|e| e.to_string(), |_| "unexpected end".into());
                return Err(BadValue::new("", format!("ends or breaks at number {} of {total}: {why}", values.len())));
            }
        }
        if self.by_column && columns > 1 {
            let stored = values;
            values = (0..total).map(|at| stored[at % columns * rows + at / columns]).collect();
        }
        Ok(values)
    }
}
