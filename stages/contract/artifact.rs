//! What can live in the store.

use std::fmt;
use std::path::Path;

use super::{ArtifactError, Sizes};

/// A value that can live in the store, as files in a folder of its own.
pub trait Artifact: Sized {
    /// What other stages call it.
    const KIND: Kind;
    /// Writes the value as files into the empty folder `dir`.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn save(&self, dir: &Path) -> Result<(), ArtifactError>;
    /// Reads what [`Artifact::save`] wrote.
    ///
    /// # Errors
    /// When a file cannot be read, or does not hold what `save` writes.
    fn load(dir: &Path) -> Result<Self, ArtifactError>;
    /// Says how large a stored value is, from its folder and without loading it; nothing where that cannot be said.
    fn sizes(_dir: &Path) -> Sizes {
        Sizes::default()
    }
}

/// The kind of an artifact: the word that slots and outputs agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub &'static str);

impl Kind {
    /// What a slot says that takes anything.
    pub const ANY: Self = Self("anything");
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
