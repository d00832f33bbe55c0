//! A report of a pipeline as one HTML file that needs nothing else: what is shown, and how it is laid out.
//!
//! What is shown is gathered by whoever asks for it ([`Report`] and what it is made of). Laying it out is a pure function: the same report
//! has the same bytes. `maud` escapes every text; `page.rs` makes characters visible that change how other text is read.

mod dag;
mod evidence;
pub mod live;
mod page;
mod report;
mod table;

use ppgnn_stages::kinds::{PlainTable, Verdict};

use super::section::Section;

/// Everything that a report shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Name of the pipeline.
    pub title: String,
    /// What it is a report of: names and values.
    pub about: Vec<(String, String)>,
    /// What a reader must know first: what is missing, what failed.
    pub remarks: Vec<Section>,
    /// The tables.
    pub tables: Vec<ShownTable>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The data sets.
    pub datasets: Vec<Dataset>,
    /// What searches tried.
    pub searches: Vec<Section>,
    /// The settings of every stage.
    pub settings: Vec<StageSettings>,
    /// The pipeline file.
    pub source: Option<String>,
    /// How the stages hang together.
    pub dag: Dag,
    /// The nodes.
    pub nodes: Vec<NodeRow>,
    /// Nodes that are not listed.
    pub more_nodes: usize,
    /// Programs and numeric profiles that results were made with.
    pub versions: Vec<String>,
    /// Commands that make all of it again: what each does, and the command.
    pub commands: Vec<(String, String)>,
    /// What identifies the state of the store that it was made of.
    pub fingerprint: String,
}

/// A table, and what is behind its cells.
#[derive(Clone, Debug)]
pub struct ShownTable {
    /// Its name in the pipeline.
    pub name: String,
    /// The table in words.
    pub plain: PlainTable,
    /// What is known of every cell, by row and column.
    pub cells: Vec<Vec<ShownCell>>,
    /// What it lacks, if it is not whole.
    pub lacks: Option<String>,
    /// The numbers, as CSV.
    pub csv: Option<String>,
}

/// What is known of a cell beyond what it shows.
#[derive(Clone, Debug, Default)]
pub struct ShownCell {
    /// What it is sorted by.
    pub number: Option<f64>,
    /// How near it comes to the published value.
    pub verdict: Option<Verdict>,
    /// What is behind it.
    pub evidence: Option<Evidence>,
}

/// What is behind a cell.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The cell in words.
    pub headline: String,
    /// The rest, part by part.
    pub sections: Vec<Section>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in the pipeline.
    pub name: String,
    /// The picture, as SVG.
    pub svg: Vec<u8>,
    /// The numbers behind it, as CSV.
    pub csv: Option<String>,
}

/// A data set.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// What the pipeline calls it.
    pub name: String,
    /// Counts: names and values; nothing if it is not in the store.
    pub counts: Vec<(&'static str, String)>,
    /// What a person should know before trusting a result on it.
    pub warnings: Vec<String>,
}

/// The parameters of a stage, each with every value that it has in the pipeline.
#[derive(Clone, Debug)]
pub struct StageSettings {
    /// What the pipeline calls the stage.
    pub stage: String,
    /// Parameters and values.
    pub parameters: Vec<(String, String)>,
}

/// The graph of stages.
#[derive(Clone, Debug, Default)]
pub struct Dag {
    /// What stands in a box, and whether all of it is in the store.
    pub boxes: Vec<(String, bool)>,
    /// From a box to another, by slot.
    pub arrows: Vec<(usize, usize, &'static str)>,
}

/// A node of the plan.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// The first digits of its key.
    pub key: String,
    /// Its stage, version and choice.
    pub stage: String,
    /// Where it stands: in the store, with its seconds, or not.
    pub state: String,
}

/// Whether a page was made of a state of the store, by its first bytes.
pub fn is_of(page: &[u8], fingerprint: &str) -> bool {
    let start = String::from_utf8_lossy(&page[..page.len().min(page::HEAD)]).into_owned();
    start.contains(&page::fingerprint_text(fingerprint))
}
