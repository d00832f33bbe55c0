//! Numbers about something, each with a name: sizes of a graph, seconds that a stage took.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{read_json, write_json};

/// The file of the artifact.
const FILE: &str = "facts.json";

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fact {
    /// Its name. One that ends in `seconds` is a duration.
    pub name: String,
    /// The number; several where it was counted or measured several times, such as once per split.
    pub values: Vec<f64>,
}

/// Facts, in the order in which they are told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    /// All of them.
    pub facts: Vec<Fact>,
}

impl Facts {
    /// Returns these and one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.facts.push(Fact { name: name.into(), values: values.into_iter().collect() });
        self
    }

    /// Returns the values of a fact.
    pub fn get(&self, name: &str) -> Option<&[f64]> {
        self.facts.iter().find(|fact| fact.name == name).map(|fact| fact.values.as_slice())
    }

    /// Returns the names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.facts.iter().map(|fact| fact.name.as_str())
    }
}

impl Artifact for Facts {
    const KIND: Kind = Kind("facts");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        write_json(&dir.join(FILE), self)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        read_json(&dir.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_facts_are_read_back_and_found_by_name() {
        let facts = Facts::default().with("nodes", [183.0]).with("train", [87.0, 86.0]);
        let folder = tempfile::tempdir().unwrap();
        facts.save(folder.path()).unwrap();
        let read = Facts::load(folder.path()).unwrap();
        assert_eq!(read, facts);
        assert_eq!(read.get("train"), Some(&[87.0, 86.0][..]));
        assert_eq!((read.get("edges"), read.names().collect::<Vec<_>>()), (None, vec!["nodes", "train"]));
    }
}
