//! Files that stages wrote for people, in the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ppgnn_stages::contract::Artifact;
use ppgnn_stages::contract::params::nearest_help;
use ppgnn_stages::kinds::Table;

use super::failure::Failure;
use super::note;
use super::table_key::keyed;
use crate::plan::{ArtifactKey, NodeId, Output, Plan};
use crate::report::{Page, drawn};
use crate::store::{Opened, Source, Store};

/// What a table says of runs that are still to come.
pub const NOT_YET: &str = "not computed yet";

/// Formats of tables that people read.
const FOR_PEOPLE: [&str; 2] = ["md", "tex"];

/// A file of an output.
pub struct OutputFile {
    /// What its name ends in, such as `md`.
    pub ending: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// The key of the table, if it is one for people that can be found in the store again.
    key: Option<ArtifactKey>,
}

impl OutputFile {
    /// Returns what is in it.
    pub fn text(&self) -> Result<String, Failure> {
        let cannot = |e| Failure::unexpected(format!("cannot read `{}`: {e}", self.path.display()));
        let text = std::fs::read_to_string(&self.path).map_err(cannot)?;
        Ok(match &self.key {
            Some(key) => keyed(self.ending, text, key),
            None => text,
        })
    }

    /// Returns it as it is published.
    pub fn source(self) -> Result<Source, Failure> {
        match self.key {
            Some(_) => Ok(Source::Made(self.text()?.into_bytes())),
            None => Ok(Source::Artifact(self.path)),
        }
    }

    /// Returns it without the key, which nobody would find.
    #[must_use]
    pub fn of_no_artifact(self) -> Self {
        Self { key: None, ..self }
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
    let file = |name: &&'static str| {
        let ending = ending(name);
        let key = (is_table(plan, output) && FOR_PEOPLE.contains(&ending)).then_some(node.key);
        OutputFile { ending, path: dir.join(name), key }
    };
    Ok(Some(node.stage.publishes.iter().map(file).collect()))
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

/// Finds a table by its name.
pub fn named<'p>(tables: &[&'p Output], name: &str) -> Result<&'p Output, Failure> {
    tables.iter().copied().find(|o| o.name == name).ok_or_else(|| {
        let hint = nearest_help(name, tables.iter().map(|o| o.name.as_str()));
        Failure::usage(format!("the pipeline has no table `{name}`"), Some(&hint))
    })
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
