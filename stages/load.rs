//! `load`: reads or makes a graph. What it can read is the table of formats ([`FormatDef`]).
//!
//! In this order: the format reads, `masks` draws splits, `expect` checks the result, `filter` removes nodes.

mod estimate;
mod expect;
mod filter;
mod per_class;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::expect::{Expect, SplitSizes};
use self::per_class::per_class_masks;
use crate::contract::params::{self, Problem};
use crate::contract::{Choice, Chosen, Estimate, Job, Known, Slot, Stage, StageError, Term};
use crate::formats::FormatDef;
use crate::kinds::Graph;

const ANOTHER_VERSION: &str = "the files are another version of the data set (`ppgnn data verify` compares those of \
                               known data sets with their digests), or `expect` is wrong";

/// Parameters of `load`; those of the format are written next to them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Params {
    /// Where the graph comes from: a file format or a generator.
    pub format: String,
    /// What the file must hold, before any filter; nothing is checked if left out.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// Draws splits where the publisher has none, the way the published code did.
    #[serde(default)]
    pub masks: Option<Draw>,
    /// Which nodes are removed.
    #[serde(default)]
    pub filter: Filter,
}

/// How splits are drawn: a fixed number of training and validation nodes per class; all other nodes are test nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Draw {
    /// Training nodes per class.
    #[schemars(range(min = 1))]
    pub train: usize,
    /// Validation nodes per class.
    #[schemars(range(min = 1))]
    pub val: usize,
    /// Number of splits.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: usize,
    /// Seed of the first split.
    pub seed: u64,
}

impl Default for Draw {
    fn default() -> Self {
        Self { train: 20, val: 30, count: 10, seed: 12345 }
    }
}

/// Which nodes are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// None.
    #[default]
    None,
    /// All but one of the nodes with the same label, links out and links in, or none in: clones in Chameleon and
    /// Squirrel. The published filtered graphs are slightly larger: exact traffic, which these files lack, tells more pages apart.
    Duplicates,
}

impl params::Params for Params {
    fn check(&self) -> Result<(), Vec<Problem>> {
        self.expect.as_ref().map_or(Ok(()), Expect::check)
    }
}

/// The stage.
pub struct Load;

impl Stage for Load {
    const NAME: &'static str = "load";
    const ABOUT: &'static str = "Reads a graph from a file, or makes one";
    const VERSION: u32 = 2;
    const INPUTS: &'static [Slot] = &[];
    const CHOICE: Option<Choice> = Some(Choice::of::<FormatDef>("format"));
    const TERMS: &'static [Term] = estimate::TERMS;
    type Params = Params;
    type Output = Graph;

    fn estimate(params: &Params, known: &Known) -> Estimate {
        known.chosen().map_or_else(|_| Estimate::default(), |format| estimate::estimate(params, format))
    }

    fn run(params: &Params, job: &Job) -> Result<Graph, StageError> {
        let format = job.chosen()?;
        let graph = format.read(job)?;
        job.check_cancelled()?;
        finish(params, graph, &place(format))
    }
}

/// What happens to a graph after it was read.
fn finish(params: &Params, mut graph: Graph, place: &str) -> Result<Graph, StageError> {
    if graph.classes > graph.nodes() {
        let what = format!("labels go up to {}, but there are {} nodes", graph.classes - 1, graph.nodes());
        let hint = "labels are class numbers from 0; give classes that exist consecutive numbers";
        return Err(StageError::data(place, what).with_hint(hint));
    }
    if let Some(Draw { train, val, count, seed }) = params.masks {
        if let Some(masks) = &graph.masks {
            return Err(StageError::unusable(
                format!("`masks` draws splits, but {place} has {} of its own", masks.len()),
                "leave `masks` out, and use `split` with `method: file`",
            ));
        }
        graph.masks = Some(per_class_masks(&graph, train, val, count, seed));
    }
    let differences = params.expect.as_ref().map(|e| e.differences(&graph)).unwrap_or_default();
    if !differences.is_empty() {
        let what = format!("not what `expect` says: {}", differences.join("; "));
        return Err(StageError::data(place, what).with_hint(ANOTHER_VERSION));
    }
    Ok(match params.filter {
        Filter::None => graph,
        Filter::Duplicates => filter::without_duplicates(&graph),
    })
}

/// The first file that the format's parameters name, or the format itself.
fn place(format: Chosen<FormatDef>) -> String {
    let first = format.files().first().map(|file| file.display().to_string());
    first.unwrap_or_else(|| format.row.variant.name.to_owned())
}
