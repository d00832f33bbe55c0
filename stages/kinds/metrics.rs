//! Scores of one trained configuration, split by split.

use std::path::Path;

use polars::prelude::{Column, DataFrame};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{read_json, write_frame, write_json};
use crate::kinds::score::Undefined;
use crate::kinds::splits::Part;

/// Scores on the nodes of one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartScore {
    /// Names of scores and their values, in the order of the table of scores.
    pub scores: Vec<(String, Result<f64, Undefined>)>,
    /// Number of nodes.
    pub nodes: usize,
}

impl PartScore {
    /// Returns a score by its name.
    pub fn get(&self, name: &str) -> Option<&Result<f64, Undefined>> {
        self.scores.iter().find(|(score, _)| score == name).map(|(_, value)| value)
    }
}

/// What the number of nodes is called among the scores.
const NODES: &str = "nodes";
/// What stands instead of a number that is not defined, with the reason.
const UNDEFINED: &str = "undefined";

impl Serialize for PartScore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.scores.len() + 1))?;
        for (name, value) in &self.scores {
            match value {
                Ok(value) => map.serialize_entry(name, value)?,
                Err(why) => map.serialize_entry(name, &json!({ UNDEFINED: why }))?,
            }
        }
        map.serialize_entry(NODES, &self.nodes)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for PartScore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut map: Map<String, Value> = Map::deserialize(deserializer)?;
        let nodes = map.shift_remove(NODES).ok_or_else(|| D::Error::missing_field(NODES))?;
        let nodes = usize::deserialize(nodes).map_err(D::Error::custom)?;
        let score = |(name, mut value): (String, Value)| match value.get_mut(UNDEFINED).map(Value::take) {
            Some(why) => Ok((name, Err(Undefined::deserialize(why).map_err(D::Error::custom)?))),
            None => Ok((name, Ok(f64::deserialize(value).map_err(D::Error::custom)?))),
        };
        Ok(Self { scores: map.into_iter().map(score).collect::<Result<_, _>>()?, nodes })
    }
}

/// Scores of one split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitScores {
    /// The epoch that was chosen, if the model has said it.
    pub best_epoch: Option<usize>,
    /// On the training nodes.
    pub train: PartScore,
    /// On the validation nodes.
    pub val: PartScore,
    /// On the test nodes.
    pub test: PartScore,
    /// Test nodes by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u32>>,
}

impl SplitScores {
    /// Returns whether all test nodes got one class, though there are several.
    pub fn predicts_one_class(&self) -> bool {
        let predicted = |class: usize| self.confusion.iter().any(|row| row.get(class).is_some_and(|n| *n > 0));
        self.confusion.len() > 1 && (0..self.confusion.len()).filter(|class| predicted(*class)).count() == 1
    }

    /// Returns the test accuracy of always answering with the largest class of the test nodes.
    pub fn constant_accuracy(&self) -> Option<f64> {
        let nodes = || self.confusion.iter().map(|row| row.iter().sum::<u32>());
        let largest = nodes().max().filter(|largest| *largest > 0)?;
        Some(f64::from(largest) / f64::from(nodes().sum::<u32>()))
    }

    /// Returns the scores of a part, if it is one that is scored.
    pub fn part(&self, part: Part) -> Option<&PartScore> {
        match part {
            Part::None => None,
            Part::Train => Some(&self.train),
            Part::Val => Some(&self.val),
            Part::Test => Some(&self.test),
        }
    }
}

/// Says what is wrong with trained splits that have learned nothing: one sentence each.
pub fn suspicions(splits: &[&SplitScores]) -> Vec<String> {
    let one_class = splits.iter().filter(|split| split.predicts_one_class()).count();
    let first = splits.iter().filter(|split| split.best_epoch == Some(0)).count();
    let found = [(one_class, "predicts one class only"), (first, "keeps the first epoch")];
    let found = found.iter().filter(|(count, _)| *count > 0);
    found.map(|(count, what)| format!("{what} in {}", in_splits(*count, splits.len()))).collect()
}

/// Says in how many splits of all something is so.
pub fn in_splits(count: usize, all: usize) -> String {
    match count {
        1 if all == 1 => "the only split".to_owned(),
        _ if count == all => format!("all {all} splits"),
        _ => format!("{count} of {all} splits"),
    }
}

/// Scores of one configuration, one entry per split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// One entry per split.
    pub splits: Vec<SplitScores>,
}

impl Metrics {
    fn frame(&self) -> Result<DataFrame, polars::error::PolarsError> {
        let rows = || {
            let parts =
                |s| Part::SCORED.iter().filter_map(move |(part, name)| Some((*name, SplitScores::part(s, *part)?)));
            self.splits.iter().zip(0u32..).flat_map(move |(s, i)| parts(s).map(move |(name, score)| (i, name, score)))
        };
        let names: Vec<&str> =
            self.splits.first().into_iter().flat_map(|s| &s.test.scores).map(|(name, _)| name.as_str()).collect();
        let mut columns = vec![
            Column::new("split".into(), rows().map(|r| r.0).collect::<Vec<_>>()),
            Column::new("part".into(), rows().map(|r| r.1).collect::<Vec<_>>()),
        ];
        columns.extend(names.into_iter().map(|name| {
            let value = |part: &PartScore| part.get(name)?.as_ref().ok().copied();
            Column::new(name.into(), rows().map(|r| value(r.2)).collect::<Vec<_>>())
        }));
        columns.push(Column::new(NODES.into(), rows().map(|r| r.2.nodes as u64).collect::<Vec<_>>()));
        DataFrame::new_infer_height(columns)
    }
}

impl Artifact for Metrics {
    const KIND: Kind = Kind("metrics");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let path = dir.join("metrics.parquet");
        let mut frame = self.frame().map_err(|e| ArtifactError::malformed(&path, format!("a frame ({e})")))?;
        write_frame(&path, &mut frame)?;
        write_json(&dir.join("metrics.json"), self)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        read_json(&dir.join("metrics.json"))
    }
}
