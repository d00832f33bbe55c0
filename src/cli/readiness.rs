//! Checks before anything runs: files that do not hold what they should.

use std::collections::BTreeSet;

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

/// Compares the files of known data sets with their digests if they are about to be read. Graphs in the store were read
/// from files that matched.
pub fn verify_data(plan: &Plan, states: &[NodeState], catalogue: &Catalogue, data: &DataArgs) -> Result<(), Failure> {
    let mut wrong: Vec<String> = Vec::new();
    let read = plan.known_data.iter().filter(|(id, _)| states.get(id.0) == Some(&NodeState::Miss));
    let names: BTreeSet<&String> = read.map(|(_, name)| name).collect();
    for name in names {
        let Some(manifest) = catalogue.get(name) else { continue };
        let manifest = manifest?;
        let root = manifest.root(&data.data_dir);
        for file in &manifest.files {
            if let Err(error) = file.verify(&root.join(&file.path)) {
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
