//! What training multiplies with on a GPU: sparse matrices, and features of either form.

use std::fmt::Display;

use candle_core::{Device, Result, Tensor, bail};

use super::launch::{Arg, upload};
use super::{Masks, apart, change, dims, floats, make, masks, plus_bias, product, side_by_side, small};
use crate::math::sparse_product::TwoSided;

/// A sparse matrix on a GPU, by rows.
pub struct Sparse {
    pub(super) starts: Tensor,
    pub(super) indices: Tensor,
    pub(super) values: Tensor,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// A polynomial on a GPU: coefficients of every lane, and the sum so far.
pub struct Terms<'a> {
    coefficients: &'a Tensor,
    sum: Tensor,
    at: usize,
}

impl<'a> Terms<'a> {
    /// Begins with c_0·z. `coefficients`: lanes × terms.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn new(coefficients: &'a Tensor, z: &Tensor) -> Result<Self> {
        let ((lanes, nodes, columns), (of_lanes, terms)) = (dims(z)?, coefficients.dims2()?);
        if lanes != of_lanes || terms == 0 || !coefficients.is_contiguous() {
            bail!("coefficients of {:?} for {:?}", coefficients.dims(), z.dims());
        }
        let size = nodes * columns;
        let z = floats(z, lanes * size, "z")?;
        let args = [&z, coefficients].map(Arg::Read);
        let args = [&args[..], &[Arg::U32(0), Arg::U32(small(terms)?), Arg::U64(size as u64)]].concat();
        let sum = make("scaled_term", (size, lanes), &args, &[lanes, nodes, columns])?;
        Ok(Self { coefficients, sum, at: 0 })
    }

    /// Returns the sum.
    pub fn sum(self) -> Tensor {
        self.sum
    }
}

impl Sparse {
    /// Uploads a matrix with `columns` columns.
    ///
    /// # Errors
    /// When the lists do not make a matrix, or the GPU has no room.
    pub fn new(
        device: &Device,
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
            starts: upload(&starts, device)?,
            indices: upload(indices, device)?,
            values: upload(values, device)?,
            rows: starts.len() - 1,
            columns,
        })
    }

    fn args(&self) -> [Arg<'_>; 3] {
        [&self.starts, &self.indices, &self.values].map(Arg::Read)
    }

    /// Returns S·z, a lane at a time.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(&self, z: &Tensor) -> Result<Tensor> {
        let (lanes, inner, columns) = dims(z)?;
        if inner != self.columns {
            bail!("the matrix has {} columns, `z` has {inner} rows", self.columns);
        }
        let z = floats(z, lanes * inner * columns, "z")?;
        let sizes = [Arg::U64(self.rows as u64), Arg::U64(inner as u64), Arg::U32(small(columns)?)];
        let args = [&self.args()[..], &[Arg::Read(&z)], &sizes].concat();
        make("spmm", (self.rows * columns, lanes), &args, &[lanes, self.rows, columns])
    }

    /// Returns a·S·z + b·y for square S, and adds it to a polynomial as its next term; y is not read where b is 0.
    ///
    /// # Errors
    /// When the shapes do not fit, or the polynomial has no more terms.
    pub fn hop(&self, z: &Tensor, (a, b): (f64, f64), y: &Tensor, terms: &mut Terms) -> Result<Tensor> {
        let ((lanes, nodes, columns), (of_lanes, count)) = (dims(z)?, terms.coefficients.dims2()?);
        terms.at += 1;
        let square = self.rows == self.columns && self.rows == nodes;
        if !square || of_lanes != lanes || terms.at >= count || terms.sum.dims() != z.dims() {
            let found = [z.dims(), terms.coefficients.dims(), terms.sum.dims()];
            bail!("term {} of {found:?} with a matrix of {} × {}", terms.at, self.rows, self.columns);
        }
        let size = nodes * columns;
        let (z, y) = (floats(z, lanes * size, "z")?, floats(y, lanes * size, "y")?);
        let inputs = [Arg::Read(&z), Arg::Read(&y), Arg::F32(a as f32), Arg::F32(b as f32)];
        let term = [Arg::Read(terms.coefficients), Arg::U32(small(terms.at)?), Arg::U32(small(count)?)];
        let sizes = [Arg::U64(nodes as u64), Arg::U32(small(columns)?)];
        let args = [&self.args()[..], &inputs, &term, &sizes].concat();
        change("hop", (size, lanes), &args, &[&terms.sum], &[lanes, nodes, columns])
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
        places: Tensor,
    },
    /// Every entry, nodes × features.
    Dense(Tensor),
}

impl UploadedFeatures {
    /// Uploads sparse features; `values` by rows.
    ///
    /// # Errors
    /// When the GPU has no room.
    pub fn sparse(device: &Device, pattern: &TwoSided, values: &[f32]) -> Result<Self> {
        let (rows, columns) = (pattern.by_rows(), pattern.by_columns());
        let places: Vec<u32> = columns.places.iter().copied().flatten().map(|p| small(*p)).collect::<Result<_>>()?;
        Ok(Self::Sparse {
            by_row: Sparse::new(device, rows.starts, rows.indices, values, pattern.cols())?,
            by_column: Sparse::new(device, columns.starts, columns.indices, &pattern.across(values), pattern.rows())?,
            places: upload(&places, device)?,
        })
    }

    /// Uploads dense features by rows; `features` of them.
    ///
    /// # Errors
    /// When the values do not fill whole rows, or the GPU has no room.
    pub fn dense(device: &Device, values: &[f32], features: usize) -> Result<Self> {
        if features == 0 || values.is_empty() || !values.len().is_multiple_of(features) {
            bail!("{} values do not make rows of {features} features", values.len());
        }
        upload(values, device)?.reshape((values.len() / features, features)).map(Self::Dense)
    }

    /// Returns (nodes, features).
    fn shape(&self) -> Result<(usize, usize)> {
        match self {
            Self::Sparse { by_row, .. } => Ok((by_row.rows, by_row.columns)),
            Self::Dense(values) => values.dims2(),
        }
    }

    /// Returns (mask ⊙ X)·W + bias of every lane, lanes × nodes × columns. `weights`: lanes × features × columns, `bias`:
    /// lanes × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times(&self, weights: &Tensor, bias: Option<&Tensor>, masks: Option<&Masks>) -> Result<Tensor> {
        let ((lanes, inner, columns), (rows, features)) = (dims(weights)?, self.shape()?);
        if inner != features {
            bail!("`weights` are of {inner} features, expected {features}");
        }
        let Self::Sparse { by_row, .. } = self else {
            let out = self.dense_times(weights, masks, |x| Ok(x.clone()))?;
            return bias.map_or(Ok(out.clone()), |bias| plus_bias(&out, bias));
        };
        let weights = floats(weights, lanes * features * columns, "weights")?;
        let bias = bias.map(|bias| floats(bias, lanes * columns, "bias")).transpose()?;
        let lent = masks::lend(masks, lanes, weights.device())?;
        let inputs = [Arg::Read(&weights), Arg::read(bias.as_ref())];
        let sizes = [Arg::U64(rows as u64), Arg::U64(features as u64), Arg::U32(small(columns)?)];
        let args = [&by_row.args()[..], &inputs, &lent.args(), &sizes].concat();
        make("sparse_features", (rows * columns, lanes), &args, &[lanes, rows, columns])
    }

    /// Returns the gradient of [`UploadedFeatures::times`] at the weights, lanes × features × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn times_backward(&self, gradient: &Tensor, masks: Option<&Masks>) -> Result<Tensor> {
        let ((lanes, nodes, columns), (rows, features)) = (dims(gradient)?, self.shape()?);
        if nodes != rows {
            bail!("`gradient` is of {nodes} nodes, expected {rows}");
        }
        let Self::Sparse { by_column, places, .. } = self else {
            return self.dense_times(gradient, masks, Tensor::t);
        };
        let gradient = floats(gradient, lanes * nodes * columns, "gradient")?;
        let lent = masks::lend(masks, lanes, gradient.device())?;
        let sizes = [Arg::U64(rows as u64), Arg::U64(features as u64), Arg::U32(small(columns)?)];
        let inputs = [places, &gradient].map(Arg::Read);
        let args = [&by_column.args()[..], &inputs, &lent.args(), &sizes].concat();
        make("sparse_features_backward", (features * columns, lanes), &args, &[lanes, features, columns])
    }

    /// Multiplies dense features, turned by `turn`, with the right side of every lane. Without masks one product serves all; with
    /// masks, the features of a lane are masked once and go through cuBLAS.
    fn dense_times(
        &self,
        right: &Tensor,
        masks: Option<&Masks>,
        turn: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let Self::Dense(values) = self else { bail!("the features are sparse") };
        let (lanes, inner, columns) = dims(right)?;
        let Some(masks) = masks else {
            let right = side_by_side(right, None)?.reshape((inner, lanes * columns))?;
            let out = product(&turn(values)?, &right)?;
            return apart(&out.reshape((out.dim(0)?, lanes, columns))?, 0, lanes);
        };
        if masks.lanes() != lanes {
            bail!("{} masks for {lanes} lanes", masks.lanes());
        }
        let of_lane = |lane| product(&turn(&masks.of_lane(lane, values)?)?, &right.get(lane)?.contiguous()?);
        let of_lanes = (0..lanes).map(of_lane).collect::<Result<Vec<_>>>()?;
        Tensor::stack(&of_lanes, 0)
    }
}
