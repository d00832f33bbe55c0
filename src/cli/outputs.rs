//! Files that stages wrote for people, in the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::kinds::Table;

use super::failure::Failure;
use super::note;
use crate::plan::{ArtifactKey, NodeId, Output, Plan};
use crate::report::{Page, drawn};
use crate::store::{Opened, Store};

/// What a table says of runs that are still to come.
pub const NOT_YET: &str = "not computed yet";

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

/// Returns the text of an output that people read, if it has one: a table is drawn where there is a page to draw on, and
/// Markdown elsewhere.
pub fn for_people(
    plan: &Plan,
    output: &Output,
    files: &[OutputFile],
    page: Option<Page>,
) -> Result<Option<String>, Failure> {
    let Some(markdown) = files.iter().find(|file| file.ending == "md") else { return Ok(None) };
    match (page, page.map(|_| table(plan, output, files)).transpose()?.flatten()) {
        (Some(page), Some(table)) => Ok(Some(drawn(&table, page))),
        _ => markdown.text().map(Some),
    }
}

/// Returns the table that the files of an output are of, if it is one.
pub fn table(plan: &Plan, output: &Output, files: &[OutputFile]) -> Result<Option<Table>, Failure> {
    let dir = files.first().and_then(|file| file.path.parent()).filter(|_| is_table(plan, output));
    dir.map(|dir| Table::load(dir).map_err(|e| Failure::unexpected(e.to_string()))).transpose()
}

/// Returns whether an output is a table.
pub fn is_table(plan: &Plan, output: &Output) -> bool {
    plan.node(output.node).stage.output == Table::KIND
}

/// The runs of tables that are not in the store, and what a table says of them.
pub fn not_there(plan: &Plan, store: &Store) -> BTreeMap<ArtifactKey, String> {
    let runs = plan.outputs.iter().flat_map(|output| &plan.node(output.node).inputs).map(|edge| plan.node(edge.node));
    let missing = runs.filter(|run| !store.has(&run.key, run.stage.name));
    missing.map(|run| (run.key, NOT_YET.to_owned())).collect()
}

/// Lists the outputs of a plan [without](Plan::without) some nodes that are not what they were, and that still have runs.
pub fn partial<'p>(whole: &'p Plan, rest: &'p Plan) -> impl Iterator<Item = NodeId> + 'p {
    let nodes = whole.outputs.iter().map(|output| output.node);
    nodes.filter(|id| whole.node(*id).key != rest.node(*id).key && !rest.node(*id).inputs.is_empty())
}
