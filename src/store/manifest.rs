//! `manifest.json`: how an artifact was made and the digest of each file in it.
//!
//! The text ends with its own checksum: BLAKE3 of the whole text with the 64 digits of the checksum set to zero. So a
//! change of any byte of the manifest shows, in the checksum itself as well.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::plan::{ArtifactKey, KeyInputs};

use super::clock;
use super::layout::{MANIFEST, is_plain};

const FORMAT: u32 = 1;
const DIGITS: usize = 64;
/// What follows the digits of the checksum, the last field of the text.
const TAIL: &str = "\"\n}\n";

/// How an artifact was made, and what is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Manifest {
    /// Format of this file.
    pub format: u32,
    /// Key of the artifact.
    pub key: ArtifactKey,
    /// Name of the node that made it, in the plan that made it.
    pub node: String,
    /// Everything that is in the key.
    pub ingredients: KeyInputs,
    /// The files, sorted by name.
    pub files: Vec<FileRecord>,
    /// How long the stage took.
    pub seconds: f64,
    /// When it was made, in UTC (RFC 3339).
    pub created: String,
    /// Version of ppgnn that made it.
    pub ppgnn: String,
    /// How many threads the stage had.
    pub threads: usize,
    /// What the stage measured while it computed, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, f64>,
    /// On what it was computed, by name, where that is not the CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<String, String>,
    /// What the stage had to do, and on what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What was remarked on it, and on what it was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The last lines that programs of the user's wrote to stderr while it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    checksum: String,
}

/// What a stage had to do, and on what: from this and its seconds, the price of other nodes is learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cost {
    /// The machine.
    pub machine: String,
    /// Amounts of work, by the stage's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, f64>,
    /// How many threads could share it; any number if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<f64>,
}

/// One file of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest in hex.
    pub blake3: String,
}

/// What a run knows about an artifact that it made.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Name of the node.
    pub node: String,
    /// Everything that is in the key.
    pub ingredients: KeyInputs,
    /// How long the stage took.
    pub seconds: f64,
    /// How many threads it had.
    pub threads: usize,
    /// What it measured, by name. JSON has no numbers that are not finite: they are left out.
    pub measured: BTreeMap<String, f64>,
    /// On what it was computed, by name.
    pub noted: BTreeMap<String, String>,
    /// What it had to do, and on what.
    pub cost: Option<Cost>,
    /// What was remarked on it, and on what it was made from.
    pub remarks: Vec<String>,
    /// What programs of the user's wrote to stderr last.
    pub said: Vec<String>,
}

impl Manifest {
    /// Completes what the run knows with digests, time and checksum. Returns the manifest and its text.
    pub(super) fn seal(mut made: Provenance, files: Vec<FileRecord>) -> Result<(Self, String), serde_json::Error> {
        made.measured.retain(|_, value| value.is_finite());
        if let Some(cost) = &mut made.cost {
            cost.work.retain(|_, amount| amount.is_finite());
            cost.threads = cost.threads.filter(|threads| threads.is_finite());
        }
        let mut manifest = Self {
            format: FORMAT,
            key: made.ingredients.key(),
            node: made.node,
            ingredients: made.ingredients,
            files,
            seconds: (made.seconds * 1000.0).round() / 1000.0,
            created: clock::now(),
            ppgnn: env!("CARGO_PKG_VERSION").to_owned(),
            threads: made.threads,
            measured: made.measured,
            noted: made.noted,
            cost: made.cost,
            remarks: made.remarks,
            said: made.said,
            checksum: "0".repeat(DIGITS),
        };
        let unsealed = manifest.text()?;
        manifest.checksum = blake3::hash(unsealed.as_bytes()).to_hex().to_string();
        let text = manifest.text()?;
        Ok((manifest, text))
    }

    fn text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads a manifest and checks it against itself and against the place it was found in.
    ///
    /// # Errors
    /// What is wrong, as a fragment.
    pub(super) fn parse(bytes: &[u8], stage: &str, key: &ArtifactKey) -> Result<Self, String> {
        let sealed = std::str::from_utf8(bytes).ok().and_then(split_checksum);
        let Some((head, digits)) = sealed else { return Err("the manifest does not end as it should".to_owned()) };
        let unsealed = [head, &"0".repeat(DIGITS), TAIL].concat();
        if blake3::hash(unsealed.as_bytes()).to_hex().as_str() != digits {
            return Err("the manifest does not match its checksum".to_owned());
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|e| format!("the manifest is not readable: {e}"))?;
        if manifest.format != FORMAT {
            return Err(format!("the manifest has format {}, expected {FORMAT}", manifest.format));
        }
        if manifest.key != *key || manifest.ingredients.key() != *key || manifest.ingredients.stage != stage {
            return Err("the manifest belongs to another artifact".to_owned());
        }
        let mut names = BTreeSet::new();
        match manifest.files.iter().find(|f| !is_plain(&f.name) || f.name == MANIFEST || !names.insert(&f.name)) {
            Some(file) => Err(format!("the manifest lists the invalid file name `{}`", file.name)),
            None => Ok(manifest),
        }
    }

    /// Returns the checksum, which names this manifest exactly.
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Returns the size of the files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
}

/// Splits a text into what precedes the checksum, and the checksum; `None` if it does not end like a manifest.
fn split_checksum(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_suffix(TAIL)?;
    let (head, digits) = body.split_at_checked(body.len().checked_sub(DIGITS)?)?;
    head.ends_with("\"checksum\": \"").then_some((head, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made() -> Provenance {
        // Numbers that a careless reader of decimal text gets wrong in the last bit.
        let params = json!({"x": 0.1, "y": 5e-324, "z": 1.797_693_134_862_315_7e308, "w": 0.3, "n": -7, "s": "\"}\n"});
        let ingredients = KeyInputs {
            stage: "train".into(),
            version: 1,
            from: None,
            variant: None,
            added: vec![],
            params: params.as_object().cloned().unwrap(),
            inputs: vec![],
            profile: "cpu".into(),
        };
        let measured = [("products", 1234.0), ("memory", 0.1), ("lost", f64::NAN)].map(|(n, v)| (n.to_owned(), v));
        let work = [("hops", 1e9), ("lost", f64::NAN)].map(|(n, v)| (n.to_owned(), v)).into();
        Provenance {
            node: "train/cora".into(),
            ingredients,
            seconds: 1.23456,
            threads: 2,
            measured: measured.into(),
            noted: [("card".to_owned(), "RTX".to_owned())].into(),
            cost: Some(Cost { machine: "abacus".into(), work, threads: Some(f64::INFINITY) }),
            remarks: vec!["`k: 9` counts as 2".into()],
            said: vec!["UserWarning".into()],
        }
    }

    #[test]
    fn a_manifest_survives_text_with_the_same_key() {
        let (manifest, text) = Manifest::seal(made(), vec![]).unwrap();
        let read = Manifest::parse(text.as_bytes(), "train", &manifest.key).unwrap();
        assert_eq!(read, manifest);
        assert!((read.seconds - 1.235).abs() < 1e-12);
        assert!(text.contains("\"measured\": {\n    \"memory\": 0.1,\n    \"products\": 1234.0\n  },"), "{text}");
    }

    #[test]
    fn a_manifest_of_a_stage_that_measured_nothing_does_not_mention_it() {
        let (noted, cost, remarks, said) = Default::default();
        let bare = Provenance { measured: BTreeMap::new(), noted, cost, remarks, said, ..made() };
        let (manifest, text) = Manifest::seal(bare, vec![]).unwrap();
        // This is what manifests looked like before there was anything more to say.
        assert!(!["measured", "noted", "cost", "remarks", "said"].iter().any(|name| text.contains(name)), "{text}");
        assert_eq!(Manifest::parse(text.as_bytes(), "train", &manifest.key).unwrap(), manifest);
    }

    #[test]
    fn every_changed_bit_of_a_manifest_is_noticed() {
        let (manifest, text) = Manifest::seal(made(), vec![]).unwrap();
        for position in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[position] ^= 1 << bit;
                assert!(Manifest::parse(&bytes, "train", &manifest.key).is_err(), "byte {position}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_manifest_in_the_wrong_place_is_noticed() {
        let (manifest, text) = Manifest::seal(made(), vec![]).unwrap();
        let mut other = made();
        other.ingredients.version = 2;
        assert!(Manifest::parse(text.as_bytes(), "evd", &manifest.key).is_err());
        assert!(Manifest::parse(text.as_bytes(), "train", &other.ingredients.key()).is_err());
    }

    #[test]
    fn a_sealed_manifest_cannot_name_files_elsewhere() {
        for name in ["../../x", "/etc/passwd", MANIFEST, ".."] {
            let file = FileRecord { name: name.into(), size: 0, blake3: String::new() };
            let (manifest, text) = Manifest::seal(made(), vec![file]).unwrap();
            let refused = Manifest::parse(text.as_bytes(), "train", &manifest.key).unwrap_err();
            assert!(refused.contains("invalid file name"), "{refused}");
        }
    }
}
