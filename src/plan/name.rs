//! `NodeName`: what people call a node, the stage and its point of the sweep.

use std::fmt;

use serde::{Serialize, Serializer};

/// The name of a node, shown as `train/cora/PP-GNN`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    /// What the pipeline calls the stage: `train`.
    pub stage: String,
    /// The values of the axes that reach it: `cora`, `PP-GNN`.
    pub point: Vec<String>,
}

impl NodeName {
    /// The name of a stage at a point.
    pub fn new<T: Into<String>>(stage: impl Into<String>, point: impl IntoIterator<Item = T>) -> Self {
        Self { stage: stage.into(), point: point.into_iter().map(Into::into).collect() }
    }

    /// Returns the stage, then the values of the point.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.stage).chain(&self.point).map(String::as_str)
    }

    /// Returns it as the name of a file: `figure-cora-lr=0.1`.
    pub(super) fn file_name(&self) -> String {
        file_name(self.parts(), "-")
    }

    /// Makes it another name that looks much the same, for two nodes that differ in nothing that is shown.
    pub(super) fn mark(&mut self) {
        self.point.last_mut().unwrap_or(&mut self.stage).push('~');
    }
}

/// Joins words into a name that any file system takes. One that is too long is cut, and ends in a digest of the whole.
pub fn file_name<'w>(words: impl Iterator<Item = &'w str>, between: &str) -> String {
    let fine = |c: char| if c.is_alphanumeric() || "-_.=+".contains(c) { c } else { '_' };
    let (as_is, clean): (Vec<&str>, Vec<String>) = words.map(|w| (w, w.chars().map(fine).collect())).unzip();
    let (whole, name) = (as_is.join(between), clean.join(between));
    if name.len() <= 80 && !name.starts_with('.') {
        return name;
    }
    let short: String = name.trim_start_matches('.').chars().take(60).collect();
    format!("{short}-{}", &blake3::hash(whole.as_bytes()).to_hex()[..8])
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Padded, since commands write columns of names.
        f.pad(&self.parts().collect::<Vec<_>>().join("/"))
    }
}

impl Serialize for NodeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
