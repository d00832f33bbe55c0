//! Reads and writes the three file types of the store: safetensors, Parquet and JSON.
//!
//! Bytes depend on nothing but the values: names are sorted, no metadata is added.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use polars::prelude::{DataFrame, ParquetCompression, ParquetReader, ParquetWriter, SerReader};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::contract::ArtifactError;
use crate::kinds::mapped::{Vectors, map};

/// A number type that tensors are stored in.
pub trait Element: Copy + Sized {
    /// Its name in the file.
    const DTYPE: Dtype;
    /// Bytes an element takes.
    const SIZE: usize;
    /// Appends the little-endian bytes.
    fn put(self, out: &mut Vec<u8>);
    /// Reads [`Self::SIZE`] little-endian bytes; missing bytes count as zero.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            const SIZE: usize = size_of::<$t>();
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(bytes: &[u8]) -> Self {
                let mut buffer = [0; size_of::<$t>()];
                buffer[..bytes.len().min(size_of::<$t>())].copy_from_slice(&bytes[..bytes.len().min(size_of::<$t>())]);
                <$t>::from_le_bytes(buffer)
            }
        }
    )*};
}
element!(u8 => U8, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

/// Tensors to be written as one file.
#[derive(Default)]
pub struct TensorFile {
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl TensorFile {
    /// Adds a tensor in row-major order.
    pub fn add<T: Element>(&mut self, name: impl Into<String>, shape: &[usize], values: &[T]) {
        let mut bytes = Vec::with_capacity(values.len() * T::SIZE);
        values.iter().for_each(|v| v.put(&mut bytes));
        self.tensors.insert(name.into(), (T::DTYPE, shape.to_vec(), bytes));
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When a shape does not fit its values, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ArtifactError> {
        let views: Result<Vec<_>, _> = self
            .tensors
            .iter()
            .map(|(name, (dtype, shape, bytes))| {
                TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.as_str(), view))
            })
            .collect();
        views
            .and_then(|views| safetensors::serialize(views, None))
            .map_err(|e| ArtifactError::malformed(path, format!("well-shaped tensors ({e})")))
            .and_then(|bytes| std::fs::write(path, bytes).map_err(|e| ArtifactError::io(path, e)))
    }
}

/// Tensors of one file of the store, which is mapped into memory and not read as a whole.
pub struct TensorsRead {
    path: PathBuf,
    file: Arc<Mmap>,
}

impl TensorsRead {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, ArtifactError> {
        let file = map(path).map_err(|e| ArtifactError::io(path, e))?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file) })
    }

    /// An error that says what this file should have held.
    pub fn malformed(&self, expected: &str) -> ArtifactError {
        ArtifactError::malformed(&self.path, expected)
    }

    fn parsed(&self) -> Result<SafeTensors<'_>, ArtifactError> {
        SafeTensors::deserialize(&self.file).map_err(|_| ArtifactError::malformed(&self.path, "safetensors"))
    }

    /// Lists the names, sorted.
    ///
    /// # Errors
    /// When the file is not safetensors.
    pub fn names(&self) -> Result<Vec<String>, ArtifactError> {
        let mut names: Vec<String> = self.parsed()?.names().into_iter().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    fn view<T: Element>(&self, name: &str) -> Result<TensorView<'_>, ArtifactError> {
        let view = self.parsed()?.tensor(name).ok().filter(|v| v.dtype() == T::DTYPE);
        view.ok_or_else(|| self.malformed(&format!("a tensor `{name}` of type {:?}", T::DTYPE)))
    }

    /// Returns shape and values of a tensor.
    ///
    /// # Errors
    /// When there is none of that name and type.
    pub fn get<T: Element>(&self, name: &str) -> Result<(Vec<usize>, Vec<T>), ArtifactError> {
        let view = self.view::<T>(name)?;
        Ok((view.shape().to_vec(), values(&view)))
    }

    /// Returns the values of a tensor with `N` dimensions.
    ///
    /// # Errors
    /// When there is none of that name, type and rank.
    pub fn shaped<T: Element, const N: usize>(&self, name: &str) -> Result<([usize; N], Vec<T>), ArtifactError> {
        let view = self.view::<T>(name)?;
        Ok((self.shape(name, &view)?, values(&view)))
    }

    /// Does the same without copying the values, unless they stand where they cannot be used.
    ///
    /// # Errors
    /// When there is none of that name, type and rank.
    pub fn in_place<const N: usize>(&self, name: &str) -> Result<([usize; N], Vectors), ArtifactError> {
        let view = self.view::<f32>(name)?;
        let from = view.data().as_ptr().addr() - self.file.as_ptr().addr();
        let mapped = Vectors::mapped(&self.file, from..from + view.data().len());
        Ok((self.shape(name, &view)?, mapped.unwrap_or_else(|| values(&view).into())))
    }

    fn shape<const N: usize>(&self, name: &str, view: &TensorView) -> Result<[usize; N], ArtifactError> {
        let fitting = view.shape().try_into();
        fitting.map_err(|_| self.malformed(&format!("a tensor `{name}` of {N} dimensions")))
    }
}

fn values<T: Element>(view: &TensorView) -> Vec<T> {
    view.data().chunks(T::SIZE).map(T::take).collect()
}

/// Writes a value as JSON that people can read.
///
/// # Errors
/// When the file cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ArtifactError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| ArtifactError::malformed(path, format!("a value that JSON can hold ({e})")))?;
    text.push('\n');
    write_text(path, &text)
}

/// Reads a value written by [`write_json`].
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ArtifactError> {
    let bytes = std::fs::read(path).map_err(|e| ArtifactError::io(path, e))?;
    serde_json::from_slice(&bytes).map_err(|e| ArtifactError::malformed(path, format!("the expected JSON ({e})")))
}

/// Writes a text file.
///
/// # Errors
/// When the file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), ArtifactError> {
    std::fs::write(path, text).map_err(|e| ArtifactError::io(path, e))
}

/// Writes a frame as Parquet.
///
/// # Errors
/// When the file cannot be written.
pub fn write_frame(path: &Path, frame: &mut DataFrame) -> Result<(), ArtifactError> {
    let file = File::create(path).map_err(|e| ArtifactError::io(path, e))?;
    ParquetWriter::new(file)
        .with_compression(ParquetCompression::Uncompressed)
        .set_parallel(false)
        .finish(frame)
        .map_err(|e| ArtifactError::io(path, std::io::Error::other(e)))?;
    Ok(())
}

/// Reads a frame written by [`write_frame`].
///
/// # Errors
/// When the file cannot be read or is not Parquet.
pub fn read_frame(path: &Path) -> Result<DataFrame, ArtifactError> {
    let file = File::open(path).map_err(|e| ArtifactError::io(path, e))?;
    ParquetReader::new(file).finish().map_err(|e| ArtifactError::malformed(path, format!("a Parquet frame ({e})")))
}
