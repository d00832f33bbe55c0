//! The features as models see them: fixed, dense or sparse as their data set is.

use std::ops::Range;
use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, DType, Result, Tensor, bail};

use super::ops::Tape;
use crate::kinds::{Features, Matrix};
use crate::math::sparse_product::TwoSided;
#[cfg(any(feature = "cuda", test))]
use crate::tensor::cuda::{self, UploadedFeatures};
use crate::tensor::slices::{self, Element, by_float};

/// nodes × features, made ready once and shared by all lanes and passes.
pub struct FeatureView {
    rows: usize,
    columns: usize,
    /// Where the values of sparse features stand; dense ones have all.
    pattern: Option<TwoSided>,
    /// Stored values in the type that is computed in.
    values: CpuStorage,
    #[cfg(any(feature = "cuda", test))]
    uploaded: std::sync::OnceLock<UploadedFeatures>,
}

/// X as one pass reads it: what starts the tape of the pass.
#[derive(Clone)]
pub struct Input {
    pub(super) features: Arc<FeatureView>,
    pub(super) tape: Tape,
}

impl Input {
    /// Reads features in the pass of a tape.
    pub fn new(features: &Arc<FeatureView>, tape: &Tape) -> Self {
        Self { features: features.clone(), tape: tape.clone() }
    }

    /// Reads other features in the same pass, such as projected ones.
    #[must_use]
    pub fn reading(&self, features: &Arc<FeatureView>) -> Self {
        Self::new(features, &self.tape)
    }

    /// Returns the number of stored values, which is that of the entries of a mask.
    pub fn stored(&self) -> usize {
        self.features.stored()
    }

    /// Returns the number of rows: nodes.
    pub fn rows(&self) -> usize {
        self.features.rows
    }
}

/// Features in one of the two float types.
#[derive(Clone, Copy)]
pub(crate) enum StoredFeatures<'a, T> {
    /// Every value is stored, by rows.
    Dense(&'a [T]),
    /// Only non-zero values are stored, by rows.
    Sparse {
        /// Where they stand.
        pattern: &'a TwoSided,
        /// The values.
        values: &'a [T],
    },
}

impl FeatureView {
    /// Turns features into values of type `dtype`.
    ///
    /// # Errors
    /// When `dtype` is not a float type.
    pub fn new(features: &Features, dtype: DType) -> Result<Self> {
        let (pattern, values) = match features {
            Features::Dense(m) => (None, &m.data),
            Features::Sparse(s) => (Some(TwoSided::new(s)), &s.values),
        };
        let values = match dtype {
            DType::F32 => CpuStorage::F32(values.clone()),
            DType::F64 => CpuStorage::F64(values.iter().map(|v| f64::from(*v)).collect()),
            _ => return slices::float_only("a view of features"),
        };
        Ok(Self {
            rows: features.rows(),
            columns: features.cols(),
            pattern,
            values,
            #[cfg(any(feature = "cuda", test))]
            uploaded: std::sync::OnceLock::new(),
        })
    }

    /// Returns the features on the GPU where they are used.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn on_gpu(&self, device: &candle_core::Device) -> Result<&UploadedFeatures> {
        cuda::once(&self.uploaded, || match self.stored_as::<f32>()? {
            StoredFeatures::Dense(values) => UploadedFeatures::dense(device, values, self.columns),
            StoredFeatures::Sparse { pattern, values } => UploadedFeatures::sparse(device, pattern, values),
        })
    }

    /// Returns some rows of dense features; sparse ones are refused.
    ///
    /// # Errors
    /// When the features are sparse.
    pub fn part(&self, rows: Range<usize>) -> Result<Self> {
        let values = rows.start * self.columns..rows.end * self.columns;
        let values = match (&self.pattern, &self.values) {
            (None, CpuStorage::F32(all)) => CpuStorage::F32(all[values].to_vec()),
            (None, CpuStorage::F64(all)) => CpuStorage::F64(all[values].to_vec()),
            _ => bail!("rows of sparse features cannot be taken apart"),
        };
        Ok(Self {
            rows: rows.len(),
            columns: self.columns,
            pattern: None,
            values,
            #[cfg(any(feature = "cuda", test))]
            uploaded: std::sync::OnceLock::new(),
        })
    }

    /// Returns the number of rows: nodes.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns: features.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns whether zeros are left out.
    pub(super) fn is_sparse(&self) -> bool {
        self.pattern.is_some()
    }

    /// Returns row and column of every stored value, and the values: stored × 1.
    pub(super) fn entries(&self) -> Result<(Vec<(usize, usize)>, Tensor)> {
        let positions = match &self.pattern {
            Some(pattern) => pattern.positions().collect(),
            None => (0..self.rows * self.columns).map(|at| (at / self.columns, at % self.columns)).collect(),
        };
        by_float!(self.dtype(), "a view of features", T => {
            let values = T::cpu_storage_as_slice(&self.values)?.to_vec();
            Ok((positions, Tensor::from_vec(values, (self.stored(), 1), &candle_core::Device::Cpu)?))
        })
    }

    pub(super) fn stored(&self) -> usize {
        self.pattern.as_ref().map_or(self.rows * self.columns, TwoSided::entries)
    }

    /// Returns the type of the values.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// Returns the values in the type that the view was made for.
    pub(crate) fn stored_as<T: Element>(&self) -> Result<StoredFeatures<'_, T>> {
        let values = T::cpu_storage_as_slice(&self.values)?;
        Ok(match &self.pattern {
            Some(pattern) => StoredFeatures::Sparse { pattern, values },
            None => StoredFeatures::Dense(values),
        })
    }

    /// Returns the features that it was made of.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub(super) fn to_features(&self) -> Result<Features> {
        let values: Vec<f32> = match &self.values {
            CpuStorage::F32(values) => values.clone(),
            CpuStorage::F64(values) => values.iter().map(|value| *value as f32).collect(),
            _ => return slices::float_only("a view of features"),
        };
        match &self.pattern {
            None => Ok(Features::Dense(Matrix { rows: self.rows, cols: self.columns, data: values })),
            Some(pattern) => {
                let sparse = pattern.with_values(values);
                sparse.map(Features::Sparse).ok_or_else(|| candle_core::Error::msg("features without their pattern"))
            }
        }
    }

    /// Returns all entries, zeros too: nodes × features. Sparse features may be large so.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn to_dense(&self) -> Result<Tensor> {
        by_float!(self.dtype(), "a view of features", T => {
            let full = match self.stored_as::<T>()? {
                StoredFeatures::Dense(values) => values.to_vec(),
                StoredFeatures::Sparse { pattern, values } => {
                    let mut full = vec![T::default(); self.rows * self.columns];
                    for ((i, j), value) in pattern.positions().zip(values) {
                        full[i * self.columns + j] = *value;
                    }
                    full
                }
            };
            slices::tensor(full, &[self.rows, self.columns])
        })
    }
}
