//! Scores of one trained configuration, split by split.

use std::path::Path;

use polars::prelude::{Column, DataFrame};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Artifact, ArtifactError, Kind};
use crate::kinds::files::{read_json, write_frame, write_json};

/// Scores on the nodes of one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartScore {
    /// Share of nodes whose largest logit is their class.
    pub accuracy: f64,
    /// Mean of the classes' F1 scores.
    pub macro_f1: f64,
    /// Mean cross-entropy.
    pub loss: f64,
    /// Number of nodes.
    pub nodes: usize,
}

/// Scores of one split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SplitScores {
    /// The epoch that was chosen.
    pub best_epoch: usize,
    /// On the training nodes.
    pub train: PartScore,
    /// On the validation nodes.
    pub val: PartScore,
    /// On the test nodes.
    pub test: PartScore,
    /// Test nodes by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u32>>,
}

/// Scores of one configuration, one entry a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// One entry a split.
    pub splits: Vec<SplitScores>,
}

/// A number that a table can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Accuracy on test nodes.
    #[default]
    TestAccuracy,
    /// Macro-F1 on test nodes.
    TestMacroF1,
    /// Cross-entropy on test nodes.
    TestLoss,
    /// Accuracy on validation nodes.
    ValAccuracy,
    /// Macro-F1 on validation nodes.
    ValMacroF1,
    /// Cross-entropy on validation nodes.
    ValLoss,
    /// Accuracy on training nodes.
    TrainAccuracy,
    /// Macro-F1 on training nodes.
    TrainMacroF1,
    /// Cross-entropy on training nodes.
    TrainLoss,
}

impl Metric {
    /// Returns the value of the metric in a split.
    pub fn of(self, s: &SplitScores) -> f64 {
        match self {
            Self::TestAccuracy => s.test.accuracy,
            Self::TestMacroF1 => s.test.macro_f1,
            Self::TestLoss => s.test.loss,
            Self::ValAccuracy => s.val.accuracy,
            Self::ValMacroF1 => s.val.macro_f1,
            Self::ValLoss => s.val.loss,
            Self::TrainAccuracy => s.train.accuracy,
            Self::TrainMacroF1 => s.train.macro_f1,
            Self::TrainLoss => s.train.loss,
        }
    }

    /// Returns how many nodes the value in a split rests on.
    pub fn nodes(self, s: &SplitScores) -> usize {
        match self {
            Self::TestAccuracy | Self::TestMacroF1 | Self::TestLoss => s.test.nodes,
            Self::ValAccuracy | Self::ValMacroF1 | Self::ValLoss => s.val.nodes,
            Self::TrainAccuracy | Self::TrainMacroF1 | Self::TrainLoss => s.train.nodes,
        }
    }

    /// Returns whether it is a share, shown in percent, and better when larger; losses are neither.
    pub fn is_share(self) -> bool {
        !matches!(self, Self::TestLoss | Self::ValLoss | Self::TrainLoss)
    }
}

impl Metrics {
    fn frame(&self) -> Result<DataFrame, polars::error::PolarsError> {
        let rows = || {
            self.splits.iter().zip(0u32..).flat_map(|(s, i)| {
                [("train", s.train), ("val", s.val), ("test", s.test)].map(|(p, score)| (i, p, score))
            })
        };
        DataFrame::new_infer_height(vec![
            Column::new("split".into(), rows().map(|r| r.0).collect::<Vec<_>>()),
            Column::new("part".into(), rows().map(|r| r.1).collect::<Vec<_>>()),
            Column::new("accuracy".into(), rows().map(|r| r.2.accuracy).collect::<Vec<_>>()),
            Column::new("macro-f1".into(), rows().map(|r| r.2.macro_f1).collect::<Vec<_>>()),
            Column::new("loss".into(), rows().map(|r| r.2.loss).collect::<Vec<_>>()),
            Column::new("nodes".into(), rows().map(|r| r.2.nodes as u64).collect::<Vec<_>>()),
        ])
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
