//! What is known by name: data sets (what they consist of, where their publishers keep them, how they are loaded), settings of
//! models, and bases that pipelines extend.
//!
//! A manifest is a YAML file in `pipelines/datasets/`, data and no code; the settings of a model are one in `pipelines/models/`.
//! Those of the project are compiled in, so that the program knows them wherever it runs; a folder of the user's own adds to them
//! and overrides them by name. A base is a file in `pipelines/bases/`, compiled in as well. It is not overridden: a pipeline names a
//! file of its own by its path.

pub mod fetch;
mod manifest;
mod place;
mod shared;
mod verify;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use manifest::{DataFile, FileState, Manifest, is_allowed_address};
pub use place::{Hold, hold, import};
pub use shared::{SharedFile, shared_files};
pub use verify::{Misfit, Verified, VerifyError, sha256_file};

use ppgnn_stages::contract::bounded;

use crate::pipeline::{FoundText, Known, KnownDataset, PipelineError, Problems, Source, Sources, Span};

/// The folder of a project that has its own `datasets` and `models`.
pub const FOLDER: &str = "pipelines";

macro_rules! built_in {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../pipelines/", $folder, "/", $name, ".yaml")))),*]
    };
}

/// The manifests of the project, by name.
static DATASETS: &[(&str, &str)] = built_in!["datasets":
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

/// The settings of models of the project, by name.
static MODELS: &[(&str, &str)] = built_in!["models":
    "adagnn",
    "appnp",
    "arma",
    "bernnet",
    "fagcn",
    "gcn",
    "gcn-kipf",
    "gcn-ogb",
    "geom-gcn",
    "gfir",
    "gpr-gnn",
    "h2gcn",
    "lgc",
    "lr",
    "mlp",
    "pp-gnn",
    "sgcn",
    "shared",
    "supergat",
    "tdgnn",
];

/// The bases of the project, by name.
static BASES: &[(&str, &str)] = built_in!["bases":
    "paper",
    "standard",
];

/// The file that others include: of no model.
const SHARED: &str = "shared";

/// Every data set that has a manifest, and every model that has settings. A manifest is read on first use.
#[derive(Debug)]
pub struct Catalogue {
    models: BTreeMap<String, Origin>,
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
    /// What the project has and what is in `datasets` and `models` of `folders`; the first folder that has a name wins, and wins
    /// over the project. A folder that is not there has none.
    pub fn new(folders: &[PathBuf]) -> Self {
        let [models, origins] =
            [("models", MODELS), ("datasets", DATASETS)].map(|(kind, built_in)| origins(kind, built_in, folders));
        Self { models, origins, read: RefCell::default() }
    }

    /// Returns the names of all data sets, sorted.
    pub fn names(&self) -> Vec<String> {
        self.origins.keys().cloned().collect()
    }

    /// Returns the names of all models that have settings or spaces, sorted.
    pub fn models(&self) -> Vec<String> {
        self.models.keys().filter(|name| *name != SHARED).cloned().collect()
    }

    /// Returns the file of a model; `None` if it has none.
    pub fn model(&self, name: &str) -> Option<FoundText> {
        self.models.get(name).map(|origin| origin.text("models", name))
    }

    /// Returns the names of all bases, sorted.
    pub fn bases(&self) -> impl Iterator<Item = &'static str> + Clone {
        BASES.iter().map(|(name, _)| *name)
    }

    /// Returns the text of a base; `None` if there is no such name.
    pub fn base(&self, name: &str) -> Option<Source> {
        let (name, text) = BASES.iter().find(|(base, _)| *base == name)?;
        Some(built_in_source("bases", name, text))
    }

    /// Returns every manifest with its name, or what is wrong with it.
    pub fn all(&self) -> impl Iterator<Item = (String, Found)> {
        self.names().into_iter().filter_map(|name| self.get(&name).map(|found| (name, found)))
    }

    /// Returns the manifest of a data set; `None` if there is no such name.
    pub fn get(&self, name: &str) -> Option<Found> {
        let origin = self.origins.get(name)?;
        let mut read = self.read.borrow_mut();
        Some(read.entry(name.to_owned()).or_insert_with(|| origin.manifest(name)).clone())
    }
}

/// The data sets of a catalogue with their files below a data directory, as pipelines see them.
pub struct DataFolder<'d> {
    /// What is known.
    pub catalogue: &'d Catalogue,
    /// Where its files are.
    pub data_dir: &'d Path,
}

impl Known for DataFolder<'_> {
    fn datasets(&self) -> Vec<String> {
        self.catalogue.names()
    }

    fn dataset(&self, name: &str) -> Option<Result<KnownDataset, PipelineError>> {
        let found = self.catalogue.get(name)?;
        Some(found.map(|manifest| KnownDataset {
            source: Source { folder: manifest.root(self.data_dir), ..manifest.text.clone() },
            params: manifest.load.iter().chain(&manifest.further).cloned().collect(),
            by_hand: manifest.by_hand(),
        }))
    }

    fn model(&self, name: &str) -> Option<FoundText> {
        self.catalogue.model(name)
    }

    fn bases(&self) -> Vec<String> {
        self.catalogue.bases().map(str::to_owned).collect()
    }

    fn base(&self, name: &str) -> Option<Source> {
        self.catalogue.base(name)
    }
}

/// A text that is compiled in.
fn built_in_source(kind: &str, name: &str, text: &'static str) -> Source {
    Source { name: format!("<built-in>/{kind}/{name}.yaml"), folder: PathBuf::from("."), text: text.into() }
}

/// The files of a kind: those of the project, and those of `folders`.
fn origins(kind: &str, built_in: &[(&str, &'static str)], folders: &[PathBuf]) -> BTreeMap<String, Origin> {
    let built_in = built_in.iter().map(|(name, text)| ((*name).to_owned(), Origin::BuiltIn(text)));
    let mut origins: BTreeMap<String, Origin> = built_in.collect();
    for folder in folders.iter().rev() {
        for entry in std::fs::read_dir(folder.join(kind)).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_yaml = path.extension().is_some_and(|e| e == "yaml") && path.is_file();
            if let Some(name) = path.file_stem().and_then(|s| s.to_str()).filter(|_| is_yaml) {
                origins.insert(name.to_owned(), Origin::File(path));
            }
        }
    }
    origins
}

impl Origin {
    fn manifest(&self, name: &str) -> Found {
        let source = self.text("datasets", name)?;
        manifest::read(name, &source.name, &source.text).map(Rc::new)
    }

    /// Returns the text of a file of a kind.
    fn text(&self, kind: &str, name: &str) -> FoundText {
        let path = match self {
            Self::BuiltIn(text) => return Ok(built_in_source(kind, name, text)),
            Self::File(path) => path,
        };
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let name = path.display().to_string();
        match bounded::text(path) {
            Ok(text) => Ok(Source { name, folder, text: text.into() }),
            Err(error) => {
                let (mut sources, mut problems) = (Sources::default(), Problems::default());
                let span = Span { source: sources.add(&name, Path::new("."), ""), range: 0..0 };
                problems.add(&span, format!("cannot read `{name}`: {error}"), None);
                Err(problems.into_error(&sources))
            }
        }
    }
}

#[cfg(test)]
mod tests;
