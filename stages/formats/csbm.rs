//! The contextual stochastic block model of Deshpande, Sen, Montanari and Mossel (2018), two classes of n nodes.
//!
//! Labels: half of the nodes, chosen at random, are class 0 with vᵢ = +1, the others class 1 with vᵢ = −1 (class 0
//! has one more where n is odd). `share` gives class 0 another share s of the nodes.
//! Edges: every unordered pair is an edge independently, with probability (d + λ√d)/n inside a class and
//! (d − λ√d)/n across, where d is the mean degree. Positive λ is homophilic, negative heterophilic.
//! Features: xᵢ = √(μ/n)·vᵢ·u + wᵢ/√F with u ~ N(0, I/F) shared by all nodes and wᵢ ~ N(0, I), both of F entries.
//!
//! With ξ = n/F, classes can be told apart when λ² + μ²/ξ > 1. As in the experiments of GPR-GNN, λ and μ are given by
//! how much of the signal is in the edges, φ = (2/π)·atan(λ√ξ/μ), and how far above that threshold it is,
//! λ² + μ²/ξ = 1 + ε: so λ = √(1 + ε)·sin(πφ/2) and μ = √(ξ(1 + ε))·cos(πφ/2).
//!
//! With s other than ½ everything else stays: probabilities of edges, u and w. The expected degree is then
//! d + (2s − 1)λ√d for class 0 and d − (2s − 1)λ√d for class 1, and the threshold, which is derived for halves, is only a
//! scale: classes may be found below it, by their degrees for example.
//!
//! An edge is stored once, as (smaller, larger). Time is linear in nodes, features and expected edges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Format;
use crate::contract::params::{self, Problem};
use crate::contract::{Job, Size, Sizes, StageError};
use crate::kinds::{Features, Graph, Matrix, size};
use crate::math::random::Stream;

/// The most numbers a feature matrix may have (4 GiB of f32).
const MOST_FEATURES: usize = 1 << 30;
const DEFAULT_PHI: f64 = 0.5;
const DEFAULT_EPSILON: f64 = 3.25;
const DEFAULT_SHARE: f64 = 0.5;

/// Parameters of `csbm`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Number of nodes.
    #[schemars(range(min = 2, max = 200_000))]
    pub nodes: usize,
    /// Mean degree.
    #[schemars(range(min = 0.0))]
    pub degree: f64,
    /// Number of features.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub features: usize,
    /// Share of the signal that is in the edges; negative for heterophilic ones. 0.5 unless `lambda` and `mu` are given.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub phi: Option<f64>,
    /// How far the signal is above the threshold of detection. 3.25 unless `lambda` and `mu` are given.
    #[schemars(range(min = -1.0))]
    pub epsilon: Option<f64>,
    /// Strength of the edges' signal, instead of `phi` and together with `mu`.
    pub lambda: Option<f64>,
    /// Strength of the features' signal, instead of `phi` and together with `lambda`.
    #[schemars(range(min = 0.0))]
    pub mu: Option<f64>,
    /// Share of the nodes that are class 0. 0.5 unless it is given.
    // Not in the key unless it is another one: graphs without it stay what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Seed of labels, edges and features.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        let [phi, epsilon, lambda, mu, share] = [None; 5];
        Self { nodes: 1000, degree: 10.0, features: 64, phi, epsilon, lambda, mu, share, seed: 0 }
    }
}

impl Params {
    /// Returns λ and μ.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    fn strengths(&self) -> (f64, f64) {
        let angle = self.phi.unwrap_or(DEFAULT_PHI) * std::f64::consts::FRAC_PI_2;
        let signal = 1.0 + self.epsilon.unwrap_or(DEFAULT_EPSILON);
        let xi = self.nodes as f64 / self.features as f64;
        let lambda = self.lambda.unwrap_or_else(|| signal.sqrt() * angle.sin());
        // The cosine of a right angle is not exactly 0, and must not be negative under the root.
        let mu = self.mu.unwrap_or_else(|| (xi * signal).sqrt() * angle.cos().max(0.0));
        (lambda, mu)
    }

    /// Returns how many nodes are class 0: the share, rounded, and at least one of each class.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of nodes is not negative")]
    fn zeros(&self) -> usize {
        let zeros = (self.share.unwrap_or(DEFAULT_SHARE) * self.nodes as f64).round() as usize;
        zeros.clamp(1, self.nodes.saturating_sub(1).max(1))
    }

    /// Returns how many edges there are on average.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    fn expected_edges(&self) -> f64 {
        let ((inside, across), n, zeros) = (self.probabilities(), self.nodes as f64, self.zeros() as f64);
        let (ones, pairs) = (n - zeros, |m: f64| m * (m - 1.0) / 2.0);
        inside * (pairs(zeros) + pairs(ones)) + across * zeros * ones
    }

    /// Returns the probability of an edge inside a class and across.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    fn probabilities(&self) -> (f64, f64) {
        let (lambda, n) = (self.strengths().0, self.nodes as f64);
        let (mean, signal) = (self.degree, lambda * self.degree.sqrt());
        // At |λ| = √d one of them is 0, which rounding may miss slightly.
        (((mean + signal) / n).max(0.0), ((mean - signal) / n).max(0.0))
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        if self.lambda.is_some() != self.mu.is_some() {
            let (given, absent) = if self.lambda.is_some() { ("lambda", "mu") } else { ("mu", "lambda") };
            let message = format!("`{given}` is given without `{absent}`");
            problems.push(Problem::value(given, message).with_help("give both, or neither and `phi`"));
        } else if self.lambda.is_some() {
            for (name, _) in [("phi", self.phi), ("epsilon", self.epsilon)].iter().filter(|(_, given)| given.is_some())
            {
                let message = format!("`{name}` is given together with `lambda` and `mu`");
                let help = format!("remove `{name}`, or `lambda` and `mu`");
                problems.push(Problem::value(*name, message).with_help(help));
            }
        }
        if let Some(share) = self.share.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            let message = format!("`share`: expected a share above 0 and below 1, found `{share}`");
            problems.push(Problem::value("share", message));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let lambda = self.strengths().0;
        let bound = self.degree.sqrt();
        if lambda.abs() > bound * (1.0 + 1e-12) {
            let named = if self.lambda.is_some() { "lambda" } else { "degree" };
            let message = format!("lambda is `{lambda}`, expected at most √degree = {bound} in magnitude");
            let help = "raise `degree`, or lower `phi`, `epsilon` or `lambda`";
            problems.push(Problem::value(named, message).with_help(help));
        }
        let (inside, across) = self.probabilities();
        if inside.max(across) > 1.0 {
            let message = format!("an edge would have probability {}, expected at most 1", inside.max(across));
            problems.push(Problem::value("degree", message).with_help("lower `degree`, or raise `nodes`"));
        }
        if self.nodes.saturating_mul(self.features) > MOST_FEATURES {
            problems.push(Problem::value("features", format!("nodes × features is above {MOST_FEATURES}")));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn complete(self) -> Self {
        let share = self.share.filter(|share| *share != DEFAULT_SHARE);
        if self.lambda.is_some() {
            return Self { share, ..self };
        }
        let (phi, epsilon) = (self.phi.or(Some(DEFAULT_PHI)), self.epsilon.or(Some(DEFAULT_EPSILON)));
        Self { phi, epsilon, share, ..self }
    }
}

/// The format.
pub struct Csbm;

impl Format for Csbm {
    const NAME: &'static str = "csbm";
    const ABOUT: &'static str = "Generated: the contextual stochastic block model with two classes";
    const VERSION: u32 = 1;
    const EDGES_ONCE: bool = true;
    type Params = Params;

    fn read(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let labels = labels(params);
        job.check_cancelled()?;
        let edges = edges(params, &labels);
        job.check_cancelled()?;
        let features = Features::Dense(features(params, &labels));
        Ok(Graph { edges, features, labels, classes: 2, ..Graph::default() })
    }

    fn sizes(params: &Params) -> Sizes {
        let (nodes, zeros) = (params.nodes, params.zeros());
        let links = Size::about(params.expected_edges());
        Sizes::default()
            .with(size::NODES, nodes)
            .with(size::FEATURES, params.features)
            .with(size::STORED, nodes * params.features)
            .with(size::CLASSES, 2)
            .with(size::SPLITS, 0)
            .with_list(size::CLASS_SIZES, vec![zeros, nodes - zeros])
            .with(size::EDGES, links)
            .with(size::LINKS, links)
    }
}

fn labels(params: &Params) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..params.nodes).map(|i| u32::from(i >= params.zeros())).collect();
    Stream::new(params.seed, &["csbm", "labels"]).shuffle(&mut labels);
    labels
}

fn edges(params: &Params, labels: &[u32]) -> Vec<(u32, u32)> {
    let members = |class| (0u32..).zip(labels).filter(|(_, l)| **l == class).map(|(i, _)| i).collect::<Vec<u32>>();
    let (zero, one) = (members(0), members(1));
    let (inside, across) = params.probabilities();
    let stream = |block| Stream::new(params.seed, &["csbm", "edges", block]);
    let mut edges = Vec::new();
    for (block, class) in [("0-0", &zero), ("1-1", &one)] {
        sample(&mut stream(block), inside, class.len(), |i| i, |i, j| edges.push((class[j], class[i])));
    }
    let between = |i: usize, j: usize| edges.push((zero[i].min(one[j]), zero[i].max(one[j])));
    sample(&mut stream("0-1"), across, zero.len(), |_| one.len(), between);
    edges.sort_unstable();
    edges
}

/// Takes every cell of a ragged array with probability `p`, drawing once per taken cell: the gap between two of them is
/// geometric, ⌊ln(1 − U) / ln(1 − p)⌋.
fn sample(
    stream: &mut Stream,
    p: f64,
    rows: usize,
    width: impl Fn(usize) -> usize,
    mut take: impl FnMut(usize, usize),
) {
    if p <= 0.0 {
        return;
    }
    let decay = (-p).ln_1p();
    let (mut row, mut column) = (0, 0usize);
    loop {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float cast saturates, and U < 1"
        )]
        let gap = ((-stream.uniform()).ln_1p() / decay) as usize;
        column = column.saturating_add(gap);
        while row < rows && column >= width(row) {
            column -= width(row);
            row += 1;
        }
        if row == rows {
            return;
        }
        take(row, column);
        column += 1;
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
#[expect(clippy::cast_possible_truncation, reason = "features are stored as f32")]
fn features(params: &Params, labels: &[u32]) -> Matrix {
    let (rows, cols) = (params.nodes, params.features);
    let noise = 1.0 / (cols as f64).sqrt();
    let mut stream = Stream::new(params.seed, &["csbm", "direction"]);
    let direction: Vec<f64> = (0..cols).map(|_| stream.normal() * noise).collect();
    let shift = (params.strengths().1 / rows as f64).sqrt();
    let mut stream = Stream::new(params.seed, &["csbm", "features"]);
    let mut data = Vec::with_capacity(rows * cols);
    for label in labels {
        let v = if *label == 0 { 1.0 } else { -1.0 };
        data.extend(direction.iter().map(|u| (shift * v * u + stream.normal() * noise) as f32));
    }
    Matrix { rows, cols, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Params as _;

    fn made(params: &Params) -> Graph {
        params.check().unwrap();
        let labels = labels(params);
        let (edges, features) = (edges(params, &labels), Features::Dense(features(params, &labels)));
        Graph { edges, features, labels, classes: 2, ..Graph::default() }
    }

    fn homophily(graph: &Graph) -> f64 {
        graph.facts()["edge-homophily"].as_f64().unwrap()
    }

    #[test]
    fn edges_are_distinct_sorted_and_as_many_as_expected() {
        for seed in 0..5 {
            let params = Params { nodes: 2001, phi: Some(0.5), seed, ..Params::default() };
            let graph = made(&params);
            assert!(graph.edges.windows(2).all(|w| w[0] < w[1]));
            assert!(graph.edges.iter().all(|(a, b)| a < b));
            // n·d/2 = 10 005 expected, a standard deviation of about 100; five of them.
            assert!((graph.edges.len() as f64 - 10_005.0).abs() < 500.0, "{}", graph.edges.len());
            assert_eq!(graph.labels.iter().filter(|l| **l == 0).count(), 1001);
        }
    }

    #[test]
    fn a_share_changes_how_many_nodes_are_class_0() {
        let params = Params { nodes: 2000, share: Some(0.8), phi: Some(0.3), ..Params::default() };
        let graph = made(&params);
        assert_eq!(graph.labels.iter().filter(|l| **l == 0).count(), 1600);
        // d + (2s − 1)²λ√d with λ = √4.25·sin(0.15π) = 0.936: 10 + 0.36·0.936·3.162 = 11.07 on average, spread 0.1.
        let mean = 2.0 * graph.edges.len() as f64 / 2000.0;
        assert!((mean - 11.07).abs() < 0.4, "{mean}");
        let few = made(&Params { share: Some(1e-6), ..Params::default() });
        assert_eq!(few.labels.iter().filter(|l| **l == 0).count(), 1, "both classes have a node");
        assert_eq!(made(&Params { share: Some(0.5), ..Params::default() }), made(&Params::default()));
        let half = Params { share: Some(0.5), ..Params::default() }.complete();
        assert!(serde_json::to_value(half).unwrap().get("share").is_none(), "not in the key");
        assert_eq!(serde_json::to_value(params.complete()).unwrap()["share"], 0.8);
    }

    #[test]
    fn the_sign_of_phi_chooses_homophily() {
        for (phi, expected) in [(0.6, 0.764), (0.0, 0.5), (-0.6, 0.236)] {
            // (d + λ√d) / 2d with λ = √4.25·sin(0.3π) = 1.668, √10 = 3.162: 0.7637; the spread is about 0.005.
            let graph = made(&Params { nodes: 2000, phi: Some(phi), ..Params::default() });
            assert!((homophily(&graph) - expected).abs() < 0.025, "{phi}: {}", homophily(&graph));
        }
    }

    #[test]
    fn phi_and_epsilon_are_the_published_parametrisation() {
        let params = Params { nodes: 800, features: 100, phi: Some(-0.3), epsilon: Some(2.0), ..Params::default() };
        let ((lambda, mu), xi) = (params.strengths(), 8.0f64);
        assert!((lambda.powi(2) + mu.powi(2) / xi - 3.0).abs() < 1e-12);
        assert!(((lambda * xi.sqrt() / mu).atan() * std::f64::consts::FRAC_2_PI + 0.3).abs() < 1e-12);
    }

    #[test]
    fn features_carry_the_label_along_one_direction() {
        let params = Params { nodes: 1000, lambda: Some(0.0), mu: Some(400.0), ..Params::default() };
        let graph = made(&params);
        let mut stream = Stream::new(0, &["csbm", "direction"]);
        let u: Vec<f64> = (0..64).map(|_| stream.normal()).collect();
        // √(μ/n)·‖u‖² is 0.63, the noise along u 0.125: classes are apart by ten times the noise.
        let features = graph.features.to_dense();
        for (i, label) in graph.labels.iter().enumerate() {
            let along: f64 = features.row(i).iter().zip(&u).map(|(x, u)| f64::from(*x) * u).sum();
            assert_eq!(along > 0.0, *label == 0);
        }
    }

    #[test]
    fn lambda_at_its_bound_puts_every_edge_inside_a_class() {
        let graph = made(&Params { degree: 4.0, lambda: Some(2.0), mu: Some(0.0), ..Params::default() });
        assert_eq!(homophily(&graph), 1.0);
        assert!(!graph.edges.is_empty());
    }

    #[test]
    fn a_probability_of_one_takes_every_cell() {
        let mut taken = Vec::new();
        sample(&mut Stream::new(0, &["test"]), 1.0, 4, |i| i, |i, j| taken.push((i, j)));
        assert_eq!(taken, [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]);
    }

    #[test]
    fn purposes_do_not_shift_each_other() {
        let base = made(&Params::default());
        let wider = made(&Params { features: 65, phi: Some(0.5), ..Params::default() });
        assert_eq!(base.labels, wider.labels);
        let denser = made(&Params { degree: 11.0, ..Params::default() });
        assert_eq!(base.features, denser.features);
        assert_ne!(base.edges, made(&Params { seed: 1, ..Params::default() }).edges);
    }

    #[test]
    fn parameters_that_contradict_each_other_are_named() {
        let named = |params: Params| params.check().unwrap_err().into_iter().map(|p| p.param).collect::<Vec<_>>();
        let base = Params::default;
        assert_eq!(named(Params { lambda: Some(1.0), ..base() }), ["lambda"]);
        assert_eq!(named(Params { mu: Some(1.0), ..base() }), ["mu"]);
        let all = Params { lambda: Some(1.0), mu: Some(1.0), phi: Some(0.1), epsilon: Some(1.0), ..base() };
        assert_eq!(named(all), ["phi", "epsilon"]);
        assert_eq!(named(Params { lambda: Some(-3.2), mu: Some(1.0), ..base() }), ["lambda"]);
        assert_eq!(named(Params { degree: 1.0, ..base() }), ["degree"]);
        assert_eq!(named(Params { nodes: 10, ..base() }), ["degree"]);
        assert_eq!(named(Params { share: Some(1.0), ..base() }), ["share"]);
        assert_eq!(named(Params { share: Some(f64::NAN), ..base() }), ["share"]);
    }
}
