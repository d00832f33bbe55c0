//! The features of a graph in plain form: dense as a tensor, sparse as a product with weights.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Result, Tensor, bail};
use candle_nn::{Linear, Module};

use super::Mode;
use super::graph::once;
use crate::models::FeatureView;
use crate::models::ops::{Mask, candle_graph};

/// X, nodes × features.
#[derive(Clone)]
pub struct PlainFeatures(Kind);

#[derive(Clone)]
enum Kind {
    Dense(Tensor),
    Sparse(Sparse),
}

#[derive(Clone)]
struct Sparse {
    view: Arc<FeatureView>,
    /// What is left of the stored values.
    mask: Option<Arc<Mask>>,
    device: Device,
    places: Arc<OnceLock<Places>>,
}

/// Where the stored values stand: what candle's operations gather and add by on a GPU.
struct Places {
    rows: Tensor,
    columns: Tensor,
    /// Places in X as one row after the other.
    flat: Tensor,
    /// Stored values × 1.
    values: Tensor,
}

impl PlainFeatures {
    pub(super) fn new(view: &Arc<FeatureView>, device: &Device) -> Result<Self> {
        if !view.is_sparse() {
            return Ok(Self(Kind::Dense(view.to_dense()?.to_device(device)?)));
        }
        let (view, device) = (view.clone(), device.clone());
        Ok(Self(Kind::Sparse(Sparse { view, mask: None, device, places: Arc::default() })))
    }

    /// Returns X·W; `weight`: features × out. Zeros of sparse features cost nothing.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn times(&self, weight: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Kind::Dense(x) => x.matmul(weight),
            Kind::Sparse(x) if x.device.is_cpu() => candle_graph::features_times(&x.view, x.mask.as_ref(), weight),
            Kind::Sparse(x) => x.times_by_places(weight),
        }
    }

    /// Returns what a layer of candle-nn makes of X, X Wᵀ + b.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn linear(&self, layer: &Linear) -> Result<Tensor> {
        let Kind::Sparse(_) = &self.0 else { return layer.forward(&self.dense()?) };
        let product = self.times(&layer.weight().t()?)?;
        layer.bias().map_or(Ok(product.clone()), |bias| product.broadcast_add(bias))
    }

    /// Drops entries in training, as [`Mode::dropout`] does: of sparse features, stored values only.
    ///
    /// # Errors
    /// When p is no rate.
    pub fn dropout(&self, mode: &mut Mode, p: f64, purpose: impl Into<Cow<'static, str>>) -> Result<Self> {
        Ok(Self(match &self.0 {
            Kind::Dense(x) => Kind::Dense(mode.dropout(x, p, purpose)?),
            Kind::Sparse(x) => match mode.mask(x.view.stored(), p, purpose)? {
                Some(mask) if x.mask.is_none() => Kind::Sparse(Sparse { mask: Some(Arc::new(mask)), ..x.clone() }),
                Some(_) => bail!("features are dropped once in a pass"),
                None => Kind::Sparse(x.clone()),
            },
        }))
    }

    /// Returns all entries, zeros too. Sparse features may be large so.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn dense(&self) -> Result<Tensor> {
        match &self.0 {
            Kind::Dense(x) => Ok(x.clone()),
            Kind::Sparse(x) => x.spread(),
        }
    }

    /// The same features, computed with as they are on a GPU.
    #[cfg(test)]
    pub(super) fn times_by_places(&self, weight: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Kind::Dense(_) => self.times(weight),
            Kind::Sparse(x) => x.times_by_places(weight),
        }
    }
}

impl Sparse {
    /// X·W by candle's operations alone.
    fn times_by_places(&self, weight: &Tensor) -> Result<Tensor> {
        let places = once(&self.places, || Places::new(&self.view, &self.device))?;
        let weights = weight.contiguous()?.index_select(&places.columns, 0)?;
        let terms = weights.broadcast_mul(&self.left(&places.values)?)?;
        let zeros = Tensor::zeros((self.view.rows(), weight.dim(1)?), weight.dtype(), &self.device)?;
        zeros.index_add(&places.rows, &terms, 0)
    }

    /// What the mask leaves of the stored values.
    fn left(&self, values: &Tensor) -> Result<Tensor> {
        self.mask.as_ref().map_or(Ok(values.clone()), |mask| super::mode::masked(values, mask))
    }

    /// All entries, zeros too.
    fn spread(&self) -> Result<Tensor> {
        let places = once(&self.places, || Places::new(&self.view, &self.device))?;
        let (rows, columns) = (self.view.rows(), self.view.columns());
        let values = self.left(&places.values)?.flatten_all()?;
        let full = Tensor::zeros(rows * columns, values.dtype(), &self.device)?;
        full.index_add(&places.flat, &values, 0)?.reshape((rows, columns))
    }
}

impl Places {
    fn new(view: &FeatureView, device: &Device) -> Result<Self> {
        let (positions, values) = view.entries()?;
        let columns = view.columns();
        let flat: Vec<i64> = positions.iter().filter_map(|(i, j)| i64::try_from(i * columns + j).ok()).collect();
        let place = |of: fn(&(usize, usize)) -> usize| {
            let places: Vec<u32> = positions.iter().filter_map(|at| u32::try_from(of(at)).ok()).collect();
            Tensor::from_vec(places, positions.len(), device)
        };
        Ok(Self {
            rows: place(|at| at.0)?,
            columns: place(|at| at.1)?,
            flat: Tensor::from_vec(flat, positions.len(), device)?,
            values: values.to_device(device)?,
        })
    }
}
