//! Programs that a pipeline would start: a file from a stranger starts none.
//!
//! They are started where the command line says so, and in folders that were trusted before (`trusted.rs`). A folder counts for what
//! is in it: every text behind the pipeline, and every file that a command is given, must be in one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ppgnn_stages::contract::Registry;
use serde_json::{Value, json};

use super::failure::Failure;
use super::project::{PipelineArgs, shell_word};
use super::trusted::Trusted;
use crate::catalogue::Catalogue;
use crate::plan::{NodeId, Plan};
use crate::run::NodeState;

/// Commands that are named in a message.
const SHOWN: usize = 5;

/// The commands of nodes, each with the number of nodes that start it.
pub struct Commands(BTreeMap<String, usize>);

impl Commands {
    /// Those of nodes that are to be computed, and of nodes that these compute again.
    pub fn of(plan: &Plan, states: &[NodeState]) -> Self {
        let mut found = Self(BTreeMap::new());
        for id in starting(plan, states) {
            for line in plan.node(id).params.commands() {
                *found.0.entry(line.to_string()).or_default() += 1;
            }
        }
        found
    }

    /// For people; nothing if there is none.
    pub fn text(&self) -> Option<String> {
        let shown = self.0.iter().take(SHOWN).map(|(line, nodes)| match nodes {
            1 => format!("`{line}`"),
            _ => format!("`{line}` ({nodes} times)"),
        });
        let mut shown: Vec<String> = shown.collect();
        if self.0.len() > SHOWN {
            shown.push(format!("{} more", self.0.len() - SHOWN));
        }
        (!shown.is_empty()).then(|| shown.join(", "))
    }

    /// For `--json`.
    pub fn json(&self) -> Value {
        self.0.iter().map(|(line, nodes)| json!({"run": line, "nodes": nodes})).collect()
    }
}

/// Returns whether commands may be started, which is no question if there are none.
pub fn granted(
    by_option: bool,
    (plan, states): (&Plan, &[NodeState]),
    pipeline: &PipelineArgs,
    (catalogue, registry): (&Catalogue, &Registry),
) -> Result<bool, Failure> {
    let Some(commands) = Commands::of(plan, states).text().filter(|_| !by_option) else { return Ok(by_option) };
    let trusted = Trusted::read()?;
    let texts = pipeline.pipeline(catalogue, registry)?.sources.files();
    let given = starting(plan, states).into_iter().flat_map(|id| plan.node(id).params.files());
    let mut all = texts.into_iter().chain(given.map(|(_, path)| path.to_owned()));
    let Some(stranger) = all.find(|path| !trusted.has(path)) else { return Ok(true) };
    let folder =
        stranger.parent().map(|parent| if parent.as_os_str().is_empty() { ".".into() } else { parent.to_owned() });
    let folder = folder.unwrap_or_else(|| PathBuf::from("."));
    let hint = format!(
        "look at `{}`; then allow it for this run with --allow-commands, or for good with `ppgnn trust {}`",
        stranger.display(),
        shell_word(&folder.display().to_string())
    );
    Err(Failure::usage(format!("the pipeline would start commands on this machine: {commands}"), Some(&hint)))
}

/// The nodes whose commands would be started.
fn starting(plan: &Plan, states: &[NodeState]) -> Vec<NodeId> {
    let misses = plan.iter().filter(|(id, _)| states.get(id.0) == Some(&NodeState::Miss));
    let mut all: Vec<NodeId> = misses
        .flat_map(|(id, node)| {
            let again = if node.stage.measures.is_some() { plan.measured(node) } else { Vec::new() };
            std::iter::once(id).chain(again)
        })
        .filter(|id| !plan.node(*id).params.commands().is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
