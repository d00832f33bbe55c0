//! Data sets by name: what they consist of, where their publishers keep them, and how they are loaded.
//!
//! A manifest is a YAML file in `pipelines/datasets/`, data and no code. Those of the project are compiled in, so that
//! the program knows them wherever it runs; a folder of the user's own adds to them and overrides them by name.

pub mod fetch;
mod manifest;
mod place;
mod verify;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use manifest::{DataFile, FileState, Manifest, is_allowed_address};
pub use place::{Hold, hold, import};
pub use verify::{Misfit, Verified, VerifyError, sha256_file};

use ppgnn_stages::contract::bounded;

use crate::pipeline::{Known, KnownDatasets, PipelineError, Problems, Source, Sources, Span};

/// The folder of a project that its own manifests are in.
pub const FOLDER: &str = "pipelines/datasets";

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../pipelines/datasets/", $name, ".yaml")))),*]
    };
}

/// The manifests of the project, by name.
static BUILT_IN: &[(&str, &str)] = built_in![
    "actor",
    "chameleon",
    "chameleon-filtered",
    "citeseer",
    "computers",
    "cora",
    "cora-full",
    "cornell",
    "flickr",
    "ogbn-arxiv",
    "photo",
    "pubmed",
    "squirrel",
    "squirrel-filtered",
    "texas",
    "wiki-cs",
    "wisconsin",
];

/// Every data set that has a manifest. A manifest is read on first use.
#[derive(Debug)]
pub struct Catalogue {
    origins: BTreeMap<String, Origin>,
    read: RefCell<BTreeMap<String, Found>>,
}

/// A manifest, or what is wrong with it.
pub type Found = Result<Rc<Manifest>, PipelineError>;

/// Where a manifest is.
#[derive(Clone, Debug)]
enum Origin {
    BuiltIn(&'static str),
    File(PathBuf),
}

impl Catalogue {
    /// The manifests of the project and of `folders`; the first folder that has a name wins, and wins over the
    /// project. A folder that is not there has none.
    pub fn new(folders: &[PathBuf]) -> Self {
        let built_in = BUILT_IN.iter().map(|(name, text)| ((*name).to_owned(), Origin::BuiltIn(text)));
        let mut origins: BTreeMap<String, Origin> = built_in.collect();
        for folder in folders.iter().rev() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_manifest = path.extension().is_some_and(|e| e == "yaml") && path.is_file();
                if let Some(name) = path.file_stem().and_then(|s| s.to_str()).filter(|_| is_manifest) {
                    origins.insert(name.to_owned(), Origin::File(path));
                }
            }
        }
        Self { origins, read: RefCell::default() }
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.origins.keys().cloned().collect()
    }

    /// Returns every manifest with its name, or what is wrong with it.
    pub fn all(&self) -> impl Iterator<Item = (String, Found)> {
        self.names().into_iter().filter_map(|name| self.get(&name).map(|found| (name, found)))
    }

    /// Returns the manifest of a data set; `None` if there is no such name.
    pub fn get(&self, name: &str) -> Option<Found> {
        let origin = self.origins.get(name)?;
        let mut read = self.read.borrow_mut();
        Some(read.entry(name.to_owned()).or_insert_with(|| origin.read(name).map(Rc::new)).clone())
    }
}

/// The data sets of a catalogue with their files below a data directory, as pipelines see them.
pub struct DataFolder<'d> {
    /// What is known.
    pub catalogue: &'d Catalogue,
    /// Where its files are.
    pub data_dir: &'d Path,
}

impl KnownDatasets for DataFolder<'_> {
    fn names(&self) -> Vec<String> {
        self.catalogue.names()
    }

    fn find(&self, name: &str) -> Option<Result<Known, PipelineError>> {
        let found = self.catalogue.get(name)?;
        Some(found.map(|manifest| Known {
            source: Source { folder: manifest.root(self.data_dir), ..manifest.text.clone() },
            params: manifest.load.iter().chain(&manifest.further).cloned().collect(),
            by_hand: manifest.by_hand(),
        }))
    }
}

impl Origin {
    fn read(&self, name: &str) -> Result<Manifest, PipelineError> {
        let path = match self {
            Self::BuiltIn(text) => return manifest::read(name, &format!("<built-in>/datasets/{name}.yaml"), text),
            Self::File(path) => path,
        };
        let shown = path.display().to_string();
        match bounded::text(path) {
            Ok(text) => manifest::read(name, &shown, &text),
            Err(error) => {
                let (mut sources, mut problems) = (Sources::default(), Problems::default());
                let span = Span { source: sources.add(&shown, Path::new("."), ""), range: 0..0 };
                problems.add(&span, format!("cannot read `{shown}`: {error}"), None);
                Err(problems.into_error(&sources))
            }
        }
    }
}

#[cfg(test)]
mod tests;
