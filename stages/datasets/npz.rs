//! Reads arrays of an `.npz` file (a zip of `.npy` members) as untrusted input.
//!
//! Nothing is allocated because a header says so: members are decoded as a stream, and vectors grow with what has
//! really been read. A member may hold at most [`MEMBER_LIMIT`] bytes, stored or as what it becomes, whatever it compresses
//! to. Every error names the file, the member and, where it is about one number, that number's place.
//!
//! [`csr`] reads SciPy's compressed sparse rows, [`read_npy`] an array that is a file of its own.

pub mod csr;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use npyz::{DType, NpyFile, NpyHeader, Order, TypeChar};
use zip::ZipArchive;
use zip::read::ZipFile;

use super::reading::{MEMBER_LIMIT, MOST_CLASSES, Steps};
use super::source;
use crate::contract::{Job, StageError};

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

impl Number {
    /// The number, if it is whole and below `bound`.
    pub fn below(self, bound: u32) -> Option<u32> {
        let Self::Whole(number) = self else { return None };
        u32::try_from(number).ok().filter(|n| *n < bound)
    }

    /// The number as features are stored, if it is finite.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "features are stored as f32")]
    pub fn finite(self) -> Option<f32> {
        let value = match self {
            Self::Float(x) => x as f32,
            Self::Whole(x) => x as f32,
        };
        value.is_finite().then_some(value)
    }

    /// The class of a node.
    ///
    /// # Errors
    /// When it is not a whole number from 0 to 65535.
    pub fn class(self, node: usize) -> Result<u32, Misfit> {
        self.below(MOST_CLASSES).ok_or_else(|| Misfit {
            at: format!("node {node}"),
            what: format!("label {self} is not a class, expected 0 to {}", MOST_CLASSES - 1),
        })
    }

    /// A feature of a node.
    ///
    /// # Errors
    /// When it is not finite.
    pub fn feature(self, node: usize, feature: usize) -> Result<f32, Misfit> {
        self.finite().ok_or_else(|| Misfit {
            at: format!("node {node}, feature {feature}"),
            what: format!("`{self}` is not a finite 32-bit number"),
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(x) => write!(f, "{x}"),
            Self::Whole(x) => write!(f, "{x}"),
        }
    }
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
    /// When there is no such member, its type or shape is not as expected, it is damaged, or `convert` refuses.
    pub fn read<T: Copy>(
        &mut self,
        expected: &Expected,
        convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
    ) -> Result<Array<T>, StageError> {
        self.read_member(expected, None, convert)
    }

    /// Reads a member that may be large: like [`Npz::read`], but it reports progress and can be interrupted.
    ///
    /// # Errors
    /// Those of [`Npz::read`], or [`StageError::Cancelled`].
    pub fn read_watched<T: Copy>(
        &mut self,
        expected: &Expected,
        job: &Job,
        convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
    ) -> Result<Array<T>, StageError> {
        self.read_member(expected, Some(job), convert)
    }

    fn read_member<T: Copy>(
        &mut self,
        expected: &Expected,
        job: Option<&Job>,
        convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
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
        let header = header(&mut reader).map_err(|what| StageError::data(&place, what))?;
        let text = matches!(&header.dtype(), DType::Plain(t) if matches!(t.type_char(), TypeChar::ByteStr | TypeChar::UnicodeStr));
        if !text {
            return Err(StageError::data(place, format!("has type `{}`, expected text", header.dtype().descr())));
        }
        // Padding and, in wide text, the upper bytes of plain letters are zero.
        let mut bytes = Vec::new();
        let read = reader.take(256).read_to_end(&mut bytes);
        read.map_err(|e| StageError::data(&place, format!("cannot be decoded: {e}")))?;
        bytes.retain(|b| *b != 0);
        Ok(bytes.escape_ascii().to_string())
    }

    /// A member's place in words, and its decoded bytes.
    fn member(&mut self, member: &str) -> Result<(String, BufReader<ZipFile<'_, BufReader<File>>>), StageError> {
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
        StageError::Data {
            place: self.path.display().to_string(),
            what: format!("has no member `{member}`"),
            hint: Some(format!("its members are {}", if names.is_empty() { "none".into() } else { names.join(", ") })),
        }
    }
}

/// Reads an array that is a `.npy` file of its own; the member's name in `expected` is not used.
///
/// # Errors
/// Those of [`Npz::read_watched`].
pub fn read_npy<T: Copy>(
    path: &Path,
    expected: &Expected,
    job: &Job,
    convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Array<T>, StageError> {
    let mut reader = BufReader::with_capacity(1 << 16, source::open(path)?);
    let start = reader.fill_buf().map_err(|e| StageError::data(path.display(), format!("cannot be read: {e}")))?;
    if !start.starts_with(b"\x93NUMPY") {
        let other = || StageError::data(path.display(), "is not a NumPy array");
        return Err(source::foreign(path, "a NumPy array").unwrap_or_else(other));
    }
    array(&path.display().to_string(), &mut reader, expected, Some(job), convert)
}

/// Reads an array to its last byte.
fn array<T: Copy>(
    place: &str,
    reader: &mut impl Read,
    expected: &Expected,
    job: Option<&Job>,
    convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Array<T>, StageError> {
    let damaged = |what: String| StageError::data(place, what);
    let header = header(reader).map_err(damaged)?;
    let shape = fitting_shape(&header, expected, size_of::<T>()).map_err(damaged)?;
    let mut steps = job.map(|job| Steps::new(job, header.len(), expected.member));
    let values = stream(header, &mut *reader, &shape, &mut steps, convert).map_err(|fault| match fault {
        Fault::Damaged(what) => damaged(what),
        Fault::Misfit(m) => StageError::data(format!("{place}, {}", m.at), m.what),
        Fault::Stopped(error) => error,
    })?;
    // Reading on to the end also makes the zip reader compare the checksum.
    match reader.read(&mut [0; 1]) {
        Ok(0) => Ok(Array { shape, values }),
        Ok(_) => Err(damaged("has bytes after its last number".into())),
        Err(e) => Err(damaged(format!("cannot be decoded: {e}"))),
    }
}

/// Says what a file is that should be `expected` (`an npz file`) but is no zip.
pub fn damaged_zip(path: &Path, expected: &str, error: &zip::result::ZipError) -> StageError {
    let mut start = Vec::new();
    let zip = File::open(path).and_then(|f| f.take(2).read_to_end(&mut start)).is_ok() && start == b"PK";
    let (what, hint) = if zip {
        (format!("is damaged or cut off: {error}"), Some("download it again".to_owned()))
    } else {
        (format!("is not {expected}: {error}"), None)
    };
    let other = StageError::Data { place: path.display().to_string(), what, hint };
    source::foreign(path, expected).unwrap_or(other)
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

fn fitting_shape(header: &NpyHeader, expected: &Expected, size: usize) -> Result<Vec<usize>, String> {
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
    let bytes = header.len().saturating_mul(scalar.num_bytes().unwrap_or(1).max(size) as u64);
    if bytes > MEMBER_LIMIT {
        return Err(format!("holds {bytes} bytes, expected at most {MEMBER_LIMIT}"));
    }
    Ok(shape)
}

enum Fault {
    Damaged(String),
    Misfit(Misfit),
    Stopped(StageError),
}

/// Decodes all numbers, whatever their stored type, into row-major order.
fn stream<T: Copy>(
    header: NpyHeader,
    reader: impl Read,
    shape: &[usize],
    steps: &mut Option<Steps>,
    convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Vec<T>, Fault> {
    let DType::Plain(scalar) = header.dtype() else { return Ok(Vec::new()) };
    let file = NpyFile::with_header(header, reader);
    match (scalar.type_char(), scalar.size_field()) {
        (TypeChar::Float, 4) => decode::<f32, T>(file, shape, steps, |x| Number::Float(f64::from(x)), convert),
        (TypeChar::Float, 8) => decode::<f64, T>(file, shape, steps, Number::Float, convert),
        (TypeChar::Int, 1) => decode::<i8, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 2) => decode::<i16, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 4) => decode::<i32, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Int, 8) => decode::<i64, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 1) => decode::<u8, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 2) => decode::<u16, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 4) => decode::<u32, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Uint, 8) => decode::<u64, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        (TypeChar::Bool, _) => decode::<bool, T>(file, shape, steps, |x| Number::Whole(x.into()), convert),
        _ => Err(Fault::Damaged(format!("has type `{scalar}`, which is not supported"))),
    }
}

fn decode<S: npyz::Deserialize, T: Copy>(
    file: NpyFile<impl Read>,
    shape: &[usize],
    steps: &mut Option<Steps>,
    number: impl Fn(S) -> Number,
    mut convert: impl FnMut(usize, usize, Number) -> Result<T, Misfit>,
) -> Result<Vec<T>, Fault> {
    let (rows, columns) = (shape.first().copied().unwrap_or(1), shape.get(1).copied().unwrap_or(1));
    let by_column = file.order() == Order::Fortran;
    let data = file.data::<S>().map_err(|e| Fault::Damaged(format!("has an unexpected type: {e}")))?;
    let total = rows * columns;
    let mut values = Vec::new();
    let (mut row, mut column) = (0, 0);
    for (at, item) in data.enumerate() {
        steps.as_mut().map_or(Ok(()), |steps| steps.add(1)).map_err(Fault::Stopped)?;
        let item = item.map_err(|e| Fault::Damaged(format!("ends or breaks at number {at} of {total}: {e}")))?;
        values.push(convert(row, column, number(item)).map_err(Fault::Misfit)?);
        let (quick, length, slow) =
            if by_column { (&mut row, rows, &mut column) } else { (&mut column, columns, &mut row) };
        *quick += 1;
        if *quick == length {
            (*quick, *slow) = (0, *slow + 1);
        }
    }
    if by_column && columns > 1 {
        let stored = values;
        values = (0..total).map(|at| stored[at % columns * rows + at / columns]).collect();
    }
    Ok(values)
}
