//! Reads and writes the three file types of the store: safetensors, Parquet and JSON.
//!
//! Bytes depend on nothing but the values: names are sorted, no metadata is added.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use polars::prelude::{DataFrame, ParquetCompression, ParquetWriter};
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::contract::ArtifactError;
use crate::kinds::mapped::{Vectors, map};

// Files are little-endian, and numbers are written and mapped as they stand in memory.
const _: () = assert!(cfg!(target_endian = "little"), "the store needs a little-endian machine");

/// A number type that tensors are stored in.
pub trait Element: Pod {
    /// Its name in the file.
    const DTYPE: Dtype;
}

macro_rules! element {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}
element!(u8 => U8, u32 => U32, u64 => U64, i64 => I64, f32 => F32, f64 => F64);

struct TensorToWrite<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

/// Tensors to be written as one file. Borrowed values are not copied, so eigenvectors of gigabytes need no more memory.
#[derive(Default)]
pub struct TensorFile<'a> {
    tensors: BTreeMap<String, TensorToWrite<'a>>,
}

impl<'a> TensorFile<'a> {
    /// Adds a tensor in row-major order.
    pub fn add<T: Element>(&mut self, name: impl Into<String>, shape: &[usize], values: &'a [T]) {
        self.insert(name.into(), T::DTYPE, shape, Cow::Borrowed(bytemuck::cast_slice(values)));
    }

    /// Adds a small tensor whose values do not live as long as the file.
    pub fn add_copy<T: Element>(&mut self, name: impl Into<String>, shape: &[usize], values: &[T]) {
        self.insert(name.into(), T::DTYPE, shape, Cow::Owned(bytemuck::cast_slice(values).to_vec()));
    }

    fn insert(&mut self, name: String, dtype: Dtype, shape: &[usize], bytes: Cow<'a, [u8]>) {
        self.tensors.insert(name, TensorToWrite { dtype, shape: shape.to_vec(), bytes });
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When a shape does not fit its values, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ArtifactError> {
        let io = |e| ArtifactError::io(path, e);
        // `serialize_to_file` replaces the file by one that only its owner may read: it gets the usual permissions.
        let permissions = File::create(path).and_then(|file| file.metadata()).map_err(io)?.permissions();
        let views: Result<Vec<_>, _> = self
            .tensors
            .iter()
            .map(|(name, t)| TensorView::new(t.dtype, t.shape.clone(), &t.bytes).map(|view| (name.as_str(), view)))
            .collect();
        views.and_then(|views| safetensors::serialize_to_file(views, None, path)).map_err(|e| match e {
            SafeTensorError::IoError(e) => io(e),
            e => ArtifactError::malformed(path, format!("well-shaped tensors ({e})")),
        })?;
        std::fs::set_permissions(path, permissions).map_err(io)
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

    /// Returns the shape of a tensor, which its header says; `None` if there is none of that name.
    pub fn shape_of(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.parsed().ok()?.tensor(name).ok()?.shape().to_vec())
    }

    /// Returns type and shape of a tensor in words, and its first values.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn summary(&self, name: &str, most: usize) -> Result<(String, String), ArtifactError> {
        let view = self.parsed()?.tensor(name).map_err(|_| self.malformed(&format!("a tensor `{name}`")))?;
        let form = view.shape().iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ");
        let form = format!("{}, {form}", format!("{:?}", view.dtype()).to_lowercase());
        let first = |all: Vec<String>| all.into_iter().take(most).collect::<Vec<_>>().join(", ");
        let bytes = &view.data()[..view.data().len().min(most * 8)];
        let mut first = match view.dtype() {
            Dtype::U8 => first(texts::<u8>(bytes)),
            Dtype::U32 => first(texts::<u32>(bytes)),
            Dtype::U64 => first(texts::<u64>(bytes)),
            Dtype::I64 => first(texts::<i64>(bytes)),
            Dtype::F32 => first(texts::<f32>(bytes)),
            Dtype::F64 => first(texts::<f64>(bytes)),
            _ => String::new(),
        };
        if view.shape().iter().product::<usize>() > most {
            first.push_str(", …");
        }
        Ok((form, first))
    }

    fn shape<const N: usize>(&self, name: &str, view: &TensorView) -> Result<[usize; N], ArtifactError> {
        let fitting = view.shape().try_into();
        fitting.map_err(|_| self.malformed(&format!("a tensor `{name}` of {N} dimensions")))
    }
}

fn texts<T: Element + std::fmt::Debug>(bytes: &[u8]) -> Vec<String> {
    bytes.chunks_exact(size_of::<T>()).map(|b| format!("{:?}", bytemuck::pod_read_unaligned::<T>(b))).collect()
}

fn values<T: Element>(view: &TensorView) -> Vec<T> {
    view.data().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
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
    // The writer makes thousands of small writes, and loses the cause if one fails: a full disk must be told from a bug.
    let mut bytes = Vec::new();
    parquet(&mut bytes, frame).and_then(|()| std::fs::write(path, bytes)).map_err(|e| ArtifactError::io(path, e))
}

/// Writes a frame as Parquet.
///
/// # Errors
/// When it cannot be written.
pub fn parquet(to: impl Write, frame: &mut DataFrame) -> std::io::Result<()> {
    let writer = ParquetWriter::new(to).with_compression(ParquetCompression::Uncompressed).set_parallel(false);
    writer.finish(frame).map(drop).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_header_and_little_endian_values_widest_type_first_then_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.safetensors");
        let mut file = TensorFile::default();
        file.add("b", &[2, 1], &[1.0f32, -2.0]);
        file.add("a", &[1], &[7u32]);
        file.add("bytes", &[3], &[1u8, 2, 3]);
        file.add_copy("wide", &[1], &[258u64]);
        file.add("empty", &[0, 4], &[0f64; 0]);
        file.write(&path).unwrap();
        // Written out by hand after the specification; the header is padded to a multiple of eight bytes.
        let header = concat!(
            r#"{"wide":{"dtype":"U64","shape":[1],"data_offsets":[0,8]},"#,
            r#""empty":{"dtype":"F64","shape":[0,4],"data_offsets":[8,8]},"#,
            r#""b":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},"#,
            r#""a":{"dtype":"U32","shape":[1],"data_offsets":[16,20]},"#,
            r#""bytes":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}}"#,
        );
        let length = header.len().next_multiple_of(8);
        let mut expected = (length as u64).to_le_bytes().to_vec();
        expected.extend(format!("{header:<length$}").bytes());
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        expected.extend([7, 0, 0, 0, 1, 2, 3]);
        assert_eq!(std::fs::read(&path).unwrap(), expected);

        let read = TensorsRead::open(&path).unwrap();
        assert_eq!(read.names().unwrap(), ["a", "b", "bytes", "empty", "wide"]);
        assert_eq!(read.shaped::<f32, 2>("b").unwrap(), ([2, 1], vec![1.0, -2.0]));
        assert_eq!(read.get::<u64>("wide").unwrap(), (vec![1], vec![258]));
        assert_eq!(
            read.get::<f32>("a").unwrap_err().to_string(),
            format!("`{}` does not hold a tensor `a` of type F32", path.display())
        );
    }

    #[test]
    fn a_shape_that_does_not_fit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = TensorFile::default();
        file.add("a", &[2, 2], &[1u8, 2, 3]);
        let error = file.write(&dir.path().join("file")).unwrap_err().to_string();
        assert!(error.contains("does not hold well-shaped tensors"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn tensors_are_as_readable_for_others_as_every_other_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        write_text(&dir.path().join("text"), "text").unwrap();
        TensorFile::default().write(&dir.path().join("tensors")).unwrap();
        assert_eq!(mode("tensors"), mode("text"));
    }
}
