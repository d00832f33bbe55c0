//! Sums: a bias for every lane, and two quantities of the same shape.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::wide::{Beside, Eval, Wide};
use crate::math::dense::sums_of_columns;
use crate::tensor::slices::{self, by_float};

/// Values that one task adds.
const TASK: usize = 1 << 14;

/// Returns z + b of every lane: `z` lanes × nodes × columns, `bias` lanes × columns.
///
/// # Errors
/// When shapes or types do not fit.
pub fn shift(z: &Wide, bias: &Tensor) -> Result<Wide> {
    on_card!(bias => super::cuda::shift(z, bias));
    let bias = bias.contiguous()?;
    let (input, of) = (z.main().clone(), bias.clone());
    z.apply(
        |z, beside| z.apply_op2_no_bwd(&bias, &Shift { beside }),
        move |grad| {
            let sums = sums_of_lanes(grad)?;
            Ok(vec![(input, grad.clone()), (of, sums)])
        },
    )
}

/// Returns a + b.
///
/// # Errors
/// When shapes or types do not fit.
pub fn add(a: &Wide, b: &Wide) -> Result<Wide> {
    let eval = match (a.eval_side(), b.eval_side()) {
        (Eval::Same, Eval::Same) => Eval::Same,
        _ => match (a.eval(), b.eval()) {
            (Some(a), Some(b)) => Eval::Own(sum(a, b)?),
            _ => Eval::Absent,
        },
    };
    let inputs = [a.main().clone(), b.main().clone()];
    Ok(a.next(sum(a.main(), b.main())?, eval, move |grad| {
        Ok(inputs.into_iter().map(|input| (input, grad.clone())).collect())
    }))
}

/// Returns a + b of plain tensors.
pub(super) fn sum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    on_card!(a => a + b);
    a.contiguous()?.apply_op2_no_bwd(&b.contiguous()?, &Add)
}

/// Returns the sums of the columns of every lane.
fn sums_of_lanes(values: &Tensor) -> Result<Tensor> {
    let (lanes, rows, columns) = values.dims3()?;
    by_float!(values.dtype(), "a bias", T => {
        let sums: Vec<Vec<f64>> = slices::values::<T, _>(values, |v| {
            Ok(v.par_chunks((rows * columns).max(1)).map(|v| sums_of_columns(v, columns)).collect())
        })?;
        slices::tensor(sums.into_iter().flatten().map(T::narrow).collect(), &[lanes, columns])
    })
}

struct Shift {
    beside: Beside,
}

impl CustomOp2 for Shift {
    fn name(&self) -> &'static str {
        "shift"
    }

    fn cpu_fwd(&self, z: &CpuStorage, zl: &Layout, b: &CpuStorage, bl: &Layout) -> Result<(CpuStorage, Shape)> {
        let (lanes, rows, columns) = zl.shape().dims3()?;
        if bl.dims() != [lanes, columns] {
            bail!("a bias of {:?} for {:?}", bl.dims(), zl.dims());
        }
        let out = by_float!(z.dtype(), "a bias", T => {
            let bias: &[T] = slices::slice(b, bl)?;
            let add = |z: &[T]| {
                let mut out = z.to_vec();
                out.par_chunks_mut((rows * columns).max(1)).zip(bias.par_chunks(columns.max(1))).for_each(|(out, bias)| {
                    for row in out.chunks_exact_mut(columns) {
                        row.iter_mut().zip(bias).for_each(|(x, b)| *x += *b);
                    }
                });
                out
            };
            self.beside.each::<T>(slices::slice(z, zl)?, zl.shape(), add)
        })?;
        Ok((out, zl.shape().clone()))
    }
}

struct Add;

impl CustomOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(&self, a: &CpuStorage, al: &Layout, b: &CpuStorage, bl: &Layout) -> Result<(CpuStorage, Shape)> {
        if al.dims() != bl.dims() {
            bail!("{:?} plus {:?} is no sum", al.dims(), bl.dims());
        }
        let out = by_float!(a.dtype(), "a sum", T => {
            let (mut out, b) = (slices::slice::<T>(a, al)?.to_vec(), slices::slice::<T>(b, bl)?);
            out.par_chunks_mut(TASK).zip(b.par_chunks(TASK)).for_each(|(out, b)| {
                out.iter_mut().zip(b).for_each(|(x, b)| *x += *b);
            });
            Ok(T::to_cpu_storage_owned(out))
        })?;
        Ok((out, al.shape().clone()))
    }
}
