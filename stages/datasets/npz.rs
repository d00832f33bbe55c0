//! Reads arrays of an `.npz` file (a zip of `.npy` members) as untrusted input.
//!
//! Nothing is allocated because a header says so: members are decoded as a stream, and vectors grow with what has
//! really been read. A member may hold at most [`MEMBER_LIMIT`] bytes, whatever it compresses to. Every error names
//! the file, the member and, where it is about one number, that number's place.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use npyz::{DType, NpyFile, NpyHeader, Order, TypeChar};
use zip::ZipArchive;

use super::source;
use crate::contract::StageError;

/// The most bytes that a member may hold when it is decoded.
pub const MEMBER_LIMIT: u64 = 4 << 30;
/// The longest `.npy` header; those of plain arrays have 128 bytes.
const HEADER_LIMIT: usize = 4096;

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
    /// Truth values, or whole numbers in their place.
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
    fn allow(self, kind: TypeChar) -> bool {
        match kind {
            TypeChar::Float => self == Self::Real,
            TypeChar::Bool => self != Self::Whole,
            TypeChar::Int | TypeChar::Uint => true,
            _ => false,
        }
    }
}

/// One number of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Floating point.
    Float(f64),
    /// Whole; every stored type fits.
    Whole(i128),
}

/// A number that cannot be used: where it stands, and what is wrong with it.
pub struct Misfit {
    /// Its place, such as `edge 7`.
    pub at: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl Npz {
    /// Opens the file and reads its directory.
    ///
    /// # Errors
    /// When it cannot be read or is no zip.
    pub fn open(path: &Path) -> Result<Self, StageError> {
        let file = source::open(path)?;
        match ZipArchive::new(BufReader::new(file)) {
            Ok(archive) => Ok(Self { path: path.to_owned(), archive }),
            Err(e) => Err(foreign(path, &e)),
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
    /// When there is no such member, its type or shape is not as expected, it is damaged, or `convert` refuses.
    pub fn read<T: Copy>(
        &mut self,
        expected: &Expected,
        convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
    ) -> Result<Array<T>, StageError> {
        let index = self.index(expected.member).ok_or_else(|| self.missing(expected.member))?;
        let place = format!("{}, member `{}`", self.path.display(), expected.member);
        let damaged = |what: String| StageError::data(&place, what);
        let file = self.archive.by_index(index).map_err(|e| damaged(format!("cannot be decoded: {e}")))?;
        let mut reader = BufReader::new(file);
        let header = header(&mut reader).map_err(damaged)?;
        let shape = fitting_shape(&header, expected).map_err(damaged)?;
        let values = stream(header, &mut reader, &shape, convert).map_err(|fault| match fault {
            Fault::Damaged(what) => damaged(what),
            Fault::Misfit(m) => StageError::data(format!("{place}, {}", m.at), m.what),
        })?;
        // Reading on to the end also makes the zip reader compare the checksum.
        match reader.read(&mut [0; 1]) {
            Ok(0) => Ok(Array { shape, values }),
            Ok(_) => Err(damaged("has bytes after its last number".into())),
            Err(e) => Err(damaged(format!("cannot be decoded: {e}"))),
        }
    }

    fn index(&self, member: &str) -> Option<usize> {
        self.archive.index_for_name(&format!("{member}.npy"))
    }

    fn missing(&self, member: &str) -> StageError {
        let names: Vec<_> = self.archive.file_names_raw().take(20).map(|n| format!("`{}`", n.escape_ascii())).collect();
        StageError::Data {
            place: self.path.display().to_string(),
            what: format!("has no member `{member}`"),
            hint: Some(format!("its members are {}", if names.is_empty() { "none".into() } else { names.join(", ") })),
        }
    }
}

/// Says what a file is that is no zip.
fn foreign(path: &Path, error: &zip::result::ZipError) -> StageError {
    let mut start = Vec::new();
    let zip = File::open(path).and_then(|f| f.take(2).read_to_end(&mut start)).is_ok() && start == b"PK";
    let (what, hint) = if zip {
        (format!("is damaged or cut off: {error}"), Some("download it again".to_owned()))
    } else {
        (format!("is not an npz file: {error}"), None)
    };
    let other = StageError::Data { place: path.display().to_string(), what, hint };
    source::foreign(path, "an npz file").unwrap_or(other)
}

/// Reads the header of an array, after looking at its bytes so that the parser meets nothing that could make it
/// allocate, overflow or recurse.
fn header(reader: &mut impl Read) -> Result<NpyHeader, String> {
    let not_npy = |_| "is cut off, expected a NumPy array".to_owned();
    let mut bytes = vec![0; 10];
    reader.read_exact(&mut bytes).map_err(not_npy)?;
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err("is not a NumPy array".into());
    }
    let mut length = usize::from(bytes[8]) | usize::from(bytes[9]) << 8;
    if bytes[6] != 1 {
        let mut more = [0; 2];
        reader.read_exact(&mut more).map_err(not_npy)?;
        bytes.extend_from_slice(&more);
        length |= usize::from(more[0]) << 16 | usize::from(more[1]) << 24;
    }
    if length > HEADER_LIMIT {
        return Err(format!("has a header of {length} bytes, expected at most {HEADER_LIMIT}"));
    }
    let start = bytes.len();
    bytes.resize(start + length, 0);
    reader.read_exact(&mut bytes[start..]).map_err(not_npy)?;
    // Only structured types have lists, and only hostile headers are deep.
    let text = &bytes[start..];
    let opened = text.iter().filter(|b| b"({[".contains(b)).count();
    if text.contains(&b'[') || opened > 4 {
        return Err("has a structured number type, expected plain numbers".into());
    }
    let product = text
        .split(|b| !b.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok())
        .try_fold(1u64, |product, number| product.checked_mul(number?.max(1)));
    if product.is_none_or(|p| p > i64::MAX as u64) {
        return Err("has a shape that is too large".into());
    }
    NpyHeader::from_reader(&bytes[..]).map_err(|e| format!("has an unreadable header: {e}"))
}

fn fitting_shape(header: &NpyHeader, expected: &Expected) -> Result<Vec<usize>, String> {
    let dtype = header.dtype();
    let scalar = match &dtype {
        DType::Plain(scalar) if expected.numbers.allow(scalar.type_char()) => scalar,
        _ => return Err(format!("has type `{}`, expected {}", dtype.descr(), expected.numbers.about())),
    };
    let wanted = expected.dims.iter().map(|(name, size)| match size {
        Some(size) => format!("{name} ({size})"),
        None => (*name).to_owned(),
    });
    let misshapen = || {
        let wanted: Vec<_> = wanted.clone().collect();
        format!("has shape {:?}, expected {}", header.shape(), wanted.join(" × "))
    };
    if header.shape().len() != expected.dims.len() {
        return Err(misshapen());
    }
    let mut shape = Vec::new();
    for (found, (_, size)) in header.shape().iter().zip(expected.dims) {
        let found = usize::try_from(*found).map_err(|_| misshapen())?;
        if size.is_some_and(|s| s != found) {
            return Err(misshapen());
        }
        shape.push(found);
    }
    let bytes = header.len().saturating_mul(scalar.num_bytes().unwrap_or(1) as u64);
    if bytes > MEMBER_LIMIT {
        return Err(format!("holds {bytes} bytes, expected at most {MEMBER_LIMIT}"));
    }
    Ok(shape)
}

enum Fault {
    Damaged(String),
    Misfit(Misfit),
}

/// Decodes all numbers, whatever their stored type, into row-major order.
fn stream<T: Copy>(
    header: NpyHeader,
    reader: impl Read,
    shape: &[usize],
    convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Vec<T>, Fault> {
    let DType::Plain(scalar) = header.dtype() else { return Ok(Vec::new()) };
    let file = NpyFile::with_header(header, reader);
    match (scalar.type_char(), scalar.size_field()) {
        (TypeChar::Float, 4) => decode::<f32, T>(file, shape, |x| Number::Float(f64::from(x)), convert),
        (TypeChar::Float, 8) => decode::<f64, T>(file, shape, Number::Float, convert),
        (TypeChar::Int, 1) => decode::<i8, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 2) => decode::<i16, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 4) => decode::<i32, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 8) => decode::<i64, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 1) => decode::<u8, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 2) => decode::<u16, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 4) => decode::<u32, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 8) => decode::<u64, T>(file, shape, |x| Number::Whole(x.into()), convert),
        (TypeChar::Bool, _) => decode::<bool, T>(file, shape, |x| Number::Whole(x.into()), convert),
        _ => Err(Fault::Damaged(format!("has type `{scalar}`, which is not supported"))),
    }
}

fn decode<S: npyz::Deserialize, T: Copy>(
    file: NpyFile<impl Read>,
    shape: &[usize],
    number: impl Fn(S) -> Number,
    mut convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Vec<T>, Fault> {
    let (rows, columns) = (shape.first().copied().unwrap_or(1), shape.get(1).copied().unwrap_or(1));
    let by_column = file.order() == Order::Fortran;
    let data = file.data::<S>().map_err(|e| Fault::Damaged(format!("has an unexpected type: {e}")))?;
    let total = rows * columns;
    let mut values = Vec::new();
    for (at, item) in data.enumerate() {
        let item = item.map_err(|e| Fault::Damaged(format!("ends or breaks at number {at} of {total}: {e}")))?;
        let (row, column) = if by_column { (at % rows, at / rows) } else { (at / columns, at % columns) };
        values.push(convert(row, column, number(item)).map_err(Fault::Misfit)?);
    }
    if by_column && columns > 1 {
        let stored = values;
        values = (0..total).map(|at| stored[at % columns * rows + at / columns]).collect();
    }
    Ok(values)
}
