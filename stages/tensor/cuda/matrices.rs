//! What training multiplies with on a GPU: sparse matrices, and features of either form.

use std::fmt::Display;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, PushKernelArg};
use candle_core::{CudaDevice, Result, Tensor, bail};

use super::{GpuTensor, MODULE, Masks, NULL, PTX, blocks, dims, done, launch, masks, room, small, values};
use crate::math::sparse_product::TwoSided;

/// A sparse matrix on a GPU, by rows.
pub struct Sparse {
    starts: CudaSlice<u32>,
    indices: CudaSlice<u32>,
    values: CudaSlice<f32>,
    rows: usize,
    columns: usize,
}

impl Sparse {
    /// Uploads a matrix with `columns` columns.
    ///
    /// # Errors
    /// When the lists do not make a matrix, or the GPU has no room.
    pub fn new(
        device: &CudaDevice,
        starts: &[impl Copy + Display + TryInto<u32>],
        indices: &[u32],
        values: &[f32],
        columns: usize,
    ) -> Result<Self> {
        let starts: Vec<u32> = starts.iter().map(|start| small(*start)).collect::<Result<_>>()?;
        let ends = starts.last().is_some_and(|end| *end as usize == indices.len()) && starts.is_sorted();
        let fits = indices.len() == values.len() && indices.iter().all(|i| (*i as usize) < columns);
        if !ends || !fits {
            bail!("{} starts, {} indices and {} values make no matrix", starts.len(), indices.len(), values.len());
        }
        Ok(Self {
            starts: device.clone_htod(&starts)?,
            indices: device.clone_htod(indices)?,
            values: device.clone_htod(values)?,
            rows: starts.len() - 1,
            columns,
        })
    }

    /// Returns a·S·z + b·y, a lane at a time; y is not read where b is 0.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(&self, z: GpuTensor, (a, b): (f32, f32), y: GpuTensor) -> Result<Tensor> {
        let (lanes, inner, columns) = dims(z.1)?;
        if inner != self.columns {
            bail!("the matrix has {} columns, `z` has {inner} rows", self.columns);
        }
        let size = self.rows * columns;
        let device = z.0.device();
        let z = values::<f32>(z, lanes * inner * columns, "z")?;
        let y = values::<f32>(y, if b == 0.0 { y.1.shape().elem_count() } else { lanes * size }, "y")?;
        let mut out = room::<f32>(device, lanes * size)?;
        let (height, depth, width) = (self.rows as u64, inner as u64, small(columns)?);
        let func = device.get_or_load_custom_func("spmm", MODULE, PTX)?;
        let mut args = func.builder();
        args.arg(&self.starts).arg(&self.indices).arg(&self.values).arg(&z).arg(&y).arg(&a).arg(&b);
        args.arg(&height).arg(&depth).arg(&width).arg(&mut out);
        launch(args, blocks(size)?, lanes)?;
        Ok(done(out, device, (lanes, self.rows, columns)))
    }
}

/// Features of the nodes on a GPU.
pub enum UploadedFeatures {
    /// Non-zeros only.
    Sparse {
        /// Nodes × features.
        by_row: Sparse,
        /// Features × nodes.
        by_column: Sparse,
        /// For every entry of `by_column` its place in `by_row`.
        places: CudaSlice<u32>,
    },
    /// Every entry, nodes × features.
    Dense {
        /// The entries by rows.
        values: CudaSlice<f32>,
        /// Nodes.
        rows: usize,
        /// Features.
        columns: usize,
    },
}

impl UploadedFeatures {
    /// Uploads sparse features; `values` by rows.
    ///
    /// # Errors
    /// When the GPU has no room.
    pub fn sparse(device: &CudaDevice, pattern: &TwoSided, values: &[f32]) -> Result<Self> {
        let (rows, columns) = (pattern.by_rows(), pattern.by_columns());
        let places: Vec<u32> = columns.places.iter().copied().flatten().map(|p| small(*p)).collect::<Result<_>>()?;
        Ok(Self::Sparse {
            by_row: Sparse::new(device, rows.starts, rows.indices, values, pattern.cols())?,
            by_column: Sparse::new(device, columns.starts, columns.indices, &pattern.across(values), pattern.rows())?,
            places: device.clone_htod(&places)?,
        })
    }

    /// Uploads dense features by rows; `features` of them.
    ///
    /// # Errors
    /// When the values do not fill whole rows, or the GPU has no room.
    pub fn dense(device: &CudaDevice, values: &[f32], features: usize) -> Result<Self> {
        if features == 0 || !values.len().is_multiple_of(features) {
            bail!("{} values do not make rows of {features} features", values.len());
        }
        Ok(Self::Dense { values: device.clone_htod(values)?, rows: values.len() / features, columns: features })
    }

    /// Returns (nodes, features).
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Sparse { by_row, .. } => (by_row.rows, by_row.columns),
            Self::Dense { rows, columns, .. } => (*rows, *columns),
        }
    }

    /// Returns (mask ⊙ X)·W + bias of every lane, lanes × nodes × columns. `weights`: lanes × features × columns, `bias`:
    /// lanes × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(&self, weights: GpuTensor, bias: Option<GpuTensor>, masks: Option<&Masks>) -> Result<Tensor> {
        let (lanes, inner, columns) = dims(weights.1)?;
        let (rows, features) = self.shape();
        if inner != features {
            bail!("`weights` are of {inner} features, expected {features}");
        }
        let device = weights.0.device();
        let weights = values::<f32>(weights, lanes * features * columns, "weights")?;
        let bias = bias.map(|bias| values::<f32>(bias, lanes * columns, "bias")).transpose()?;
        let mut out = room::<f32>(device, lanes * rows * columns)?;
        let (height, depth, width) = (rows as u64, features as u64, small(columns)?);
        let func = device.get_or_load_custom_func(self.named("sparse_features", "dense_features"), MODULE, PTX)?;
        let mut args = func.builder();
        match self {
            Self::Sparse { by_row, .. } => args.arg(&by_row.starts).arg(&by_row.indices).arg(&by_row.values),
            Self::Dense { values, .. } => args.arg(values),
        };
        args.arg(&weights);
        match &bias {
            Some(bias) => args.arg(bias),
            None => args.arg(&NULL),
        };
        masks::push(masks, lanes, &mut args, device)?;
        args.arg(&height).arg(&depth).arg(&width).arg(&mut out);
        launch(args, blocks(rows * columns)?, lanes)?;
        Ok(done(out, device, (lanes, rows, columns)))
    }

    /// Returns the gradient of [`UploadedFeatures::times`] at the weights, lanes × features × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times_backward(&self, gradient: GpuTensor, masks: Option<&Masks>) -> Result<Tensor> {
        let (lanes, nodes, columns) = dims(gradient.1)?;
        let (rows, features) = self.shape();
        if nodes != rows {
            bail!("`gradient` is of {nodes} nodes, expected {rows}");
        }
        let device = gradient.0.device();
        let gradient = values::<f32>(gradient, lanes * nodes * columns, "gradient")?;
        let mut out = room::<f32>(device, lanes * features * columns)?;
        let (height, depth, width) = (rows as u64, features as u64, small(columns)?);
        let func = device.get_or_load_custom_func(
            self.named("sparse_features_backward", "dense_features_backward"),
            MODULE,
            PTX,
        )?;
        let mut args = func.builder();
        match self {
            Self::Sparse { by_column, places, .. } => {
                args.arg(&by_column.starts).arg(&by_column.indices).arg(&by_column.values).arg(places)
            }
            Self::Dense { values, .. } => args.arg(values),
        };
        args.arg(&gradient);
        masks::push(masks, lanes, &mut args, device)?;
        args.arg(&height).arg(&depth).arg(&width).arg(&mut out);
        launch(args, blocks(features * columns)?, lanes)?;
        Ok(done(out, device, (lanes, features, columns)))
    }

    fn named(&self, sparse: &'static str, dense: &'static str) -> &'static str {
        if matches!(self, Self::Sparse { .. }) { sparse } else { dense }
    }
}
