//! A metric: a score on the nodes of one part, such as `test-accuracy`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::metrics::SplitScores;
use super::score::{SCORES, Scale, ScoreDef, Undefined};
use super::splits::Part;
use crate::contract::Registry;

/// A score on the nodes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The nodes it is about.
    pub part: Part,
    /// Name of the score.
    pub score: String,
}

impl Default for Metric {
    fn default() -> Self {
        Self { part: Part::Test, score: "accuracy".into() }
    }
}

impl Metric {
    /// Returns the value in a split; nothing if the split was not scored by it.
    pub fn of<'s>(&self, split: &'s SplitScores) -> Option<&'s Result<f64, Undefined>> {
        split.part(self.part)?.get(&self.score)
    }

    /// Returns how it is shown and compared, given the scores there are; the built-in ones are known without.
    pub fn scale(&self, scores: &[&'static ScoreDef]) -> Scale {
        let mut known = scores.iter().copied().chain(SCORES);
        let row = known.find(|row| row.variant.name == self.score);
        row.map_or(Scale { percent: false, larger_is_better: true }, |row| row.scale)
    }

    /// Returns the name of the part.
    pub fn part_name(&self) -> &'static str {
        Part::SCORED.iter().find(|(part, _)| *part == self.part).map_or("", |(_, name)| name)
    }

    /// Lets a schema accept the metrics of a program, wherever it accepts a metric.
    pub fn complete_schema_of(schema: &mut Value, registry: &Registry) {
        Self::complete_schema(schema, &registry.rows().collect::<Vec<_>>());
    }

    fn complete_schema(schema: &mut Value, scores: &[&'static ScoreDef]) {
        match schema {
            Value::Object(fields) if fields.contains_key(MARK) => {
                let parts = if fields[MARK] == VAL { &Part::SCORED[1..2] } else { &Part::SCORED[..] };
                fields.insert("oneOf".into(), choices(parts, scores.iter().copied()));
            }
            Value::Object(fields) => fields.values_mut().for_each(|inner| Self::complete_schema(inner, scores)),
            Value::Array(items) => items.iter_mut().for_each(|inner| Self::complete_schema(inner, scores)),
            _ => {}
        }
    }
}

/// Marks the schema of a metric, and says of which parts.
const MARK: &str = "x-metric";
const ANY: &str = "any";
const VAL: &str = "val";

fn choices(parts: &[(Part, &str)], scores: impl Iterator<Item = &'static ScoreDef> + Clone) -> Value {
    let of_part = |(_, part): &(Part, &str)| {
        let choice = |row: &ScoreDef| {
            let (name, about) = (format!("{part}-{}", row.variant.name), row.variant.about);
            json!({"const": name, "description": format!("{about}, of the {part} nodes")})
        };
        scores.clone().map(choice).collect::<Vec<_>>()
    };
    // What is reported comes first.
    parts.iter().rev().flat_map(of_part).collect()
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.part_name(), self.score)
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Part::SCORED.iter().find_map(|(part, name)| {
            let score = text.strip_prefix(name)?.strip_prefix('-')?;
            Some(Self { part: *part, score: score.to_owned() })
        });
        found.ok_or_else(|| format!("`{text}` is not a metric, expected a part and a score, such as `test-accuracy`"))
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Metric {
    fn schema_name() -> Cow<'static, str> {
        "Metric".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        schema.insert(MARK.into(), ANY.into());
        schema.insert("oneOf".into(), choices(&Part::SCORED, SCORES.iter()));
        schema
    }
}

/// A metric of the validation nodes: what may choose an epoch or a configuration. Choosing by test nodes would report a
/// biased number, and no value of this type can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ValMetric(Metric);

impl ValMetric {
    /// The metric of a score.
    pub fn of(score: &str) -> Self {
        Self(Metric { part: Part::Val, score: score.to_owned() })
    }

    /// Returns the metric.
    pub fn metric(&self) -> &Metric {
        &self.0
    }
}

impl fmt::Display for ValMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ValMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Metric>()? {
            metric if metric.part == Part::Val => Ok(Self(metric)),
            metric => {
                Err(format!("`{metric}` is not a metric of the validation nodes, such as `val-{}`", metric.score))
            }
        }
    }
}

impl<'de> Deserialize<'de> for ValMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ValMetric {
    fn schema_name() -> Cow<'static, str> {
        "ValMetric".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        schema.insert(MARK.into(), VAL.into());
        schema.insert("oneOf".into(), choices(&Part::SCORED[1..2], SCORES.iter()));
        schema
    }
}
