//! Named arrays in row-major order, as safetensors or as NumPy's `.npz`.
//!
//! Whole numbers are i64, which NumPy, PyTorch and candle all index with.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use npyz::WriterBuilder;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::contract::ArtifactError;
use crate::kinds::Vectors;
use crate::kinds::files::TensorFile;

/// The numbers of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Bytes.
    U8(Vec<u8>),
    /// Whole numbers.
    I64(Vec<i64>),
    /// Numbers of single precision, perhaps still in the file that they come from.
    F32(Vectors),
    /// Numbers of double precision.
    F64(Vec<f64>),
}

/// Arrays by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays(BTreeMap<String, (Vec<usize>, Data)>);

impl Arrays {
    /// Adds an array.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize], data: Data) {
        self.0.insert(name.into(), (shape.to_vec(), data));
    }

    /// Adds the arrays of another set under names that start with `prefix`.
    pub fn extend(&mut self, prefix: &str, other: Self) {
        self.0.extend(other.0.into_iter().map(|(name, array)| (format!("{prefix}{name}"), array)));
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns shape and numbers of an array.
    pub fn get(&self, name: &str) -> Option<(&[usize], &Data)> {
        self.0.get(name).map(|(shape, data)| (shape.as_slice(), data))
    }

    /// Writes them as safetensors.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_safetensors(&self, path: &Path) -> Result<(), ArtifactError> {
        let mut file = TensorFile::default();
        for (name, (shape, data)) in &self.0 {
            match data {
                Data::U8(v) => file.add(name, shape, v),
                Data::I64(v) => file.add(name, shape, v),
                Data::F32(v) => file.add(name, shape, v),
                Data::F64(v) => file.add(name, shape, v),
            }
        }
        file.write(path)
    }

    /// Writes them as `.npz`, not compressed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_npz(&self, path: &Path) -> Result<(), ArtifactError> {
        let written = File::create(path).and_then(|file| {
            let mut zip = ZipWriter::new(BufWriter::new(file));
            for (name, (shape, data)) in &self.0 {
                let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                zip.start_file(format!("{name}.npy"), options.large_file(true))?;
                match data {
                    Data::U8(v) => npy(&mut zip, shape, v),
                    Data::I64(v) => npy(&mut zip, shape, v),
                    Data::F32(v) => npy(&mut zip, shape, v),
                    Data::F64(v) => npy(&mut zip, shape, v),
                }?;
            }
            zip.finish()?.flush()
        });
        written.map_err(|e| ArtifactError::io(path, e))
    }
}

fn npy<T: npyz::AutoSerialize + Copy>(to: impl Write, shape: &[usize], values: &[T]) -> io::Result<()> {
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(to).begin_nd()?;
    writer.extend(values.iter().copied())?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::files::TensorsRead;

    #[test]
    fn both_files_hold_names_shapes_and_numbers() {
        let mut arrays = Arrays::default();
        arrays.add("bytes", &[3], Data::U8(vec![1, 2, 3]));
        arrays.add("0/w", &[2, 1], Data::F32(vec![0.5, -1.5].into()));
        arrays.add("n", &[2], Data::I64(vec![-1, 1 << 40]));
        let mut all = Arrays::default();
        all.extend("train/x/", arrays);
        all.add("values", &[0, 2], Data::F64(vec![]));
        assert_eq!(all.names().collect::<Vec<_>>(), ["train/x/0/w", "train/x/bytes", "train/x/n", "values"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        all.write_safetensors(&path).unwrap();
        let read = TensorsRead::open(&path).unwrap();
        assert_eq!(read.shaped::<f32, 2>("train/x/0/w").unwrap(), ([2, 1], vec![0.5, -1.5]));
        assert_eq!(read.get::<i64>("train/x/n").unwrap().1, [-1, 1 << 40]);
        all.write_npz(&path).unwrap();
        let mut zip = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
        let read = npyz::NpyFile::new(zip.by_name("train/x/0/w.npy").unwrap()).unwrap();
        assert_eq!(read.shape(), [2, 1]);
        assert_eq!(read.into_vec::<f32>().unwrap(), [0.5, -1.5]);
        let read = npyz::NpyFile::new(zip.by_name("values.npy").unwrap()).unwrap();
        assert_eq!(read.shape(), [0, 2]);
    }
}
