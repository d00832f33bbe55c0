//! Shows a plan: what is in the store, what would be computed, why, and how long it would take.

use serde_json::json;

use super::failure::Failure;
use super::{exit, print, print_json};
use crate::history::{Difference, Recall};
use crate::plan::{Absence, NodeId, Plan};
use crate::report::duration_text;
use crate::run::{NodeState, demand};
use crate::store::Store;

/// With more misses than this, comparing each with every earlier artifact would take longer than planning.
const MOST_EXPLAINED: usize = 500;

/// Shows the part of a plan that the targets need.
pub fn show(plan: &Plan, store: &Store, wanted: &[NodeId], force: &[NodeId], json: bool) -> Result<u8, Failure> {
    let rows = rows(plan, store, wanted, force);
    if !json {
        print(&text(plan, &rows))?;
        return Ok(exit::DONE);
    }
    let nodes: Vec<_> = rows.iter().map(|r| r.json(plan)).collect();
    let count = |state: &str| rows.iter().filter(|r| r.state == state).count();
    print_json(&json!({
        "version": 1, "pipeline": plan.pipeline, "profile": plan.profile,
        "hits": count("hit"), "misses": count("miss"), "absent": count("absent"),
        "unshared-nodes": plan.unshared, "expected-seconds": total(&rows), "absent-data": absent_json(plan), "nodes": nodes,
    }))?;
    Ok(exit::DONE)
}

/// What was left out because its data is missing, for `--json`.
pub fn absent_json(plan: &Plan) -> serde_json::Value {
    let one = |a: &Absence| json!({"dataset": a.dataset, "why": a.what(), "remedy": a.remedy()});
    plan.absent.iter().map(one).collect()
}

struct Row {
    id: NodeId,
    state: &'static str,
    seconds: Option<f64>,
    why: String,
}

impl Row {
    fn json(&self, plan: &Plan) -> serde_json::Value {
        let node = plan.node(self.id);
        let inputs: Vec<_> =
            node.inputs.iter().map(|e| json!({"slot": e.slot, "id": plan.node(e.node).name})).collect();
        json!({
            "id": node.name, "stage": node.stage.name, "key": node.key, "state": self.state,
            "expected-seconds": self.seconds, "why": self.why, "aliases": node.aliases, "inputs": inputs,
        })
    }
}

fn rows(plan: &Plan, store: &Store, wanted: &[NodeId], force: &[NodeId]) -> Vec<Row> {
    let states = demand(plan, store, wanted, force);
    let part = plan.ancestors(&[wanted, force].concat());
    let recall = Recall::new(store);
    let misses = states.iter().filter(|s| **s == NodeState::Miss).count();
    let of_part = plan.iter().filter(|(id, _)| part[id.0]);
    of_part
        .map(|(id, node)| match states[id.0] {
            NodeState::Hit => Row { id, state: "hit", seconds: None, why: String::new() },
            NodeState::Absent => Row { id, state: "absent", seconds: None, why: "not needed".into() },
            NodeState::Miss => {
                let seconds = recall.expect(node);
                let why = if force.contains(&id) {
                    "forced".to_owned()
                } else if misses <= MOST_EXPLAINED {
                    reason(plan, &states, id, &recall)
                } else {
                    String::new()
                };
                Row { id, state: "miss", seconds, why }
            }
        })
        .collect()
}

/// Says briefly why a node is not in the store.
fn reason(plan: &Plan, states: &[NodeState], id: NodeId, recall: &Recall) -> String {
    let node = plan.node(id);
    let new_inputs = node.inputs.iter().filter(|e| states[e.node.0] == NodeState::Miss).count();
    let Some(nearest) = recall.nearest(node) else {
        return format!("no `{}` artifact is in the store yet", node.stage.name);
    };
    let own: Vec<String> = nearest
        .differences
        .iter()
        .filter_map(|d| match d {
            Difference::Value { name, before, now } => Some(format!("{name} {} → {}", shown(before), shown(now))),
            Difference::Input { .. } => None,
        })
        .collect();
    match (own.len(), new_inputs) {
        (0, 0) => "inputs differ from every earlier artifact".into(),
        (0, n) => format!("{n} of its inputs must be computed"),
        (1..=3, _) => own.join(", "),
        (n, _) => format!("{n} ingredients differ from the nearest artifact"),
    }
}

/// Returns a value of an ingredient, cut where it is long.
pub fn shown(side: &Option<serde_json::Value>) -> String {
    let text = side.as_ref().map_or("–".to_owned(), ToString::to_string);
    if text.chars().count() > 40 { format!("{}…", text.chars().take(39).collect::<String>()) } else { text }
}

fn total(rows: &[Row]) -> f64 {
    // Starting from zero: the sum of nothing is −0.
    rows.iter().filter_map(|r| r.seconds).fold(0.0, |sum, s| sum + s)
}

fn text(plan: &Plan, rows: &[Row]) -> String {
    let width = rows.iter().map(|r| plan.node(r.id).name.to_string().chars().count()).max().unwrap_or(0).min(60);
    let mut out = String::new();
    for row in rows {
        let node = plan.node(row.id);
        let expected = row.seconds.map(|s| format!("~{}", duration_text(s))).unwrap_or_default();
        let whole = node.slice_of().map(|whole| format!("from {}", plan.node(whole).name));
        let why = whole.into_iter().chain([row.why.clone()]).filter(|w| !w.is_empty()).collect::<Vec<_>>().join("; ");
        let line = format!("{:>6} {expected:>9}  {:width$}  {}  {why}", row.state, node.name, node.key.short());
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let count = |state: &str| rows.iter().filter(|r| r.state == state).count();
    out.push_str(&format!("{} nodes: {} hit, {} miss", rows.len(), count("hit"), count("miss")));
    if count("absent") > 0 {
        out.push_str(&format!(", {} absent", count("absent")));
    }
    if count("miss") > 0 {
        let unknown = rows.iter().filter(|r| r.state == "miss" && r.seconds.is_none()).count();
        out.push_str(&format!("; expected {} of work", duration_text(total(rows))));
        if unknown > 0 {
            out.push_str(&format!(" plus {unknown} of unknown duration"));
        }
    }
    for absence in &plan.absent {
        out.push_str(&format!("\nleft out: {}", absence.what()));
    }
    if plan.unshared > plan.nodes.len() {
        out.push_str(&format!("\nsharing: {} nodes instead of {}", plan.nodes.len(), plan.unshared));
    }
    out.push('\n');
    out
}
