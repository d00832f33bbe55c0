//! What a file must hold, so that another version of a data set is not taken for the one that was meant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::Problem;
use crate::inspect::part_sizes;
use crate::kinds::Graph;

/// How far edge homophily may be from what is expected: published figures have four digits at most.
const TOLERANCE: f64 = 0.0005;
/// At most this many splits are listed in one message.
const MOST_SPLITS: usize = 10;

/// What the file must hold; what is left out is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expect {
    /// Nodes.
    pub nodes: Option<usize>,
    /// Features per node.
    pub features: Option<usize>,
    /// Classes.
    pub classes: Option<usize>,
    /// Distinct directed edges, loops included.
    pub edges_distinct: Option<usize>,
    /// Distinct loops.
    pub self_loops: Option<usize>,
    /// Undirected edges without loops.
    pub edges_undirected: Option<usize>,
    /// Nodes without a class.
    pub unlabelled: Option<usize>,
    /// Splits, whether from the file or drawn by `masks`.
    pub splits: Option<usize>,
    /// Training, validation and test nodes: `[train, val, test]` for every split, or a list with one such triple per split.
    pub split_sizes: Option<SplitSizes>,
    /// Share of undirected edges between nodes of one class, give or take 0.0005.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub edge_homophily: Option<f64>,
}

/// Sizes of the parts of splits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-expected" = "[train, val, test] or a list with one such per split"))]
pub enum SplitSizes {
    /// Every split has these.
    All([usize; 3]),
    /// One triple per split.
    Each(Vec<[usize; 3]>),
}

impl Expect {
    /// Finds what contradicts itself.
    pub(super) fn check(&self) -> Result<(), Vec<Problem>> {
        match (self.splits, &self.split_sizes) {
            (Some(splits), Some(SplitSizes::Each(sizes))) if splits != sizes.len() => {
                let message = format!("`expect.split-sizes` has {} entries, but `splits` is {splits}", sizes.len());
                Err(vec![Problem::value("expect.split-sizes", message)])
            }
            _ => Ok(()),
        }
    }

    /// Lists every difference between a graph and what is expected, with both numbers.
    pub(super) fn differences(&self, graph: &Graph) -> Vec<String> {
        let counts = graph.counts();
        let numbers = [
            ("nodes", self.nodes, counts.nodes),
            ("features", self.features, counts.features),
            ("classes", self.classes, counts.classes),
            ("edges-distinct", self.edges_distinct, counts.edges_distinct),
            ("self-loops", self.self_loops, counts.self_loops),
            ("edges-undirected", self.edges_undirected, counts.edges_undirected),
            ("unlabelled", self.unlabelled, counts.unlabelled_nodes),
            ("splits", self.splits, counts.splits),
        ];
        let mut differences: Vec<_> = numbers
            .into_iter()
            .filter_map(|(name, expected, found)| expected.filter(|e| *e != found).map(|e| (name, e, found)))
            .map(|(name, expected, found)| format!("{name} {found}, expected {expected}"))
            .collect();
        differences.extend(self.size_differences(graph));
        let found = counts.edge_homophily;
        // Rounding must not decide whether a number with four digits is within the tolerance.
        if let Some(expected) = self.edge_homophily.filter(|e| (e - found).abs() > TOLERANCE + 1e-9) {
            differences.push(format!("edge-homophily {found:.4}, expected {expected:.4}"));
        }
        differences
    }

    fn size_differences(&self, graph: &Graph) -> Vec<String> {
        let Some(expected) = &self.split_sizes else { return Vec::new() };
        let found: Vec<_> = graph.masks.iter().flat_map(part_sizes).map(|s| [s.train, s.val, s.test]).collect();
        let wrong_count = match expected {
            SplitSizes::All(_) => found.is_empty().then_some("at least one".to_owned()),
            SplitSizes::Each(each) => (each.len() != found.len()).then_some(each.len().to_string()),
        };
        if let Some(expected) = wrong_count {
            // `splits` says the same if it is given and differs.
            let said = self.splits.is_some_and(|s| s != found.len());
            return if said { vec![] } else { vec![format!("splits {}, expected {expected}", found.len())] };
        }
        let shown = |[train, val, test]: [usize; 3]| format!("{train}/{val}/{test}");
        let of_split = |(split, found): (usize, [usize; 3])| {
            let expected = match expected {
                SplitSizes::All(sizes) => *sizes,
                SplitSizes::Each(each) => each.get(split).copied().unwrap_or_default(),
            };
            (found != expected)
                .then(|| format!("split {split} has {} (train/val/test), expected {}", shown(found), shown(expected)))
        };
        let mut differences: Vec<_> = found.into_iter().enumerate().filter_map(of_split).collect();
        let more = differences.len().saturating_sub(MOST_SPLITS);
        if more > 0 {
            differences.truncate(MOST_SPLITS);
            differences.push(format!("{more} more splits differ"));
        }
        differences
    }
}
