//! What a program leaves: `result.safetensors`, checked in every name, type, shape and number before it counts.
//!
//! | tensor | type and shape | |
//! | --- | --- | --- |
//! | `logits` | f32, splits × nodes × classes | what it says of every node |
//! | `best-epoch` | i64, splits | the epoch that the logits are of, counted from 0; may be left out |
//! | `history/<split>` | f32, epochs × 3 | training loss, validation loss and validation accuracy; may be left out |
//! | `weights/<split>/<name>` | f32, any | may be left out |
//!
//! `<split>` counts from 0, in the order of `job.json`.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use bytemuck::Pod;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::child::failed;
use super::handed::RESULT;
use crate::contract::StageError;
use crate::contract::params::CommandLine;
use crate::kinds::{Epoch, TrainedSplit};

/// Bytes that history, weights and the header may take beside the logits.
const MOST_BESIDE: usize = 1 << 30;
/// Numbers of an epoch.
const PER_EPOCH: usize = 3;
const NAMES: &str = "`logits`, `best-epoch`, `history/<split>` and `weights/<split>/<name>` are known";

/// What a program was asked for.
pub(super) struct Taken<'a> {
    pub line: &'a CommandLine,
    /// Which splits.
    pub which: &'a [usize],
    pub nodes: usize,
    pub classes: usize,
}

impl Taken<'_> {
    /// Reads the result in a folder.
    pub fn read(&self, dir: &Path) -> Result<Vec<TrainedSplit>, StageError> {
        let bytes = self.bytes(&dir.join(RESULT))?;
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|e| self.wrong(format!("it is no whole safetensors file ({e})")))?;
        let mut splits = vec![TrainedSplit::default(); self.which.len()];
        let mut names = file.names();
        names.sort_unstable();
        if !names.contains(&"logits") {
            return Err(self.wrong("it has no `logits`".to_owned()));
        }
        for name in names {
            let view = file.tensor(name).map_err(|e| self.wrong(e.to_string()))?;
            self.tensor(name, &view, &mut splits)?;
        }
        for (split, at) in splits.iter().zip(self.which) {
            let epochs = split.history.len();
            if let Some(best) = split.best_epoch.filter(|best| epochs > 0 && *best >= epochs) {
                return Err(
                    self.wrong(format!("`best-epoch` of split `{at}` is `{best}`, and `history` has {epochs} epochs"))
                );
            }
        }
        Ok(splits)
    }

    /// Reads the file, unless it is larger than any result.
    fn bytes(&self, path: &Path) -> Result<Vec<u8>, StageError> {
        let logits = self.which.len().saturating_mul(self.nodes).saturating_mul(self.classes).saturating_mul(4);
        let most = logits.saturating_add(MOST_BESIDE) as u64;
        let about = match fs::symlink_metadata(path) {
            Ok(about) => about,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let what = format!("`{}` ended well, and wrote no `{RESULT}`", self.line);
                let hint = "write it into the folder that the program starts in; `ppgnn_io.save` does";
                return Err(failed(what, Some(hint.into()), Default::default()));
            }
            Err(e) => return Err(self.wrong(e.to_string())),
        };
        if !about.is_file() {
            return Err(self.wrong("it is no regular file".to_owned()));
        }
        if about.len() > most {
            return Err(self.wrong(format!("it has {} MiB, and {} at most are read", about.len() >> 20, most >> 20)));
        }
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|e| self.wrong(e.to_string())).map(|_| bytes)
    }

    fn tensor(&self, name: &str, view: &TensorView, splits: &mut [TrainedSplit]) -> Result<(), StageError> {
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        let count = splits.len();
        let one = |of: &str| {
            let at: Option<usize> = of.parse().ok().filter(|at| *at < count);
            let most = count.saturating_sub(1);
            at.ok_or_else(|| self.wrong(format!("`{name}` is of no split: they are 0 to {most}")))
        };
        match (kind, rest.is_empty()) {
            ("logits", true) => {
                let values =
                    self.values(name, view, Dtype::F32, &[Some(count), Some(self.nodes), Some(self.classes)])?;
                let size = (self.nodes * self.classes).max(1);
                for ((split, logits), at) in splits.iter_mut().zip(values.chunks_exact(size)).zip(self.which) {
                    if let Some(wrong) = logits.iter().position(|x: &f32| !x.is_finite()) {
                        let (node, value) = (wrong / self.classes.max(1), logits[wrong]);
                        let what = format!("`{}`: a logit of node `{node}` is `{value}` in split `{at}`", self.line);
                        return Err(StageError::numeric(what, "the weights have diverged: lower `lr`"));
                    }
                    split.logits = logits.to_vec();
                }
            }
            ("best-epoch", true) => {
                let epochs: Vec<i64> = self.values(name, view, Dtype::I64, &[Some(count)])?;
                for (split, epoch) in splits.iter_mut().zip(epochs) {
                    let wrong = || self.wrong(format!("`{name}` is `{epoch}`: epochs count from 0"));
                    split.best_epoch = Some(usize::try_from(epoch).map_err(|_| wrong())?);
                }
            }
            ("history", false) => {
                let at = one(rest)?;
                let values: Vec<f32> = self.values(name, view, Dtype::F32, &[None, Some(PER_EPOCH)])?;
                let epoch = |row: &[f32; PER_EPOCH]| {
                    let [train_loss, val_loss, val_accuracy] = row.map(f64::from);
                    Epoch { train_loss, val_loss, val_accuracy, further: Vec::new() }
                };
                splits[at].history = values.as_chunks().0.iter().map(epoch).collect();
            }
            ("weights", false) => {
                let (of, weight) = rest.split_once('/').unwrap_or((rest, ""));
                let at = one(of)?;
                let values: Vec<f32> = self.values(name, view, Dtype::F32, &vec![None; view.shape().len()])?;
                if weight.is_empty() || values.iter().any(|x| !x.is_finite()) {
                    return Err(self.wrong(format!("`{name}` has no name, or a number that is not finite")));
                }
                splits[at].weights.insert(weight.to_owned(), (view.shape().to_vec(), values));
            }
            _ => return Err(self.wrong(format!("it has a tensor `{name}`; {NAMES}"))),
        }
        Ok(())
    }

    /// Returns the numbers of a tensor that has the type and the shape; `None` is any size.
    fn values<T: Pod>(
        &self,
        name: &str,
        view: &TensorView,
        dtype: Dtype,
        shape: &[Option<usize>],
    ) -> Result<Vec<T>, StageError> {
        let fits = view.shape().len() == shape.len()
            && view.shape().iter().zip(shape).all(|(found, wanted)| wanted.is_none_or(|wanted| wanted == *found));
        if view.dtype() != dtype || !fits {
            let wanted = shape.iter().map(|size| size.map_or("any".to_owned(), |size| size.to_string()));
            let found = view.shape().iter().map(ToString::to_string).collect::<Vec<_>>().join(" × ");
            return Err(self.wrong(format!(
                "expected `{name}` as {} of {}, found {} of {found}",
                text_of(dtype),
                wanted.collect::<Vec<_>>().join(" × "),
                text_of(view.dtype())
            )));
        }
        Ok(view.data().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    fn wrong(&self, what: String) -> StageError {
        let what = format!("the `{RESULT}` of `{}` cannot be used: {what}", self.line);
        failed(what, Some("the page on commands says what it holds".into()), Default::default())
    }
}

fn text_of(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}
