//! Filtering in the basis of the kept eigenvectors: U(h ⊙ UᵀZ), as one step with its own backward pass.
//!
//! U: nodes × pairs, given as its transpose; of every lane, h: pairs and Z: nodes × columns. The nodes × nodes matrix
//! U diag(h) Uᵀ is never formed; published code forms it in every pass. With G the gradient of the result and Y = UᵀZ,
//! which forward leaves behind: T = UᵀG, ∂h_i = ⟨T_i, Y_i⟩, ∂Z = U(h ⊙ T). All lanes stand side by side, training and
//! evaluation too, so forward and backward read U twice each.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, DType, Device, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::side_by_side::SideBySide;
use super::wide::{Beside, Wide};
use crate::math::kernels::tall::Panels;
use crate::tensor::slices::{self, Element, by_float};

/// The kept eigenvectors of a graph as rows, pairs × nodes, and fixed.
#[derive(Clone)]
pub struct Eigenvectors {
    stored: Arc<Stored>,
    /// The pairs that a model uses.
    pairs: Range<usize>,
}

enum Stored {
    Single(Panels<f32>),
    Double(Panels<f64>),
    /// On a card, in single precision.
    #[cfg(feature = "cuda")]
    OnCard(Tensor),
}

impl Eigenvectors {
    /// Takes eigenvectors of `nodes` entries one after the other, for products of type `dtype`.
    ///
    /// # Errors
    /// When `dtype` is not a float type.
    pub fn new(sides: &[&[f32]], nodes: usize, dtype: DType) -> Result<Self> {
        let rows: Vec<&[f32]> = sides.iter().flat_map(|side| side.chunks_exact(nodes.max(1))).collect();
        let stored = match dtype {
            DType::F32 => Stored::Single(Panels::new(rows.len(), nodes, |i| rows[i])),
            DType::F64 => {
                let wide: Vec<f64> = rows.iter().flat_map(|row| row.iter().map(|x| f64::from(*x))).collect();
                Stored::Double(Panels::new(rows.len(), nodes, |i| &wide[i * nodes..(i + 1) * nodes]))
            }
            _ => return slices::float_only("eigenvectors"),
        };
        Ok(Self { stored: Arc::new(stored), pairs: 0..rows.len() })
    }

    /// As [`Eigenvectors::new`], for products on `device`.
    ///
    /// # Errors
    /// When `dtype` is not a float type, or a card has no room.
    pub fn on(device: &Device, sides: &[&[f32]], nodes: usize, dtype: DType) -> Result<Self> {
        match device {
            Device::Cpu => Self::new(sides, nodes, dtype),
            #[cfg(feature = "cuda")]
            Device::Cuda(_) => Self::upload(sides, nodes, device),
            other => bail!("eigenvectors cannot be on {:?}", other.location()),
        }
    }

    #[cfg(feature = "cuda")]
    fn upload(sides: &[&[f32]], nodes: usize, device: &Device) -> Result<Self> {
        let side = |side: &&[f32]| Tensor::from_slice(side, (side.len() / nodes.max(1), nodes), device);
        let rows = Tensor::cat(&sides.iter().map(side).collect::<Result<Vec<_>>>()?, 0)?;
        let pairs = 0..rows.dim(0)?;
        Ok(Self { stored: Arc::new(Stored::OnCard(rows)), pairs })
    }

    #[cfg(feature = "cuda")]
    fn on_card(&self) -> Result<Tensor> {
        match &*self.stored {
            Stored::OnCard(rows) => rows.narrow(0, self.pairs.start, self.pairs.len()),
            _ => bail!("these eigenvectors are not on a card"),
        }
    }

    /// Keeps some of the pairs.
    #[must_use]
    pub fn keep(&self, pairs: Range<usize>) -> Self {
        Self { stored: self.stored.clone(), pairs }
    }

    fn nodes(&self) -> usize {
        match &*self.stored {
            Stored::Single(panels) => panels.columns(),
            Stored::Double(panels) => panels.columns(),
            #[cfg(feature = "cuda")]
            Stored::OnCard(rows) => rows.dim(1).unwrap_or(0),
        }
    }
}

/// A float type with its eigenvectors.
trait Stores: Element {
    fn panels(stored: &Stored) -> Result<&Panels<Self>>;
}

impl Stores for f32 {
    fn panels(stored: &Stored) -> Result<&Panels<f32>> {
        if let Stored::Single(panels) = stored { Ok(panels) } else { bail!("eigenvectors of another type") }
    }
}

impl Stores for f64 {
    fn panels(stored: &Stored) -> Result<&Panels<f64>> {
        if let Stored::Double(panels) = stored { Ok(panels) } else { bail!("eigenvectors of another type") }
    }
}

/// Returns U(h ⊙ UᵀZ) of every lane; `response` is h, lanes × pairs; `z`: lanes × nodes × columns.
///
/// # Errors
/// When shapes or types do not fit.
pub fn filter(vectors: &Eigenvectors, response: &Tensor, z: &Wide) -> Result<Wide> {
    on_card!(z.main() => super::cuda::filter(&vectors.on_card()?, response, z));
    let response = response.contiguous()?;
    let kept: Kept = Arc::default();
    let (input, of, again) = (z.main().clone(), response.clone(), vectors.clone());
    let forward = |z: &Tensor, beside| {
        z.apply_op2_no_bwd(&response, &Filter { vectors: vectors.clone(), beside, kept: kept.clone() })
    };
    z.apply(forward, {
        let kept = kept.clone();
        move |grad| {
            let (of_z, of_h) = filter_back(&again, &kept, &input, &of, grad)?;
            Ok(vec![(input, of_z), (of, of_h)])
        }
    })
}

/// Y, lanes side by side, those of the training side first; and how many tensors stand side by side.
type Kept = Arc<Mutex<Option<(CpuStorage, usize)>>>;

struct Filter {
    vectors: Eigenvectors,
    beside: Beside,
    kept: Kept,
}

fn shape(vectors: &Eigenvectors, z: &[usize], h: &[usize]) -> Result<(SideBySide, usize)> {
    let (pairs, nodes) = (vectors.pairs.len(), vectors.nodes());
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

impl CustomOp2 for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn cpu_fwd(&self, z: &CpuStorage, zl: &Layout, h: &CpuStorage, hl: &Layout) -> Result<(CpuStorage, Shape)> {
        let (shape, pairs) = shape(&self.vectors, zl.dims(), hl.dims())?;
        let out = by_float!(z.dtype(), "a filter", T => {
            let (main, h): (&[T], &[T]) = (slices::slice(z, zl)?, slices::slice(h, hl)?);
            let run = |tensors: &[&[T]]| {
                let (joined, count) = (shape.join(tensors), tensors.len());
                let width = shape.width(count);
                let mut y = vec![T::default(); pairs * width];
                let mut out = vec![T::default(); joined.len()];
                let u = T::panels(&self.vectors.stored)?;
                u.par_times(&self.vectors.pairs, &joined, width, &mut y);
                u.par_transposed_times(&self.vectors.pairs, &scaled(&y, h, shape, count), width, &mut out);
                let kept = Some((T::to_cpu_storage_owned(y), count));
                *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
                Ok((0..count).map(|i| shape.part(&out, i, count)).collect::<Vec<_>>())
            };
            self.beside.both(main, zl.shape(), run)
        })?;
        Ok((out, zl.shape().clone()))
    }
}

/// ∂Z and ∂h.
fn filter_back(vectors: &Eigenvectors, kept: &Kept, z: &Tensor, h: &Tensor, grad: &Tensor) -> Result<(Tensor, Tensor)> {
    let (shape, pairs) = shape(vectors, z.dims(), h.dims())?;
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((kept, count)) = kept.as_ref() else { bail!("a filter goes backward after it went forward") };
    by_float!(z.dtype(), "a filter", T => {
        let (y, u) = (T::cpu_storage_as_slice(kept)?, T::panels(&vectors.stored)?);
        let joined = slices::values::<T, _>(grad, |grad| Ok(shape.join(&[grad])))?;
        let (width, width_y, columns) = (shape.width(1), shape.width(*count), shape.columns);
        let (mut t, mut of_z) = (vec![T::default(); pairs * width], vec![T::default(); joined.len()]);
        u.par_times(&vectors.pairs, &joined, width, &mut t);
        let mut of_h = vec![T::default(); shape.lanes * pairs];
        of_h.par_chunks_mut(pairs.max(1)).enumerate().for_each(|(lane, of_h)| {
            let part = lane * columns..(lane + 1) * columns;
            for ((of_h, y), t) in of_h.iter_mut().zip(y.chunks_exact(width_y)).zip(t.chunks_exact(width)) {
                let products = y[part.clone()].iter().zip(&t[part.clone()]).map(|(y, t)| y.widen() * t.widen());
                *of_h = T::narrow(products.sum());
            }
        });
        let t = slices::values::<T, _>(h, |h| Ok(scaled(&t, h, shape, 1)))?;
        u.par_transposed_times(&vectors.pairs, &t, width, &mut of_z);
        Ok((slices::tensor(shape.part(&of_z, 0, 1), z.dims())?, slices::tensor(of_h, h.dims())?))
    })
}
