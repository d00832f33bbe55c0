//! The course of training: every epoch of every split, and which one was kept.

use std::path::Path;

use super::{Frame, Values};
use crate::contract::{Artifact, ArtifactError};
use crate::kinds::Trained;

/// Returns every column of the history in the folder of a `trained` artifact, and `chosen`: whether the epoch was kept.
///
/// # Errors
/// When the artifact cannot be read.
pub fn history(dir: &Path, of_split: Option<usize>) -> Result<Frame, ArtifactError> {
    let path = dir.join(Trained::HISTORY);
    let frame = Frame::read_parquet(&path)?;
    let trained = Trained::load(dir)?;
    let (Some(Values::Whole(splits)), Some(Values::Whole(epochs))) = (frame.column("split"), frame.column("epoch"))
    else {
        return Err(ArtifactError::malformed(&path, "columns `split` and `epoch`"));
    };
    let at = |n: &Option<i64>| n.and_then(|n| usize::try_from(n).ok());
    let best = |split: Option<usize>| trained.splits.get(split?).and_then(|s| s.best_epoch);
    let chosen = splits.iter().zip(epochs).map(|(split, epoch)| Some(best(at(split)) == Some(at(epoch)?))).collect();
    let kept: Vec<bool> = splits.iter().map(|split| of_split.is_none_or(|only| at(split) == Some(only))).collect();
    let mut frame = frame.with("chosen", Values::Flag(chosen));
    frame.keep(&kept);
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Epoch, TrainedSplit};

    #[test]
    fn the_kept_epoch_of_every_split_is_marked() {
        let history = vec![Epoch { train_loss: 2.0, val_loss: 1.5, val_accuracy: 0.5, further: vec![] }; 3];
        let split = |best_epoch| TrainedSplit {
            best_epoch: Some(best_epoch),
            logits: vec![0.0],
            history: history.clone(),
            ..TrainedSplit::default()
        };
        let trained = Trained { nodes: 1, classes: 1, splits: vec![split(2), split(0)], ..Trained::default() };
        let folder = tempfile::tempdir().unwrap();
        trained.save(folder.path()).unwrap();
        let all = super::history(folder.path(), None).unwrap();
        let chosen = [false, false, true, true, false, false].map(Some).to_vec();
        assert_eq!(all.column("chosen"), Some(&Values::Flag(chosen)));
        assert!(all.names().any(|name| name == "val-loss"));
        assert_eq!(super::history(folder.path(), Some(1)).unwrap().rows(), 3);
    }
}
