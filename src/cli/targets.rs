//! Finds the nodes that the command line names.

use std::collections::HashSet;

use ppgnn_stages::contract::Registry;
use ppgnn_stages::contract::params::nearest_help;

use super::failure::Failure;
use super::project::{PipelineArgs, every_node, shell_word};
use crate::catalogue::Catalogue;
use crate::plan::{NodeId, NodeName, Output, Plan, SearchState};

/// A pipeline and some of its nodes.
#[derive(clap::Args)]
pub struct TargetArgs {
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Nodes, stages or tables (default: all)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

impl TargetArgs {
    /// Reads the pipeline and plans it.
    pub fn plan(&self, catalogue: &Catalogue, registry: &Registry, further: &[String]) -> Result<Plan, Failure> {
        let words: Vec<String> = self.targets.iter().chain(further).cloned().collect();
        let all = self.targets.is_empty();
        self.pipeline.plan_for(catalogue, registry, &|plan| if all { every_node(plan) } else { asked(plan, &words) })
    }

    /// The arguments as a person would type them again, for hints.
    pub fn words(&self) -> String {
        let targets = self.targets.iter().map(|word| format!(" {}", shell_word(word)));
        self.pipeline.words() + &targets.collect::<String>()
    }

    /// Returns the searches, by position, that have to end before what is asked for is known.
    pub fn searches(&self, plan: &Plan) -> Vec<usize> {
        let all = 0..plan.searches.len();
        if self.targets.is_empty() {
            return all.collect();
        }
        all.filter(|at| self.targets.iter().any(|word| decides(plan, &plan.searches[*at], word))).collect()
    }

    /// Returns the nodes that are asked for.
    pub fn wanted(&self, plan: &Plan) -> Result<Vec<NodeId>, Failure> {
        if self.targets.is_empty() { Ok(plan.leaves()) } else { find(plan, &self.targets) }
    }
}

/// Whether a search decides on what a word means: a table, or nodes of its stages at the point that it is for.
fn decides(plan: &Plan, search: &SearchState, word: &str) -> bool {
    let mut parts = word.split('/');
    let stage = parts.next().unwrap_or_default();
    let of_table = |output: &Output| output.name == word || plan.node(output.node).name.stage == stage;
    let is_here = |part: &str| part == "*" || search.label.split('/').any(|one| one == part);
    plan.outputs.iter().any(of_table) || search.stages.iter().any(|own| own == stage) && parts.all(is_here)
}

/// Returns the nodes that match, before it is known whether all words do: everything if one does not.
pub fn asked(plan: &Plan, words: &[String]) -> Vec<NodeId> {
    find(plan, words).unwrap_or_else(|_| every_node(plan))
}

/// Returns the nodes that match any of the words, in plan order.
///
/// A word is a node's name (`train/cora/PP-GNN`), the start of one up to a slash (`train`, `train/cora`), a name with
/// `*` instead of a part (`train/*/PP-GNN`), a table's name, or the first six or more digits of a key. Where a node has the whole
/// name, those that it is the start of are not meant: the trials among which a search has chosen it.
pub fn find(plan: &Plan, words: &[String]) -> Result<Vec<NodeId>, Failure> {
    let mut found = vec![false; plan.nodes.len()];
    for word in words {
        let (mut whole, mut longer) = (HashSet::new(), Vec::new());
        let mut any = false;
        for (id, node) in plan.iter() {
            let is_output = plan.outputs.iter().any(|o| o.node == id && o.name == *word);
            if is_output || is_key(word, &node.key.to_string()) {
                (found[id.0], any) = (true, true);
            }
            for name in std::iter::once(&node.name).chain(&node.aliases) {
                let Some(start) = means(word, name) else { continue };
                any = true;
                if start.len() == name.point.len() {
                    whole.insert((&name.stage, start));
                    found[id.0] = true;
                } else {
                    longer.push((id, (&name.stage, start)));
                }
            }
        }
        if !any {
            return Err(unknown(plan, word));
        }
        longer.iter().filter(|(_, start)| !whole.contains(start)).for_each(|(id, _)| found[id.0] = true);
    }
    Ok(plan.iter().map(|(id, _)| id).filter(|id| found[id.0]).collect())
}

fn unknown(plan: &Plan, word: &str) -> Failure {
    let mut known: Vec<&str> = plan.nodes.iter().map(|n| n.name.stage.as_str()).collect();
    known.dedup();
    known.extend(plan.outputs.iter().map(|o| o.name.as_str()));
    known.sort_unstable();
    known.dedup();
    let whole = plan.nodes.iter().take(10_000).filter(|_| word.contains('/'));
    let whole: Vec<String> = whole.map(|n| n.name.to_string()).collect();
    let hint = nearest_help(word, known.into_iter().chain(whole.iter().map(String::as_str)));
    Failure::usage(format!("the plan has no node `{word}`"), Some(&hint))
}

fn is_key(word: &str, key: &str) -> bool {
    word.len() >= 6 && word.bytes().all(|b| b.is_ascii_hexdigit()) && key.starts_with(word)
}

/// Returns the part of a point that a word names, if it matches the leading parts of a name; `*` matches any part. A part may itself
/// contain slashes.
fn means<'n>(word: &str, name: &'n NodeName) -> Option<&'n [String]> {
    let mut rest = word;
    for (at, part) in name.parts().enumerate() {
        let after = rest.strip_prefix(part).or_else(|| rest.strip_prefix('*'))?;
        match after.strip_prefix('/') {
            None => return after.is_empty().then(|| &name.point[..at]),
            Some(next) => rest = next,
        }
    }
    None
}
