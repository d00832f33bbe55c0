//! The masks of Geom-GCN, which several data sets are split by: one `.npz` file per split, with `train_mask`, `val_mask`
//! and `test_mask` (truth values, bool or u1), one per node.

use std::path::Path;

use super::npz::{Expected, Npz, Numbers};
use super::number::BadValue;
use super::parts::{PartNames, PartsBuilder};
use crate::contract::params::FilePath;
use crate::contract::{Job, StageError};
use crate::kinds::{Part, Splits};

pub(crate) const MASKS: PartNames = [("train_mask", Part::Train), ("val_mask", Part::Val), ("test_mask", Part::Test)];

/// Reads the splits of some files; none if there are no files.
///
/// # Errors
/// When a file or a member is not as expected, or a node is in two parts.
pub fn of_files(files: &[FilePath], nodes: usize, job: &Job) -> Result<Option<Splits>, StageError> {
    let parts = files.iter().map(|file| split(&file.0, nodes, job)).collect::<Result<Vec<_>, _>>()?;
    Ok((!parts.is_empty()).then_some(Splits { parts }))
}

/// Reads the masks of one split.
fn split(path: &Path, nodes: usize, job: &Job) -> Result<Vec<Part>, StageError> {
    let mut file = Npz::open(path)?;
    let mut parts = PartsBuilder::new(nodes, MASKS);
    for (member, part) in MASKS {
        let expected = Expected { member, dims: &[("nodes", Some(nodes))], numbers: Numbers::Truth };
        file.read(&expected, job, |node, _, number| {
            let at = format_args!("node {node}");
            if !number.truth(at)? {
                return Ok(());
            }
            let twice = |other| BadValue::new(at, format!("is in `{other}` as well, expected one part per node"));
            parts.put(node, part).map_err(twice)
        })?;
    }
    Ok(parts.finish())
}
