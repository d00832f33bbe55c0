//! Filtering in the basis of the kept eigenvectors: U(h ⊙ UᵀZ), or U(h ⊙ Q) of what is in that basis already, as one step
//! with its own backward pass.
//!
//! U: nodes × pairs, given as its transpose; of every lane, h: pairs and Z: nodes × columns. The nodes × nodes matrix
//! U diag(h) Uᵀ is never formed; published code forms it in every pass. With G the gradient of the result and Y = UᵀZ,
//! which forward leaves behind: T = UᵀG, ∂h_i = ⟨T_i, Y_i⟩, ∂Z = U(h ⊙ T). All lanes stand side by side, training and
//! evaluation too, so forward and backward read U twice each.

use std::ops::Range;
use std::sync::Arc;

#[cfg(any(feature = "cuda", test))]
use candle_core::Tensor;
use candle_core::{DType, Device, Error, Result, bail};
use rayon::prelude::*;

use super::side_by_side::SideBySide;
use super::sided::{AsTensor, Back, Gradient, Sided, operation};
use crate::math::kernels::tall::Panels;
use crate::tensor::slices::{Element, by_float};

/// The kept eigenvectors of a graph as rows, pairs × nodes, and fixed.
#[derive(Clone)]
pub struct Eigenvectors {
    stored: Stored,
    nodes: usize,
    /// The pairs that a model uses.
    pairs: Range<usize>,
}

/// Where the eigenvectors are, in the type that is computed in.
#[derive(Clone)]
enum Stored {
    F32(Arc<Panels<f32>>),
    F64(Arc<Panels<f64>>),
    #[cfg(any(feature = "cuda", test))]
    Gpu(Tensor),
}

/// A type whose panels can be stored.
trait Stores: Sized {
    fn panels(stored: &Stored) -> Option<&Panels<Self>>;
}

impl Stores for f32 {
    fn panels(stored: &Stored) -> Option<&Panels<Self>> {
        if let Stored::F32(panels) = stored { Some(panels) } else { None }
    }
}

impl Stores for f64 {
    fn panels(stored: &Stored) -> Option<&Panels<Self>> {
        if let Stored::F64(panels) = stored { Some(panels) } else { None }
    }
}

impl Eigenvectors {
    /// Takes eigenvectors of `nodes` entries one after the other, for products of type `dtype` on `device`.
    ///
    /// # Errors
    /// When `dtype` is not a float type, or a GPU has no room.
    pub fn new(sides: &[&[f32]], nodes: usize, dtype: DType, device: &Device) -> Result<Self> {
        let rows: Vec<&[f32]> = sides.iter().flat_map(|side| side.chunks_exact(nodes.max(1))).collect();
        #[cfg(any(feature = "cuda", test))]
        if crate::tensor::cuda::is_gpu(device) {
            let stored = Stored::Gpu(Tensor::from_vec(rows.concat(), (rows.len(), nodes), device)?);
            return Ok(Self { stored, nodes, pairs: 0..rows.len() });
        }
        let stored = match (device, dtype) {
            (Device::Cpu, DType::F32) => Stored::F32(Arc::new(Panels::new(rows.len(), nodes, |i| rows[i]))),
            (Device::Cpu, DType::F64) => Stored::F64(Arc::new(Panels::new(rows.len(), nodes, |i| rows[i]))),
            (other, dtype) => bail!("eigenvectors cannot be {dtype:?} on {:?}", other.location()),
        };
        Ok(Self { stored, nodes, pairs: 0..rows.len() })
    }

    #[cfg(any(feature = "cuda", test))]
    fn on_gpu(&self) -> Result<Tensor> {
        match &self.stored {
            Stored::Gpu(vectors) => vectors.narrow(0, self.pairs.start, self.pairs.len()),
            _ => bail!("eigenvectors are not on the GPU"),
        }
    }

    fn panels<T: Stores>(&self) -> Result<&Panels<T>> {
        T::panels(&self.stored).ok_or_else(|| Error::msg("eigenvectors of another type, or on a GPU"))
    }

    /// Keeps some of the pairs.
    #[must_use]
    pub fn keep(&self, pairs: Range<usize>) -> Self {
        Self { pairs, ..self.clone() }
    }
}

impl Sided {
    /// Returns U(h ⊙ UᵀX) of every lane; `response` is h, lanes × pairs.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn filter(&self, vectors: &Eigenvectors, response: &impl AsTensor) -> Result<Self> {
        let response = response.tensor();
        on_gpu!(self.main() => super::cuda::filter(&vectors.on_gpu()?, &response, self));
        let (shape, pairs) = shape(vectors, self.dims(), response.dims())?;
        let again = vectors.clone();
        by_float!(self.dtype(), "a filter", T => operation::<T, _, 1, 1>(
            [self],
            [&response],
            self.dims(),
            |sides, [h]| {
                let (u, count) = (vectors.panels::<T>()?, sides.len());
                let joined = shape.join(&sides.iter().map(|[x]| *x).collect::<Vec<_>>());
                let width = shape.width(count);
                let (mut y, mut out) = (vec![T::default(); pairs * width], vec![T::default(); joined.len()]);
                u.par_times(&vectors.pairs, &joined, width, &mut y);
                u.par_transposed_times(&vectors.pairs, &scaled(&y, h, shape, count), width, &mut out);
                Ok(((0..count).map(|i| shape.part(&out, i, count)).collect(), y))
            },
            move |Back { kept, gradient, weights: [h], .. }| {
                let u = again.panels::<T>()?;
                let (joined, width) = (shape.join(&[gradient]), shape.width(1));
                let (mut t, mut of_x) = (vec![T::default(); pairs * width], vec![T::default(); joined.len()]);
                u.par_times(&again.pairs, &joined, width, &mut t);
                let of_h = dots(&kept, &t, shape, pairs);
                u.par_transposed_times(&again.pairs, &scaled(&t, h, shape, 1), width, &mut of_x);
                Ok(vec![Gradient::Of(shape.part(&of_x, 0, 1)), Gradient::Of(of_h)])
            },
        ))
    }
}

impl Sided {
    /// Returns U(h ⊙ Q) of every lane, for Q that is in the basis of the eigenvectors already: pairs × columns; `response`
    /// holds h: lanes × pairs. With G the gradient of the result and T = UᵀG: ∂h_i = ⟨T_i, Q_i⟩ and ∂Q = h ⊙ T.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn synthesize(&self, vectors: &Eigenvectors, response: &impl AsTensor) -> Result<Self> {
        let response = response.tensor();
        on_gpu!(self.main() => super::cuda::synthesize(&vectors.on_gpu()?, &response, self));
        let (pairs, nodes) = (vectors.pairs.len(), vectors.nodes);
        let (shape, out_shape) = match (self.dims(), response.dims()) {
            (&[lanes, rows, columns], &[of_lanes, of_pairs]) if (rows, of_lanes, of_pairs) == (pairs, lanes, pairs) => {
                (SideBySide { lanes, rows, columns }, SideBySide { lanes, rows: nodes, columns })
            }
            (q, h) => bail!("{pairs} eigenvectors of {nodes} nodes with responses of {h:?} cannot synthesize {q:?}"),
        };
        let again = vectors.clone();
        by_float!(self.dtype(), "a synthesis", T => operation::<T, _, 1, 1>(
            [self],
            [&response],
            &[shape.lanes, nodes, shape.columns],
            |sides, [h]| {
                let (u, count) = (vectors.panels::<T>()?, sides.len());
                let q = shape.join(&sides.iter().map(|[q]| *q).collect::<Vec<_>>());
                let width = shape.width(count);
                let mut out = vec![T::default(); nodes * width];
                u.par_transposed_times(&vectors.pairs, &scaled(&q, h, shape, count), width, &mut out);
                Ok(((0..count).map(|i| out_shape.part(&out, i, count)).collect(), ()))
            },
            move |Back { gradient, inputs: [q], weights: [h], .. }| {
                let (u, width) = (again.panels::<T>()?, shape.width(1));
                let mut t = vec![T::default(); pairs * width];
                u.par_times(&again.pairs, &out_shape.join(&[gradient]), width, &mut t);
                let of_h = dots(&shape.join(&[q]), &t, shape, pairs);
                Ok(vec![Gradient::Of(shape.part(&scaled(&t, h, shape, 1), 0, 1)), Gradient::Of(of_h)])
            },
        ))
    }
}

/// Returns ⟨t_i, y_i⟩ of every lane and pair. All lanes stand side by side; `y` has those of the training side first, `t` them
/// alone.
fn dots<T: Element>(y: &[T], t: &[T], shape: SideBySide, pairs: usize) -> Vec<T> {
    let (of_y, of_t) = (y.len() / pairs.max(1), t.len() / pairs.max(1));
    let mut dots = vec![T::default(); shape.lanes * pairs];
    dots.par_chunks_mut(pairs.max(1)).enumerate().for_each(|(lane, dots)| {
        let part = lane * shape.columns..(lane + 1) * shape.columns;
        for ((dot, y), t) in dots.iter_mut().zip(y.chunks_exact(of_y)).zip(t.chunks_exact(of_t)) {
            let products = y[part.clone()].iter().zip(&t[part.clone()]).map(|(y, t)| y.widen() * t.widen());
            *dot = T::narrow(products.sum());
        }
    });
    dots
}

fn shape(vectors: &Eigenvectors, z: &[usize], h: &[usize]) -> Result<(SideBySide, usize)> {
    let (pairs, nodes) = (vectors.pairs.len(), vectors.nodes);
    match (z, h) {
        ([lanes, rows, columns], [lanes_h, pairs_h]) if (lanes, *rows, *pairs_h) == (lanes_h, nodes, pairs) => {
            Ok((SideBySide { lanes: *lanes, rows: *rows, columns: *columns }, pairs))
        }
        _ => bail!("{pairs} eigenvectors of {nodes} nodes with responses of {h:?} cannot filter {z:?}"),
    }
}

/// Returns h ⊙ Y. `count`: tensors side by side.
fn scaled<T: Element>(y: &[T], h: &[T], shape: SideBySide, count: usize) -> Vec<T> {
    let (width, columns) = (shape.width(count), shape.columns);
    let (lanes, pairs) = (shape.lanes, h.len() / shape.lanes.max(1));
    let mut out = vec![T::default(); y.len()];
    out.par_chunks_mut(width).zip(y.par_chunks(width)).enumerate().with_min_len(64).for_each(|(pair, (out, y))| {
        for lane in 0..count * lanes {
            let (h, at) = (h[lane % lanes * pairs + pair], lane * columns);
            match (y[at..].first_chunk::<8>(), out[at..].first_chunk_mut::<8>()) {
                // What is too much of a lane is overwritten by the next.
                (Some(y), Some(out)) if columns <= 8 => *out = y.map(|y| y * h),
                _ => out[at..at + columns].iter_mut().zip(&y[at..]).for_each(|(out, y)| *out = *y * h),
            }
        }
        out[count * lanes * columns..].fill(T::default());
    });
    out
}
