//! A layer of every lane on trained input: X·W + b, or X·W.
//!
//! Of every lane, X: rows × in, W: in × out, b: out; ∂X = G·Wᵀ, ∂W = XᵀG, ∂b = column sums of G, with G the gradient of
//! the result. Rows are cut into ranges that depend on their number alone; sums of ranges are added in order.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::wide::{Beside, Wide};
use crate::host::{self, Element, by_float};
use crate::math::kernels::tall::{Matrix, Onto};
use crate::math::kernels::{pad_rows, padded, unpad_rows};
use crate::math::real::Real;

/// Rows that one task handles.
const RANGE: usize = 1024;

/// Returns X·W + b of every lane: `x` lanes × rows × in, `weight` lanes × in × out, `bias` lanes × out.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn affine(x: &Wide, weight: &Tensor, bias: &Tensor) -> Result<Wide> {
    on_card!(weight => super::cuda::layer(x, weight, Some(bias)));
    let (weight, bias, input) = (weight.contiguous()?, bias.contiguous()?, x.main().clone());
    x.apply(|x, beside| x.apply_op3_no_bwd(&weight, &bias, &Affine { beside }), {
        let (weight, bias) = (weight.clone(), bias.clone());
        move |grad| {
            let [of_x, of_w, of_b] = backward(&input, &weight, grad)?;
            Ok(vec![(input, of_x), (weight, of_w), (bias, of_b)])
        }
    })
}

/// Returns X·W of every lane: `x` lanes × rows × in, `weight` lanes × in × out.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn product(x: &Wide, weight: &Tensor) -> Result<Wide> {
    on_card!(weight => super::cuda::layer(x, weight, None));
    let (weight, input) = (weight.contiguous()?, x.main().clone());
    x.apply(|x, beside| x.apply_op2_no_bwd(&weight, &Times { beside }), {
        let weight = weight.clone();
        move |grad| {
            let [of_x, of_w, _] = backward(&input, &weight, grad)?;
            Ok(vec![(input, of_x), (weight, of_w)])
        }
    })
}

struct Affine {
    beside: Beside,
}

struct Times {
    beside: Beside,
}

/// lanes, rows, in, out.
type Sizes = [usize; 4];

fn sizes(x: &[usize], w: &[usize], b: Option<&[usize]>) -> Result<Sizes> {
    match (x, w) {
        ([lanes, rows, inputs], [lanes_w, inputs_w, outputs])
            if (lanes, inputs) == (lanes_w, inputs_w) && b.is_none_or(|b| b == [*lanes, *outputs]) =>
        {
            Ok([*lanes, *rows, *inputs, *outputs])
        }
        _ => bail!("{x:?} times {w:?} plus {b:?} is no layer of every lane"),
    }
}

impl CustomOp3 for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
        b: &CpuStorage,
        bl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let sizes = sizes(xl.dims(), wl.dims(), Some(bl.dims()))?;
        by_float!(x.dtype(), "a layer", T => {
            forward::<T>((x, xl), (w, wl), Some(host::slice(b, bl)?), &self.beside, sizes)
        })
    }
}

impl CustomOp2 for Times {
    fn name(&self) -> &'static str {
        "product"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, w: &CpuStorage, wl: &Layout) -> Result<(CpuStorage, Shape)> {
        let sizes = sizes(xl.dims(), wl.dims(), None)?;
        by_float!(x.dtype(), "a product", T => forward::<T>((x, xl), (w, wl), None, &self.beside, sizes))
    }
}

fn forward<T: Element>(
    x: (&CpuStorage, &Layout),
    w: (&CpuStorage, &Layout),
    bias: Option<&[T]>,
    beside: &Beside,
    sizes: Sizes,
) -> Result<(CpuStorage, Shape)> {
    let [lanes, rows, inputs, outputs] = sizes;
    let weights = padded_lanes(host::slice::<T>(w.0, w.1)?, inputs, outputs);
    if let Some(eval) = beside.input() {
        let out = host::values::<T, _>(eval, |x| Ok(layer(x, &weights, bias, sizes)))?;
        beside.put(host::tensor(out, &[lanes, rows, outputs])?);
    }
    let out = layer(host::slice::<T>(x.0, x.1)?, &weights, bias, sizes);
    Ok((T::to_cpu_storage_owned(out), Shape::from((lanes, rows, outputs))))
}

/// ∂X, ∂W and ∂b.
fn backward(x: &Tensor, w: &Tensor, grad: &Tensor) -> Result<[Tensor; 3]> {
    let sizes @ [lanes, .., outputs] = sizes(x.dims(), w.dims(), None)?;
    by_float!(x.dtype(), "a layer", T => {
        let (of_x, of_w, of_b) = host::values::<T, _>(x, |x| {
            host::values::<T, _>(w, |w| host::values::<T, _>(grad, |g| Ok(gradients(x, w, g, sizes))))
        })?;
        Ok([
            host::tensor(of_x, x.dims())?,
            host::tensor(of_w, w.dims())?,
            host::tensor(of_b, &[lanes, outputs])?,
        ])
    })
}

/// Brings every lane of `rows` × `columns` values into padded rows.
fn padded_lanes<T: Element>(values: &[T], rows: usize, columns: usize) -> Vec<Vec<T>> {
    let lane = |values: &[T]| {
        let mut out = vec![T::default(); rows * padded(columns)];
        pad_rows(values, columns, &mut out);
        out
    };
    values.chunks(rows * columns).map(lane).collect()
}

fn layer<T: Element>(x: &[T], weights: &[Vec<T>], bias: Option<&[T]>, [lanes, rows, inputs, outputs]: Sizes) -> Vec<T> {
    let mut out = vec![T::default(); lanes * rows * outputs];
    out.par_chunks_mut((rows * outputs).max(1)).enumerate().for_each(|(lane, out)| {
        let x = &x[lane * rows * inputs..];
        let bias = bias.map(|bias| &bias[lane * outputs..(lane + 1) * outputs]);
        out.par_chunks_mut(RANGE * outputs).enumerate().for_each_init(Vec::new, |wide, (range, out)| {
            let count = out.len() / outputs;
            let x = &x[range * RANGE * inputs..][..count * inputs];
            wide.resize(count * padded(outputs), T::default());
            Matrix::new(x, inputs).times(&weights[lane], outputs, Onto::Nothing, wide);
            unpad_rows(wide, outputs, out);
            if let Some(bias) = bias {
                for row in out.chunks_exact_mut(outputs) {
                    row.iter_mut().zip(bias).for_each(|(x, b)| *x += *b);
                }
            }
        });
    });
    out
}

/// ∂X, ∂W and ∂b.
fn gradients<T: Element>(x: &[T], w: &[T], g: &[T], [lanes, rows, inputs, outputs]: Sizes) -> (Vec<T>, Vec<T>, Vec<T>) {
    let mut of_x = vec![T::default(); lanes * rows * inputs];
    let ranges = rows.div_ceil(RANGE);
    let work = |(lane, range, of_x): (usize, usize, &mut [T])| {
        let (first, count) = (lane * rows + range * RANGE, of_x.len() / inputs);
        let x = &x[first * inputs..(first + count) * inputs];
        let g = &g[first * outputs..(first + count) * outputs];
        // G·Wᵀ: the entries of W stand as Wᵀ needs them once its rows are padded.
        let mut transposed = vec![T::default(); outputs * padded(inputs)];
        for (i, row) in w[lane * inputs * outputs..(lane + 1) * inputs * outputs].chunks_exact(outputs).enumerate() {
            row.iter().enumerate().for_each(|(j, w)| transposed[j * padded(inputs) + i] = *w);
        }
        let mut wide = vec![T::default(); count * padded(inputs)];
        Matrix::new(g, outputs).times(&transposed, inputs, Onto::Nothing, &mut wide);
        unpad_rows(&wide, inputs, of_x);
        let mut wide_g = vec![T::default(); count * padded(outputs)];
        pad_rows(g, outputs, &mut wide_g);
        let mut wide_w = vec![T::default(); inputs * padded(outputs)];
        Matrix::new(x, inputs).transposed_times(&wide_g, outputs, Onto::Nothing, &mut wide_w);
        let mut of_w = vec![T::default(); inputs * outputs];
        unpad_rows(&wide_w, outputs, &mut of_w);
        (of_w, column_sums(g, outputs))
    };
    let pieces = of_x.par_chunks_mut((rows * inputs).max(1)).enumerate().flat_map(|(lane, of_x)| {
        of_x.par_chunks_mut(RANGE * inputs).enumerate().map(move |(range, of_x)| (lane, range, of_x))
    });
    let partials: Vec<(Vec<T>, Vec<f64>)> = pieces.map(work).collect();
    let (mut of_w, mut of_b) = (Vec::with_capacity(w.len()), Vec::with_capacity(lanes * outputs));
    for lane in partials.chunks(ranges.max(1)) {
        let (mut w, mut b) = lane[0].clone();
        for (part_w, part_b) in &lane[1..] {
            w.iter_mut().zip(part_w).for_each(|(a, b)| *a += *b);
            b.iter_mut().zip(part_b).for_each(|(a, b)| *a += b);
        }
        of_w.extend(w);
        of_b.extend(b.into_iter().map(T::narrow));
    }
    (of_x, of_w, of_b)
}

/// Returns the sum of every column: eight rows in the type itself, then on in double precision.
pub(crate) fn column_sums<T: Real>(rows: &[T], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    let mut few = vec![T::default(); columns];
    for rows in rows.chunks(8 * columns.max(1)) {
        few.fill(T::default());
        for row in rows.chunks_exact(columns.max(1)) {
            few.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
        }
        sums.iter_mut().zip(&few).for_each(|(sum, x)| *sum += x.widen());
    }
    sums
}
