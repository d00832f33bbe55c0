//! Finds the nodes that words on the command line mean.

use ppgnn_stages::contract::params::nearest_help;

use super::failure::Failure;
use crate::plan::{NodeId, Plan};

/// Returns the nodes that any of the words means, in plan order.
///
/// A word is a node's name (`train/cora/PP-GNN`), the start of one up to a slash (`train`, `train/cora`), a name with
/// `*` in place of a part (`train/*/PP-GNN`), a table's name, or the first six or more digits of a key.
pub fn find(plan: &Plan, words: &[String]) -> Result<Vec<NodeId>, Failure> {
    let mut found = vec![false; plan.nodes.len()];
    for word in words {
        let mut any = false;
        for (id, node) in plan.iter() {
            let names = std::iter::once(&node.name).chain(&node.aliases);
            let is_table = plan.tables.iter().any(|t| t.node == id && t.name == *word);
            if is_table || is_key(word, &node.key.to_string()) || names.into_iter().any(|n| matches(word, n)) {
                found[id.0] = true;
                any = true;
            }
        }
        if !any {
            return Err(unknown(plan, word));
        }
    }
    Ok(plan.iter().map(|(id, _)| id).filter(|id| found[id.0]).collect())
}

fn unknown(plan: &Plan, word: &str) -> Failure {
    let mut known: Vec<&str> = plan.nodes.iter().filter_map(|n| n.name.split('/').next()).collect();
    known.dedup();
    known.extend(plan.tables.iter().map(|t| t.name.as_str()));
    known.sort_unstable();
    known.dedup();
    let whole = plan.nodes.iter().map(|n| n.name.as_str()).filter(|_| word.contains('/'));
    let hint = nearest_help(word, known.into_iter().chain(whole.take(10_000)));
    Failure::usage(format!("the plan has no node `{word}`"), Some(&hint))
}

fn is_key(word: &str, key: &str) -> bool {
    word.len() >= 6 && word.bytes().all(|b| b.is_ascii_hexdigit()) && key.starts_with(word)
}

fn matches(word: &str, name: &str) -> bool {
    let mut parts = name.split('/');
    word.split('/').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}
