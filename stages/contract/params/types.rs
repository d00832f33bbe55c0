//! Types of parameters that say more than a number or a text does.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path to a file outside the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-file" = true))]
pub struct FilePath(pub PathBuf);

/// A path to a small text file outside the store: larger ones are refused before they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-file" = true, "x-text" = true))]
pub struct TextPath(pub PathBuf);

/// A program of the user's and its arguments, each word by itself: no shell takes them apart. A stage with such a parameter runs only
/// where that was allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-command" = true, "x-expected" = "a list of a program and its arguments", "minItems" = 1))]
pub struct CommandLine(pub Vec<String>);

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever reads it decides whether it may run: nothing in it steers a terminal.
        let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        f.write_str(&self.0.join(" ").chars().map(shown).collect::<String>())
    }
}

/// A number of bytes, written with its unit: `512MiB`, `4GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("x-bytes" = true, "pattern" = "^[0-9]+(MiB|GiB|TiB)$"))]
pub struct Bytes(pub u64);

/// Units of [`Bytes`], the largest first.
const UNITS: [(&str, u64); 3] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)];

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = UNITS.iter().find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        let (unit, size) = whole.unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = UNITS.iter().find_map(|(unit, size)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            count.checked_mul(*size).filter(|bytes| *bytes > 0)
        });
        parsed.map(Self).ok_or_else(|| {
            format!("`{text}` is not a size, expected a whole number above 0 and MiB, GiB or TiB, such as `4GiB`")
        })
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// No parameters at all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

impl super::Params for NoParams {}

/// The share of values that dropout sets to zero: `#[schemars(with = "DropoutRate")]` gives a field of type `f64` its range.
#[derive(JsonSchema)]
pub struct DropoutRate(#[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))] pub f64);
