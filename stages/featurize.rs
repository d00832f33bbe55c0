//! `featurize`: makes the node features that models see.
//!
//! Features stay as stored, or every row is divided by its sum. Sparse features stay sparse.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, Job, Slot, Stage, StageError};
use crate::kinds::{Features, Graph, Nodes};
use crate::params;

/// Parameters of `featurize`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// What happens to the rows of the features.
    pub rows: Rows,
}

/// What happens to the rows of the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    /// Nothing: they stay as stored.
    #[default]
    Stored,
    /// A row is divided by its sum; a row of zeros stays.
    Sum,
    /// A row is divided by its sum where that is above 1.
    SumClamped,
}

impl params::Params for Params {}

/// The stage.
pub struct Featurize;

impl Stage for Featurize {
    const NAME: &'static str = "featurize";
    const ABOUT: &'static str = "Makes the features that models see of the nodes";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND)];
    type Params = Params;
    type Output = Nodes;

    fn run(params: &Params, job: &Job) -> Result<Nodes, StageError> {
        let Graph { features, labels, classes, .. } = job.input("graph")?;
        Ok(Nodes { features: scale(features, params.rows)?, labels, classes })
    }
}

fn scale(mut features: Features, how: Rows) -> Result<Features, StageError> {
    if how == Rows::Stored {
        return Ok(features);
    }
    if let Some(at) = features.values().iter().position(|x| *x < 0.0) {
        let (node, feature) = features.place(at);
        return Err(StageError::unusable(
            format!(
                "feature {feature} of node {node} is `{}`: rows with negative features have no meaningful sum",
                features.values()[at]
            ),
            "use `rows: stored`",
        ));
    }
    for i in 0..features.rows() {
        let row = features.row_mut(i);
        let sum: f64 = row.iter().map(|x| f64::from(*x)).sum();
        let divisor = if how == Rows::SumClamped { sum.max(1.0) } else { sum };
        if divisor > 0.0 {
            #[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / divisor) as f32);
        }
    }
    Ok(features)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Matrix;
    use crate::math::csr::Csr;

    #[test]
    fn rows_are_divided_by_their_sum() {
        let rows = Matrix { rows: 3, cols: 2, data: vec![1.0, 3.0, 0.0, 0.0, 0.25, 0.25] };
        let scaled = |how| scale(Features::Dense(rows.clone()), how).unwrap().to_dense().data;
        assert_eq!(scaled(Rows::Stored), rows.data);
        assert_eq!(scaled(Rows::Sum), [0.25, 0.75, 0.0, 0.0, 0.5, 0.5]);
        assert_eq!(scaled(Rows::SumClamped), [0.25, 0.75, 0.0, 0.0, 0.25, 0.25]);
        let sparse = Csr::rectangular(2, 3, vec![0, 2, 2], vec![0, 2], vec![1.0, 3.0]).unwrap();
        let Features::Sparse(scaled) = scale(Features::Sparse(sparse), Rows::Sum).unwrap() else { panic!("dense") };
        assert_eq!((scaled.indices, scaled.values), (vec![0, 2], vec![0.25, 0.75]));
    }

    #[test]
    fn a_negative_feature_has_no_row_sum() {
        let rows = Matrix { rows: 2, cols: 2, data: vec![1.0, 3.0, -0.0, -2.0] };
        let error = scale(Features::Dense(rows), Rows::Sum).unwrap_err();
        assert!(error.to_string().starts_with("feature 1 of node 1 is `-2`"), "{error}");
    }
}
