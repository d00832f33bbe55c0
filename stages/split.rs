//! `split`: divides the nodes into training, validation and test nodes, any number of times.
//!
//! Split s of a seed is the same whatever `count` is: every split and class draws from a stream of its own.
//!
//! - `stratified`: of a class with m nodes, round(train · m) train and round(val · m) validate; the rest are test nodes.
//!   Where m ≥ 3 every part gets at least one node (training is cut to m − 2 first, then validation to what leaves one
//!   test node); smaller classes follow the rounding alone, training first.
//! - `per-class`: `per-class-train` nodes of every class train, `per-class-val` validate, the rest are test nodes. A class number
//!   that no node has is skipped.
//! - `file`: the masks that came with the file: the first `count` of them, or all if there are fewer.
//!
//! Nodes whose class the publisher does not give are in no part of a random split. Masks of a file may contain them, as
//! Citeseer's do: published code scores its 15 as class 0, so `unlabelled: keep` does; `leave-out` takes them out.

mod estimate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::params::{self, Problem};
use crate::contract::{Artifact, Estimate, Job, Known, Slot, Stage, StageError, Term};
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
    /// Share of validation nodes (`stratified`); the rest are test nodes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub val: f64,
    /// Training nodes per class (`per-class`).
    #[schemars(range(min = 1))]
    pub per_class_train: usize,
    /// Validation nodes per class (`per-class`); the rest are test nodes.
    #[schemars(range(min = 1))]
    pub per_class_val: usize,
    /// What happens to nodes without a class that the masks contain (`file`); the random methods never use them.
    pub unlabelled: Unlabelled,
}

/// What happens to nodes without a class that the masks of a file contain.
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
    const TERMS: &'static [Term] =
        &[Term::alone("parts", 2.5e-8), Term::alone("edges", 2e-9), Term::alone("values", 1e-9)];
    type Params = Params;
    type Output = Splits;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        estimate::estimate(params, known)
    }

    fn fits(params: &Params, known: &Known) -> Result<(), StageError> {
        estimate::fits(params, known)
    }

    fn run(params: &Params, job: &Job) -> Result<Splits, StageError> {
        let graph: Graph = job.input("graph")?;
        match params.method {
            Method::File => of_file(params, graph),
            Method::Stratified | Method::PerClass => {
                let sizes = labelled(&graph).into_iter().enumerate();
                let named = sizes.map(|(class, members)| (graph.names.class_shown(class), members));
                rounded_away(params, named).iter().for_each(|what| job.remark(what));
                random(params, &graph)
            }
        }
    }
}

/// Nodes of every class that have a label.
fn labelled(graph: &Graph) -> Vec<usize> {
    let mut sizes = vec![0usize; graph.classes];
    graph.labels.iter().for_each(|class| sizes[*class as usize] += 1);
    for node in &graph.unlabelled {
        let size = &mut sizes[graph.labels[*node as usize] as usize];
        *size = size.saturating_sub(1);
    }
    sizes
}

/// Says which classes are so small that no training node is left of them.
fn rounded_away(params: &Params, classes: impl Iterator<Item = (String, usize)>) -> Option<String> {
    let of_none = |members: usize| members > 0 && shares(params, members).0 == 0;
    let mut lacking = classes.filter(|(_, members)| params.method == Method::Stratified && of_none(*members));
    let (class, members) = lacking.next()?;
    let nodes = if members == 1 { "node" } else { "nodes" };
    let more = match lacking.count() {
        0 => String::new(),
        1 => "; so does that of 1 more class".to_owned(),
        more => format!("; so does that of {more} more classes"),
    };
    let share = params.train;
    Some(format!("class {class} has no training node: `train: {share}` of its {members} {nodes} rounds to 0{more}"))
}

fn of_file(params: &Params, graph: Graph) -> Result<Splits, StageError> {
    let mut masks = graph.masks.ok_or_else(no_masks)?;
    masks.parts.truncate(params.count);
    if params.unlabelled == Unlabelled::LeaveOut {
        masks.parts.iter_mut().for_each(|row| leave_out(row, &graph.unlabelled));
    }
    Ok(masks)
}

fn no_masks() -> StageError {
    StageError::unusable("the graph's file has no masks", "use `method: stratified` or `method: per-class`")
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
        let (train, val) = drawn(params, members.len(), || graph.names.class_shown(class))?;
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

/// Training and validation nodes of a class with `m` nodes, of at least one.
fn drawn(params: &Params, m: usize, class: impl FnOnce() -> String) -> Result<(usize, usize), StageError> {
    if params.method != Method::PerClass {
        return Ok(shares(params, m));
    }
    let (train, val) = (params.per_class_train, params.per_class_val);
    if m <= train.saturating_add(val) {
        return Err(StageError::unusable(
            format!("class {} has {m} nodes, expected more than {train} + {val}", class()),
            "lower `per-class-train` or `per-class-val`, or use `method: stratified`",
        ));
    }
    Ok((train, val))
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
mod tests;
