//! What training leaves behind: for every split the chosen weights, their logits, and the course of training.

use std::collections::BTreeMap;
use std::path::Path;

use polars::prelude::{Column, DataFrame};

use crate::contract::{Artifact, ArtifactError, Kind, Sizes};
use crate::kinds::files::{TensorFile, TensorsRead, read_json, write_frame, write_json};
use crate::kinds::size;

const WEIGHTS: &str = "weights.safetensors";

/// One epoch of one split, evaluated after its update.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// Loss of the training pass, dropout and penalties included.
    pub train_loss: f64,
    /// Mean cross-entropy on the validation nodes.
    pub val_loss: f64,
    /// Accuracy on the validation nodes.
    pub val_accuracy: f64,
    /// The metrics of [`Trained::watched`].
    pub further: Vec<f64>,
}

/// A named tensor: shape and row-major values.
pub type Weight = (Vec<usize>, Vec<f32>);

/// The result of one split.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainedSplit {
    /// The epoch that was chosen, counted from 0; a command may not say it.
    pub best_epoch: Option<usize>,
    /// Logits of the chosen epoch in evaluation mode, nodes × classes.
    pub logits: Vec<f32>,
    /// Weights of the chosen epoch by name.
    pub weights: BTreeMap<String, Weight>,
    /// Activations inside the model at the chosen epoch in evaluation mode, nodes × columns, if they were asked for.
    pub hidden: BTreeMap<String, Weight>,
    /// Every epoch that ran. Written for people; not read back.
    pub history: Vec<Epoch>,
}

/// One configuration trained on every split.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trained {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of classes.
    pub classes: usize,
    /// One result per split.
    pub splits: Vec<TrainedSplit>,
    /// Validation metrics in the history besides loss and accuracy. Written for people; not read back.
    pub watched: Vec<String>,
}

impl Trained {
    /// Name of the file with the course of training.
    pub(crate) const HISTORY: &'static str = "history.parquet";

    fn history(&self) -> Result<DataFrame, polars::error::PolarsError> {
        let rows = || {
            self.splits.iter().zip(0u32..).flat_map(|(s, i)| s.history.iter().zip(0u32..).map(move |(h, e)| (i, e, h)))
        };
        let mut columns = vec![
            Column::new("split".into(), rows().map(|r| r.0).collect::<Vec<_>>()),
            Column::new("epoch".into(), rows().map(|r| r.1).collect::<Vec<_>>()),
            Column::new("train-loss".into(), rows().map(|r| r.2.train_loss).collect::<Vec<_>>()),
            Column::new("val-loss".into(), rows().map(|r| r.2.val_loss).collect::<Vec<_>>()),
            Column::new("val-accuracy".into(), rows().map(|r| r.2.val_accuracy).collect::<Vec<_>>()),
        ];
        columns.extend(self.watched.iter().enumerate().map(|(at, name)| {
            Column::new(name.as_str().into(), rows().map(|r| r.2.further.get(at).copied()).collect::<Vec<_>>())
        }));
        DataFrame::new_infer_height(columns)
    }
}

impl Artifact for Trained {
    const KIND: Kind = Kind("trained");

    fn save(&self, dir: &Path) -> Result<(), ArtifactError> {
        let mut logits = TensorFile::default();
        let (mut weights, mut hidden) = (TensorFile::default(), TensorFile::default());
        for (i, split) in self.splits.iter().enumerate() {
            logits.add(format!("{i}"), &[self.nodes, self.classes], &split.logits);
            for (name, (shape, values)) in &split.weights {
                weights.add(format!("{i}/{name}"), shape, values);
            }
            for (name, (shape, values)) in &split.hidden {
                hidden.add(format!("{i}/{name}"), shape, values);
            }
        }
        logits.write(&dir.join("logits.safetensors"))?;
        weights.write(&dir.join(WEIGHTS))?;
        if self.splits.iter().any(|split| !split.hidden.is_empty()) {
            hidden.write(&dir.join("hidden.safetensors"))?;
        }
        let path = dir.join(Self::HISTORY);
        let mut history = self.history().map_err(|e| ArtifactError::malformed(&path, format!("a frame ({e})")))?;
        write_frame(&path, &mut history)?;
        let best: Vec<_> = self.splits.iter().map(|s| s.best_epoch).collect();
        let ran: Vec<_> = self.splits.iter().map(|s| s.history.len()).collect();
        let facts = Facts {
            splits: self.splits.len(),
            nodes: self.nodes,
            classes: self.classes,
            best_epoch: best,
            epochs: ran,
        };
        write_json(&dir.join("facts.json"), &facts)
    }

    fn load(dir: &Path) -> Result<Self, ArtifactError> {
        let facts: Facts = read_json(&dir.join("facts.json"))?;
        let logits = TensorsRead::open(&dir.join("logits.safetensors"))?;
        let weights = TensorsRead::open(&dir.join(WEIGHTS))?;
        let hidden = dir.join("hidden.safetensors");
        let hidden = hidden.exists().then(|| TensorsRead::open(&hidden)).transpose()?;
        let mut splits = Vec::new();
        for i in 0..facts.splits {
            let ([nodes, classes], values) = logits.shaped::<f32, 2>(&format!("{i}"))?;
            if (nodes, classes) != (facts.nodes, facts.classes) {
                return Err(logits.malformed("logits of every node and class"));
            }
            splits.push(TrainedSplit {
                best_epoch: facts.best_epoch.get(i).copied().flatten(),
                logits: values,
                weights: of_split(&weights, i)?,
                hidden: hidden.as_ref().map_or(Ok(BTreeMap::new()), |hidden| of_split(hidden, i))?,
                history: Vec::new(),
            });
        }
        Ok(Self { nodes: facts.nodes, classes: facts.classes, splits, watched: Vec::new() })
    }

    fn sizes(dir: &Path) -> Sizes {
        let names = [(size::NODES, "/nodes"), (size::CLASSES, "/classes"), (size::SPLITS, "/splits")];
        let weights = TensorsRead::open(&dir.join(WEIGHTS)).and_then(|file| Ok((file.names()?, file)));
        let weights = weights.ok().map(|(names, file)| {
            let of_first = names.iter().filter(|name| name.starts_with("0/")).filter_map(|name| file.shape_of(name));
            of_first.map(|shape| shape.iter().product::<usize>()).sum::<usize>()
        });
        size::from_facts(dir, &names).with_some(size::WEIGHTS, weights)
    }
}

/// The tensors of one split, by name.
fn of_split(tensors: &TensorsRead, split: usize) -> Result<BTreeMap<String, Weight>, ArtifactError> {
    let prefix = format!("{split}/");
    let names = tensors.names()?;
    let names = names.iter().filter_map(|name| name.strip_prefix(&prefix));
    names.map(|name| tensors.get::<f32>(&format!("{prefix}{name}")).map(|w| (name.to_owned(), w))).collect()
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Facts {
    splits: usize,
    nodes: usize,
    classes: usize,
    best_epoch: Vec<Option<usize>>,
    epochs: Vec<usize>,
}
