//! A picture for people, with the numbers behind it.

use std::path::Path;

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::write_text;

/// What stages that draw produce.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The picture for screens.
    pub svg: String,
    /// The same for print.
    pub pdf: Vec<u8>,
    /// The numbers that it shows.
    pub csv: String,
}

impl Figure {
    /// The files that are published of a figure.
    pub const FILES: &'static [&'static str] = &["figure.svg", "figure.pdf", "figure.csv"];
}

impl Artifact for Figure {
    const KIND: Kind = Kind("figure");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        write_text(&dir.join("figure.svg"), &self.svg)?;
        write_text(&dir.join("figure.csv"), &self.csv)?;
        let path = dir.join("figure.pdf");
        std::fs::write(&path, &self.pdf).map_err(|e| ArtifactError::io(&path, e))
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let bytes = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|e| ArtifactError::io(&path, e))
        };
        let text =
            |name: &str| String::from_utf8(bytes(name)?).map_err(|_| ArtifactError::malformed(&dir.join(name), "text"));
        Ok(Self { svg: text("figure.svg")?, pdf: bytes("figure.pdf")?, csv: text("figure.csv")? })
    }
}
