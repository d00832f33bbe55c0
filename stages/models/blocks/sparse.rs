//! A layer on fixed sparse features: Y = X W + b, where only the stored values of X are touched.
//!
//! X: nodes × features and fixed, W: features × out, b: out; ∂W = Xᵀ·G and ∂b = column sums of G, with G the gradient of
//! Y. Dropout on X drops stored values only: a zero is zero with or without a mask, so the result is distributed as with
//! a mask on all entries, at the price of a random bit for each stored value.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, DType, Device, Layout, Result, Shape, Tensor, bail};

use super::Mask;
use super::host::{self, Element};
use super::product::column_sums;
use crate::math::csr::Csr;
use crate::math::sparse_product::TwoSided;

/// Sparse features, made ready once and shared by all passes; a pass with a mask has values of its own.
#[derive(Clone)]
pub struct SparseView {
    pattern: Arc<TwoSided>,
    values: Arc<CpuStorage>,
}

impl SparseView {
    /// Prepares features, with values of type `dtype`.
    ///
    /// # Errors
    /// When `dtype` is not a float type.
    pub fn new(features: &Csr<f32>, dtype: DType) -> Result<Self> {
        let values = match dtype {
            DType::F32 => CpuStorage::F32(features.values.clone()),
            DType::F64 => CpuStorage::F64(features.values.iter().map(|v| f64::from(*v)).collect()),
            _ => return host::float_only("a view of features"),
        };
        Ok(Self { pattern: Arc::new(TwoSided::new(features)), values: Arc::new(values) })
    }

    /// Returns the number of columns: features.
    pub fn columns(&self) -> usize {
        self.pattern.cols()
    }

    /// Returns the number of stored values.
    pub fn stored(&self) -> usize {
        self.pattern.entries()
    }

    /// Returns the type of the values.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// Applies a mask, of one entry a stored value in the order of the rows.
    #[must_use]
    pub fn dropped(&self, mask: &Mask) -> Self {
        let mut values = CpuStorage::clone(&self.values);
        match &mut values {
            CpuStorage::F32(values) => mask.apply(values),
            CpuStorage::F64(values) => mask.apply(values),
            // `new` makes no other.
            _ => {}
        }
        Self { pattern: self.pattern.clone(), values: Arc::new(values) }
    }

    /// Returns all entries, zeros too: nodes × features.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn to_dense(&self) -> Result<Tensor> {
        fn run<T: Element>(x: &SparseView) -> Result<Tensor> {
            let (rows, columns) = (x.pattern.rows(), x.pattern.cols());
            let mut full = vec![T::default(); rows * columns];
            for ((i, j), value) in x.pattern.positions().zip(T::cpu_storage_as_slice(&x.values)?) {
                full[i * columns + j] = *value;
            }
            Tensor::from_vec(full, (rows, columns), &Device::Cpu)
        }
        match self.dtype() {
            DType::F32 => run::<f32>(self),
            _ => run::<f64>(self),
        }
    }
}

/// Returns X·W + b for fixed sparse `x`: rows × in, `weight`: in × out, `bias`: out.
///
/// # Errors
/// When the shapes or types do not fit.
pub fn affine_sparse(x: &SparseView, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    weight.contiguous()?.apply_op2(&bias.contiguous()?, AffineSparse { x: x.clone() })
}

struct AffineSparse {
    x: SparseView,
}

impl AffineSparse {
    fn forward<T: Element>(&self, w: &[T], bias: &[T]) -> Result<CpuStorage> {
        let mut out = self.x.pattern.product(T::cpu_storage_as_slice(&self.x.values)?, w, bias.len());
        out.chunks_exact_mut(bias.len().max(1)).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, b)| *x += *b));
        Ok(T::to_cpu_storage_owned(out))
    }

    fn gradient<T: Element>(&self, w: &Tensor, grad: &Tensor) -> Result<Tensor> {
        let values = T::cpu_storage_as_slice(&self.x.values)?;
        let columns = w.dim(1)?;
        let out = host::values::<T, _>(grad, |grad| Ok(self.x.pattern.transposed_product(values, grad, columns)))?;
        Tensor::from_vec(out, w.shape(), w.device())
    }
}

impl CustomOp2 for AffineSparse {
    fn name(&self) -> &'static str {
        "affine-sparse"
    }

    fn cpu_fwd(&self, w: &CpuStorage, wl: &Layout, b: &CpuStorage, bl: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = (self.x.pattern.rows(), self.x.columns());
        let (k, outputs) = wl.shape().dims2()?;
        if k != inputs || bl.dims() != [outputs] {
            bail!("{rows} × {inputs} times {k} × {outputs}, plus {:?}, is no product", bl.dims());
        }
        let out = match self.x.dtype() {
            DType::F32 => self.forward::<f32>(host::slice(w, wl)?, host::slice(b, bl)?)?,
            _ => self.forward::<f64>(host::slice(w, wl)?, host::slice(b, bl)?)?,
        };
        Ok((out, Shape::from((rows, outputs))))
    }

    fn bwd(&self, w: &Tensor, _b: &Tensor, _out: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let of_w = match self.x.dtype() {
            DType::F32 => self.gradient::<f32>(w, grad)?,
            _ => self.gradient::<f64>(w, grad)?,
        };
        Ok((Some(of_w), Some(column_sums(grad)?)))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::math::random::Stream;
    use crate::math::sparse_product::tests::random;
    use crate::models::blocks::{affine_fixed, drop};
    use crate::models::testing::{assert_gradients, distance, normal};

    fn var(shape: &[usize], seed: u64, dtype: DType) -> Var {
        Var::from_tensor(&normal(shape, seed).to_dtype(dtype).unwrap()).unwrap()
    }

    fn mask(x: &SparseView, p: f64) -> Mask {
        Mask::draw(&mut Stream::new(6, &["test"]), x.stored(), p)
    }

    #[test]
    fn values_and_gradients_equal_those_of_the_dense_copy_with_and_without_a_mask() {
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-12)] {
            let whole = SparseView::new(&random(40, 30, 0.1, 1), dtype).unwrap();
            for x in [whole.dropped(&mask(&whole, 0.4)), whole] {
                let dense = x.to_dense().unwrap();
                let weight = normal(&[40, 5], 3).to_dtype(dtype).unwrap();
                let (w, b) = (var(&[30, 5], 1, dtype), var(&[5], 2, dtype));
                let (ours, theirs) = (affine_sparse(&x, &w, &b).unwrap(), affine_fixed(&dense, &w, &b).unwrap());
                assert_eq!(ours.dtype(), dtype);
                assert!(distance(&ours, &theirs) < tolerance);
                let grads = |t: &Tensor| (t * &weight).unwrap().sum_all().unwrap().backward().unwrap();
                let (ours, theirs) = (grads(&ours), grads(&theirs));
                for v in [&w, &b] {
                    assert!(distance(ours.get(v).unwrap(), theirs.get(v).unwrap()) < 5.0 * tolerance);
                }
            }
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let whole = SparseView::new(&random(12, 9, 0.3, 2), DType::F64).unwrap();
        let x = whole.dropped(&mask(&whole, 0.5));
        let (w, b) = (var(&[9, 3], 1, DType::F64), var(&[3], 2, DType::F64));
        assert_gradients(&[&w, &b], || affine_sparse(&x, &w, &b).unwrap().sqr().unwrap().sum_all().unwrap(), 1e-6);
    }

    #[test]
    fn dropout_drops_its_share_of_the_stored_values_and_scales_the_rest() {
        let x = SparseView::new(&random(400, 300, 0.2, 3), DType::F64).unwrap();
        let p = 0.3;
        let flat = |x: &SparseView| x.to_dense().unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let (before, after) = (flat(&x), flat(&x.dropped(&mask(&x, p))));
        let n = before.iter().filter(|v| **v != 0.0).count() as f64;
        let dropped = before.iter().zip(&after).filter(|(b, a)| **b != 0.0 && **a == 0.0).count() as f64;
        // Five standard deviations of a binomial share.
        assert!((dropped / n - p).abs() < 5.0 * (p * (1.0 - p) / n).sqrt());
        assert!(before.iter().zip(&after).all(|(b, a)| *a == 0.0 || (a - b / (1.0 - p)).abs() < 1e-12));
    }

    #[test]
    fn threads_do_not_change_a_byte_of_values_or_gradients() {
        let whole = SparseView::new(&random(900, 700, 0.05, 4), DType::F32).unwrap();
        let x = whole.dropped(&mask(&whole, 0.5));
        let (w, b) = (var(&[700, 24], 1, DType::F32), var(&[24], 2, DType::F32));
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let out = affine_sparse(&x, &w, &b).unwrap();
                let grads = out.sqr().unwrap().sum_all().unwrap().backward().unwrap();
                let all = [&out, grads.get(&w).unwrap(), grads.get(&b).unwrap()];
                all.map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap())
            })
        };
        let one = with(1);
        assert!(one == with(2) && one == with(3));
    }

    #[test]
    fn shapes_and_types_that_do_not_fit_are_refused() {
        let x = SparseView::new(&random(6, 4, 0.5, 5), DType::F64).unwrap();
        assert!(affine_sparse(&x, &normal(&[5, 3], 1), &normal(&[3], 2)).is_err());
        assert!(affine_sparse(&x, &normal(&[4, 3], 1), &normal(&[2], 2)).is_err());
        let single = normal(&[4, 3], 1).to_dtype(DType::F32).unwrap();
        assert!(affine_sparse(&x, &single, &normal(&[3], 2)).is_err());
        assert!(SparseView::new(&random(6, 4, 0.5, 5), DType::U8).is_err());
    }

    /// Not a check but a measurement: the features of Squirrel in size and density.
    #[test]
    #[ignore = "measures time"]
    fn time_of_a_pass_over_sparse_and_dense_features() {
        let sparse = SparseView::new(&random(5201, 2089, 0.01, 1), DType::F32).unwrap();
        let dense = sparse.to_dense().unwrap();
        for outputs in [5, 64, 640] {
            let (w, b) = (var(&[2089, outputs], 1, DType::F32), var(&[outputs], 2, DType::F32));
            let time = |pass: &dyn Fn(&mut Stream) -> Tensor| {
                let (mut stream, rounds) = (Stream::new(1, &["test"]), 10);
                let mut best = f64::INFINITY;
                for _ in 0..rounds {
                    let start = std::time::Instant::now();
                    pass(&mut stream).sum_all().unwrap().backward().unwrap();
                    best = best.min(start.elapsed().as_secs_f64());
                }
                1e3 * best
            };
            for p in [0.0, 0.5] {
                let on_sparse = time(&|stream| {
                    let mask = Mask::draw(stream, sparse.stored(), p);
                    affine_sparse(&if p == 0.0 { sparse.clone() } else { sparse.dropped(&mask) }, &w, &b).unwrap()
                });
                let on_dense = time(&|stream| {
                    let dropped = if p == 0.0 {
                        dense.clone()
                    } else {
                        drop(&dense, Mask::draw(stream, dense.elem_count(), p)).unwrap()
                    };
                    affine_fixed(&dropped, &w, &b).unwrap()
                });
                eprintln!("{outputs} columns, dropout {p}: sparse {on_sparse:.2} ms, dense {on_dense:.2} ms");
            }
        }
    }
}
