//! The features as models see them: fixed, dense or sparse as their data set is.

use candle_core::{DType, Device, Result, Tensor};

use super::blocks::{Mask, SparseView, affine_fixed, affine_sparse, drop};
use crate::kinds::Features;

/// nodes × features.
pub enum FeatureView {
    /// Every value is stored.
    Dense(Tensor),
    /// Only non-zero values are stored.
    Sparse(SparseView),
}

impl FeatureView {
    /// Turns features into values of type `dtype`.
    ///
    /// # Errors
    /// When `dtype` is not a float type.
    pub fn new(features: &Features, dtype: DType) -> Result<Self> {
        match features {
            Features::Dense(m) => {
                let tensor = Tensor::from_slice(&m.data, (m.rows, m.cols), &Device::Cpu)?;
                Ok(Self::Dense(tensor.to_dtype(dtype)?))
            }
            Features::Sparse(s) => Ok(Self::Sparse(SparseView::new(s, dtype)?)),
        }
    }

    /// Returns the number of columns: features.
    pub fn columns(&self) -> usize {
        match self {
            Self::Dense(x) => x.dims().last().copied().unwrap_or(0),
            Self::Sparse(x) => x.columns(),
        }
    }

    /// Returns the number of stored values, which is that of the entries of a mask.
    pub fn stored(&self) -> usize {
        match self {
            Self::Dense(x) => x.elem_count(),
            Self::Sparse(x) => x.stored(),
        }
    }

    /// Returns the type of the values.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Dense(x) => x.dtype(),
            Self::Sparse(x) => x.dtype(),
        }
    }

    /// Returns X·W + b, or drop(X)·W + b with a mask of [`FeatureView::stored`] entries; gradients reach W and b.
    /// `weight`: features × out, `bias`: out.
    ///
    /// # Errors
    /// When the shapes or types do not fit.
    pub fn affine(&self, weight: &Tensor, bias: &Tensor, mask: Option<Mask>) -> Result<Tensor> {
        match (self, mask) {
            (Self::Dense(x), None) => affine_fixed(x, weight, bias),
            (Self::Dense(x), Some(mask)) => affine_fixed(&drop(x, mask)?, weight, bias),
            (Self::Sparse(x), None) => affine_sparse(x, weight, bias),
            (Self::Sparse(x), Some(mask)) => affine_sparse(&x.dropped(&mask), weight, bias),
        }
    }

    /// Returns all entries, zeros too: nodes × features. Sparse features may be large so.
    ///
    /// # Errors
    /// When the tensor library refuses an operation.
    pub fn to_dense(&self) -> Result<Tensor> {
        match self {
            Self::Dense(x) => Ok(x.clone()),
            Self::Sparse(x) => x.to_dense(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Nodes;
    use crate::models::{GraphView, MODELS, Mode, Streams, testing};

    /// The graph of the tests with sparse features, as it is and with a dense copy of them.
    fn views(dtype: DType) -> [GraphView; 2] {
        let (operator, nodes, spectrum) = testing::artifacts();
        let sparse = crate::math::sparse_product::tests::random(testing::NODES, 20, 0.2, 8);
        let dense = Features::Dense(Features::Sparse(sparse.clone()).to_dense());
        [Features::Sparse(sparse), dense].map(|features| {
            let nodes = Nodes { features, ..nodes.clone() };
            GraphView::new(&operator, &nodes, Some(&spectrum), dtype).unwrap()
        })
    }

    #[test]
    fn both_forms_answer_alike() {
        let [sparse, dense] = views(DType::F32).map(|v| v.features);
        assert!(matches!((&sparse, &dense), (FeatureView::Sparse(_), FeatureView::Dense(_))));
        assert_eq!((sparse.columns(), sparse.dtype()), (dense.columns(), dense.dtype()));
        assert!(sparse.stored() < dense.stored());
        assert_eq!(testing::distance(&sparse.to_dense().unwrap(), &dense.to_dense().unwrap()), 0.0);
    }

    #[test]
    fn every_model_gives_the_same_logits_for_both_forms() {
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-12)] {
            let views = views(dtype);
            for row in MODELS {
                let [sparse, dense] = views.each_ref().map(|view| {
                    let model = row.build(&serde_json::json!({}), view, &mut Streams::new(0, 0)).unwrap();
                    model.forward(view, &mut Mode::Eval).unwrap()
                });
                assert!(testing::distance(&sparse, &dense) < tolerance, "{}", row.variant.name);
            }
        }
    }
}
