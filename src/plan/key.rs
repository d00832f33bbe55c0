//! Keys: what names a result before it exists.
//!
//! In a key: the key schema, stage name and version, the chosen row (model, format) and its version, the crates of those
//! that a program added, parameters with defaults filled in, the keys of all inputs by slot, content digests instead of
//! file paths, the numeric profile.
//! Not in a key: paths, thread count, verbosity, time, host, labels, comments, order and spelling of the YAML.

use std::fmt;
use std::str::FromStr;

use ppgnn_stages::contract::params::Variant;
use ppgnn_stages::contract::{Crate, Row};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::canon;

/// Raised when the meaning of a key changes, so that no old key can name a new result.
const SCHEMA: &str = "ppgnn key 1";

/// Names an artifact by a hash of everything that may change its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactKey([u8; 32]);

impl ArtifactKey {
    /// Returns the first 12 hex digits, enough for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArtifactKey({})", self.short())
    }
}

/// The text is not 64 lowercase hex digits.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a key")]
pub struct NotAKey(String);

impl FromStr for ArtifactKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let hex = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let hash = blake3::Hash::from_hex(text).ok().filter(|_| hex);
        hash.map(|h| Self(*h.as_bytes())).ok_or_else(|| NotAKey(text.to_owned()))
    }
}

impl Serialize for ArtifactKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArtifactKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One input of a node: the slot and the key of what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInput {
    /// Name of the slot.
    pub slot: String,
    /// Key of the artifact.
    pub key: ArtifactKey,
}

/// The crate of a stage or row that a program added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCrate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl KeyCrate {
    /// Returns what a key says of a crate; nothing of a built-in stage or row.
    pub fn of(from: Crate) -> Option<Self> {
        from.added().map(|c| Self { name: c.name.to_owned(), version: c.version.to_owned() })
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        // Nothing else in a key starts like this, so a crate cannot be taken for what follows it.
        canon::write_text("crate", bytes);
        canon::write_text(&self.name, bytes);
        canon::write_text(&self.version, bytes);
    }
}

impl fmt::Display for KeyCrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The chosen row of a stage that chooses, such as a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyVariant {
    /// Name of the row.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Its crate, if a program added it.
    #[serde(rename = "crate", default, skip_serializing_if = "Option::is_none")]
    pub from: Option<KeyCrate>,
}

impl KeyVariant {
    /// Returns what a key says of a row.
    pub fn of(row: &Variant) -> Self {
        Self { name: row.name.to_owned(), version: row.version, from: KeyCrate::of(row.from) }
    }

    /// Returns what a key says of rows that a stage uses. Of those that are built in, the version of the stage covers the first,
    /// and all if it uses all; one that parameters `named` counts by its own version from then on.
    pub(super) fn used(rows: &[&'static dyn Row], named: bool) -> Vec<Self> {
        let variants = rows.iter().map(|row| row.variant());
        variants.filter(|row| row.from.added().is_some() || (named && row.version > 1)).map(Self::of).collect()
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        canon::write_text(&self.name, bytes);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        self.from.iter().for_each(|from| from.write(bytes));
    }
}

impl fmt::Display for KeyVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)?;
        self.from.as_ref().map_or(Ok(()), |from| write!(f, " of crate {from}"))
    }
}

/// Everything that is in a key, readable. Stored in the manifest, so that `why` can compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyInputs {
    /// Name of the stage.
    pub stage: String,
    /// Its version.
    pub version: u32,
    /// Its crate, if a program added it.
    #[serde(rename = "crate", default, skip_serializing_if = "Option::is_none")]
    pub from: Option<KeyCrate>,
    /// The chosen row, if the stage chooses.
    pub variant: Option<KeyVariant>,
    /// Rows that a program added to the table that the stage uses all of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<KeyVariant>,
    /// Parameters with defaults filled in; a file stands as `{"blake3": …}`.
    pub params: Map<String, Value>,
    /// Inputs in slot order; the order inside a slot that takes many counts.
    pub inputs: Vec<KeyInput>,
    /// Precision, backend and instruction set.
    pub profile: String,
}

impl KeyInputs {
    /// Returns the key.
    pub fn key(&self) -> ArtifactKey {
        let mut bytes = Vec::with_capacity(512);
        canon::write_text(SCHEMA, &mut bytes);
        canon::write_text(&self.stage, &mut bytes);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        self.from.iter().for_each(|from| from.write(&mut bytes));
        self.variant.iter().chain(&self.added).for_each(|row| row.write(&mut bytes));
        canon::write_map(&self.params, &mut bytes);
        for input in &self.inputs {
            canon::write_text(&input.slot, &mut bytes);
            bytes.extend_from_slice(&input.key.0);
        }
        canon::write_text(&self.profile, &mut bytes);
        ArtifactKey(*blake3::hash(&bytes).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mlp(version: u32, from: Option<KeyCrate>) -> KeyVariant {
        KeyVariant { name: "mlp".into(), version, from }
    }

    fn some_crate(version: &str) -> Option<KeyCrate> {
        Some(KeyCrate { name: "mine".into(), version: version.into() })
    }

    fn inputs() -> KeyInputs {
        let upstream = ArtifactKey([7; 32]);
        KeyInputs {
            stage: "train".into(),
            version: 3,
            from: None,
            variant: Some(mlp(1, None)),
            added: vec![],
            params: json!({"lr": 0.01, "hidden": 64}).as_object().cloned().unwrap_or_default(),
            inputs: vec![KeyInput { slot: "graph".into(), key: upstream }],
            profile: "cpu".into(),
        }
    }

    #[test]
    fn the_key_of_fixed_inputs_is_pinned() {
        // A change here renames every existing artifact: raise `SCHEMA` and say so in the changelog.
        assert_eq!(inputs().key().to_string(), "9428a46ccb092221d8bb7eb8943527370d81f36800ae50839ae4dd4ddea067fe");
    }

    #[test]
    fn each_ingredient_changed_alone_changes_the_key() {
        let base = inputs().key();
        let changes: [fn(&mut KeyInputs); 13] = [
            |k| k.stage = "evd".into(),
            |k| k.version += 1,
            |k| k.from = some_crate("1.0.0"),
            |k| k.from = some_crate("1.0.1"),
            |k| k.variant = None,
            |k| k.added.push(mlp(1, some_crate("1.0.0"))),
            |k| k.variant = Some(mlp(2, None)),
            |k| k.variant = Some(mlp(1, some_crate("1.0.0"))),
            |k| k.variant = Some(mlp(1, some_crate("1.0.1"))),
            |k| drop(k.params.insert("lr".into(), json!(0.02))),
            |k| k.inputs[0].slot = "spectrum".into(),
            |k| k.inputs[0].key = ArtifactKey([8; 32]),
            |k| k.profile = "cuda".into(),
        ];
        let mut seen = vec![base];
        for (i, change) in changes.into_iter().enumerate() {
            let mut changed = inputs();
            change(&mut changed);
            assert!(!seen.contains(&changed.key()), "change {i}");
            seen.push(changed.key());
        }
    }

    #[test]
    fn a_key_survives_text() {
        let key = inputs().key();
        assert_eq!(key.to_string().parse::<ArtifactKey>().ok(), Some(key));
        assert!("abc".parse::<ArtifactKey>().is_err());
    }
}
