//! What is known by name without the pipeline: data sets, settings of models, and bases that pipelines extend.

use super::problem::PipelineError;
use super::source::Source;
use super::yaml::{Key, Node};

/// A known data set.
pub struct KnownDataset {
    /// The text that describes it; relative paths in it start from the folder with its data.
    pub source: Source,
    /// Parameters of `load`, `expect` among them, and files for other stages.
    pub params: Vec<(Key, Node)>,
    /// The publisher's page, if its files cannot be fetched.
    pub by_hand: Option<String>,
}

/// A text, or why it cannot be read.
pub type FoundText = Result<Source, PipelineError>;

/// What is known by name.
pub trait Known {
    /// Returns the names of all data sets.
    fn datasets(&self) -> Vec<String>;
    /// Returns a data set; `None` if it is not known.
    ///
    /// # Errors
    /// What is wrong with its description.
    fn dataset(&self, name: &str) -> Option<Result<KnownDataset, PipelineError>>;
    /// Returns the file of a model; `None` if it has none.
    fn model(&self, name: &str) -> Option<FoundText>;
    /// Returns the names of all built-in bases.
    fn bases(&self) -> Vec<String>;
    /// Returns the text of a built-in base; `None` if there is no such name.
    fn base(&self, name: &str) -> Option<Source>;
}

/// Nothing is known.
pub struct Nothing;

impl Known for Nothing {
    fn datasets(&self) -> Vec<String> {
        Vec::new()
    }
    fn dataset(&self, _: &str) -> Option<Result<KnownDataset, PipelineError>> {
        None
    }
    fn model(&self, _: &str) -> Option<FoundText> {
        None
    }
    fn bases(&self) -> Vec<String> {
        Vec::new()
    }
    fn base(&self, _: &str) -> Option<Source> {
        None
    }
}
