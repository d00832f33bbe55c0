//! Sums on a GPU, in an order that follows from the sizes alone.

use candle_core::{DType, Result, Tensor, bail};

use super::launch::{Arg, Call};
use super::{blocks, dims, floats, make, small};

/// X + b, with b: lanes × columns.
///
/// # Errors
/// When the shapes do not fit.
pub fn plus_bias(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    with_bias("plus_bias", x, bias, None)
}

fn with_bias(kernel: &'static str, x: &Tensor, bias: &Tensor, gradient: Option<&Tensor>) -> Result<Tensor> {
    let (lanes, nodes, columns) = dims(x)?;
    let size = nodes * columns;
    let (x, bias) = (floats(x, lanes * size, "x")?, floats(bias, lanes * columns, "bias")?);
    let gradient = gradient.map(|gradient| floats(gradient, lanes * size, "gradient")).transpose()?;
    let mut args = vec![Arg::Read(&x), Arg::Read(&bias)];
    args.extend(gradient.as_ref().map(Arg::Read));
    args.extend([Arg::U64(size as u64), Arg::U32(small(columns)?)]);
    make(kernel, (size, lanes), &args, &[lanes, nodes, columns])
}

/// a·X + b·Y.
///
/// # Errors
/// When the shapes do not fit.
pub fn combine(x: &Tensor, a: f64, y: &Tensor, b: f64) -> Result<Tensor> {
    let (size, dims) = (x.elem_count(), x.dims());
    if dims != y.dims() {
        bail!("{dims:?} and {:?} cannot be added", y.dims());
    }
    let (x, y) = (floats(x, size, "x")?, floats(y, size, "y")?);
    let args = [Arg::Read(&x), Arg::Read(&y), Arg::F32(a as f32), Arg::F32(b as f32), Arg::U64(size as u64)];
    make("combine", (size, 1), &args, dims)
}

/// Σ over the nodes: lanes × columns. Sums of about √nodes rows first, then their sum.
///
/// # Errors
/// When the tensor is not lanes × nodes × columns.
pub fn column_sums(x: &Tensor) -> Result<Tensor> {
    let (lanes, nodes, columns) = dims(x)?;
    let x = floats(x, lanes * nodes * columns, "x")?;
    let sums = |x: &Tensor, rows: usize, per: usize, out: &[usize]| {
        let args = [Arg::Read(x), Arg::U64(rows as u64), Arg::U32(small(columns)?), Arg::U64(per as u64)];
        make("column_sums", (rows.div_ceil(per) * columns, lanes), &args, out)
    };
    let per = nodes.isqrt().max(1);
    let pieces = nodes.div_ceil(per);
    sums(&sums(&x, nodes, per, &[lanes, pieces, columns])?, pieces, pieces, &[lanes, columns])
}

/// Scalar products of every lane, several of them: lanes × terms.
pub struct Dots {
    /// lanes × terms × blocks; none before the first.
    partial: Option<Tensor>,
    terms: usize,
}

impl Dots {
    /// Prepares for so many products.
    pub fn new(terms: usize) -> Self {
        Self { partial: None, terms }
    }

    /// Computes the product at a place: ⟨x, y⟩ of every lane.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn add(&mut self, at: usize, x: &Tensor, y: &Tensor) -> Result<()> {
        let (lanes, nodes, columns) = dims(x)?;
        let size = nodes * columns;
        let (x, y) = (floats(x, lanes * size, "x")?, floats(y, lanes * size, "y")?);
        let count = blocks(size)?;
        let partial = match self.partial.take() {
            Some(partial) => partial,
            None => Tensor::zeros((lanes, self.terms, count as usize), DType::F64, x.device())?,
        };
        let (at, terms) = (small(at)?, small(self.terms)?);
        let args = [Arg::Read(&x), Arg::Read(&y), Arg::U64(size as u64), Arg::U32(at), Arg::U32(terms)];
        let (blocks, lanes) = (count, small(lanes)?);
        let changes = [&partial];
        Call { kernel: "dot_partials", blocks, lanes, args: &args, changes: &changes, makes: &[] }.start()?;
        self.partial = Some(partial);
        Ok(())
    }

    /// Returns all products.
    ///
    /// # Errors
    /// When there are none.
    pub fn sum(self) -> Result<Tensor> {
        let Some(partial) = self.partial else { bail!("a sum of no products") };
        let (lanes, terms, blocks) = dims(&partial)?;
        let args = [Arg::Read(&partial), Arg::U32(small(blocks)?), Arg::U32(small(lanes * terms)?)];
        make("fold", (lanes * terms, 1), &args, &[lanes, terms])
    }
}

/// ELU(X + b), with b: lanes × columns.
///
/// # Errors
/// When the shapes do not fit.
pub fn elu(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    with_bias("elu", x, bias, None)
}

/// Returns the gradient of [`elu`] at its input, from the gradient of the result.
///
/// # Errors
/// When the shapes do not fit.
pub fn elu_backward(x: &Tensor, bias: &Tensor, gradient: &Tensor) -> Result<Tensor> {
    with_bias("elu_backward", x, bias, Some(gradient))
}

/// Copies some lanes into a tensor of the same shape.
///
/// # Errors
/// When the shapes do not fit.
pub fn keep_lanes(kept: &Tensor, now: &Tensor, lanes: &[usize]) -> Result<()> {
    let (all, total) = (kept.dim(0)?, kept.elem_count());
    let (size, now) = (total / all.max(1), floats(now, total, "values to keep")?);
    floats(kept, total, "what is kept")?;
    for first in (0..all).step_by(64) {
        let marked = lanes.iter().filter_map(|lane| lane.checked_sub(first)).filter(|bit| *bit < 64);
        let marked = marked.fold(0u64, |marked, bit| marked | 1 << bit);
        if marked == 0 {
            continue;
        }
        let args = [Arg::Read(&now), Arg::U64(marked), Arg::U32(small(first)?), Arg::U64(size as u64)];
        let (blocks, lanes) = (blocks(size)?, small(64.min(all - first))?);
        Call { kernel: "keep", blocks, lanes, args: &args, changes: &[kept], makes: &[] }.start()?;
    }
    Ok(())
}
