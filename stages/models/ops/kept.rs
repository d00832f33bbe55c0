//! Values of the best epochs: lanes of one tensor copied into another, and taken out again.

use candle_core::{DType, Result, Tensor, bail};

/// Copies some lanes of a tensor into what is kept, where the tensor is; all of them when nothing is kept yet.
///
/// # Errors
/// When the shapes differ, or a GPU has no room.
pub fn keep_lanes(kept: &mut Option<Tensor>, now: &Tensor, lanes: &[usize]) -> Result<()> {
    let Some(kept) = kept else {
        *kept = Some(now.copy()?);
        return Ok(());
    };
    if kept.dims() != now.dims() {
        bail!("{:?} cannot be kept in {:?}", now.dims(), kept.dims());
    }
    on_gpu!(kept => crate::tensor::cuda::keep_lanes(kept, now, lanes));
    lanes.iter().try_for_each(|lane| kept.slice_set(&now.narrow(0, *lane, 1)?.contiguous()?, 0, *lane))
}

/// Reads one lane of a tensor. From a GPU, this lane alone is copied.
///
/// # Errors
/// When there is no such lane, or a GPU has failed.
pub fn lane_values(tensor: &Tensor, lane: usize) -> Result<Vec<f32>> {
    on_gpu!(tensor => crate::tensor::cuda::read(&tensor.narrow(0, lane, 1)?.force_contiguous()?));
    tensor.get(lane)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}
