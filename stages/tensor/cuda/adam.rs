//! Adam on a GPU: weights and moments are changed in place.

use std::cell::RefCell;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, PushKernelArg};
use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Result, Tensor, bail};

use super::{MODULE, PTX, blocks, launch, lend, values};

/// Takes one step. `numbers`: weight decay, decays of both moments, what is added to the root of the second, the learning rate
/// over the bias of the first, and the bias of the second.
///
/// # Errors
/// When the shapes do not fit.
pub fn adam(weights: &Tensor, [first, second]: [&Tensor; 2], gradient: &Tensor, numbers: [f64; 6]) -> Result<()> {
    let (size, numbers) = (weights.elem_count(), numbers.map(|number| number as f32));
    lend([gradient], |[gradient]| {
        let func = gradient.0.device().get_or_load_custom_func("adam", MODULE, PTX)?;
        let (gradient, length) = (values::<f32>(gradient, size, "gradient")?, size as u64);
        change(weights, size, |w| {
            change(first, size, |m| {
                change(second, size, |v| {
                    let mut args = func.builder();
                    args.arg(&mut *w).arg(&mut *m).arg(v).arg(&gradient);
                    for number in &numbers {
                        args.arg(number);
                    }
                    args.arg(&length);
                    launch(args, blocks(size)?, 1)
                })
            })
        })
    })
}

/// Lends a tensor of `size` values to a function that changes them.
fn change(tensor: &Tensor, size: usize, f: impl FnMut(&mut CudaSlice<f32>) -> Result<()>) -> Result<()> {
    tensor.inplace_op1(&Change { size, f: RefCell::new(f) })
}

/// candle lends a storage to be changed to operations alone.
struct Change<F> {
    size: usize,
    f: RefCell<F>,
}

impl<F: FnMut(&mut CudaSlice<f32>) -> Result<()>> InplaceOp1 for Change<F> {
    fn name(&self) -> &'static str {
        "change"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("a tensor on a GPU is needed here")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        let values = storage.as_cuda_slice_mut::<f32>()?;
        if layout.contiguous_offsets() != Some((0, self.size)) || values.len() != self.size {
            bail!("what is changed must be {} values on their own", self.size);
        }
        self.f.borrow_mut()(values)
    }
}
