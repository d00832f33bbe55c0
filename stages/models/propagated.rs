//! Propagated features, S^K X, as features that a layer can read: made once per run and order, whichever batch asks first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::DType;
use rayon::prelude::*;

use super::FeatureView;
use crate::contract::StageError;
use crate::kinds::{Features, Matrix};
use crate::math::csr::Csr;
use crate::math::sparse_times_sparse;

/// Those that were made so far, by order.
#[derive(Default)]
pub(super) struct Propagated {
    made: Mutex<BTreeMap<usize, Arc<FeatureView>>>,
}

impl Propagated {
    /// Returns S^K X. Others who ask wait: making it twice would take as long, and twice the memory.
    pub fn get(
        &self,
        features: &Arc<FeatureView>,
        operator: &Csr,
        order: usize,
        dtype: DType,
    ) -> Result<Arc<FeatureView>, StageError> {
        if order == 0 {
            return Ok(features.clone());
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = made.get(&order) {
            return Ok(view.clone());
        }
        let view = Arc::new(FeatureView::new(&propagated(features.to_features()?, operator, order)?, dtype)?);
        made.insert(order, view.clone());
        Ok(view)
    }
}

/// S^K X; sparse features stay sparse as long as less than a quarter of the values is not zero.
fn propagated(features: Features, operator: &Csr, order: usize) -> Result<Features, StageError> {
    let odd = || {
        StageError::unusable("the operator is of another number of nodes", "wire `operator` and `nodes` to one graph")
    };
    let (rows, cols) = (features.rows(), features.cols());
    if operator.n() != rows {
        return Err(odd());
    }
    let sparse = match features {
        Features::Dense(Matrix { data, .. }) => {
            let x: Vec<f64> = data.into_iter().map(f64::from).collect();
            let x = (0..order).fold(x, |x, _| hop(operator, &x, cols));
            return Ok(Features::Dense(Matrix { rows, cols, data: narrow(&x) }));
        }
        Features::Sparse(sparse) => sparse,
    };
    let values = sparse.values.iter().map(|value| f64::from(*value)).collect();
    let mut x = Csr::rectangular(rows, cols, sparse.indptr, sparse.indices, values).ok_or_else(odd)?;
    for _ in 0..order {
        x = sparse_times_sparse::product(operator, &x).ok_or_else(odd)?;
    }
    let values = narrow(&x.values);
    if values.len().saturating_mul(4) < rows * cols {
        return Csr::rectangular(rows, cols, x.indptr, x.indices, values).map(Features::Sparse).ok_or_else(odd);
    }
    let mut data = vec![0.0; rows * cols];
    for i in 0..rows {
        x.range(i).for_each(|at| data[i * cols + x.indices[at] as usize] = values[at]);
    }
    Ok(Features::Dense(Matrix { rows, cols, data }))
}

/// S X for dense X of some columns, summed in the order of the entries.
fn hop(operator: &Csr, x: &[f64], cols: usize) -> Vec<f64> {
    let row = |i: usize| {
        let (mut sums, (columns, values)) = (vec![0.0; cols], operator.row(i));
        for (j, value) in columns.iter().zip(values) {
            sums.iter_mut().zip(&x[*j as usize * cols..]).for_each(|(sum, x)| *sum += value * x);
        }
        sums
    };
    (0..operator.n()).into_par_iter().flat_map_iter(row).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "features are stored in single precision")]
fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::testing::{random, symmetric};

    #[test]
    fn dense_and_sparse_features_give_the_same_and_become_dense_when_they_are() {
        let (operator, sparse) = (symmetric(60, 2, 3), random(60, 50, 0.02, 4));
        let dense = Features::Sparse(sparse.clone()).to_dense();
        for order in [1, 2, 6] {
            let by_dense = propagated(Features::Dense(dense.clone()), &operator, order).unwrap().to_dense();
            let by_sparse = propagated(Features::Sparse(sparse.clone()), &operator, order).unwrap();
            assert_eq!(matches!(by_sparse, Features::Sparse(_)), order < 6, "order {order}");
            let by_sparse = by_sparse.to_dense();
            let far = by_dense.data.iter().zip(&by_sparse.data).map(|(a, b)| (a - b).abs());
            assert_eq!(far.fold(0.0, f32::max), 0.0, "order {order}");
        }
        assert!(propagated(Features::Dense(dense), &symmetric(61, 2, 3), 1).is_err());
    }
}
