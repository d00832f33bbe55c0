//! The masks of Geom-GCN, which several data sets are split by: one `.npz` file per split, with `train_mask`, `val_mask`
//! and `test_mask` (truth values, bool or u1), one per node.

use std::path::Path;

use super::npz::{Expected, Npz, Numbers};
use super::number::{BadValue, Number};
use super::parts::PartsBuilder;
use crate::contract::StageError;
use crate::contract::params::FilePath;
use crate::kinds::{Part, Splits};

pub(crate) const MASKS: [(&str, Part); 3] =
    [("train_mask", Part::Train), ("val_mask", Part::Val), ("test_mask", Part::Test)];

/// Reads the splits of some files; none if there are no files.
///
/// # Errors
/// When a file or a member is not as expected, or a node is in two parts.
pub fn of_files(files: &[FilePath], nodes: usize) -> Result<Option<Splits>, StageError> {
    let parts = files.iter().map(|file| split(&file.0, nodes)).collect::<Result<Vec<_>, _>>()?;
    Ok((!parts.is_empty()).then_some(Splits { parts }))
}

/// Reads the masks of one split.
fn split(path: &Path, nodes: usize) -> Result<Vec<Part>, StageError> {
    let mut file = Npz::open(path)?;
    let mut parts = PartsBuilder::new(nodes);
    for (member, part) in MASKS {
        let dims = [("nodes", Some(nodes))];
        file.read(&Expected { member, dims: &dims, numbers: Numbers::Truth }, |node, _, truth| {
            let misfit = |what| BadValue { at: format!("node {node}"), what };
            match truth {
                Number::Whole(0) => Ok(()),
                Number::Whole(1) => parts.put(node, part).map_err(|other| {
                    let other = MASKS.iter().find(|(_, p)| *p == other).map_or("", |(name, _)| name);
                    misfit(format!("is in `{other}` as well, expected one part per node"))
                }),
                Number::Whole(other) => Err(misfit(format!("`{other}` is not a truth value, expected 0 or 1"))),
                Number::Float(other) => Err(misfit(format!("`{other}` is not a truth value, expected 0 or 1"))),
            }
        })?;
    }
    Ok(parts.finish())
}
