//! `split`: divides the nodes into training, validation and test nodes, any number of times.
//!
//! Split s of a seed is the same whatever `count` is: every split and class draws from a stream of its own.
//!
//! - `stratified`: of a class with m nodes, round(train · m) train and round(val · m) validate; the rest tests.
//!   Where m ≥ 3 every part gets at least one node (training is cut to m − 2 first, then validation to what leaves one
//!   test node); smaller classes follow the rounding alone, training first.
//! - `per-class`: `per-class-train` nodes of every class train, `per-class-val` validate, the rest tests. A class number
//!   that no node has is skipped.
//! - `file`: the masks that came with the file: the first `count` of them, or all if there are fewer.
//!
//! Nodes whose class the publisher does not give are in no part of a random split. Masks of a file may contain them, as
//! Citeseer's do: published code scores its 15 as class 0, so `unlabelled: keep` does; `leave-out` takes them out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{self, Problem};
use crate::contract::{Artifact, Job, Slot, Stage, StageError};
use crate::kinds::{Graph, Part, Splits};
use crate::math::random::Stream;

/// Parameters of `split`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// How nodes are divided.
    pub method: Method,
    /// Number of splits; with `file`, the most that are taken.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: usize,
    /// Seed of the random methods.
    pub seed: u64,
    /// Share of training nodes (`stratified`).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub train: f64,
    /// Share of validation nodes (`stratified`); what is left tests.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub val: f64,
    /// Training nodes a class (`per-class`).
    #[schemars(range(min = 1))]
    pub per_class_train: usize,
    /// Validation nodes a class (`per-class`); what is left tests.
    #[schemars(range(min = 1))]
    pub per_class_val: usize,
    /// What becomes of nodes without a class that the masks contain (`file`); the random methods never use them.
    pub unlabelled: Unlabelled,
}

/// What becomes of nodes without a class that the masks of a file contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unlabelled {
    /// They stay in their part, with the placeholder for a class: what published code does.
    #[default]
    Keep,
    /// They are in no part.
    LeaveOut,
}

/// How nodes are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Shares of every class, at random.
    #[default]
    Stratified,
    /// Fixed numbers of every class, at random.
    PerClass,
    /// The masks that came with the file.
    File,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            method: Method::default(),
            count: 10,
            seed: 0,
            train: 0.48,
            val: 0.32,
            per_class_train: 20,
            per_class_val: 30,
            unlabelled: Unlabelled::default(),
        }
    }
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (name, share) in [("train", self.train), ("val", self.val)] {
            if share <= 0.0 {
                problems.push(Problem::value(name, format!("expected a share above 0, found `{share}`")));
            }
        }
        if self.train + self.val >= 1.0 {
            let message = format!("train + val is `{}`, expected below 1", self.train + self.val);
            problems.push(Problem::value("val", message).with_help("leave a share for test nodes"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// The stage.
pub struct Split;

impl Stage for Split {
    const NAME: &'static str = "split";
    const ABOUT: &'static str = "Divides nodes into training, validation and test nodes";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[Slot::one("graph", Graph::KIND)];
    type Params = Params;
    type Output = Splits;

    fn run(params: &Params, job: &Job) -> Result<Splits, StageError> {
        let graph: Graph = job.input("graph")?;
        match params.method {
            Method::File => of_file(params, graph),
            Method::Stratified | Method::PerClass => random(params, &graph),
        }
    }
}

fn of_file(params: &Params, graph: Graph) -> Result<Splits, StageError> {
    let mut masks = graph.masks.ok_or_else(|| {
        StageError::unusable("the graph's file has no masks", "use `method: stratified` or `method: per-class`")
    })?;
    masks.parts.truncate(params.count);
    if params.unlabelled == Unlabelled::LeaveOut {
        masks.parts.iter_mut().for_each(|row| leave_out(row, &graph.unlabelled));
    }
    Ok(masks)
}

fn leave_out(row: &mut [Part], nodes: &[u32]) {
    for node in nodes {
        row[*node as usize] = Part::None;
    }
}

fn random(params: &Params, graph: &Graph) -> Result<Splits, StageError> {
    let mut classes = vec![Vec::new(); graph.classes];
    let mut all = vec![Part::Test; graph.nodes()];
    leave_out(&mut all, &graph.unlabelled);
    for (node, class) in graph.labels.iter().enumerate().filter(|(node, _)| all[*node] == Part::Test) {
        classes[*class as usize].push(node);
    }
    let mut parts = vec![all; params.count];
    for (class, members) in classes.iter().enumerate().filter(|(_, members)| !members.is_empty()) {
        let (train, val) = match params.method {
            Method::PerClass => (params.per_class_train, params.per_class_val),
            _ => shares(params, members.len()),
        };
        if params.method == Method::PerClass && members.len() <= train.saturating_add(val) {
            return Err(StageError::unusable(
                format!("class {class} has {} nodes, expected more than {train} + {val}", members.len()),
                "lower `per-class-train` or `per-class-val`, or use `method: stratified`",
            ));
        }
        for (split, row) in parts.iter_mut().enumerate() {
            let mut order = members.clone();
            Stream::new(params.seed, &["split", &split.to_string(), &class.to_string()]).shuffle(&mut order);
            for (place, node) in order.into_iter().enumerate().take(train + val) {
                row[node] = if place < train { Part::Train } else { Part::Val };
            }
        }
    }
    Ok(Splits { parts })
}

/// Training and validation nodes of a class with `m` nodes.
fn shares(params: &Params, m: usize) -> (usize, usize) {
    #[expect(clippy::cast_precision_loss, reason = "a number of nodes is below 2^32")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it is not negative")]
    let part = |share: f64| (share * m as f64).round() as usize;
    let (train, val) = (part(params.train), part(params.val));
    if m < 3 {
        let train = train.min(m);
        return (train, val.min(m - train));
    }
    let train = train.clamp(1, m - 2);
    (train, val.clamp(1, m - train - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Params as _;
    use crate::kinds::{Features, Matrix};

    fn graph(labels: Vec<u32>, classes: usize) -> Graph {
        let features = Features::Dense(Matrix { rows: labels.len(), cols: 0, data: vec![] });
        Graph { edges: vec![], features, labels, classes, unlabelled: vec![], masks: None }
    }

    fn count(splits: &Splits, graph: &Graph, split: usize, class: u32, part: Part) -> usize {
        splits.nodes(split, part).iter().filter(|n| graph.labels[**n as usize] == class).count()
    }

    #[test]
    fn stratified_splits_use_every_node_once_and_keep_the_shares_of_every_class() {
        for seed in 0..50 {
            let mut stream = Stream::new(seed, &["test", "labels"]);
            let nodes = 3 + stream.below(200);
            let graph = graph((0..nodes).map(|_| u32::try_from(stream.below(4).pow(2)).unwrap()).collect(), 10);
            let train = 0.05 + 0.5 * stream.uniform();
            let params = Params { seed, train, val: 0.4 * (1.0 - train), count: 3, ..Params::default() };
            params.check().unwrap();
            let splits = random(&params, &graph).unwrap();
            for split in 0..3 {
                assert!(splits.parts[split].iter().all(|p| *p != Part::None));
                for class in 0..10 {
                    let sizes = Part::SCORED.map(|(part, _)| count(&splits, &graph, split, class, part));
                    let m = sizes.iter().sum::<usize>();
                    if m < 3 {
                        continue;
                    }
                    assert!(sizes.iter().all(|s| *s > 0), "{sizes:?}");
                    for (size, share) in sizes.iter().zip([params.train, params.val]) {
                        // Rounding moves half a node, keeping one node in every part at most two.
                        assert!((*size as f64 - share * m as f64).abs() <= 2.0, "{sizes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn shares_are_rounded_and_small_classes_keep_one_node_a_part() {
        let params = Params::default();
        // 0.48 and 0.32 of 100, 10, 4, 3, 2, 1.
        let expected = [(100, (48, 32)), (10, (5, 3)), (4, (2, 1)), (3, (1, 1)), (2, (1, 1)), (1, (0, 0))];
        for (m, wanted) in expected {
            assert_eq!(shares(&params, m), wanted, "{m}");
        }
        let greedy = Params { train: 0.98, val: 0.01, ..Params::default() };
        assert_eq!(shares(&greedy, 5), (3, 1));
    }

    #[test]
    fn per_class_splits_have_fixed_numbers() {
        let graph = graph((0..100).map(|i| i % 3 % 2 * 2).collect(), 3);
        let params = Params { method: Method::PerClass, per_class_train: 4, per_class_val: 7, ..Params::default() };
        let splits = random(&params, &graph).unwrap();
        assert_eq!(splits.len(), 10);
        for (split, class) in (0..10).flat_map(|s| [(s, 0), (s, 2)]) {
            assert_eq!(count(&splits, &graph, split, class, Part::Train), 4);
            assert_eq!(count(&splits, &graph, split, class, Part::Val), 7);
        }
        assert_eq!(splits.nodes(0, Part::Test).len(), 100 - 22);
    }

    #[test]
    fn a_class_with_too_few_nodes_is_named_with_its_size() {
        let graph = graph([vec![0; 60], vec![1; 50]].concat(), 2);
        let error = random(&Params { method: Method::PerClass, ..Params::default() }, &graph).unwrap_err();
        assert_eq!(error.to_string(), "class 1 has 50 nodes, expected more than 20 + 30");
    }

    #[test]
    fn more_splits_leave_the_earlier_ones_alone_and_seeds_differ() {
        let graph = graph((0..90).map(|i| i % 2).collect(), 2);
        let splits = |count, seed| random(&Params { count, seed, ..Params::default() }, &graph).unwrap().parts;
        assert_eq!(splits(3, 1), splits(5, 1)[..3]);
        assert_ne!(splits(1, 1), splits(1, 2));
        assert_ne!(splits(2, 1)[0], splits(2, 1)[1]);
    }

    #[test]
    fn the_files_own_masks_are_taken_up_to_count() {
        let mut graph = graph(vec![0; 2], 1);
        let of_file = |graph: &Graph, count| of_file(&Params { count, ..Params::default() }, graph.clone());
        assert!(matches!(of_file(&graph, 1), Err(StageError::Unusable { .. })));
        graph.masks = Some(Splits { parts: vec![vec![Part::Train, Part::None], vec![Part::Test, Part::Val]] });
        assert_eq!(of_file(&graph, 1).unwrap().parts, [[Part::Train, Part::None]]);
        assert_eq!(of_file(&graph, 9).unwrap(), graph.masks.unwrap());
    }

    #[test]
    fn nodes_without_a_class_are_in_no_part_of_a_random_split() {
        let mut graph = graph(vec![0; 23], 1);
        graph.unlabelled = vec![0, 7, 22];
        for method in [Method::Stratified, Method::PerClass] {
            let params = Params { method, per_class_train: 10, per_class_val: 5, ..Params::default() };
            for row in random(&params, &graph).unwrap().parts {
                let outside: Vec<_> = (0..23).filter(|i| row[*i] == Part::None).collect();
                assert_eq!(outside, [0, 7, 22]);
            }
        }
        // Twenty nodes have a class: not more than 10 + 10.
        let params = Params { method: Method::PerClass, per_class_train: 10, per_class_val: 10, ..Params::default() };
        let error = random(&params, &graph).unwrap_err();
        assert_eq!(error.to_string(), "class 0 has 20 nodes, expected more than 10 + 10");
    }

    #[test]
    fn nodes_without_a_class_stay_in_the_masks_of_a_file_unless_left_out() {
        let mut graph = graph(vec![0; 3], 1);
        let row = vec![Part::Train, Part::Val, Part::Test];
        graph.unlabelled = vec![1];
        graph.masks = Some(Splits { parts: vec![row.clone()] });
        let taken = |unlabelled| {
            let params = Params { method: Method::File, unlabelled, ..Params::default() };
            of_file(&params, graph.clone()).unwrap().parts
        };
        assert_eq!(taken(Unlabelled::Keep), [row]);
        assert_eq!(taken(Unlabelled::LeaveOut), [[Part::Train, Part::None, Part::Test]]);
    }

    #[test]
    fn shares_that_leave_nothing_to_test_are_refused() {
        assert_eq!(Params { train: 0.7, val: 0.3, ..Params::default() }.check().unwrap_err()[0].param, "val");
        assert_eq!(Params { train: 0.0, ..Params::default() }.check().unwrap_err()[0].param, "train");
    }
}
