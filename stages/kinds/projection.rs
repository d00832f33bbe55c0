//! Features in the basis of eigenvectors.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::features::Matrix;
use crate::kinds::files::{TensorFile, TensorsRead, write_json};
use crate::kinds::size;

/// What `project` produces: UᵀX, a row per eigenpair, for models that filter features.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// The eigenvalues of the rows, low side first: they say which eigenpairs were used.
    pub eigenvalues: Vec<f64>,
    /// pairs × columns.
    pub features: Matrix,
}

impl Artifact for Projection {
    const KIND: Kind = Kind("projection");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let Matrix { rows, cols, data } = &self.features;
        let mut file = TensorFile::default();
        file.add("eigenvalues", &[self.eigenvalues.len()], &self.eigenvalues);
        file.add("features", &[*rows, *cols], data);
        file.write(&dir.join("projection.safetensors"))?;
        write_json(&dir.join("facts.json"), &serde_json::json!({"pairs": rows, "features": cols}))
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let file = TensorsRead::open(&dir.join("projection.safetensors"))?;
        let ([pairs], eigenvalues) = file.shaped::<f64, 1>("eigenvalues")?;
        let ([rows, cols], data) = file.shaped::<f32, 2>("features")?;
        if rows != pairs {
            return Err(file.malformed("one row of features per eigenvalue"));
        }
        Ok(Self { eigenvalues, features: Matrix { rows, cols, data } })
    }

    fn sizes(dir: &Path) -> Sizes {
        size::from_facts(dir, &[(size::LOW, "/pairs"), (size::FEATURES, "/features")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_a_row_too_few_is_noticed() {
        let features = Matrix { rows: 2, cols: 3, data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let projection = Projection { eigenvalues: vec![0.9, -0.4], features };
        let dir = tempfile::tempdir().unwrap();
        projection.save(dir.path()).unwrap();
        assert_eq!(Projection::load(dir.path()).unwrap(), projection);
        Projection { eigenvalues: vec![0.9], ..projection }.save(dir.path()).unwrap();
        let error = Projection::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("one row of features per eigenvalue"), "{error}");
    }
}
