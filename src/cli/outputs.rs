//! Files that stages wrote for people, in the store.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::note;
use crate::plan::{NodeId, Output, Plan};
use crate::store::{Opened, Store};

/// A file of an output.
pub struct OutputFile {
    /// What its name ends in, such as `md`.
    pub ending: &'static str,
    /// Where it is.
    pub path: PathBuf,
}

impl OutputFile {
    /// Returns what is in it.
    pub fn text(&self) -> Result<String, Failure> {
        let cannot = |e| Failure::unexpected(format!("cannot read `{}`: {e}", self.path.display()));
        std::fs::read_to_string(&self.path).map_err(cannot)
    }
}

/// Returns the files of an output, or `None` if it is not in the store.
pub fn files(plan: &Plan, output: &Output, store: &Store) -> Result<Option<Vec<OutputFile>>, Failure> {
    let node = plan.node(output.node);
    let dir = match store.open_artifact(&node.key, node.stage.name)? {
        Opened::Hit(entry) => entry.dir,
        Opened::Miss => return Ok(None),
        Opened::Damaged { what, .. } => {
            note(&format!("warning: {} is damaged ({what})", node.name));
            return Ok(None);
        }
    };
    let ending = |name: &'static str| Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or(name);
    let files = node.stage.publishes.iter().map(|name| OutputFile { ending: ending(name), path: dir.join(name) });
    Ok(Some(files.collect()))
}

/// Lists the outputs of a plan [without](Plan::without) some nodes that are not what they were, and that still have runs.
pub fn partial<'p>(whole: &'p Plan, rest: &'p Plan) -> impl Iterator<Item = NodeId> + 'p {
    let nodes = whole.outputs.iter().map(|output| output.node);
    nodes.filter(|id| whole.node(*id).key != rest.node(*id).key && !rest.node(*id).inputs.is_empty())
}
