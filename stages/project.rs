//! `project`: brings features into the basis of eigenvectors, UᵀX, for models that filter features.
//!
//! U: nodes × kept pairs, low side first; X: nodes × features. The result, pairs × features, depends on graph and features
//! alone, so it is computed once and serves every training. Sums are in f64, in the order of the nodes.
//!
//! With `rotate`, X V comes in the place of X, where V (features × r) are the right singular vectors of X, not centred, of the
//! r largest singular values (`math/pca.rs`, by the decomposition of a square). The first published code of PP-GNN does so,
//! with r = 2048 or the rank of X, by a randomised method; here it is exact. A network of one layer could undo the rotation,
//! but Adam treats every coordinate for itself, so that training differs.

use faer::MatRef;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params;
use crate::contract::{Artifact, Estimate, Job, Known, Memory, Size, Sizes, Slot, Stage, StageError, Term, Work};
use crate::kinds::{Features, Matrix, Nodes, Projection, Spectrum, size};
use crate::math::csr::Csr;
use crate::math::dense;
use crate::math::pca::{self, Centre, Table};

/// Eigenvectors that are multiplied at once with dense features.
const PAIRS: usize = 128;

/// Values of features and eigenvectors.
const VALUES: &str = "values";
/// Multiplications of eigenvectors with features.
const PRODUCTS: &str = "products";
/// The cube of nodes or features, whichever are fewer.
const DECOMPOSE: &str = "decompose";

/// Parameters of `project`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Rotate the features to their singular vectors first, and keep at most this many.
    #[schemars(range(min = 1))]
    pub rotate: Option<usize>,
}

impl params::Params for Params {}

/// The stage.
pub struct Project;

impl Stage for Project {
    const NAME: &'static str = "project";
    const ABOUT: &'static str = "Brings features into the basis of the eigenvectors";
    const VERSION: u32 = 1;
    const INPUTS: &'static [Slot] = &[Slot::one("spectrum", Spectrum::KIND), Slot::one("nodes", Nodes::KIND)];
    const TERMS: &'static [Term] =
        &[Term::alone(VALUES, 1e-9), Term::shared(PRODUCTS, 2.5e-10), Term::alone(DECOMPOSE, 2e-10)];
    type Params = Params;
    type Output = Projection;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        estimate(params, &known.sizes("spectrum"), &known.sizes("nodes"))
    }

    fn run(params: &Params, job: &Job) -> Result<Projection, StageError> {
        let (spectrum, nodes): (Spectrum, Nodes) = (job.input("spectrum")?, job.input("nodes")?);
        if spectrum.nodes != nodes.len() {
            return Err(StageError::unusable(
                format!("the spectrum is of `{}` nodes, the features of `{}`", spectrum.nodes, nodes.len()),
                "wire `spectrum` and `nodes` to stages of the same graph",
            ));
        }
        let features = match params.rotate {
            Some(most) => rotated(&nodes.features, most)?,
            None => nodes.features,
        };
        job.check_cancelled()?;
        Ok(project(&spectrum, &features))
    }
}

fn estimate(params: &Params, spectrum: &Sizes, data: &Sizes) -> Estimate {
    let nodes = data.get(size::NODES).or(spectrum.get(size::NODES)).unwrap_or(Size::guess(5000.0));
    let pairs = spectrum.or_guess(size::LOW, 256.0) + spectrum.or_guess(size::HIGH, 256.0);
    let features = data.or_guess(size::FEATURES, 500.0);
    let stored = data.get(size::STORED).unwrap_or(nodes * features * Size::guess(0.1));
    let smaller = nodes.min(features);
    let columns = params.rotate.map_or(features, |most| smaller.min(most));
    let (values, squares) = match params.rotate {
        Some(_) => (nodes * columns, smaller * smaller),
        None => (stored, Size::ZERO),
    };
    let work = Work::default().and(VALUES, stored + pairs * nodes).and(PRODUCTS, pairs * values);
    Estimate {
        sizes: Sizes::default().with(size::LOW, pairs).with(size::FEATURES, columns),
        work: work.and(DECOMPOSE, squares * smaller).shared_by(4),
        memory: Memory::default()
            .and(stored * 16 + values * 12)
            .and_for(pairs * columns * 12 + nodes * PAIRS * 12, "lower `k` of `evd`")
            .and_for(squares * 40, "leave `rotate` out"),
        notes: Vec::new(),
    }
}

/// X V, with as many columns as there are singular values that are not rounding.
fn rotated(features: &Features, most: usize) -> Result<Features, StageError> {
    let table = match features {
        Features::Dense(m) => Table::Dense(&m.data, m.cols),
        Features::Sparse(s) => Table::Sparse(s),
    };
    let found = pca::components(table, Centre::Origin, most)
        .map_err(|error| StageError::numeric(error.to_string(), "leave `rotate` out, or check the features"))?;
    let (all, rank) = (found.variances.len(), found.variances.iter().filter(|v| **v > 0.0).count());
    #[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
    let data = found.scores.chunks_exact(all.max(1)).flat_map(|row| &row[..rank]).map(|x| *x as f32).collect();
    Ok(Features::Dense(Matrix { rows: features.rows(), cols: rank, data }))
}

fn project(spectrum: &Spectrum, features: &Features) -> Projection {
    let (sides, cols, nodes) = ([&spectrum.low, &spectrum.high], features.cols(), spectrum.nodes.max(1));
    let data = match features {
        Features::Sparse(x) => {
            let rows = sides.into_par_iter().flat_map(|side| side.vectors.par_chunks_exact(nodes));
            rows.flat_map_iter(|u| narrow(sums_of_rows(u, x))).collect()
        }
        Features::Dense(x) => {
            let x: Vec<f64> = x.data.iter().map(|x| f64::from(*x)).collect();
            let x = MatRef::from_row_major_slice(&x, spectrum.nodes, cols);
            let blocks = sides.into_iter().flat_map(|side| side.vectors.chunks(PAIRS * nodes));
            let block = |u: &[f32]| {
                let u: Vec<f64> = u.iter().map(|u| f64::from(*u)).collect();
                narrow(dense::product(MatRef::from_row_major_slice(&u, u.len() / nodes, spectrum.nodes), x))
            };
            blocks.flat_map(block).collect()
        }
    };
    let eigenvalues = [&spectrum.low.values[..], &spectrum.high.values].concat();
    Projection { features: Matrix { rows: eigenvalues.len(), cols, data }, eigenvalues }
}

/// Σ_i u_i · row i of X.
fn sums_of_rows(u: &[f32], x: &Csr<f32>) -> Vec<f64> {
    let mut sums = vec![0.0; x.cols()];
    for (i, u) in u.iter().enumerate().filter(|(_, u)| **u != 0.0) {
        let (columns, values) = x.row(i);
        columns.iter().zip(values).for_each(|(j, v)| sums[*j as usize] += f64::from(*u) * f64::from(*v));
    }
    sums
}

#[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|x| x as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::testing::random;
    use crate::models::testing::{self, NODES};

    fn far(a: &[f32], b: &[f64]) -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
    }

    /// UᵀX by plain loops.
    fn plain(spectrum: &Spectrum, x: &Matrix) -> Vec<f64> {
        let rows = spectrum.low.vectors.chunks(NODES).chain(spectrum.high.vectors.chunks(NODES));
        rows.flat_map(|u| {
            (0..x.cols).map(move |j| (0..NODES).map(|i| f64::from(u[i]) * f64::from(x.row(i)[j])).sum::<f64>())
        })
        .collect()
    }

    #[test]
    fn dense_and_sparse_features_are_projected_as_by_plain_sums() {
        let (_, nodes, spectrum) = testing::artifacts();
        for features in [nodes.features, Features::Sparse(random(NODES, 9, 0.3, 4))] {
            let found = project(&spectrum, &features);
            assert_eq!((found.features.rows, found.features.cols), (NODES, features.cols()));
            assert!(far(&found.features.data, &plain(&spectrum, &features.to_dense())) < 1e-6);
            assert_eq!(found.eigenvalues.len(), NODES);
            assert_eq!(found.eigenvalues[0], spectrum.low.values[0]);
        }
    }

    #[test]
    fn rotated_features_keep_all_products_of_rows_and_lose_empty_columns() {
        // Seven columns, of which the last two repeat the first: rank 5.
        let (_, nodes, _) = testing::artifacts();
        let x = nodes.features.to_dense();
        let data = (0..NODES).flat_map(|i| [x.row(i), &x.row(i)[..2]].concat()).collect();
        let wide = Matrix { rows: NODES, cols: 7, data };
        let Features::Dense(turned) = rotated(&Features::Dense(wide.clone()), 2048).unwrap() else { panic!("sparse") };
        assert_eq!(turned.cols, 5);
        let dot = |m: &Matrix, i: usize, j: usize| -> f64 {
            m.row(i).iter().zip(m.row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        for i in 0..NODES {
            for j in 0..NODES {
                assert!((dot(&wide, i, j) - dot(&turned, i, j)).abs() < 1e-5, "{i}, {j}");
            }
        }
        let Features::Dense(few) = rotated(&Features::Dense(wide), 3).unwrap() else { panic!("sparse") };
        assert_eq!(few.cols, 3);
    }
}
