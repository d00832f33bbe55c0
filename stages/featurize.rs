//! `featurize`: makes the node features that models see.
//!
//! Features stay as stored, or every row is divided by its sum; sparse features stay sparse. On top of that, features may
//! be reduced to their principal components (see `math/pca.rs`), which are dense.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params;
use crate::contract::{
    Artifact, Estimate, Job, Known, Memory, Progress, Size, Sizes, Slot, Stage, StageError, Term, Work,
};
use crate::kinds::{Features, Graph, Matrix, Nodes, size};
use crate::math::eigen::EigenError;
use crate::math::pca::{self, Centre, Table};

/// Nodes or features, whichever are fewer, up to which principal components are computed: a dense eigenproblem.
const PCA_LIMIT: usize = 20_000;

/// Values of features, which are read and written.
const VALUES: &str = "values";
/// Edges, which are read with the graph.
const EDGES: &str = "edges";
/// Multiplications of products with the features.
const SQUARE: &str = "square";
/// Rows of the dense eigenproblem, to the third power.
const DECOMPOSE: &str = "decompose";

/// Parameters of `featurize`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// What happens to the rows of the features.
    pub rows: Rows,
    /// Reduce the features to this many principal components (centred, of all nodes), after `rows`.
    #[schemars(range(min = 1))]
    pub pca: Option<usize>,
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
    const TERMS: &'static [Term] = &[
        Term::alone(VALUES, 4e-9),
        Term::alone(EDGES, 2e-9),
        Term::shared(SQUARE, 1e-10),
        Term::alone(DECOMPOSE, 4e-10),
    ];
    type Params = Params;
    type Output = Nodes;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        estimate(params, &known.sizes("graph"))
    }

    fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
        let graph = known.sizes("graph");
        match (params.pca, graph.known(size::NODES), graph.known(size::FEATURES)) {
            (Some(components), Some(nodes), Some(features)) => reducible(components, nodes, features),
            _ => Ok(()),
        }
    }

    fn run(params: &Params, job: &Job) -> Result<Nodes, StageError> {
        let Graph { features, labels, classes, .. } = job.input("graph")?;
        let mut features = scale(features, params.rows)?;
        if let Some(components) = params.pca {
            features = reduce(&features, components, job)?;
        }
        Ok(Nodes { features, labels, classes })
    }
}

fn scale(mut features: Features, how: Rows) -> Result<Features, StageError> {
    if how == Rows::Stored {
        return Ok(features);
    }
    if let Some(at) = features.values().iter().position(|x| *x < 0.0) {
        let what = format!("{}: rows with negative features have no meaningful sum", named(&features, at));
        return Err(StageError::unusable(what, "use `rows: stored`"));
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

fn named(features: &Features, at: usize) -> String {
    let (node, feature) = features.place(at);
    format!("feature {feature} of node {node} is `{}`", features.values()[at])
}

/// Refuses components that there cannot be, or that would take too long.
fn reducible(components: usize, rows: usize, cols: usize) -> Result<(), StageError> {
    let size = rows.min(cols);
    if components > size {
        return Err(StageError::unusable(
            format!("`pca` asks for `{components}` components of `{rows}` nodes with `{cols}` features"),
            format!("there are at most as many as nodes or features: at most `{size}` here"),
        ));
    }
    if size > PCA_LIMIT {
        return Err(StageError::unusable(
            format!("`{rows}` nodes with `{cols}` features are too many for principal components"),
            format!("of nodes and features one may be at most `{PCA_LIMIT}`"),
        ));
    }
    Ok(())
}

fn estimate(params: &Params, graph: &Sizes) -> Estimate {
    let (nodes, features) = (graph.or_guess(size::NODES, 5000.0), graph.or_guess(size::FEATURES, 500.0));
    let (edges, all) = (graph.or_guess(size::EDGES, 1e5), nodes * features);
    let stored = graph.get(size::STORED).unwrap_or(all * Size::guess(0.1));
    let sizes = Sizes::default()
        .with(size::NODES, nodes)
        .with_some(size::CLASSES, graph.get(size::CLASSES))
        .with(size::FEATURES, features)
        .with(size::STORED, stored);
    let work = Work::default().and(VALUES, stored).and(EDGES, edges);
    let memory = Memory::default().and(size::graph_bytes(graph) + stored * 4);
    let Some(components) = params.pca else {
        return Estimate { sizes, work: work.shared_by(1), memory, notes: Vec::new() };
    };
    let (components, smaller) = (Size::exact(components), nodes.min(features));
    let is_dense = stored.value >= all.value;
    // Squares of rows, or of columns where there are more of them; then scores.
    let square = if is_dense { all * smaller } else { stored * stored / nodes.max(features) * 4 };
    let scores = if is_dense { all } else { stored * 4 } * components;
    Estimate {
        sizes: sizes.with(size::FEATURES, components).with(size::STORED, nodes * components),
        work: work.and(SQUARE, square + scores).and(DECOMPOSE, smaller * smaller * smaller).shared_by(4),
        memory: memory
            .and_for(smaller * smaller * 40, "leave `pca` out")
            .and_for((nodes + features * 2) * components * 8 + nodes * components * 8, "lower `pca`")
            .and(if is_dense { all * 8 } else { stored * 32 }),
        notes: Vec::new(),
    }
}

fn reduce(features: &Features, components: usize, job: &Job) -> Result<Features, StageError> {
    let (rows, cols) = (features.rows(), features.cols());
    reducible(components, rows, cols)?;
    let size = rows.min(cols);
    if let Some(at) = features.values().iter().position(|x| !x.is_finite()) {
        return Err(StageError::unusable(named(features, at), "principal components need finite features"));
    }
    job.check_cancelled()?;
    job.progress(&Progress { done: 0, total: 1, note: format!("decomposing {size} × {size}") });
    let table = match features {
        Features::Dense(m) => Table::Dense(&m.data, m.cols),
        Features::Sparse(s) => Table::Sparse(s),
    };
    let found = pca::components(table, Centre::Means, components).map_err(|error| match error {
        EigenError::Memory { .. } => StageError::unusable(
            format!("not enough memory for principal components of `{rows}` nodes with `{cols}` features"),
            "use a machine with more memory",
        ),
        error => StageError::numeric(error.to_string(), "check the features for huge values"),
    })?;
    let kept = 100.0 * found.variances.iter().sum::<f64>() / found.total.max(f64::MIN_POSITIVE);
    let note = format!("{components} components keep {kept:.1} % of the variance");
    job.progress(&Progress { done: 1, total: 1, note });
    #[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
    let data = found.scores.into_iter().map(|x| x as f32).collect();
    Ok(Features::Dense(Matrix { rows, cols: components, data }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{real_data, with_job};
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

    #[test]
    fn components_replace_features_after_rows_were_scaled() {
        let rows = Matrix { rows: 4, cols: 3, data: vec![1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.0, 5.0] };
        let scaled = scale(Features::Dense(rows), Rows::Sum).unwrap();
        let reduced = with_job(|job| reduce(&scaled, 2, job)).unwrap();
        assert_eq!((reduced.rows(), reduced.cols()), (4, 2));
        // Rows that sum to 1 lie in a plane, so two components keep all distances.
        let (before, Features::Dense(after)) = (scaled.to_dense(), reduced) else { panic!("sparse") };
        let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
        for (i, j) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let (wanted, found) = (distance(before.row(i), before.row(j)), distance(after.row(i), after.row(j)));
            assert!((wanted - found).abs() < 1e-6);
        }
    }

    #[test]
    fn more_components_than_nodes_or_features_and_infinite_features_are_refused() {
        let rows = |data| Features::Dense(Matrix { rows: 2, cols: 3, data });
        let error = with_job(|job| reduce(&rows(vec![0.0; 6]), 3, job)).unwrap_err();
        assert_eq!(error.to_string(), "`pca` asks for `3` components of `2` nodes with `3` features");
        assert!(error.hint().unwrap().contains("at most `2`"));
        let infinite = rows(vec![0.0, 0.0, 0.0, 0.0, f32::INFINITY, 0.0]);
        let error = with_job(|job| reduce(&infinite, 1, job)).unwrap_err();
        assert!(error.to_string().starts_with("feature 1 of node 1 is `inf`"), "{error}");
    }

    #[test]
    fn no_component_at_all_is_no_parameter() {
        let check = |written: serde_json::Value| {
            crate::contract::StageDef::of::<Featurize>().check(&crate::built_in(), written.as_object().unwrap()).is_ok()
        };
        assert!(check(serde_json::json!({})) && check(serde_json::json!({"pca": 5, "rows": "sum"})));
        assert!(!check(serde_json::json!({"pca": 0})));
    }

    #[test]
    fn huge_features_are_reduced_or_refused_and_never_a_panic() {
        let data = (0..40).map(|i| if i % 3 == 0 { f32::MAX } else { -f32::MAX }).collect();
        let reduced = with_job(|job| reduce(&Features::Dense(Matrix { rows: 8, cols: 5, data }), 2, job));
        assert!(reduced.is_ok_and(|f| f.values().iter().all(|x| !x.is_nan())));
    }

    #[test]
    fn one_component_keeps_the_variance_along_it() {
        // Around the mean (2, 2) the square is [[2, 2], [2, 4]] with eigenvalues 3 ± √5 (see `math/pca.rs`).
        let data = vec![1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 2.0, 1.0, 2.0, 3.0];
        let reduced = with_job(|job| reduce(&Features::Dense(Matrix { rows: 5, cols: 2, data }), 1, job)).unwrap();
        assert!((squares(&reduced) - (3.0 + 5f64.sqrt())).abs() < 1e-6, "{}", squares(&reduced));
    }

    #[test]
    fn the_components_of_chameleon_keep_the_variance_that_another_solver_finds() {
        let Some(folder) = real_data("chameleon") else { return };
        let text = std::fs::read_to_string(folder.join("out1_node_feature_label.txt")).unwrap();
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for line in text.lines().skip(1) {
            let row = line.split('\t').nth(1).unwrap().split(',');
            indices.extend((0u32..).zip(row).filter(|(_, value)| *value == "1").map(|(column, _)| column));
            indptr.push(indices.len() as u64);
        }
        let values = vec![1.0; indices.len()];
        let features = Features::Sparse(Csr::rectangular(2277, 2325, indptr, indices, values).unwrap());
        let reduced = with_job(|job| reduce(&features, 500, job)).unwrap();
        assert_eq!((reduced.rows(), reduced.cols()), (2277, 500));
        // The 500 largest eigenvalues of X_c·X_cᵀ and its trace, by a program in C that reads the same file: Householder
        // tridiagonalisation and implicit QL, after EISPACK's `tred1` and `imtql1`. 80.536 % of the variance are kept.
        let (largest, trace) = (23256.1287888786, 28876.5340360123);
        assert!((squares(&reduced) / largest - 1.0).abs() < 1e-6, "{} of {trace}", squares(&reduced));
    }

    fn squares(features: &Features) -> f64 {
        features.values().iter().map(|x| f64::from(*x).powi(2)).sum()
    }
}
