//! Weights on the entries of a sparse matrix with a symmetric pattern: gates and attention.

use candle_core::{DType, Device, Result, Tensor, bail};

use super::launch::{Arg, Call, upload};
use super::{Masks, Sparse, blocks, column_sums, dims, floats, make, masks, small};

/// What gates and attention need of a matrix besides its values.
pub struct Entries {
    /// The row of every entry.
    rows: Tensor,
    /// For every entry (i, j) the place of (j, i).
    mirrors: Tensor,
    count: usize,
}

/// The two numbers of every node that gates are made of, lanes × nodes × 2, and what is added to their sum, lanes × 1.
#[derive(Clone, Copy)]
pub struct Gates<'a> {
    /// a and b.
    pub scores: &'a Tensor,
    /// c.
    pub shift: &'a Tensor,
}

impl Entries {
    /// Uploads them.
    ///
    /// # Errors
    /// When they do not fit each other, or the GPU has no room.
    pub fn new(device: &Device, rows: &[u32], mirrors: &[u32]) -> Result<Self> {
        if rows.len() != mirrors.len() || mirrors.iter().any(|at| *at as usize >= rows.len()) {
            bail!("{} mirrors for {} entries", mirrors.len(), rows.len());
        }
        Ok(Self { rows: upload(rows, device)?, mirrors: upload(mirrors, device)?, count: rows.len() })
    }
}

/// A matrix with what is known of its entries.
#[derive(Clone, Copy)]
pub struct Weighted<'a> {
    /// The matrix, nodes × nodes.
    pub matrix: &'a Sparse,
    /// Its entries.
    pub entries: &'a Entries,
}

impl Weighted<'_> {
    /// Checks that the entries are those of the matrix; returns how many there are, and the nodes.
    pub(super) fn sizes(&self, nodes: usize) -> Result<(usize, usize)> {
        let (matrix, count) = (self.matrix, self.entries.count);
        if matrix.rows != nodes || matrix.columns != nodes || matrix.values.elem_count() != count.max(1) {
            bail!("{} entries of a matrix of {} × {} for {nodes} nodes", count, matrix.rows, matrix.columns);
        }
        // Without entries there is nothing to launch; one place keeps the sizes apart from 0.
        Ok((count.max(1), nodes))
    }

    /// Rows and columns of the entries.
    pub(super) fn places(&self) -> [Arg<'_>; 2] {
        [&self.entries.rows, &self.matrix.indices].map(Arg::Read)
    }

    /// Where rows begin, columns, and mirrors.
    pub(super) fn across(&self) -> [Arg<'_>; 3] {
        [&self.matrix.starts, &self.matrix.indices, &self.entries.mirrors].map(Arg::Read)
    }

    /// w_ij = tanh(a_i + b_j + c)·S_ij with masks on top: lanes × entries.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn gates(&self, gates: Gates, masks: Option<&Masks>) -> Result<Tensor> {
        let (lanes, nodes, _) = dims(gates.scores)?;
        let (entries, _) = self.sizes(nodes)?;
        let scores = floats(gates.scores, lanes * nodes * 2, "scores")?;
        let shift = floats(gates.shift, lanes, "shift")?;
        let lent = masks::lend(masks, lanes, scores.device())?;
        let inputs = [Arg::Read(&self.matrix.values), Arg::Read(&scores), Arg::Read(&shift)];
        let sizes = [Arg::U64(entries as u64), Arg::U64(nodes as u64)];
        let args = [&self.places()[..], &inputs, &lent.args(), &sizes].concat();
        make("gates", (entries, lanes), &args, &[lanes, entries])
    }

    /// Σ_j w_ij x_j, or w_ji for `turned` weights, and a·y if there is a y.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn sum(&self, weights: &Tensor, turned: bool, x: &Tensor, y: Option<(&Tensor, f64)>) -> Result<Tensor> {
        let (lanes, nodes, columns) = dims(x)?;
        let ((entries, _), size) = (self.sizes(nodes)?, nodes * columns);
        let (weights, x) = (floats(weights, lanes * entries, "weights")?, floats(x, lanes * size, "x")?);
        let a = y.map_or(0.0, |(_, a)| a);
        let y = y.map(|(y, _)| floats(y, lanes * size, "y")).transpose()?;
        let [starts, indices, mirrors] = self.across();
        let mirrors = if turned { mirrors } else { Arg::Null };
        let inputs = [starts, indices, mirrors, Arg::Read(&weights), Arg::Read(&x), Arg::read(y.as_ref())];
        let sizes = [Arg::U64(entries as u64), Arg::U64(nodes as u64), Arg::U32(small(columns)?)];
        let args = [&inputs[..], &[Arg::F32(a as f32)], &sizes].concat();
        make("weighted_rows", (size, lanes), &args, &[lanes, nodes, columns])
    }

    /// The gradients of scores, lanes × nodes × 2, and of the shift, lanes × 1; `gradient` is that of the sum of `x`.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn gates_backward(
        &self,
        gates: Gates,
        masks: Option<&Masks>,
        x: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Tensor; 2]> {
        let (lanes, nodes, columns) = dims(x)?;
        let ((entries, _), size) = (self.sizes(nodes)?, nodes * columns);
        let scores = floats(gates.scores, lanes * nodes * 2, "scores")?;
        let shift = floats(gates.shift, lanes, "shift")?;
        let (x, gradient) = (floats(x, lanes * size, "x")?, floats(gradient, lanes * size, "gradient")?);
        let lent = masks::lend(masks, lanes, scores.device())?;
        let inputs = [&self.matrix.values, &scores, &shift, &x, &gradient].map(Arg::Read);
        let sizes = [Arg::U64(entries as u64), Arg::U64(nodes as u64), Arg::U32(small(columns)?)];
        let args = [&self.places()[..], &inputs, &lent.args(), &sizes].concat();
        let slopes = make("gate_slopes", (entries, lanes), &args, &[lanes, entries])?;
        let of_scores = self.sums_of_entries(&slopes, nodes, 1)?.reshape((lanes, nodes, 2))?;
        let of_shift = column_sums(&of_scores)?.narrow(1, 1, 1)?.contiguous()?;
        Ok([of_scores, of_shift])
    }

    /// The sums of slopes, lanes × entries · heads, over the entries of every row and over those of every column:
    /// lanes × nodes × heads · 2.
    pub(super) fn sums_of_entries(&self, slopes: &Tensor, nodes: usize, heads: usize) -> Result<Tensor> {
        let ((entries, _), lanes) = (self.sizes(nodes)?, slopes.dim(0)?);
        let slopes = floats(slopes, lanes * entries * heads, "slopes")?;
        let [starts, _, mirrors] = self.across();
        let sizes = [Arg::U64(entries as u64), Arg::U64(nodes as u64), Arg::U32(small(heads)?)];
        let args = [&[starts, mirrors, Arg::Read(&slopes)], &sizes[..]].concat();
        make("entry_sums", (nodes * heads, lanes), &args, &[lanes, nodes, heads * 2])
    }
}

/// Calls a kernel that makes two tensors of the same shape.
pub(super) fn make_two(
    kernel: &'static str,
    (size, lanes): (usize, usize),
    args: &[Arg],
    out: &[usize],
) -> Result<[Tensor; 2]> {
    let makes = [(out, DType::F32), (out, DType::F32)];
    let (blocks, lanes) = (blocks(size)?, small(lanes)?);
    let made = Call { kernel, blocks, lanes, args, changes: &[], makes: &makes }.start()?;
    <[Tensor; 2]>::try_from(made).map_err(|_| candle_core::Error::msg("a kernel has not made two tensors"))
}
