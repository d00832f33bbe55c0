//! Checks before anything runs: files that do not hold what they should.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ppgnn_stages::contract::StageError;

use super::exit;
use super::failure::Failure;
use super::project::DataArgs;
use crate::catalogue::Catalogue;
use crate::plan::{Node, Plan};
use crate::run::NodeState;

/// Lets every stage check the external files of its nodes. Returns the nodes that would fail.
pub fn prechecks(plan: &Plan) -> impl Iterator<Item = (&Node, StageError)> {
    plan.nodes.iter().filter_map(|node| Some((node, node.stage.precheck(&node.params).err()?)))
}

/// The exit code for what a stage says before anything runs: its data is wrong, or it is asked for what it cannot make.
pub fn exit_code(error: &StageError) -> u8 {
    if matches!(error, StageError::Unusable { .. }) { exit::INVALID } else { exit::DATA }
}

/// Compares the files of known data sets with their digests if they are about to be read. What is in the store was read
/// from files that matched.
pub fn verify_data(plan: &Plan, states: &[NodeState], catalogue: &Catalogue, data: &DataArgs) -> Result<(), Failure> {
    let mut wrong: Vec<String> = Vec::new();
    let reads = plan.known_data.iter().filter(|(id, _)| states.get(id.0) == Some(&NodeState::Miss));
    let mut read: BTreeMap<&String, BTreeSet<PathBuf>> = BTreeMap::new();
    for (id, name) in reads {
        read.entry(name).or_default().extend(plan.node(*id).params.files().map(|(_, path)| path.to_owned()));
    }
    for (name, read) in read {
        let Some(manifest) = catalogue.get(name) else { continue };
        let manifest = manifest?;
        let root = manifest.root(&data.data_dir);
        for (file, path) in manifest.files.iter().map(|file| (file, root.join(&file.path))) {
            if read.contains(&path)
                && let Err(error) = file.verify(&path)
            {
                wrong.push(format!("{name}: {error}"));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let hint =
        "`ppgnn data fetch` replaces wrong files; to use them anyway, name them under `datasets` in the pipeline";
    Err(Failure::new(exit::DATA, wrong.join("\nerror: "), Some(hint)))
}
