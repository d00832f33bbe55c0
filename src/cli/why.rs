//! `ppgnn why`: compares a node with the artifact of its stage that is most like it.

use ppgnn_stages::contract::Registry;
use serde_json::json;

use super::failure::Failure;
use super::overview::shown;
use super::project::PipelineArgs;
use super::{exit, print, print_json, targets};
use crate::history::{Difference, Nearest, Recall};
use crate::plan::{ArtifactKey, Node, NodeId, Plan};
use crate::report::{duration_text, measured_text};
use crate::store::Store;

/// Show which ingredient of a node's key differs from the nearest earlier artifact
///
/// A result is reused if everything that may change its bytes is the same: stage and version, model or format and
/// version, parameters, inputs, numeric profile. This compares the node with the artifact of the same stage that
/// differs in the fewest of these, and then compares the inputs that differ.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Node (its name, the start of it, or six digits of its key)
    #[arg(value_name = "NODE")]
    node: String,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// How many matching nodes are explained.
const MOST_SHOWN: usize = 8;

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let words = std::slice::from_ref(&args.node);
    let plan = args.pipeline.plan_for(&args.pipeline.catalogue(), registry, &|plan| targets::asked(plan, words))?;
    let store = args.pipeline.store.look()?;
    let found = targets::find(&plan, words)?;
    let recall = Recall::new(&store);
    if args.json {
        let nodes: Vec<_> = found.iter().map(|id| to_json(plan.node(*id), &store, &recall)).collect();
        print_json(&json!({"version": 1, "pipeline": plan.pipeline, "nodes": nodes}))?;
        return Ok(exit::DONE);
    }
    let mut out = String::new();
    for id in found.iter().take(MOST_SHOWN) {
        explain(&plan, *id, &store, &recall, &mut out);
    }
    if found.len() > MOST_SHOWN {
        out.push_str(&format!("… and {} more nodes match `{}`\n", found.len() - MOST_SHOWN, args.node));
    }
    print(&out)?;
    Ok(exit::DONE)
}

fn explain(plan: &Plan, id: NodeId, store: &Store, recall: &Recall, out: &mut String) {
    let node = plan.node(id);
    out.push_str(&format!("{} {}\n", node.name, node.key.short()));
    match store.manifest(&node.key, node.stage.name) {
        Some(m) => {
            out.push_str(&format!("  hit: computed {} in {}\n", m.created, duration_text(m.seconds)));
            if !m.measured.is_empty() {
                let measured: Vec<_> = m.measured.iter().map(|(name, value)| measured_text(name, *value)).collect();
                out.push_str(&format!("  measured: {}\n", measured.join(", ")));
            }
            for (name, text) in &m.noted {
                out.push_str(&format!("  {name}: {text}\n"));
            }
        }
        None => out.push_str("  miss: not in the store\n"),
    }
    match recall.nearest(node) {
        None => out.push_str(&format!("  there is no other `{}` artifact to compare with\n", node.stage.name)),
        Some(nearest) => {
            let m = &nearest.manifest;
            out.push_str(&format!("  nearest: {} {}, computed {}\n", m.node, m.key.short(), m.created));
            differences(&nearest, plan, id, store, 1, out);
        }
    }
}

/// Lists differences; where an input differs, compares the two inputs in turn.
fn differences(nearest: &Nearest, plan: &Plan, id: NodeId, store: &Store, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth + 1);
    if nearest.differences.is_empty() {
        out.push_str(&format!("{indent}nothing differs\n"));
    }
    for difference in &nearest.differences {
        match difference {
            Difference::Value { name, before, now } => {
                out.push_str(&format!("{indent}{name}: {} → {}\n", shown(before), shown(now)));
            }
            Difference::Input { slot, before, now } => {
                let short = |k: &Option<ArtifactKey>| k.map_or("–".to_owned(), |k| k.short());
                out.push_str(&format!("{indent}input {slot}: {} → {}\n", short(before), short(now)));
                let input =
                    now.and_then(|now| plan.node(id).inputs.iter().map(|e| e.node).find(|n| plan.node(*n).key == now));
                let (Some(input), Some(before)) = (input, before) else { continue };
                let Some(manifest) = store.manifest(before, plan.node(input).stage.name) else { continue };
                let inner = crate::history::differences(&manifest.ingredients, &plan.node(input).ingredients);
                differences(&Nearest { manifest, differences: inner }, plan, input, store, depth + 1, out);
            }
        }
    }
}

fn to_json(node: &Node, store: &Store, recall: &Recall) -> serde_json::Value {
    let manifest = store.manifest(&node.key, node.stage.name);
    let state = if manifest.is_some() { "hit" } else { "miss" };
    let measured = manifest.map(|m| m.measured);
    let nearest = recall.nearest(node).map(|nearest| {
        let differences: Vec<_> = nearest
            .differences
            .iter()
            .map(|d| match d {
                Difference::Value { name, before, now } => json!({"ingredient": name, "before": before, "now": now}),
                Difference::Input { slot, before, now } => {
                    json!({"ingredient": format!("inputs.{slot}"), "before": before, "now": now})
                }
            })
            .collect();
        json!({"id": nearest.manifest.node, "key": nearest.manifest.key, "differences": differences})
    });
    json!({
        "id": node.name, "stage": node.stage.name, "key": node.key, "state": state, "measured": measured,
        "nearest": nearest,
    })
}
