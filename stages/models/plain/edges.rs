//! Entries of a sparse matrix as tensors of places and values: what candle's own operations gather and add by.

use candle_core::{D, DType, Device, Result, Tensor, bail};

use crate::models::ops::Propagator;

/// The edges of a graph in both directions, and its loops if the operator has some: edge e leads from node `sources[e]` to
/// node `targets[e]`, and edges of the same target stand together.
pub struct Edges {
    /// Nodes that edges lead from: edges, of type `u32`.
    pub sources: Tensor,
    /// Nodes that edges lead to: edges, of type `u32`, ascending.
    pub targets: Tensor,
    /// Entries of the operator: edges × 1.
    pub weights: Tensor,
    nodes: usize,
}

impl Edges {
    pub(super) fn new(operator: &Propagator, dtype: DType, device: &Device) -> Result<Self> {
        let matrix = operator.matrix();
        let (nodes, count) = (matrix.n(), matrix.indices.len());
        let targets = (0u32..).zip(0..nodes).flat_map(|(node, row)| matrix.range(row).map(move |_| node));
        let targets = Tensor::from_iter(targets, &Device::Cpu)?;
        let weights = Tensor::from_slice(&matrix.values, (count, 1), &Device::Cpu)?;
        Ok(Self {
            sources: Tensor::from_slice(&matrix.indices, count, device)?,
            targets: targets.to_device(device)?,
            weights: weights.to_dtype(dtype)?.to_device(device)?,
            nodes,
        })
    }

    /// Returns the number of edges.
    pub fn count(&self) -> usize {
        self.sources.elem_count()
    }

    /// Returns, for every edge, the row of the node that it leads from: edges × columns of `x`, nodes × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn of_sources(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()?.index_select(&self.sources, 0)
    }

    /// Returns, for every edge, the row of the node that it leads to: edges × columns of `x`, nodes × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn of_targets(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()?.index_select(&self.targets, 0)
    }

    /// Adds up rows of edges at the nodes that they lead to: nodes × columns of `messages`, edges × columns.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn sum(&self, messages: &Tensor) -> Result<Tensor> {
        let zeros = Tensor::zeros((self.nodes, messages.dim(1)?), messages.dtype(), messages.device())?;
        zeros.index_add(&self.targets, &messages.contiguous()?, 0)
    }

    /// Turns scores, edges × heads, into weights that sum to 1 over the edges that lead to a node, for every head.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn softmax(&self, scores: &Tensor) -> Result<Tensor> {
        let largest = self.largest(scores)?;
        let scaled = (scores - self.of_targets(&largest)?)?.exp()?;
        let sums = self.sum(&scaled)?;
        scaled / self.of_targets(&sums)?
    }

    /// The largest score of the edges that lead to a node: nodes × heads. A shift alone, so no gradient passes; candle has no
    /// such operation, so it is made in main memory.
    fn largest(&self, scores: &Tensor) -> Result<Tensor> {
        let heads = scores.dim(D::Minus1)?;
        if scores.dims() != [self.count(), heads] {
            bail!("scores of {:?} for {} edges", scores.dims(), self.count());
        }
        let wide = |tensor: &Tensor| tensor.to_device(&Device::Cpu);
        let values = wide(&scores.detach())?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        let mut largest = vec![f64::NEG_INFINITY; self.nodes * heads];
        for (target, scores) in wide(&self.targets)?.to_vec1::<u32>()?.into_iter().zip(values.chunks(heads.max(1))) {
            let largest = &mut largest[target as usize * heads..][..heads];
            largest.iter_mut().zip(scores).for_each(|(largest, score)| *largest = largest.max(*score));
        }
        let largest = Tensor::from_vec(largest, (self.nodes, heads), &Device::Cpu)?;
        largest.to_dtype(scores.dtype())?.to_device(scores.device())
    }
}
