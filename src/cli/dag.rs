//! `ppgnn dag`: draws the graph of nodes for Mermaid or Graphviz.

use std::collections::HashMap;
use std::fmt::Write;

use ppgnn_stages::contract::Registry;

use super::failure::Failure;
use super::project::PipelineArgs;
use super::{exit, print};
use crate::plan::{Edge, NodeId, Plan};

/// Print the graph of nodes, or of stages, for Mermaid or Graphviz
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Language to write
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Format,
    /// Draw a box for each stage, not for each node
    #[arg(long)]
    stages: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Mermaid,
    Dot,
}

/// A drawing: labels of boxes, whether each is in the store, and arrows between positions.
struct Drawing {
    boxes: Vec<(String, bool)>,
    arrows: Vec<(usize, usize, &'static str)>,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Result<u8, Failure> {
    let plan = args.pipeline.plan(registry)?;
    let store = args.pipeline.store.look()?;
    let there = |id: NodeId| store.has(&plan.node(id).key, plan.node(id).stage.name);
    let drawn = drawn(&plan);
    let nodes = of_nodes(&plan, &drawn, there);
    let drawing = if args.stages { of_stages(&plan, &drawn, &nodes) } else { nodes };
    print(&match args.format {
        Format::Mermaid => mermaid(&drawing),
        Format::Dot => dot(&drawing),
    })?;
    Ok(exit::DONE)
}

/// Returns the nodes that are drawn: what nothing needs is left out.
fn drawn(plan: &Plan) -> Vec<NodeId> {
    let needed = plan.needed();
    plan.iter().map(|(id, _)| id).filter(|id| needed[id.0]).collect()
}

fn of_nodes(plan: &Plan, drawn: &[NodeId], there: impl Fn(NodeId) -> bool) -> Drawing {
    let place: HashMap<NodeId, usize> = drawn.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let arrow = |to: usize, edge: &Edge| Some((*place.get(&edge.node)?, to, edge.slot));
    let into = |(at, id): (usize, &NodeId)| plan.node(*id).inputs.iter().filter_map(move |edge| arrow(at, edge));
    Drawing {
        boxes: drawn.iter().map(|id| (plan.node(*id).name.to_string(), there(*id))).collect(),
        arrows: drawn.iter().enumerate().flat_map(into).collect(),
    }
}

fn of_stages(plan: &Plan, drawn: &[NodeId], nodes: &Drawing) -> Drawing {
    let mut names: Vec<&str> = Vec::new();
    let mut counts: Vec<(usize, usize)> = Vec::new();
    let mut place = Vec::new();
    for (node, (_, cached)) in drawn.iter().map(|id| plan.node(*id)).zip(&nodes.boxes) {
        let at = names.iter().position(|n| *n == node.name.stage).unwrap_or_else(|| {
            names.push(&node.name.stage);
            counts.push((0, 0));
            names.len() - 1
        });
        place.push(at);
        counts[at].0 += 1;
        counts[at].1 += usize::from(*cached);
    }
    let mut arrows: Vec<_> = nodes.arrows.iter().map(|(from, to, slot)| (place[*from], place[*to], *slot)).collect();
    arrows.sort_unstable();
    arrows.dedup();
    let boxes = names.iter().zip(&counts).map(|(n, (all, hit))| (format!("{n} ({hit} of {all} cached)"), hit == all));
    Drawing { boxes: boxes.collect(), arrows }
}

fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("graph LR\n  classDef cached fill:#d5f0d5,stroke:#2d7a2d;\n");
    for (i, (label, cached)) in drawing.boxes.iter().enumerate() {
        let class = if *cached { ":::cached" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  n{i}[\"{}\"]{class}", label.replace('"', "#quot;"));
    }
    for (from, to, slot) in &drawing.arrows {
        let _ = writeln!(out, "  n{from} -->|{slot}| n{to}");
    }
    out
}

fn dot(drawing: &Drawing) -> String {
    let mut out = String::from("digraph ppgnn {\n  rankdir=LR;\n  node [shape=box];\n");
    for (i, (label, cached)) in drawing.boxes.iter().enumerate() {
        let style = if *cached { ", style=filled, fillcolor=\"#d5f0d5\"" } else { "" };
        let label = label.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(out, "  n{i} [label=\"{label}\"{style}];");
    }
    for (from, to, slot) in &drawing.arrows {
        let _ = writeln!(out, "  n{from} -> n{to} [label=\"{slot}\"];");
    }
    out.push_str("}\n");
    out
}
