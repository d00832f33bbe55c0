//! The file of a model (`pipelines/models/<model>.yaml`): settings that were published, and spaces that are searched.
//!
//! ```yaml
//! ppgnn: 1
//! about: One sentence.
//! source: where it comes from
//! settings:
//!   published:                               # the name of the set: `settings: published` in a pipeline
//!     source: where they come from, if it is another place
//!     tuned-for: architecture, splits, rule of selection and features that they were tuned for
//!     when: { train.filters: features }      # only where these parameters have these values
//!     everywhere: { featurize.rows: sum }    # whatever the data set
//!     datasets:
//!       texas: { train.lr: 0.05, train.alpha: 1.0 }
//!       wisconsin: { like: texas }           # none were published: those of another data set, which tables say
//!       cornell: { from: a neighbour of those for texas is used, train.lr: 0.01 }    # none were published: these, which tables say
//!     otherwise: { from: its authors' defaults are used, train.lr: 0.01 }    # the same for all other data sets
//! spaces:
//!   paper:
//!     source: where it comes from
//!     includes: shared                       # the space of the same name in `shared.yaml`
//!     params:
//!       train.order: { from: 1, to: 10 }
//! ```
//!
//! A set is one such block or a list of them, of which the first whose `when` holds counts. `space.rs` says what stands in `params`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{Setting, check_format};
use super::known::FoundText;
use super::problem::{PipelineError, Problems};
use super::reader::{Reader, one_or_many};
use super::source::Sources;
use super::space::Written;
use super::yaml::{self, Data, Key, Node};

/// A parameter of a stage: the name of the stage, and its own.
pub(super) type Path = (String, String);

/// What the file of a model has, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSummary {
    /// One sentence.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// Sets of settings, each with the data sets that it has settings for.
    pub sets: Vec<(String, Vec<String>)>,
    /// Names of the spaces.
    pub spaces: Vec<String>,
}

/// Returns what the file of a model has.
///
/// # Errors
/// Everything that is wrong with it.
pub fn summary(found: FoundText) -> Result<ModelSummary, PipelineError> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = read(found, &mut sources, &mut problems);
    problems.finish(&sources)?;
    let datasets = |blocks: &[Block]| {
        let own = |(key, of): &(Key, OfDataset)| (of.like.is_none() && of.from.is_none()).then(|| key.name.clone());
        let names: BTreeSet<String> = blocks.iter().flat_map(|block| &block.datasets).filter_map(own).collect();
        names.into_iter().collect()
    };
    Ok(ModelSummary {
        sets: file.sets.iter().map(|(key, blocks)| (key.name.clone(), datasets(blocks))).collect(),
        spaces: file.spaces().map(str::to_owned).collect(),
        about: file.about,
        source: file.source,
    })
}

/// What is known of a model.
#[derive(Debug, Default)]
pub(super) struct ModelFile {
    about: String,
    source: String,
    /// Sets of settings by name.
    sets: Vec<(Key, Vec<Block>)>,
    /// Spaces by name.
    spaces: Vec<(Key, SpaceEntry)>,
}

/// A space, as written.
#[derive(Debug)]
pub(super) struct SpaceEntry {
    /// The file whose space of the same name it adds to.
    pub includes: Option<Key>,
    /// What it has itself.
    pub params: Written,
}

/// Settings for points that have something in common.
#[derive(Debug)]
pub(super) struct Block {
    /// What they have in common: parameters with the values that each may have.
    pub when: Vec<(Path, Vec<Value>)>,
    everywhere: Vec<Setting>,
    datasets: Vec<(Key, OfDataset)>,
    otherwise: Option<(String, Vec<Setting>)>,
}

/// Settings for a data set.
#[derive(Debug)]
struct OfDataset {
    like: Option<Key>,
    /// What they are, if they were not published for the data set.
    from: Option<String>,
    settings: Vec<Setting>,
}

/// What is used where a set of settings has nothing to say.
pub(super) const OF_PIPELINE: &str = "those of the pipeline are used";

impl ModelFile {
    /// Names of the sets.
    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.sets.iter().map(|(key, _)| key.name.as_str())
    }

    /// A space, and where its name stands.
    pub fn space(&self, name: &str) -> Option<&(Key, SpaceEntry)> {
        self.spaces.iter().find(|(key, _)| key.name == name)
    }

    /// Names of the spaces.
    pub fn spaces(&self) -> impl Iterator<Item = &str> {
        self.spaces.iter().map(|(key, _)| key.name.as_str())
    }

    /// The blocks of a set; none if there is no such set.
    pub fn blocks(&self, name: &str) -> &[Block] {
        self.sets.iter().find(|(key, _)| key.name == name).map_or(&[], |(_, blocks)| blocks)
    }
}

impl Block {
    /// Settings for a data set, and what they are if it has none of its own.
    pub fn at(&self, dataset: Option<&str>) -> (Vec<Setting>, Option<String>) {
        let mut settings = self.everywhere.clone();
        let listed = self.datasets.iter().find(|(key, _)| Some(key.name.as_str()) == dataset);
        let Some((_, own)) = listed else {
            let Some((from, otherwise)) = &self.otherwise else { return (settings, Some(OF_PIPELINE.into())) };
            settings.extend(otherwise.iter().cloned());
            return (settings, Some(from.clone()));
        };
        let like = own.like.as_ref().and_then(|like| self.datasets.iter().find(|(key, _)| key.name == like.name));
        settings.extend(like.iter().flat_map(|(_, of)| &of.settings).cloned());
        settings.extend(own.settings.iter().cloned());
        (settings, own.from.clone().or_else(|| like.map(|(key, _)| format!("those for {} are used", key.name))))
    }
}

/// Reads the file of a model; nothing is known where it cannot be read.
pub(super) fn read(found: FoundText, sources: &mut Sources, problems: &mut Problems) -> ModelFile {
    let source = match found {
        Ok(source) => sources.push(source),
        Err(error) => {
            problems.adopt(error, sources);
            return ModelFile::default();
        }
    };
    let root = yaml::read(sources, source, problems).filter(|root| check_format(root, problems).is_some());
    root.map(|root| Reader { problems }.model_file(&root)).unwrap_or_default()
}

impl Reader<'_> {
    fn model_file(&mut self, root: &Node) -> ModelFile {
        self.only(root, &["ppgnn", "about", "source", "settings", "spaces"], "the file of a model");
        let mut text = |field: &str| {
            let text = self.required(root, field, None).and_then(|node| self.text(node));
            text.map(|text| text.name).unwrap_or_default()
        };
        let (about, source) = (text("about"), text("source"));
        let sets = self.map(root.get("settings")).iter().map(|(key, node)| {
            let blocks = one_or_many(node).iter().map(|block| self.block(block)).collect();
            (key.clone(), blocks)
        });
        let sets = sets.collect();
        let spaces = self.map(root.get("spaces")).iter().map(|(key, node)| {
            self.only(node, &["source", "includes", "params"], "a space");
            let includes = node.get("includes").and_then(|node| self.text(node));
            (key.clone(), SpaceEntry { includes, params: self.space(node.get("params")) })
        });
        ModelFile { about, source, sets, spaces: spaces.collect() }
    }

    fn block(&mut self, node: &Node) -> Block {
        const FIELDS: [&str; 6] = ["source", "tuned-for", "when", "everywhere", "datasets", "otherwise"];
        self.only(node, &FIELDS, "a set of settings");
        self.map(Some(node));
        self.required(node, "tuned-for", Some("say what the settings were tuned for".into()));
        for text in ["source", "tuned-for"].into_iter().filter_map(|field| node.get(field)) {
            self.text(text);
        }
        let when = self.settings(node.get("when")).into_iter().map(|setting| {
            let values = one_or_many(&setting.value).iter().map(Node::value).collect();
            ((setting.stage, setting.param), values)
        });
        let when = when.collect();
        let datasets: Vec<(Key, OfDataset)> =
            self.map(node.get("datasets")).iter().map(|(key, node)| (key.clone(), self.of_dataset(node))).collect();
        for like in datasets.iter().filter_map(|(_, of)| of.like.as_ref()) {
            if !datasets.iter().any(|(key, of)| key.name == like.name && of.like.is_none()) {
                let message = format!("no settings for `{}` stand beside it", like.name);
                self.problems.add(&like.span, message, Some("name a data set that has settings of its own".into()));
            }
        }
        let otherwise = node.get("otherwise").map(|node| {
            let help = || Some("say what they are in `from`, for the notes of tables".into());
            let from = self.required(node, "from", help()).and_then(|from| self.text(from));
            (from.map(|from| from.name).unwrap_or_default(), self.settings_beside(node))
        });
        Block { when, everywhere: self.settings(node.get("everywhere")), datasets, otherwise }
    }

    fn of_dataset(&mut self, node: &Node) -> OfDataset {
        let mut text = |field: &str| node.get(field).and_then(|node| self.text(node));
        let (like, from) = (text("like"), text("from").map(|from| from.name));
        OfDataset { like, from, settings: self.settings_beside(node) }
    }

    /// The settings of a mapping that may also say where they come from.
    fn settings_beside(&mut self, node: &Node) -> Vec<Setting> {
        let is_setting = |(key, _): &&(Key, Node)| !["like", "from"].contains(&key.name.as_str());
        let entries = self.map(Some(node)).iter().filter(is_setting).cloned().collect();
        self.settings(Some(&Node { data: Data::Map(entries), span: node.span.clone() }))
    }
}
