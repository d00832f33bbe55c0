//! Graph formats: every row of [`FORMATS`] is one file here. A new format is one file and one row.

mod csbm;
mod geom_gcn;
mod graphsaint;
mod heterophilous_npz;
mod ogb;
mod planetoid;
mod sparse_npz;
mod tables;
#[cfg(test)]
pub(crate) mod testing;
mod wiki_cs;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::params::{self, FilePath, Params, Variant};
use crate::contract::{Chosen, Crate, Job, Row, Sizes, StageError};
use crate::kinds::{Features, Graph, Splits};

/// A source of graphs: a file format or a generator.
pub trait Format: 'static {
    /// Name used in pipeline files, in kebab-case.
    const NAME: &'static str;
    /// One sentence without a period.
    const ABOUT: &'static str;
    /// Raised whenever the same parameters and files may give a different graph.
    const VERSION: u32;
    /// The crate it comes from; a program that adds a format of its own must name it.
    const CRATE: Crate = Crate::BUILT_IN;
    /// Whether it stores each undirected edge once by convention, in one direction: then that says nothing about the graph.
    const EDGES_ONCE: bool = false;
    /// Its own parameters, written beside `format`.
    type Params: Params;

    /// Reads or makes the graph.
    ///
    /// # Errors
    /// [`StageError::Data`] that names file and position, or [`StageError::Cancelled`].
    fn read(params: &Self::Params, job: &Job) -> Result<Graph, StageError>;

    /// Says how large the graph will be, as far as the parameters tell.
    fn sizes(_params: &Self::Params) -> Sizes {
        Sizes::default()
    }
}

/// A row of [`FORMATS`].
#[derive(Clone, Copy)]
pub struct FormatDef {
    /// Name, sentence, version and parameters.
    pub variant: Variant,
    /// Whether it stores each undirected edge once by convention.
    pub edges_once: bool,
    read: fn(&Value, &Job) -> Result<Graph, StageError>,
    sizes: fn(&Value) -> Sizes,
}

impl FormatDef {
    /// The row of `F`.
    pub const fn of<F: Format>() -> Self {
        let variant = Variant::of::<F::Params>(F::NAME, F::ABOUT, F::VERSION, F::CRATE);
        Self { variant, edges_once: F::EDGES_ONCE, read: read::<F>, sizes: sizes::<F> }
    }
}

impl Row for FormatDef {
    fn noun(&self) -> &'static str {
        "format"
    }
    fn variant(&self) -> &Variant {
        &self.variant
    }
}

impl Chosen<'_, FormatDef> {
    /// Reads or makes the graph that the parameters describe.
    ///
    /// # Errors
    /// What the format reports.
    pub fn read(&self, job: &Job) -> Result<Graph, StageError> {
        (self.row.read)(self.params, job)
    }

    /// Says how large the graph will be, as far as the parameters tell.
    pub fn sizes(&self) -> Sizes {
        (self.row.sizes)(self.params)
    }

    /// Lists the files that the parameters name.
    pub fn files(&self) -> Vec<&Path> {
        let names = params::file_params(self.row.variant.schema());
        let values = names.iter().filter_map(|name| self.params.get(name));
        let texts = values.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
        texts.filter_map(|text| text.as_str().map(Path::new)).collect()
    }
}

fn read<F: Format>(params: &Value, job: &Job) -> Result<Graph, StageError> {
    F::read(&params::from_checked(params)?, job)
}

fn sizes<F: Format>(params: &Value) -> Sizes {
    params::from_checked(params).map_or_else(|_| Sizes::default(), |params| F::sizes(&params))
}

/// Parameters of a format that is one file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OneFile {
    /// The file. It counts by its content, not by its path.
    pub path: FilePath,
}

impl Params for OneFile {}

/// A graph whose classes are 0 to the largest label, and whose nodes all have one.
fn labelled(edges: Vec<(u32, u32)>, features: Features, labels: Vec<u32>, masks: Option<Splits>) -> Graph {
    let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
    Graph { edges, features, labels, classes, masks, ..Graph::default() }
}

/// A graph whose classes are 0 to the largest label, and some of whose nodes have none.
fn partly_labelled(edges: Vec<(u32, u32)>, features: Features, labels: &[Option<u32>], masks: Option<Splits>) -> Graph {
    let unlabelled = (0u32..).zip(labels).filter(|(_, label)| label.is_none()).map(|(node, _)| node).collect();
    let labels = labels.iter().map(|label| label.unwrap_or(0)).collect();
    Graph { unlabelled, ..labelled(edges, features, labels, masks) }
}

/// Every built-in format.
pub static FORMATS: &[FormatDef] = &[
    FormatDef::of::<csbm::Csbm>(),
    FormatDef::of::<geom_gcn::GeomGcn>(),
    FormatDef::of::<graphsaint::GraphSaint>(),
    FormatDef::of::<heterophilous_npz::HeterophilousNpz>(),
    FormatDef::of::<ogb::Ogb>(),
    FormatDef::of::<planetoid::Planetoid>(),
    FormatDef::of::<sparse_npz::SparseNpz>(),
    FormatDef::of::<tables::Tables>(),
    FormatDef::of::<wiki_cs::WikiCs>(),
];
